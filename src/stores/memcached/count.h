#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stores/memcached/lane.h"
#include "stores/memcached/memcached_space.h"
#include "stores/memcached/query.h"
#include "stores/memcached/sub_windows.h"
#include "stores/remote/errand.h"

namespace sluice::memcached {

class Count;

/// Whose counts are.
class CountOwner {
 public:
  virtual ~CountOwner() = default;

  /// The errand's decision is made; or there will be none.
  virtual void on_decided(Errand& errand) = 0;
  virtual void on_failed(Errand& errand, std::string_view why) = 0;
  /// A counter that was not there before has been made.
  virtual void on_made(Lane& lane, const std::string& counter) = 0;
  /// Nothing is left to be done.
  virtual void on_counted(Count& count) = 0;
};

/// One errand that is answered by counters instead of by compare-and-swap: it adds its units, looks
/// at all that count, and takes back those that are more than the limit. So nobody waits for a
/// winner, and never more than the limit is admitted; but two who race for the last units may both
/// be denied. What is charged is added and stays.
///
/// The end of a block stands in an item beside the counters, which is read along with them, and
/// written by compare-and-swap.
///
/// Not exact where a counter is evicted, or flushed, between adding and taking back and somebody
/// else begins it anew, whose units are then taken back; or where a clock is more than two
/// sub-windows behind, less by how much its reply is late: a later one is no answer. Units that are
/// not taken back, of somebody who dies before, or where a reply is lost, count for as long as any
/// that are added then: until their sub-window ends, and in a sliding_window as many further ones
/// as count with it.
///
/// Belongs to the courier's thread. To be used again and again.
class Count final : public Query {
 public:
  explicit Count(CountOwner& owner) : owner_(owner) {}

  /// What is asked.
  struct Question {
    Errand& errand;
    const SubWindows& windows;
    /// Not kStoreTime.
    Instant now = 0;
    /// By the real clock; what is read later is not judged, and units that were added with it are
    /// taken back, as if nobody had waited for it. Never passes where `now` is of no clock.
    Instant answered_by = kEndOfTime;
    /// That of the counter, or of the block, which is made now, in seconds as a server reads it.
    std::int64_t expiry_s = 0;
  };
  /// Begins, by the lane that has the key; it has to be kicked.
  void ask(const Question& question, Lane& lane);

  std::size_t commands() const override;
  void write(std::string& output, std::uint32_t number) override;
  bool can_be(const MetaReply& reply) const override;
  void on_replies(std::span<const MetaReply> replies) override;
  void on_lost(Loss loss, std::string_view why) override;
  std::string_view abandon(Errand& errand) override;

  /// For the owner: where it stands in its list.
  std::list<Count>::iterator self;

 private:
  enum class Stage : std::uint8_t {
    kLooks,      ///< Reads all counters, and the block.
    kAdds,       ///< The same, and adds to the current one first.
    kGivesBack,  ///< Takes off what `given_` says.
    kBlocks,     ///< Writes the block over the one that was read.
    kForgets,    ///< Removes all counters, and the block.
  };

  /// An answer, and how many units it takes.
  struct Verdict {
    Decision decision;
    std::int64_t units = 0;
  };

  Stage first_stage() const;
  void send(Stage stage);
  void read(std::span<const MetaReply> replies);
  std::uint64_t read_number(const MetaReply& reply, const std::string& name, std::uint64_t most);
  void expect_in_time();
  void on_added(std::span<const MetaReply> replies);
  std::uint64_t charged() const;
  void on_looked();
  void refund();
  void block();
  void on_blocked(const MetaReply& reply);
  Decision judge(std::int64_t cost) const;
  Verdict verdict() const;
  void finish();
  void fail(std::string_view why);

  CountOwner& owner_;
  Lane* lane_ = nullptr;
  Errand* errand_ = nullptr;  // Null once it is answered or given up: its request may be gone.
  Stage stage_ = Stage::kLooks;
  Instant now_ = 0;
  Instant answered_by_ = kEndOfTime;
  std::int64_t expiry_s_ = 0;
  Operation operation_ = Operation::kTake;
  std::int64_t cost_ = 0;
  std::uint64_t units_ = 0;            // That are added first.
  std::size_t current_ = 0;            // Which counter is that of the current sub-window.
  std::vector<std::string> names_;     // Of the counters, oldest first.
  std::vector<std::uint64_t> counts_;  // What is in them.
  std::vector<std::uint64_t> given_;   // What is taken off them.
  std::string block_name_;
  Instant blocked_until_ = 0;                 // 0: there is no block.
  std::optional<std::uint64_t> block_token_;  // None where there is no item of it.
  bool wrapped_ = false;                      // The units added have made the counter begin at 0.
  std::string fault_;                         // Of what was read.
};

}  // namespace sluice::memcached
