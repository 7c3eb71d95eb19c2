#include "stores/redis/lane.h"

#include <algorithm>
#include <utility>

#include "stores/redis/resp_framing.h"
#include "stores/redis/script.h"

namespace sluice::redis {
namespace {

// Errands looked at for one call: those of other slots are passed over.
constexpr std::size_t kMaxLookedAt = 512;

PipelineOptions pipeline_options(const LaneSettings& settings, const Endpoint& endpoint) {
  PipelineOptions options{.endpoint = endpoint};
  options.max_in_flight = settings.max_in_flight;
  const auto deadline = std::chrono::ceil<std::chrono::milliseconds>(settings.options.deadline);
  options.silence_timeout = std::max(options.silence_timeout, 2 * deadline);
  return options;
}

}  // namespace

CallOptions call_options(const RedisOptions& options) {
  constexpr std::int64_t kDayMs = 86'400'000;
  return {.least_lifetime_ms = options.virtual_time ? kDayMs : 0,
          .skew_ms = options.client_time ? options.skew.count() : 0};
}

std::string late(std::string_view name, std::chrono::nanoseconds deadline) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(deadline);
  return std::string(name) + " has not answered within " + std::to_string(ms.count()) + " ms";
}

// Whatever the answer holds is let go with it: a control stays a while after it is answered.
void Control::on_reply(std::string_view reply) {
  const Answer answer = std::exchange(answer_, nullptr);
  const auto tree = read_reply(reply);
  if (tree && !tree->is_error()) return answer(&*tree, {});
  answer(nullptr, tree ? tree->text : "the reply cannot be read");
}

void Control::on_lost(Loss, std::string_view why) {
  const Answer answer = std::exchange(answer_, nullptr);
  answer(nullptr, why);
}

// One call of the script, and the errands it carries.
class Lane::Call final : public Exchange {
 public:
  Call(Lane& lane, const CallOptions& options) : script(options), lane_(lane) {}

  void write(std::string& output) override {
    sent_at = Courier::Clock::now();
    lane_.in_flight_.push_back(this);
    script.write(now, output);
  }
  void on_reply(std::string_view reply) override { lane_.on_reply(*this, reply); }
  void on_lost(Loss loss, std::string_view why) override { lane_.on_lost(*this, loss, why); }

  void add(Errand& errand) {
    errand.holder = this;
    errand.place = static_cast<std::uint32_t>(size);
    errands[size++] = &errand;
  }
  void forget(Errand& errand) {
    script.abandon(errand.place);
    errands[errand.place] = nullptr;
  }

  ScriptCall script;
  Instant now = kStoreTime;
  Courier::Clock::time_point sent_at;
  std::uint64_t script_loads = 0;
  std::size_t size = 0;
  std::array<Errand*, ScriptCall::kMaxRequests> errands{};

 private:
  Lane& lane_;
};

Lane::Lane(const LaneSettings& settings, const Endpoint& endpoint, LaneOwner& owner)
    : settings_(settings),
      endpoint_(endpoint),
      name_("redis " + endpoint.text()),
      owner_(owner),
      call_options_(call_options(settings.options)),
      pipeline_(settings.courier.loop(), pipeline_options(settings, endpoint), *this) {
  prepare_greeting();
}

Lane::~Lane() {
  closing_ = true;
  drop_asking(name_ + " is not used now");
  fail_waiting(name_ + " is not used now");
  fail_controls(name_ + " is not used now");
}

void Lane::fail_waiting(const std::string& why) {
  while (!again_.empty()) settings_.courier.fail(again_.pop_front(), why);
  while (!queue_.empty()) settings_.courier.fail(queue_.pop_front(), why);
  while (!asking_.empty()) settings_.courier.fail(asking_.pop_front(), why);
}

void Lane::fail_controls(const std::string& why) {
  // An answer may ask again.
  std::deque<std::unique_ptr<Control>> lost;
  lost.swap(controls_);
  for (auto& control : lost) control->on_lost(Loss::kUnsent, why);
}

void Lane::carry(Errand& errand) {
  if (broken_) return settings_.courier.fail(errand, down_why_);
  if (is_silent()) {
    return settings_.courier.fail(errand, name_ + " has not answered for a while");
  }
  queue_.push_back(errand);
}

void Lane::carry_asking(Errand& errand) {
  if (broken_) return settings_.courier.fail(errand, down_why_);
  asking_.push_back(errand);
}

void Lane::ask(std::string command, Control::Answer answer) {
  controls_.push_back(std::make_unique<Control>(std::move(command), std::move(answer)));
}

void Lane::abandon(Errand& errand) {
  if (errand.holder == nullptr) return ErrandList::take_out(errand);
  static_cast<Call*>(std::exchange(errand.holder, nullptr))->forget(errand);
}

void Lane::give_back(ErrandList& list) {
  drop_asking(name_ + " is not used now");
  while (!again_.empty()) list.push_back(again_.pop_front());
  while (!queue_.empty()) list.push_back(queue_.pop_front());
  while (!asking_.empty()) list.push_back(asking_.pop_front());
}

// Nothing has come for so long that whoever asks now would wait in vain as well.
bool Lane::is_silent() const {
  return !in_flight_.empty() && is_overdue(*in_flight_.front(), settings_.courier.round_began());
}

bool Lane::is_overdue(const Call& call, Courier::Clock::time_point now) const {
  return now - call.sent_at > 2 * settings_.options.deadline;
}

Exchange* Lane::next_exchange() {
  if (after_asking_ != nullptr) return std::exchange(after_asking_, nullptr);
  if (!controls_.empty()) return next_control();
  // What was sent before the script was loaded again comes back too, and goes out before the rest.
  if (!in_flight_.empty() && in_flight_.front()->script_loads != script_loads_) return nullptr;
  after_asking_ = next_call(asking_);
  if (after_asking_ != nullptr) {
    std::string command;
    append_command(command, {"ASKING"});
    // Where it is refused, so is the call that follows it.
    ask(std::move(command), [](const Reply*, std::string_view) {});
    return next_control();
  }
  Call* const again = next_call(again_);
  return again != nullptr ? again : next_call(queue_);
}

Exchange* Lane::next_control() {
  while (!sent_controls_.empty() && sent_controls_.front()->is_answered()) {
    sent_controls_.pop_front();
  }
  sent_controls_.push_back(std::move(controls_.front()));
  controls_.pop_front();
  return sent_controls_.back().get();
}

Lane::Call& Lane::make_call() {
  if (idle_calls_.empty()) {
    calls_.push_back(std::make_unique<Call>(*this, call_options_));
    idle_calls_.push_back(calls_.back().get());
  }
  Call& call = *idle_calls_.back();
  idle_calls_.pop_back();
  return call;
}

// Null where there are none, or none that fits into a call.
Lane::Call* Lane::next_call(ErrandList& from) {
  while (!from.empty()) {
    Call& call = make_call();
    fill(call, from);
    if (call.size != 0) return &call;
    release(call);
  }
  return nullptr;
}

// Takes the first errands that fit into one call: at one instant and, on a cluster, of one slot.
// Fails the first where it alone does not.
void Lane::fill(Call& call, ErrandList& from) {
  Errand* errand = from.first();
  const std::uint16_t slot = errand->slot;
  call.now = errand->now;
  call.script_loads = script_loads_;
  for (std::size_t looked_at = 0; errand != nullptr && looked_at < kMaxLookedAt; ++looked_at) {
    Errand* after = ErrandList::after(*errand);
    if (errand->now != call.now) return;
    if (!settings_.one_slot || errand->slot == slot) {
      if (errand->alone && call.size != 0) return;
      const bool fits = errand->together
                            ? call.script.add_together(errand->requests, *errand->decision)
                            : call.script.add(errand->requests[0], *errand->decision);
      if (!fits && call.size != 0) return;
      ErrandList::take_out(*errand);
      if (fits) {
        call.add(*errand);
      } else {
        settings_.courier.fail(*errand, "the key is too long for " + name_);
      }
      if (errand->alone) return;
    }
    errand = after;
  }
}

void Lane::release(Call& call) {
  call.script.clear();
  call.size = 0;
  idle_calls_.push_back(&call);
}

void Lane::on_reply(Call& call, std::string_view reply) {
  std::erase(in_flight_, &call);
  if (reply.front() == '-') return on_error(call, error_text(reply));
  call.script.read(reply);
  for (std::size_t i = 0; i < call.size; ++i) {
    Errand* errand = call.errands[i];
    if (errand == nullptr) continue;
    errand->holder = nullptr;
    const std::string_view fault = call.script.fault(i);
    if (fault.empty()) {
      settings_.courier.done(*errand);
    } else if (read_server_error(fault).kind == ServerError::Kind::kReadOnly) {
      owner_.on_refused(*errand, *this, fault);
    } else {
      settings_.courier.fail(*errand, name_ + ": " + std::string(fault));
    }
  }
  release(call);
}

// Unless the error came out of the script, the server has carried out nothing of the call.
void Lane::on_error(Call& call, std::string_view text) {
  using Kind = ServerError::Kind;
  const Kind kind = read_server_error(text).kind;
  // Even where whoever asked has gone: the next would wait as long.
  if (kind == Kind::kLoading || kind == Kind::kNoAuth) reconnect(name_ + ": " + std::string(text));
  if (kind == Kind::kNoScript) {
    if (call.script_loads == script_loads_) {
      ++script_loads_;
      ask(script_load_command(), [](const Reply*, std::string_view) {});
    }
    for (std::size_t i = 0; i < call.size; ++i) {
      if (call.errands[i] != nullptr) put_back(*call.errands[i]);
    }
  } else {
    const std::string kept(text);
    for (std::size_t i = 0; i < call.size; ++i) {
      Errand* errand = call.errands[i];
      if (errand == nullptr) continue;
      errand->holder = nullptr;
      owner_.on_refused(*errand, *this, kept);
    }
  }
  release(call);
}

void Lane::on_lost(Call& call, Loss loss, std::string_view why) {
  std::erase(in_flight_, &call);
  given_up_ = given_up_ || (loss == Loss::kUnknown && is_overdue(call, Courier::Clock::now()));
  for (std::size_t i = 0; i < call.size; ++i) {
    Errand* errand = call.errands[i];
    if (errand == nullptr) continue;
    if (loss == Loss::kUnsent && !closing_) {
      put_back(*errand);
    } else {
      errand->holder = nullptr;
      settings_.courier.fail(*errand, why);
    }
  }
  release(call);
}

// The call that was to follow an ASKING does not go out: another connection has not been asked.
void Lane::drop_asking(std::string_view why) {
  if (after_asking_ != nullptr) on_lost(*std::exchange(after_asking_, nullptr), Loss::kUnsent, why);
}

void Lane::put_back(Errand& errand) {
  errand.holder = nullptr;
  again_.push_back(errand);
}

void Lane::prepare_greeting() {
  const RedisOptions& options = settings_.options;
  const auto add = [&](Greeting greeting, std::initializer_list<std::string_view> arguments) {
    greeting_.push_back(greeting);
    append_command(greeting_text_, arguments);
  };
  if (settings_.with_script && !options.password.empty()) {
    if (options.user.empty()) {
      add(Greeting::kMust, {"AUTH", options.password});
    } else {
      add(Greeting::kMust, {"AUTH", options.user, options.password});
    }
  }
  if (settings_.with_script && options.database != 0) {
    add(Greeting::kMust, {"SELECT", std::to_string(options.database)});
  }
  // Before what may be refused: whoever is not let in at all is told so by the first reply.
  add(Greeting::kMust, {"PING"});
  add(Greeting::kMay, {"CLIENT", "SETNAME", "sluice"});
  if (settings_.must_be_primary) add(Greeting::kRole, {"ROLE"});
  if (settings_.with_script) {
    greeting_.push_back(Greeting::kMust);
    greeting_text_ += script_load_command();
  }
}

std::optional<std::string> Lane::on_greeting(std::size_t i, std::string_view reply) {
  const Greeting greeting = greeting_.at(i);
  if (greeting == Greeting::kMay) return std::nullopt;
  if (reply.front() == '-') return name_ + ": " + std::string(error_text(reply));
  if (greeting != Greeting::kRole) return std::nullopt;
  const auto role = read_reply(reply);
  if (role && !role->elements.empty() && role->elements[0].text == "master") return std::nullopt;
  return name_ + " is not the primary";
}

std::unique_ptr<Framing> Lane::make_framing() {
  return std::make_unique<RespFraming>();
}

void Lane::on_up() {
  was_up_ = true;
  broken_ = given_up_ = false;
  owner_.on_up(*this);
}

// A connection that was closed may be back in a moment, so what waits goes on waiting. Once one has
// been given up because nothing came, or an attempt has failed, nobody waits for the next.
void Lane::on_down(std::string_view why) {
  const bool was_up = std::exchange(was_up_, false);
  broken_ = std::exchange(given_up_, false) || !was_up;
  down_why_ = why;
  drop_asking(down_why_);
  fail_controls(down_why_);
  if (broken_) fail_waiting(down_why_);
  owner_.on_down(*this, why);
}

std::string Lane::script_load_command() {
  std::string command;
  append_command(command, {"SCRIPT", "LOAD", script_text()});
  return command;
}

}  // namespace sluice::redis
