#include "stores/memcached/connection.h"

#include <utility>
#include <vector>

namespace sluice::memcached {
namespace {

// Older servers cannot remove a value by its token, and before 1.6.10 they cannot write one by it.
constexpr Version kLeastVersion{1, 6, 13};

// Enough for the server to have work while replies are read and answers are judged, which takes
// about as long as its own.
constexpr std::size_t kMaxInFlight = 4;

// A server's values have a MiB at most, unless it was told otherwise, and each has a line before
// it.
constexpr std::size_t kMostReplyBytes = Connection::kMaxCommands * ((std::size_t{1} << 20) + 1024);

PipelineOptions options_of(const RemoteWorker& worker, const Endpoint& server) {
  PipelineOptions options = worker.pipeline_options(server);
  options.max_in_flight = kMaxInFlight;
  options.max_reply_bytes = kMostReplyBytes;
  return options;
}

}  // namespace

// Commands that are sent together, and the replies to them in the order of their keys.
class Connection::Call final : public Command {
 public:
  explicit Call(Connection& connection) : connection_(connection) {}

  void write(std::string& output) override;
  void on_reply(std::string_view reply) override;
  void on_lost(Loss loss, std::string_view why) override;

 private:
  bool read(std::string_view reply);

  Connection& connection_;
  const Clock::time_point sent_at_ = Clock::now();
  std::vector<KeyEntry*> keys_;
  std::vector<MetaReply> replies_;
};

// Takes the keys that have gathered until now, just before sending.
void Connection::Call::write(std::string& output) {
  const std::size_t before = output.size();
  std::deque<KeyEntry*>& waiting = connection_.waiting_;
  while (!waiting.empty() && keys_.size() < kMaxCommands && output.size() - before < kMaxBytes) {
    KeyEntry& key = *waiting.front();
    waiting.pop_front();
    connection_.listener_.on_sending(key);
    key.append_command(output, static_cast<std::uint32_t>(keys_.size()));
    keys_.push_back(&key);
  }
  output += "mn\r\n";  // Ends the call.
}

// False if this cannot be the reply to the commands.
bool Connection::Call::read(std::string_view reply) {
  for (const KeyEntry* key : keys_) {
    if (key->claims && !take_reply(reply)) return false;  // The claim's own decides nothing.
    const auto next = take_reply(reply);
    const std::size_t number = replies_.size();
    if (!next || next->number.value_or(number) != number || !key->can_be_answered(*next)) {
      return false;
    }
    replies_.push_back(*next);
  }
  return reply == kEndReply;
}

void Connection::Call::on_reply(std::string_view reply) {
  Connection& connection = connection_;
  if (!read(reply)) {
    const std::string why = connection.name() + " has answered something else than what was asked";
    on_lost(Loss::kMayBeExecuted, why);
    return connection.pipeline_->reconnect(why);
  }
  const Clock::time_point arrived = Clock::now();
  connection.worker_.monitor().on_reply(sent_at_, arrived);
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    connection.listener_.on_reply(*keys_[i], replies_[i], arrived);
  }
}

void Connection::Call::on_lost(Loss loss, std::string_view why) {
  for (KeyEntry* key : keys_) connection_.listener_.on_lost(*key, loss, why);
}

Connection::Connection(RemoteWorker& worker, const Endpoint& server, KeyListener& listener)
    : worker_(worker),
      listener_(listener),
      name_("memcached " + server.text()),
      monitored_(worker.monitor()),
      pipeline_(RequestPipeline::make(worker.context(), options_of(worker, server), *this)) {}

std::unique_ptr<Command> Connection::next_command() {
  if (waiting_.empty()) return nullptr;
  return std::make_unique<Call>(*this);
}

// The replies to `version` and to `mn`: another kind of server may have a version, and no meta
// commands.
std::optional<std::string> Connection::on_handshake_reply(std::size_t i, std::string_view reply) {
  if (i == 0 ? read_version(reply) >= kLeastVersion : reply == kEndReply) return std::nullopt;
  const std::string line(reply.substr(0, reply.find('\r')));
  return name() + " says '" + line + "' to " + (i == 0 ? "'version'" : "a meta command") +
         ": it has to be memcached 1.6.13 or later, with room for a connection";
}

void Connection::on_up() {
  ++number_;
  monitored_.on_up();
}

// Keys that are to be read may wait for a connection that may be back soon. A key that is lost may
// be sent again at once, and is then not lost with the others.
void Connection::on_down(std::string_view why, bool is_broken) {
  if (is_broken) monitored_.on_broken(why);
  for (KeyEntry* key : std::exchange(waiting_, {})) {
    if (is_broken) {
      listener_.on_broken(*key, why);
    } else if (key->is_write()) {
      listener_.on_lost(*key, Loss::kUnsent, why);
    } else {
      send(*key);
    }
  }
}

}  // namespace sluice::memcached
