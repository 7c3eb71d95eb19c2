#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "stores/memcached/query.h"
#include "stores/remote/errand.h"

namespace sluice::memcached {

class Lane;
struct Turn;

/// Whose turns are. Each call hands the turn back.
class TurnOwner {
 public:
  virtual ~TurnOwner() = default;

  /// What the turn is about to be asked for may be fetched from memory.
  virtual void on_foreseen(const Turn& turn) = 0;
  /// The turn is about to be sent, to read: it may be made one that writes instead.
  virtual void on_sending(Turn& turn) = 0;
  /// The turn's value, or that there is none, or that the server refuses.
  virtual void on_read(Turn& turn, const MetaReply& reply) = 0;
  /// What has become of the turn's write.
  virtual void on_written(Turn& turn, const MetaReply& reply) = 0;
  /// A write that may have been carried out, or not.
  virtual void on_unknown(Turn& turn, std::string_view why) = 0;
  /// Nothing was carried out.
  virtual void on_unsent(Turn& turn, std::string_view why) = 0;
};

/// One key that is asked for, and where it stands: its value is read, judged, and written back
/// where that changed it; or it is judged on what this process has written last, and written at
/// once where that changes it. There is one turn for a key at a time, so that whoever asks
/// meanwhile waits, is judged with all others who wait, and travels in the one write of the next
/// round.
///
/// Belongs to the courier's thread. It is with its lane, or rests after a lost race.
struct Turn final : Query {
  explicit Turn(TurnOwner& turn_owner) : owner(turn_owner) {}

  std::size_t commands() const override { return 1; }
  void foresee() override { owner.on_foreseen(*this); }
  void write(std::string& output, std::uint32_t number) override;
  bool can_be(const MetaReply& reply) const override;
  void on_replies(std::span<const MetaReply> replies) override;
  void on_lost(Loss loss, std::string_view why) override;
  std::string_view abandon(Errand& errand) override;

  TurnOwner& owner;
  std::string key;
  std::uint64_t key_hash = 0;
  Lane* lane = nullptr;
  /// To be judged on the value that is read next.
  ErrandList waiting;
  /// Have their decisions, which stand if the write is carried out.
  ErrandList judged;
  /// It writes; else it reads.
  bool writes = false;
  /// What is to be written: `value`, or nothing at all, over what was read with this token; none
  /// where there was no value.
  std::optional<std::uint64_t> token;
  std::string value;
  std::int64_t expiry_s = 0;
  bool removes = false;
  /// As expiry_s() was made: until then the server keeps what is written.
  Instant kept_until = 0;
  /// What is written goes over what this process has written last, which was not read again.
  bool guesses = false;
  /// Races lost one after the other.
  unsigned losses = 0;
  std::string late;  // What abandon() has said of them.
};

}  // namespace sluice::memcached
