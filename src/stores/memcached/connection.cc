#include "stores/memcached/connection.h"

#include <atomic>
#include <utility>

namespace sluice::memcached {
namespace {

// Before it, a value could not be removed by its token, and before 1.6.10 none be written as now.
constexpr Version kLeastVersion{1, 6, 13};

std::atomic<std::uint32_t> connections_made{0};

}  // namespace

// One call, and the replies to it in the order of its keys.
class Connection::Call final : public Command {
 public:
  explicit Call(Connection& connection) : lane_(connection) {}

  void write(std::string& output) override { lane_.write(*this, output); }
  void on_reply(std::string_view reply) override { lane_.on_reply(*this, reply); }
  void on_lost(Loss loss, std::string_view why) override { lane_.on_lost(*this, loss, why); }

  /// False if the commands that were sent cannot be answered so.
  bool read(std::string_view text) {
    MetaReader reader(text);
    replies.clear();
    for (const KeyEntry* key : keys) {
      const auto reply = reader.next();
      const std::size_t number = replies.size();
      if (!reply || reply->number.value_or(number) != number || !key->can_be_answered(*reply)) {
        return false;
      }
      replies.push_back(*reply);
    }
    return reader.at_end();
  }

  std::vector<KeyEntry*> keys;
  std::vector<MetaReply> replies;
  const Clock::time_point sent_at = Clock::now();

 private:
  Connection& lane_;
};

Connection::Connection(const ConnectionSettings& settings, KeyOwner& owner)
    : endpoint_(settings.endpoint),
      owner_(owner),
      health_("memcached " + settings.endpoint.text(), settings.deadline) {}

Connection::~Connection() = default;

// Enough for the server to have work while replies are read and answers are judged, which takes
// about as long as its own.
PipelineOptions Connection::pipeline_options() const {
  PipelineOptions options = health_.pipeline_options(endpoint_);
  options.max_in_flight = 4;
  return options;
}

std::string_view Connection::error(Clock::time_point now) const {
  std::optional<Clock::time_point> oldest;
  if (!in_flight_.empty()) oldest = in_flight_.front()->sent_at;
  return health_.error(oldest, now);
}

Command* Connection::next_command() {
  if (urgent_.empty() && waiting_.empty()) return nullptr;
  return in_flight_.emplace_back(std::make_unique<Call>(*this)).get();
}

// Takes what has gathered up to the moment of sending.
void Connection::write(Call& call, std::string& output) {
  const std::size_t before = output.size();
  for (auto* queue : {&urgent_, &waiting_}) {
    while (!queue->empty() && call.keys.size() < kMaxCommands &&
           output.size() - before < kMaxBytes) {
      KeyEntry& key = *queue->front();
      queue->pop_front();
      owner_.before_sending(key);
      key.append_command(output, static_cast<std::uint32_t>(call.keys.size()));
      call.keys.push_back(&key);
    }
  }
  append_end(output);
}

// The pipeline has let go of the call, and will not report it as lost.
void Connection::on_reply(Call& call, std::string_view reply) {
  if (!call.read(reply)) {
    const std::string why = name() + " has answered something else than what was asked";
    on_lost(call, Loss::kUnknown, why);
    return pipeline_.reconnect(why);
  }
  for (std::size_t i = 0; i < call.keys.size(); ++i) {
    owner_.on_reply(*call.keys[i], call.replies[i]);
  }
  release(call);
}

void Connection::on_lost(Call& call, Loss loss, std::string_view why) {
  health_.on_lost(call.sent_at);
  // First: what stays in flight makes the server look silent.
  const std::vector<KeyEntry*> keys = std::move(call.keys);
  release(call);
  for (KeyEntry* key : keys) owner_.on_lost(*key, loss, why);
}

void Connection::release(const Call& call) {
  std::erase_if(in_flight_, [&](const auto& each) { return each.get() == &call; });
}

// To `version`, then to `mn`: another server may call itself so, and have no meta commands.
std::optional<std::string> Connection::on_handshake_reply(std::size_t i, std::string_view reply) {
  if (i == 0 ? read_version(reply) >= kLeastVersion : reply == "MN\r\n") return std::nullopt;
  const std::string line(reply.substr(0, reply.find('\r')));
  return name() + " says '" + line + "' to " + (i == 0 ? "'version'" : "a meta command") +
         ": it has to be memcached 1.6.13 or later, with room for a connection";
}

void Connection::on_up() {
  number_ = ++connections_made;
  health_.on_up();
}

// What waits for a connection that may be back in a moment goes on waiting.
void Connection::on_down(std::string_view why) {
  number_ = 0;
  health_.on_down(why);
  lose(urgent_, why);
  if (is_broken()) lose(waiting_, why);
}

// A key that is lost may be sent again at once, and is then not lost with the rest.
void Connection::lose(std::deque<KeyEntry*>& queue, std::string_view why) {
  const auto lost = std::exchange(queue, {});
  for (KeyEntry* key : lost) owner_.on_lost(*key, Loss::kUnsent, why);
}

}  // namespace sluice::memcached
