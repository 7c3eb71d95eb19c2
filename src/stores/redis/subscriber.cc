#include "stores/redis/subscriber.h"

#include <sys/epoll.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "stores/redis/resp_framing.h"

namespace sluice::redis {
namespace {

constexpr std::chrono::milliseconds kConnectTimeout{1'000};
constexpr std::chrono::milliseconds kLeastPause{10};
constexpr std::chrono::milliseconds kMostPause{1'000};
// How often the connection is looked at: a server that has said nothing from one time to the next,
// though it was asked to, is given up. With nobody watching for so many times, so is the
// connection.
constexpr std::chrono::milliseconds kBeat{1'000};
constexpr int kIdleBeats = 10;
constexpr std::size_t kMaxUnsentBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxReplyBytes = std::size_t{16} << 20;

}  // namespace

class Subscriber::Sync final : public Task {
 public:
  explicit Sync(Subscriber& subscriber) : subscriber_(subscriber) {}
  void run() override { subscriber_.sync(); }

 private:
  Subscriber& subscriber_;
};

Subscriber::Subscriber(const RedisOptions& options, EventLoop& loop, Servers servers)
    : options_(options),
      loop_(loop),
      servers_(std::move(servers)),
      sync_(std::make_shared<Sync>(*this)),
      watches_(std::make_shared<Watches>([this] { loop_.post(sync_); })),
      backoff_({.least = kLeastPause, .most = kMostPause}) {}

Subscriber::~Subscriber() {
  watches_->close();
  close();
}

// Asks for what somebody watches and has not been asked for, and no more for what nobody does.
void Subscriber::sync() {
  try {
    follow(watches_->take_changed());
  } catch (const std::exception&) {
    fail(false);
  }
}

void Subscriber::follow(const std::set<std::string>& changed) {
  if (phase_ == Phase::kResting) {
    if (!watches_->empty()) begin_attempt();
    return;
  }
  if (phase_ != Phase::kUp) return;
  for (const std::string& channel : changed) {
    const bool wanted = watches_->wants(channel);
    const auto known = subscribed_.find(channel);
    if (wanted == (known != subscribed_.end())) {
      // One may have gone and another come, who has missed what was published between them. Before
      // the server has confirmed the channel, its confirmation is still to come.
      if (wanted && known->second) watches_->call(channel);
      continue;
    }
    if (wanted) {
      subscribed_.emplace(channel, false);
    } else {
      subscribed_.erase(known);
    }
    say({wanted ? "SUBSCRIBE" : "UNSUBSCRIBE", channel});
  }
  flush();
}

void Subscriber::on_time() {
  try {
    if (phase_ == Phase::kPausing) return begin_attempt();
    if (phase_ == Phase::kUp) return beat();
    fail(false);
  } catch (const std::exception&) {
    fail(false);
  }
}

void Subscriber::begin_attempt() {
  phase_ = Phase::kConnecting;
  if (watches_->empty()) return rest();
  const std::vector<Endpoint> servers = servers_();
  if (servers.empty()) return fail(true);
  timer_.set(kConnectTimeout);
  try {
    connect(servers.front());
  } catch (const std::exception&) {
    fail(true);
  }
}

void Subscriber::connect(const Endpoint& endpoint) {
  if (!connector_ || endpoint.text() != endpoint_.text()) {
    connector_.reset();
    endpoint_ = endpoint;
    connector_.emplace(loop_, endpoint_, *this, [this] { advance(); });
  }
  proceed(connector_->begin());
}

void Subscriber::proceed(Connector::Progress progress) {
  if (progress == Connector::Progress::kFailed) return fail(false);
  if (progress == Connector::Progress::kConnected) greet();
}

void Subscriber::greet() {
  phase_ = Phase::kUp;
  up_since_ = Clock::now();
  stream_ = connector_->take();
  talk_.emplace(std::make_unique<RespFraming>(),
                Conversation::Bounds{.max_in_flight = 1, .max_reply_bytes = kMaxReplyBytes});
  watched_ = 0;
  greetings_ = 1;
  if (!options_.password.empty()) {
    ++greetings_;
    if (options_.user.empty()) {
      say({"AUTH", options_.password});
    } else {
      say({"AUTH", options_.user, options_.password});
    }
  }
  say({"CLIENT", "SETNAME", "sluice"});
  (void)watches_->take_changed();
  for (std::string& channel : watches_->channels()) {
    say({"SUBSCRIBE", channel});
    subscribed_.emplace(std::move(channel), false);
  }
  heard_ = true;
  idle_beats_ = 0;
  timer_.set(kBeat);
  flush();
  // What came with the end of the handshake will not be told of by the socket.
  if (phase_ == Phase::kUp && stream_->holds_more()) receive();
}

void Subscriber::on_events(std::uint32_t) {
  advance();
}

void Subscriber::advance() {
  try {
    if (phase_ == Phase::kConnecting) return proceed(connector_->advance());
    if (phase_ == Phase::kUp) receive();
    if (phase_ == Phase::kUp) flush();
  } catch (const std::exception&) {
    fail(false);
  }
}

void Subscriber::receive() {
  while (true) {
    const Transfer transfer = stream_->receive(talk_->room());
    if (transfer.status == Transfer::Status::kMustRead ||
        transfer.status == Transfer::Status::kMustWrite) {
      return;
    }
    if (transfer.status != Transfer::Status::kMoved) return fail(false);
    talk_->received(transfer.bytes);
    heard_ = true;
    while (const auto reply = talk_->next_reply()) {
      hear(*reply);
      if (phase_ != Phase::kUp) return;
      talk_->drop_reply();
    }
    if (!talk_->fault().empty()) return fail(true);
    if (!stream_->holds_more()) return;
  }
}

void Subscriber::hear(std::string_view reply) {
  if (greetings_ > 0) {
    // The last of the greeting may be refused.
    if (--greetings_ > 0 && reply.front() == '-') fail(true);
    return;
  }
  if (const auto tree = read_reply(reply)) hear_message(*tree);
}

// A channel that a user may not hear is answered with an error: who watches it asks from time to
// time all the same.
void Subscriber::hear_message(const Reply& reply) {
  if (reply.elements.size() != 3) return;
  const std::string_view kind = reply.elements[0].text;
  const auto known = subscribed_.find(std::string(reply.elements[1].text));
  if (known == subscribed_.end() || (kind != "message" && kind != "subscribe")) return;
  if (kind == "subscribe") known->second = true;
  watches_->call(known->first);
}

void Subscriber::say(std::initializer_list<std::string_view> command) {
  std::string bytes;
  append_command(bytes, command);
  talk_->say(bytes);
}

void Subscriber::flush() {
  bool must_write = false;
  while (!talk_->unsent().empty()) {
    const Transfer transfer = stream_->send(talk_->unsent());
    must_write = transfer.status == Transfer::Status::kMustWrite;
    if (must_write || transfer.status == Transfer::Status::kMustRead) break;
    if (transfer.status != Transfer::Status::kMoved) return fail(false);
    talk_->sent(transfer.bytes);
  }
  if (talk_->unsent().size() > kMaxUnsentBytes) return fail(true);
  const std::uint32_t events = EPOLLIN | EPOLLRDHUP | (must_write ? EPOLLOUT : 0U);
  if (events == watched_) return;
  watched_ = events;
  loop_.modify(stream_->fd(), events, *this);
}

void Subscriber::beat() {
  const std::vector<Endpoint> servers = servers_();
  if (!heard_ || !(servers.empty() || is_current(servers))) return fail(false);
  idle_beats_ = watches_->empty() ? idle_beats_ + 1 : 0;
  if (idle_beats_ == kIdleBeats) return rest();
  heard_ = false;
  say({"PING"});
  timer_.set(kBeat);
  flush();
}

bool Subscriber::is_current(const std::vector<Endpoint>& servers) const {
  return std::any_of(servers.begin(), servers.end(),
                     [this](const Endpoint& server) { return server.text() == endpoint_.text(); });
}

// Gives the connection, or the attempt at one, up, and tries again after a pause.
void Subscriber::fail(bool of_no_use) noexcept {
  const bool was_up = phase_ == Phase::kUp;
  const Clock::duration up_for = was_up ? Clock::now() - up_since_ : Clock::duration(0);
  close();
  phase_ = Phase::kPausing;
  const auto random = static_cast<std::uint32_t>(random_());
  backoff_.forget_if_lasting(up_for);
  timer_.set(was_up && !of_no_use ? backoff_.after_loss(up_for, random)
                                  : backoff_.after_failure(random));
}

void Subscriber::rest() {
  close();
  phase_ = Phase::kResting;
}

void Subscriber::close() {
  timer_.cancel();
  if (connector_) connector_->abandon();
  if (stream_ != nullptr) loop_.remove(stream_->fd());
  stream_.reset();
  talk_.reset();
  subscribed_.clear();
}

}  // namespace sluice::redis
