#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/instant.h"
#include "replay/key_template.h"
#include "replay/record.h"
#include "replay/request_sink.h"

namespace sluice::replay {

/// Passes the records of logs to a sink in the order of their times; those with equal times in the
/// order of their files, and of one file in the order in which they came. A server writes the line
/// of a request when it ends, and several workers write one log, so lines are out of order; a
/// limit, whose time never runs backwards, would take them for bursts.
///
/// Records wait in a buffer of bounded size. One that comes after at most `reach` records with
/// later times, or fewer if their texts have more than kMaxTextBytes, gets its place. One that is
/// further out of place may come too late for it: it is passed on before all that wait, and
/// counted.
///
/// Not thread-safe.
class TimeOrder {
 public:
  static constexpr std::size_t kReach = 50'000;
  /// When the texts of the records that wait have more bytes, half of these records are passed on.
  static constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;

  /// The sink must outlive it.
  explicit TimeOrder(RequestSink& sink, std::size_t reach = kReach);

  /// Which fields of a reader's records are the sink's details; nothing for those that it lacks.
  using DetailSlots = std::vector<std::optional<std::size_t>>;

  /// Records that the reader reads from then on have these fields.
  DetailSlots detail_slots(LineReader& reader) const;

  /// Adds a record of a file; `key` and `details` are those of its reader. Throws the exceptions of
  /// the sink.
  void add(const Record& record, const KeyTemplate& key, const DetailSlots& details,
           std::size_t file);

  /// Passes on all records. Throws the exceptions of the sink.
  void flush() { release(0); }

  /// How many records came too late for their place, and at most by how much.
  std::uint64_t late() const { return late_count_; }
  std::int64_t most_late_ns() const { return most_late_ns_; }

 private:
  struct Waiting {
    Instant time_ns = 0;
    std::size_t file = 0;
    std::int64_t cost = 1;
    /// The index of its key's text in texts_.
    std::size_t text = 0;

    bool is_before(const Waiting& other) const {
      return time_ns != other.time_ns ? time_ns < other.time_ns : file < other.file;
    }
  };

  /// The texts of records one after the other: of each its key and its details.
  struct Texts {
    std::string bytes;
    std::vector<std::size_t> ends;
  };

  void release(std::size_t kept);
  void pass_on(const Waiting& waiting);
  void keep_texts(std::vector<Waiting>& all);
  std::size_t begin_of_text(std::size_t i) const { return i == 0 ? 0 : texts_.ends[i - 1]; }

  RequestSink& sink_;
  std::size_t reach_;
  std::vector<std::string_view> details_;
  /// Sorted: of these records none came after one that it precedes.
  std::vector<Waiting> in_order_;
  /// All others: the first sorted_ of them are sorted, the rest are as they came.
  std::vector<Waiting> out_of_order_;
  std::size_t sorted_ = 0;
  Texts texts_;
  Texts kept_;  // Used in release(); empty between calls.
  /// The time of the latest record that was passed on; nothing before the first.
  std::optional<Instant> passed_ns_;
  std::uint64_t late_count_ = 0;
  std::int64_t most_late_ns_ = 0;
};

}  // namespace sluice::replay
