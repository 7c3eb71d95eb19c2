#include <algorithm>
#include <charconv>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "stores/redis/fleet.h"

namespace sluice::redis {
namespace {

// How often the sentinels are asked who is the primary: while it is not up, and while it is, since
// one that was replaced may not know it yet.
constexpr std::chrono::milliseconds kAskAgain{100};
constexpr std::chrono::milliseconds kAskAnyway{1'000};

std::optional<Endpoint> read_address(const Reply& reply, const Endpoint& sentinel) {
  if (reply.elements.size() != 2) return std::nullopt;
  const std::string_view port = reply.elements[1].text;
  Endpoint endpoint{.host = std::string(reply.elements[0].text), .tls = sentinel.tls};
  const auto read = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (read.ec != std::errc{} || endpoint.host.empty()) return std::nullopt;
  return endpoint;
}

class SentinelFleet final : public Fleet {
 public:
  explicit SentinelFleet(const FleetParts& parts)
      : parts_(parts),
        drop_(parts.courier.loop(), [this] { retired_.clear(); }),
        watch_(parts.courier.loop(), [this] { watch(); }) {
    const LaneSettings settings{
        .options = parts.options, .courier = parts.courier, .with_script = false};
    for (const Endpoint& sentinel : parts.options.servers) {
      sentinels_.push_back(std::make_unique<Lane>(settings, sentinel, parts.owner));
    }
    named_.resize(sentinels_.size());
  }

  // What is lost with a connection is told to members that are still there.
  ~SentinelFleet() override {
    retired_.clear();
    primary_.reset();
    sentinels_.clear();
  }

  void start() override {
    for (auto& sentinel : sentinels_) sentinel->start();
    watch();
  }

  Way way(std::uint16_t slot) override {
    if (primary_) return {.lane = &primary_->lane(slot)};
    if (!std::all_of(sentinels_.begin(), sentinels_.end(),
                     [](const auto& sentinel) { return sentinel->is_broken(); })) {
      return {};
    }
    return {.why = sentinel_why_};
  }

  Way redirect(const ServerError&, const Lane&) override { return {.why = kPartOfCluster}; }

  bool doubt(Lane& lane, std::string_view) override {
    lane.reconnect(lane.name() + " is not the primary");
    return true;
  }

  void on_up(Lane& lane) override {
    if (primary_ && primary_->has(lane)) {
      trying_ = false;
    } else if (!primary_is_up()) {
      ask(lane);
    }
  }

  void on_down(Lane& lane, std::string_view why) override {
    if (!primary_ || !primary_->has(lane)) {
      keep_reason(sentinel_why_, why);
      return parts_.changed();
    }
    trying_ = false;
    doubt_others();
    watch();
  }

  std::vector<Lane*> servers() override {
    return primary_ ? std::vector{&primary_->lane(0)} : std::vector<Lane*>{};
  }

 private:
  // It serves as long as one of its connections does.
  bool primary_is_up() const {
    return primary_ && std::ranges::any_of(primary_->lanes(), &Lane::is_up);
  }

  // Asks the primary's other connections something: one that nobody uses would not tell that the
  // primary's machine has gone without a word, and count as up for ever.
  void doubt_others() noexcept {
    try {
      for (auto& lane : primary_->lanes()) {
        if (!lane->is_up()) continue;
        std::string command;
        append_command(command, {"PING"});
        lane->ask(std::move(command), [](const Reply*, std::string_view) {});
        lane->kick();
      }
    } catch (const std::exception&) {
      // They are asked when the attempt to reach the primary again has failed, too.
    }
  }

  // Asks all sentinels now, and from time to time.
  void watch() noexcept {
    watch_.set(primary_is_up() ? kAskAnyway : kAskAgain);
    try {
      for (auto& sentinel : sentinels_) {
        if (sentinel->is_up()) ask(*sentinel);
      }
    } catch (const std::exception&) {
      // There is no memory for the question now: it is asked from time to time.
    }
  }

  void ask(Lane& sentinel) {
    std::string command;
    append_command(command, {"SENTINEL", "get-master-addr-by-name", parts_.options.primary_name});
    sentinel.ask(std::move(command), [this, &sentinel](const Reply* reply, std::string_view why) {
      on_answer(sentinel, reply, why);
    });
    sentinel.kick();
  }

  void on_answer(Lane& sentinel, const Reply* reply, std::string_view why) {
    if (reply == nullptr) {
      keep_reason(sentinel_why_, why);
      return;
    }
    const auto address = read_address(*reply, sentinel.endpoint());
    if (!address) {
      sentinel_why_ = sentinel.name() + " knows no primary '" + parts_.options.primary_name + "'";
      return;
    }
    const std::string name = address->text();
    for (std::size_t i = 0; i < sentinels_.size(); ++i) {
      if (sentinels_[i].get() == &sentinel) named_[i] = name;
    }
    if (primary_ && primary_->endpoint().text() == name) return;
    // A primary that serves is left only if most sentinels say so: one of them may be cut off.
    const auto votes = std::count(named_.begin(), named_.end(), name);
    if (trying_ || (primary_is_up() && 2 * static_cast<std::size_t>(votes) <= sentinels_.size()))
      return;
    replace(*address);
  }

  // What waits for the old primary goes to the new one; what is under way there is lost.
  void replace(const Endpoint& address) {
    const LaneSettings settings{
        .options = parts_.options, .courier = parts_.courier, .must_be_primary = true};
    auto next = std::make_unique<Node>(settings, address, parts_.owner);
    if (primary_) {
      retired_.push_back(std::move(primary_));
      drop_.set({});
    }
    trying_ = true;
    primary_ = std::move(next);
    primary_->start();
    // Nothing throws any more: what waits would be lost with this list.
    ErrandList waiting;
    for (auto& node : retired_) {
      for (auto& lane : node->lanes()) lane->give_back(waiting);
    }
    while (!waiting.empty()) parts_.owner.on_refused(waiting.pop_front(), primary_->lane(0), {});
    parts_.changed();
  }

  const FleetParts parts_;
  std::vector<std::unique_ptr<Lane>> sentinels_;
  std::unique_ptr<Node> primary_;
  std::vector<std::unique_ptr<Node>> retired_;  // Until nobody is in one of their calls.
  Timer drop_;
  std::vector<std::string> named_;  // By each sentinel, the address it named last.
  // An attempt to reach the primary named last is under way: what other sentinels say meanwhile,
  // which may not have heard of it yet, does not end it.
  bool trying_ = false;
  Timer watch_;  // When to ask all sentinels again.
  std::string sentinel_why_ = "no sentinel has answered yet";
};

}  // namespace

std::unique_ptr<Fleet> make_sentinel_fleet(const FleetParts& parts) {
  return std::make_unique<SentinelFleet>(parts);
}

}  // namespace sluice::redis
