#include "stores/redis/subscriber.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "stores/redis/resp.h"

namespace sluice::redis {
namespace {

// The connection is looked at once in Connection::kSubscriberBeat. Without a watch for so many
// times, it is closed.
constexpr int kIdleBeats = 10;
// While no server is known.
constexpr std::chrono::milliseconds kLookAgain{50};

}  // namespace

// What a watch and the subscriber share. The subscriber finds out later that the watch is gone.
struct Subscriber::Listener {
  Listener(std::string name, std::function<void()> call_back)
      : channel(std::move(name)), released(std::move(call_back)) {}

  void call() {
    const std::lock_guard lock(mutex);
    if (!is_gone) released();
  }

  const std::string channel;
  const std::function<void()> released;
  std::recursive_mutex mutex;  // Held while it is called: the watch may go within its own call.
  std::atomic<bool> is_gone = false;
};

Subscriber::Subscriber(const RedisOptions& options, RemoteWorker& worker, RedisRouter& router)
    : options_(options),
      worker_(worker),
      router_(router),
      beat_(worker.context(), [this] { beat(); }),
      work_(worker.context()) {}

Watch Subscriber::watch(std::string channel, std::function<void()> released) {
  const std::size_t bytes = channel.size() + kBytesBeside;
  if (bytes_.fetch_add(bytes) + bytes > kMaxBytes) {
    bytes_ -= bytes;
    return nullptr;
  }
  const auto listener = std::make_shared<Listener>(std::move(channel), std::move(released));
  worker_.post([this, listener] { add(listener); });
  const auto end = [listener](const void*) {
    const std::lock_guard lock(listener->mutex);
    listener->is_gone = true;
  };
  return {listener.get(), end};
}

void Subscriber::add(const std::shared_ptr<Listener>& listener) {
  const auto [entry, is_new] = channels_.try_emplace(listener->channel);
  Channel& channel = entry->second;
  // A busy key has many short watches in a second.
  if (channel.listeners.size() >= channel.forget_at) {
    forget_gone(channel);
    channel.forget_at = std::max(kForgetAt, 2 * channel.listeners.size());
  }
  channel.listeners.push_back(listener);
  if (channel.is_confirmed) return listener->call();
  if (is_new) tell("SUBSCRIBE", listener->channel);
  work_.set(true);
  if (!connection_ && !beat_.is_set()) beat();
}

// Forgets the channel's watches that have gone.
void Subscriber::forget_gone(Channel& channel) {
  std::erase_if(channel.listeners, [this](const std::shared_ptr<Listener>& listener) {
    const bool is_gone = listener->is_gone;
    if (is_gone) bytes_ -= listener->channel.size() + kBytesBeside;
    return is_gone;
  });
}

// The same for all channels, and forgets those that have no other watch.
void Subscriber::forget_all_gone() {
  for (auto entry = channels_.begin(); entry != channels_.end();) {
    const auto channel = entry++;
    forget_gone(channel->second);
    if (!channel->second.listeners.empty()) continue;
    tell("UNSUBSCRIBE", channel->first);
    channels_.erase(channel);
  }
  work_.set(!channels_.empty());
}

// Without a connection nothing is sent: on_up() subscribes to all channels.
void Subscriber::tell(std::string_view command, const std::string& channel) {
  if (!connection_ || !connection_->is_up()) return;
  connection_->add_control(command_of({command, channel}), nullptr);
  connection_->flush();
}

// Looks whether there is a connection, to the right server, and whether it is of use.
void Subscriber::beat() {
  // If the server receives slowly, commands wait to be sent. Until they are, watches that have gone
  // go on counting against kMaxBytes, so that not more and more commands wait.
  const bool is_slow = connection_ && connection_->has_unsent_control();
  if (!is_slow) forget_all_gone();
  const bool is_up = connection_ && connection_->is_up();
  idle_beats_ = channels_.empty() ? idle_beats_ + 1 : 0;
  if (channels_.empty() && (!is_up || idle_beats_ == kIdleBeats)) return connection_.reset();
  beat_.set(Connection::kSubscriberBeat);
  // Any server sends all messages.
  const std::vector<Connection*> servers = router_.servers();
  const auto is_used = [this](const Endpoint& endpoint) {
    return connection_ && connection_->endpoint() == endpoint;
  };
  if (servers.empty()) {
    if (!is_up) beat_.set(kLookAgain);
  } else if (is_up && std::ranges::any_of(servers, is_used, &Connection::endpoint)) {
    if (is_slow) return;
    connection_->add_control(command_of({"PING"}), [](const Reply*) {});
    connection_->flush();
  } else {
    const auto up = std::ranges::find_if(servers, &Connection::is_up);
    const Endpoint& next = (up != servers.end() ? *up : servers.front())->endpoint();
    if (is_used(next)) return;
    confirm_none();
    connection_.emplace(options_, worker_, Connection::Purpose::kSubscriber, next, *this);
  }
}

void Subscriber::on_up(Connection& /*connection*/) {
  for (const auto& [name, channel] : channels_) tell("SUBSCRIBE", name);
}

// Another server may be of more use.
void Subscriber::on_down(Connection& /*connection*/, std::string_view /*why*/) {
  confirm_none();
  beat_.set({});
}

void Subscriber::confirm_none() {
  for (auto& [name, channel] : channels_) channel.is_confirmed = false;
}

// A user may have no right to a channel, and a proxy may know no channels: what watches asks from
// time to time all the same. Once a script has ended, a new connection subscribes again.
bool Subscriber::on_push(Connection& connection, std::string_view reply) {
  if (reply.front() == '-') {
    const std::string_view error = error_text(reply);
    const bool is_busy = read_server_error(error).kind == ServerError::Kind::kBusy;
    if (is_busy) connection.reconnect(connection.name() + ": " + std::string(error));
    return true;
  }
  const std::optional<Reply> tree = read_reply(reply);
  if (!tree || tree->elements.size() != 3) return false;
  const std::string_view kind = tree->elements[0].text;
  const auto known = channels_.find(std::string(tree->elements[1].text));
  if (known == channels_.end() || (kind != "message" && kind != "subscribe")) return true;
  Channel& channel = known->second;
  if (kind == "subscribe") channel.is_confirmed = true;
  for (const auto& listener : channel.listeners) listener->call();
  return true;
}

}  // namespace sluice::redis
