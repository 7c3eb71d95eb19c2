#include "stores/redis/lane.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <random>
#include <utility>

#include "stores/redis/resp_framing.h"

namespace sluice::redis {
namespace {

// Errands looked at for one call: those of other slots are passed over.
constexpr std::size_t kMaxLookedAt = 512;

PipelineOptions pipeline_options(const LaneSettings& settings, const ServerHealth& health,
                                 const Endpoint& endpoint) {
  PipelineOptions options = health.pipeline_options(endpoint);
  options.max_in_flight = settings.max_in_flight;
  return options;
}

}  // namespace

CallOptions call_options(const RedisOptions& options) {
  constexpr std::int64_t kDayMs = 86'400'000;
  return {.least_lifetime_ms = options.virtual_time ? kDayMs : 0,
          .skew_ms = options.client_time ? options.skew.count() : 0,
          .client_time = options.client_time};
}

// Whatever the answer holds is let go with it: a control stays a while after it is answered.
void Control::on_reply(std::string_view reply) {
  const Answer answer = std::exchange(answer_, nullptr);
  std::optional<Reply> tree;
  try {
    tree = read_reply(reply);
  } catch (const std::exception&) {  // Whoever asked would wait for ever.
    return answer(nullptr, kNoMemory);
  }
  if (tree && !tree->is_error()) return answer(&*tree, {});
  if (!tree) lane_.lose_track();
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
    script.write(now, lane_.number_call(), output);
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
  // The i-th, which is not the call's any more.
  Errand& take(std::size_t i) {
    errands[i]->holder = nullptr;
    return *std::exchange(errands[i], nullptr);
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
      health_("redis " + endpoint.text(), settings.options.deadline),
      unused_(name() + " is not used now"),
      owner_(owner),
      call_options_(call_options(settings.options)),
      greeting_(settings.options,
                {.with_script = settings.with_script, .must_be_primary = settings.must_be_primary}),
      next_number_(std::random_device{}()),
      pipeline_(settings.courier.loop(), pipeline_options(settings, health_, endpoint), *this) {}

Lane::~Lane() {
  closing_ = true;
  drop_asking(unused_);
  fail_waiting(unused_);
  fail_controls(unused_);
}

void Lane::fail_waiting(std::string_view why) {
  while (!again_.empty()) settings_.courier.fail(again_.pop_front(), why);
  while (!queue_.empty()) settings_.courier.fail(queue_.pop_front(), why);
  while (!asking_.empty()) settings_.courier.fail(asking_.pop_front(), why);
}

void Lane::fail_controls(std::string_view why) {
  // An answer may ask again.
  for (std::size_t left = controls_.size(); left > 0 && !controls_.empty(); --left) {
    const std::unique_ptr<Control> lost = std::move(controls_.front());
    controls_.pop_front();
    lost->on_lost(Loss::kUnsent, why);
  }
}

void Lane::carry(Errand& errand) {
  std::optional<Courier::Clock::time_point> oldest;
  if (!in_flight_.empty()) oldest = in_flight_.front()->sent_at;
  const std::string_view fault = health_.fault(oldest, settings_.courier.round_began());
  if (!fault.empty()) return settings_.courier.fail(errand, fault);
  queue_.push_back(errand);
}

void Lane::carry_asking(Errand& errand) {
  if (is_broken()) return settings_.courier.fail(errand, health_.down_why());
  asking_.push_back(errand);
}

void Lane::ask(std::string command, Control::Answer answer) {
  controls_.push_back(std::make_unique<Control>(*this, std::move(command), std::move(answer)));
}

void Lane::abandon(Errand& errand) {
  if (errand.holder == nullptr) return ErrandList::take_out(errand);
  static_cast<Call*>(std::exchange(errand.holder, nullptr))->forget(errand);
}

void Lane::give_back(ErrandList& list) noexcept {
  while (!again_.empty()) list.push_back(again_.pop_front());
  while (!queue_.empty()) list.push_back(queue_.pop_front());
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
    idle_calls_.reserve(calls_.size());  // So that release() needs no memory.
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
        settings_.courier.fail(*errand, "the key is too long for " + name());
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

// The pipeline has let go of the call, and will not tell it of a loss: whatever goes wrong here is
// to be told here, to those who have not been told yet.
void Lane::on_reply(Call& call, std::string_view reply) {
  std::erase(in_flight_, &call);
  try {
    if (reply.front() == '-') {
      on_error(call, error_text(reply));
    } else {
      read(call, reply);
    }
  } catch (const std::exception&) {
    return on_lost(call, Loss::kUnknown, kNoMemory);
  }
  release(call);
}

// What a reply leaves unanswered may have been carried out, even where it is another call's: it is
// not asked again.
void Lane::read(Call& call, std::string_view reply) {
  if (!call.script.read(reply)) lose_track();
  for (std::size_t i = 0; i < call.size; ++i) {
    if (call.errands[i] == nullptr) continue;
    const std::string_view fault = call.script.fault(i);
    if (fault.empty()) {
      settings_.courier.done(call.take(i));
    } else if (read_server_error(fault).kind == ServerError::Kind::kReadOnly) {
      owner_.on_refused(call.take(i), *this, fault);
    } else {
      const std::string why = name() + ": " + std::string(fault);
      settings_.courier.fail(call.take(i), why);
    }
  }
}

// Unless the error came out of the script, the server has carried out nothing of the call.
void Lane::on_error(Call& call, std::string_view text) {
  using Kind = ServerError::Kind;
  const Kind kind = read_server_error(text).kind;
  // Even where whoever asked has gone: the next would wait as long.
  if (kind == Kind::kLoading || kind == Kind::kNoAuth) reconnect(name() + ": " + std::string(text));
  if (kind == Kind::kNoScript && call.script_loads == script_loads_) {
    ask(script_load_command(), [](const Reply*, std::string_view) {});
    ++script_loads_;
  }
  // Which key of several the user may not touch shows when each is asked alone.
  const bool apart = kind == Kind::kNoPerm && call.size > 1;
  if (kind == Kind::kNoScript || apart) {
    for (std::size_t i = 0; i < call.size; ++i) {
      if (call.errands[i] == nullptr) continue;
      Errand& errand = call.take(i);
      errand.alone = errand.alone || apart;
      again_.push_back(errand);
    }
  } else {
    const std::string kept(text);
    for (std::size_t i = 0; i < call.size; ++i) {
      if (call.errands[i] != nullptr) owner_.on_refused(call.take(i), *this, kept);
    }
  }
}

void Lane::on_lost(Call& call, Loss loss, std::string_view why) {
  std::erase(in_flight_, &call);
  if (loss == Loss::kUnknown) health_.on_lost(call.sent_at);
  for (std::size_t i = 0; i < call.size; ++i) {
    if (call.errands[i] == nullptr) continue;
    if (loss == Loss::kUnsent && !closing_) {
      again_.push_back(call.take(i));
    } else {
      settings_.courier.fail(call.take(i), why);
    }
  }
  release(call);
}

// The call that was to follow an ASKING does not go out: another connection has not been asked.
void Lane::drop_asking(std::string_view why) {
  if (after_asking_ != nullptr) on_lost(*std::exchange(after_asking_, nullptr), Loss::kUnsent, why);
}

std::optional<std::string> Lane::on_greeting(std::size_t i, std::string_view reply) {
  const auto fault = greeting_.fault(i, reply);
  if (!fault) return std::nullopt;
  return name() + *fault;
}

std::unique_ptr<Framing> Lane::make_framing() {
  return std::make_unique<RespFraming>();
}

void Lane::on_up() {
  health_.on_up();
  owner_.on_up(*this);
}

// The server's health is the courier's thread's: it is told when that has the connection back.
void Lane::give_up(std::string_view why, std::string_view said) {
  giving_up_ = true;
  try {
    pipeline_.reconnect(std::string(name()).append(why).append(said));
  } catch (const std::exception&) {
    pipeline_.reconnect(kNoMemory);
  }
}

void Lane::on_down(std::string_view why) {
  if (std::exchange(giving_up_, false)) health_.give_up();
  health_.on_down(why);
  drop_asking(why);
  fail_controls(why);
  if (is_broken()) fail_waiting(why);
  owner_.on_down(*this, why);
}

}  // namespace sluice::redis
