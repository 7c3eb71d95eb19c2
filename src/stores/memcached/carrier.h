#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/instant.h"
#include "stores/memcached/key_state.h"
#include "stores/memcached/lane.h"
#include "stores/memcached/last_writes.h"
#include "stores/memcached/memcached_options.h"
#include "stores/memcached/server_ring.h"
#include "stores/memcached/turn.h"
#include "stores/remote/courier.h"

namespace sluice::memcached {

/// Answers errands by compare-and-swap: reads a key's value with its token, judges all errands that
/// wait for the key, in order, and writes the value back if nobody else has meanwhile. What this
/// process has written last need not be read to be written again: if nobody else has written since,
/// that is one round trip. A lost race begins anew with what the winner wrote. A write whose
/// outcome is not known is not repeated.
///
/// Lives on the courier's thread.
class MemcachedCarrier final : public Carrier, public TurnOwner {
 public:
  /// Errands judged on one value at most.
  static constexpr std::size_t kMaxJudged = 512;
  /// Keys that are judged at the same time. A key whose callers have all gone is still one of them
  /// until its server answers or is lost.
  static constexpr std::size_t kMaxUnderWay = 100'000;
  /// A turn that loses a race begins the next at once: with each, somebody wins. After so many it
  /// rests, until a random time within kMostRest, so that no two processes lose to each other in
  /// step; all that rest then go on together.
  static constexpr unsigned kLossesBeforeRest = 8;
  static constexpr std::chrono::microseconds kMostRest{1'000};
  /// Keys remembered at most, to be removed by sweep().
  static constexpr std::size_t kMaxWritten = 1'000'000;

  /// Both outlive it.
  explicit MemcachedCarrier(const MemcachedOptions& options);
  ~MemcachedCarrier() override;

  /// Before anything is carried.
  void open(Courier& courier);

  /// The connections there are to be, each of which is to be attached.
  std::span<const std::unique_ptr<Lane>> lanes() const { return lanes_; }

  void carry(Errand& errand) override;
  void dispatch() override;
  std::string_view abandon(Errand& errand) override;

  void on_foreseen(const Turn& turn) override;
  void on_sending(Turn& turn) override;
  void on_read(Turn& turn, const MetaReply& reply) override;
  void on_written(Turn& turn, const MetaReply& reply) override;
  void on_unknown(Turn& turn, std::string_view why) override;
  void on_unsent(Turn& turn, std::string_view why) override;

  /// In virtual time, when nothing is asked any more: removes the keys that were written, the last
  /// kMaxWritten of them (others lapse), and calls `done` when none is under way.
  void sweep(std::function<void()> done);

  /// Keys that are judged now.
  std::size_t under_way() const { return turns_.size(); }

 private:
  /// What a server calls a key.
  struct Name {
    Name(std::string_view name, std::uint64_t name_hash) : text(name), hash(name_hash) {}
    explicit Name(std::string_view name) : Name(name, LastWrites::hash_of(name)) {}

    bool operator==(const Name& other) const { return hash == other.hash && text == other.text; }

    std::string_view text;
    std::uint64_t hash;
  };
  struct NameHash {
    std::size_t operator()(const Name& name) const noexcept { return name.hash; }
  };
  using Turns = std::unordered_map<Name, std::unique_ptr<Turn>, NameHash>;

  Lane& lane_of(std::string_view key);
  Turn& begin_turn(Lane& lane, const Name& name);
  void end_turn(Turn& turn);
  void read(Turn& turn);
  void next_round(Turn& turn);
  bool take_value(Turn& turn, const MetaReply& reply);
  void judge(Turn& turn, Instant now);
  bool prepare_write(Turn& turn, Instant now);
  void lose(Turn& turn);
  void wake_all();
  void wake(Turn& turn);
  void take_back(Turn& turn);
  void give_up(Turn& turn, std::string_view why);
  void finish(ErrandList& errands);
  void fail(ErrandList& errands, std::string_view why);
  std::int64_t kept_ns(std::int64_t lifetime_ns) const;
  LastWrites::Key key_of(const Turn& turn) const;
  void touch(Lane& lane);
  void remember(Lane& lane, const std::string& key);
  void begin_removal(Lane& lane, std::string_view key);
  void sweep_on();

  const MemcachedOptions& options_;
  Courier* courier_ = nullptr;
  std::vector<std::unique_ptr<Lane>> lanes_;  // Those of one server lie together.
  ServerRing ring_;
  std::vector<Lane*> touched_;  // Have been given turns since the last dispatch.
  Turns turns_;
  std::vector<Turns::node_type> idle_turns_;
  QueryQueue resting_;         // Turns, until all of them go on.
  std::optional<Timer> rest_;  // As long as there are some.
  std::minstd_rand random_;
  LastWrites last_writes_;
  KeyState state_;    // Of the turn that is judged.
  std::string name_;  // Of the key that is looked for.
  std::deque<std::pair<Lane*, std::string>> written_;
  std::function<void()> swept_;  // While sweeping.
};

}  // namespace sluice::memcached
