#include "stores/redis/subscriber.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "stores/redis/resp.h"

namespace sluice::redis {
namespace {

// How often the connection is looked at: a server that does not answer a PING in that time is given
// up. Without a watch for so many times, so is the connection.
constexpr std::chrono::milliseconds kBeat{1'000};
constexpr int kIdleBeats = 10;
// While no server is known.
constexpr std::chrono::milliseconds kLookAgain{50};
constexpr std::size_t kMaxReplyBytes = std::size_t{16} << 20;

}  // namespace

// A PING, which has a reply, or SUBSCRIBE and UNSUBSCRIBE, which are answered like messages.
class Subscriber::TextCommand final : public Command {
 public:
  TextCommand(std::string text, std::size_t replies) : text_(std::move(text)), replies_(replies) {}

  std::size_t replies() const override { return replies_; }
  void write(std::string& output) override { output += text_; }
  void on_reply(std::string_view) override {}
  void on_lost(Loss, std::string_view) override {}

 private:
  const std::string text_;
  const std::size_t replies_;
};

Subscriber::Subscriber(const RedisOptions& options, RemoteWorker& worker, Servers servers)
    : RedisPipelineUser(options, Purpose::kSubscriber, "redis"),
      worker_(worker),
      servers_(std::move(servers)),
      watches_(std::make_shared<Watches>([this] { worker_.post([this] { sync(); }); })),
      beat_(worker.context(), [this] { beat(); }),
      work_(worker.context()) {}

Subscriber::~Subscriber() {
  watches_->close();
}

// Channels were added or removed.
void Subscriber::sync() {
  work_.set(!watches_->empty());
  if (pipeline_ && pipeline_->is_up()) return pipeline_->flush();
  watches_->take_changed();  // on_up() asks for all.
  if (!pipeline_) beat();
}

// The commands that ask for what is watched and was not asked for, and no more for what is not
// watched.
std::string Subscriber::subscriptions() {
  std::string commands;
  for (const std::string& channel : watches_->take_changed()) {
    const auto known = subscribed_.find(channel);
    if (!watches_->wants(channel)) {
      if (subscribed_.erase(channel) != 0) append_command(commands, {"UNSUBSCRIBE", channel});
    } else if (known == subscribed_.end()) {
      subscribed_.emplace(channel, false);
      append_command(commands, {"SUBSCRIBE", channel});
    } else if (known->second) {
      // One may have gone and another come, which has missed what was published between them.
      // Before the server has confirmed the channel, its confirmation is still to come.
      watches_->call(channel);
    }
  }
  return commands;
}

// Looks whether there is a connection, to the right server, and whether it is of use.
void Subscriber::beat() {
  const bool is_up = pipeline_ && pipeline_->is_up();
  idle_beats_ = watches_->empty() ? idle_beats_ + 1 : 0;
  if (watches_->empty() && (!is_up || idle_beats_ == kIdleBeats)) return pipeline_.reset();
  beat_.set(kBeat);
  const std::vector<Endpoint> servers = servers_();
  if (servers.empty()) {
    if (!is_up) beat_.set(kLookAgain);
  } else if (is_up && std::ranges::find(servers, endpoint_) != servers.end()) {
    pings_ = true;
    pipeline_->flush();
  } else if (!pipeline_ || servers.front() != endpoint_) {
    open(servers.front());
  }
}

void Subscriber::open(const Endpoint& endpoint) {
  endpoint_ = endpoint;
  PipelineOptions options{.endpoint = endpoint};
  options.silence_timeout = kBeat;
  options.most_pause = kBeat;
  options.max_reply_bytes = kMaxReplyBytes;
  pipeline_.emplace(worker_.context(), std::move(options), *this);
  pipeline_->start();
}

std::unique_ptr<Command> Subscriber::next_command() {
  std::string changes = subscriptions();
  if (!changes.empty()) return std::make_unique<TextCommand>(std::move(changes), 0);
  if (!std::exchange(pings_, false)) return nullptr;
  return std::make_unique<TextCommand>(command_of({"PING"}), 1);
}

void Subscriber::on_up() {
  subscribed_.clear();
  watches_->change_all();
}

// Another server may be of more use.
void Subscriber::on_down(std::string_view) {
  pings_ = false;
  beat_.set({});
}

// A channel that the user may not hear is answered with an error: what watches it asks from time to
// time all the same.
bool Subscriber::on_push(std::string_view reply) {
  if (reply.front() == '-') return true;
  const std::optional<Reply> tree = read_reply(reply);
  if (!tree || tree->elements.size() != 3) return false;
  const std::string_view kind = tree->elements[0].text;
  const auto known = subscribed_.find(std::string(tree->elements[1].text));
  if (known == subscribed_.end() || (kind != "message" && kind != "subscribe")) return true;
  if (kind == "subscribe") known->second = true;
  watches_->call(known->first);
  return true;
}

}  // namespace sluice::redis
