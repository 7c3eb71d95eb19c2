#include "stores/memory/snapshot.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/key_hash.h"
#include "stores/memory/key_codec.h"

namespace sluice {
namespace {

using memory::KeyImage;
using memory::LimitId;
using memory::LimitTable;
using memory::Shard;
using memory::Slot;
using memory::Table;
using memory::Tag;

// A change of the format, or of the meaning of an algorithm's state, needs another version.
constexpr std::string_view kFormat = "sluice snapshot ";
constexpr std::string_view kVersion = "2\n";

enum class BlockKind : std::uint32_t { kHeader, kLimit, kKeys, kEnd };

struct BlockHead {
  BlockKind kind = BlockKind::kHeader;
  std::uint32_t bytes = 0;
};

// write_snapshot() never writes a larger block.
constexpr std::uint32_t kMostBlockBytes = 64U << 20;

constexpr std::size_t kLimitIds = std::size_t{std::numeric_limits<LimitId>::max()} + 1;

constexpr std::uint64_t kTagHalves = std::uint64_t{1} << 32;
// How much is copied in one step.
constexpr std::uint64_t kLinesAtOnce = 32;
constexpr std::size_t kRecordBytesAtOnce = std::size_t{256} << 10;
// Enough for nearly every step.
constexpr std::size_t kUsualRoom = std::size_t{2} << 20;
// The most bytes that a key takes beside those of its records.
constexpr std::size_t kMostKeyBytes = 32 + kMaxParts * sizeof PartImage::numbers;

std::uint64_t checksum_of(const BlockHead& head, std::string_view bytes, std::uint64_t number) {
  const std::uint64_t seed = XXH3_64bits_withSeed(&head, sizeof head, number);
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

bool is_instant(Instant time) {
  return time >= 0 && time < kEndOfTime;
}

class Writer {
 public:
  Writer(Table& table, Instant now, Instant wall, const WriteBytes& write)
      : table_(table),
        limits_(table_.limits()),
        write_(write),
        summary_{.written_at = wall, .clock_ahead_ns = now - wall} {}
  ~Writer() {
    for (const LimitId id : kept_) limits_.remove_key(id);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  SnapshotSummary run() {
    make_room(kUsualRoom);
    write_(kFormat);
    write_(kVersion);
    std::string bytes;
    ByteWriter output(bytes);
    output.put(summary_.written_at);
    output.put(summary_.written_at + summary_.clock_ahead_ns);
    output.put(table_.options().secret.bytes);
    write_block(BlockKind::kHeader, bytes);
    for (std::size_t i = 0; i < Table::kShards; ++i) write_shard(i);
    bytes.clear();
    output.put(summary_.keys);
    write_block(BlockKind::kEnd, bytes);
    return summary_;
  }

 private:
  enum class Step : std::uint8_t { kCopied, kTooMuch, kMoreRoom };

  void write_block(BlockKind kind, std::string_view bytes) {
    assert(bytes.size() <= kMostBlockBytes);
    const BlockHead head{kind, static_cast<std::uint32_t>(bytes.size())};
    std::string around;
    ByteWriter output(around);
    output.put(head);
    write_(around);
    write_(bytes);
    around.clear();
    output.put(checksum_of(head, bytes, blocks_++));
    write_(around);
  }

  // Writes a shard in steps, by the upper halves of the tags.
  void write_shard(std::size_t index) {
    std::uint64_t halves = kTagHalves;
    for (std::uint64_t from = 0; from < kTagHalves;) {
      halves = std::min(halves, kTagHalves - from);
      switch (copy(index, from, from + halves)) {
        case Step::kTooMuch:
          halves /= 2;
          break;
        case Step::kMoreRoom:
          make_room(2 * needed_);
          break;
        case Step::kCopied:
          write_copied();
          from += halves;
          halves *= 2;
      }
    }
  }

  // Copies the keys of a shard whose tags have these upper halves. What it allocates under the lock
  // is small: a new limit's name and numbers.
  Step copy(std::size_t index, std::uint64_t from, std::uint64_t to) {
    Shard& shard = table_.shard(index);
    const std::lock_guard lock(shard.lock);
    const bool alone = to - from == 1;
    if (!alone && (to - from) * shard.line_count() > kLinesAtOnce * kTagHalves) {
      return Step::kTooMuch;
    }
    std::size_t record_bytes = 0;
    std::size_t keys = 0;
    shard.visit_range(from, to, [&](const Slot& slot) {
      record_bytes += memory::record_bytes(slot.cell);
      ++keys;
    });
    if (!alone && record_bytes > kRecordBytesAtOnce) return Step::kTooMuch;
    needed_ = 2 * sizeof(std::uint32_t) + record_bytes + keys * kMostKeyBytes;
    if (needed_ > bytes_.capacity()) return Step::kMoreRoom;
    bytes_.clear();
    keys_ = 0;
    ByteWriter output(bytes_);
    output.put(static_cast<std::uint32_t>(index));
    output.put(shard.size());
    shard.visit_range(from, to, [&](const Slot& slot) { copy_key(slot, output); });
    return Step::kCopied;
  }

  void copy_key(const Slot& slot, ByteWriter& output) {
    const auto& parts = limits_.parts(slot.limit);
    if (parts.empty()) return;
    keep_limit(slot.limit, parts);
    output.put(slot.tag);
    output.put(slot.limit);
    memory::write_key(parts, slot.cell, output);
    ++keys_;
  }

  // Keeps the limit's id until the end, so that no other limit gets it meanwhile. If another thread
  // has replaced its space meanwhile, any numbers of its kind will do.
  void keep_limit(LimitId id, const std::vector<AnyPart>& of_its_kind) {
    if (is_kept_[id]) return;
    is_kept_[id] = true;
    LimitTable::Image image = limits_.image_of(id);
    if (image.parts.empty()) image.parts = of_its_kind;
    if (image.space != id) keep_limit(image.space, image.parts);
    kept_.push_back(id);
    limits_.add_key(id);
    new_limits_.emplace_back(id, image);
    // Even if no key has numbers of its own yet, the loaded keys must not get those of a caller.
    if (image.largest != 0) keep_limit(image.largest, image.parts);
  }

  // Touches the pages, too, so that this is not left to the copying with the lock.
  void make_room(std::size_t bytes) {
    bytes_.clear();
    bytes_.resize(bytes);
  }

  void write_copied() {
    std::string bytes;
    for (const auto& [id, image] : new_limits_) {
      bytes.clear();
      ByteWriter output(bytes);
      output.put(id);
      output.put(image.space);
      output.put(image.made);
      output.text(image.name);
      output.text(describe_parts(image.parts));
      write_block(BlockKind::kLimit, bytes);
    }
    new_limits_.clear();
    if (keys_ > 0) write_block(BlockKind::kKeys, bytes_);
    summary_.keys += keys_;
  }

  Table& table_;
  LimitTable& limits_;
  const WriteBytes& write_;
  SnapshotSummary summary_;
  std::uint64_t blocks_ = 0;
  std::vector<LimitId> kept_;
  std::vector<bool> is_kept_ = std::vector<bool>(kLimitIds);
  // Of the last step: the keys and limits that it has copied, and the bytes it may need.
  std::string bytes_;
  std::uint64_t keys_ = 0;
  std::vector<std::pair<LimitId, LimitTable::Image>> new_limits_;
  std::size_t needed_ = 0;
};

class Loader {
 public:
  Loader(MemoryStore& store, Instant wall, const ReadBytes& read)
      : store_(store), table_(store.table()), limits_(table_.limits()), read_(read), wall_(wall) {}

  SnapshotSummary run() {
    read_format();
    BlockKind kind = read_block();
    if (kind != BlockKind::kHeader) fail_block();
    load_header();
    for (kind = read_block(); kind != BlockKind::kEnd; kind = read_block()) {
      if (kind == BlockKind::kLimit) {
        load_limit();
      } else if (kind == BlockKind::kKeys) {
        load_keys();
      } else {
        fail_block();
      }
    }
    load_end();
    // Limits without keys are forgotten.
    for (const LimitId id : limit_of_) {
      if (id != 0) limits_.remove_key(id);
    }
    // Keys that were loaded first, and then gave way to others.
    const std::uint64_t evicted = table_.counters().evicted;
    summary_.keys -= evicted;
    summary_.without_room += evicted;
    return summary_;
  }

 private:
  void read_format() {
    std::string format(kFormat.size() + kVersion.size(), '\0');
    format.resize(read_(format));
    at_ = format.size();
    if (!format.starts_with(kFormat.substr(0, format.size()))) {
      throw SnapshotError("it is not a snapshot");
    }
    if (format.size() < kFormat.size() + kVersion.size()) fail_end();
    if (!format.ends_with(kVersion)) {
      throw SnapshotError("it is a snapshot of another version of sluice");
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw SnapshotError("it is damaged: " + what);
  }
  [[noreturn]] void fail_end() const {
    fail("it ends after " + std::to_string(at_) + " bytes, too early");
  }
  [[noreturn]] void fail_block() const {
    fail("the block that ends at byte " + std::to_string(at_) + " has no meaning");
  }

  void read_all(std::span<char> room) {
    const std::size_t count = read_(room);
    at_ += count;
    if (count < room.size()) fail_end();
  }
  template <class T>
  T read_number() {
    T number{};
    read_all({reinterpret_cast<char*>(&number), sizeof number});
    return number;
  }

  // Reads a block into bytes_.
  BlockKind read_block() {
    const std::uint64_t begin = at_;
    const auto head = read_number<BlockHead>();
    const bool long_enough = head.bytes <= kMostBlockBytes;
    bytes_.resize(long_enough ? head.bytes : 0);
    read_all(bytes_);
    const auto checksum = read_number<std::uint64_t>();
    if (!long_enough || checksum != checksum_of(head, bytes_, blocks_)) {
      fail("block " + std::to_string(blocks_) + ", at byte " + std::to_string(begin) +
           ", does not match its checksum");
    }
    ++blocks_;
    return head.kind;
  }

  void load_header() {
    ByteReader input(bytes_);
    summary_.written_at = input.take<Instant>();
    const auto by_its_clock = input.take<Instant>();
    HashSecret secret{};
    secret.bytes = input.take<decltype(secret.bytes)>();
    if (input.failed() || !input.empty()) fail_block();
    if (!is_instant(summary_.written_at) || !is_instant(by_its_clock)) fail_block();
    // As load_snapshot() says. No more time than the wall clock tells, and none backwards.
    const auto behind_ns = std::min<std::int64_t>(by_its_clock - summary_.written_at, 0);
    now_ = std::min(std::max(by_its_clock, wall_ + behind_ns), kEndOfTime - 1);
    summary_.clock_ahead_ns = now_ - wall_;
    store_.set_clock(now_);
    table_.set_secret(secret);
  }

  void load_limit() {
    ByteReader input(bytes_);
    const auto id = input.take<LimitId>();
    const auto space = input.take<LimitId>();
    LimitTable::Image image{.made = input.take<std::uint64_t>()};
    image.name = input.text();
    const std::string_view expression = input.text();
    if (input.failed() || !input.empty() || id == 0 || limit_of_[id] != 0) fail_block();
    if (space != id && limit_of_[space] == 0) fail_block();
    try {
      image.parts = parse_parts(expression);
    } catch (const InvalidLimit& error) {
      throw SnapshotError("a limit in it is none of this version of sluice: " +
                          std::string(error.what()));
    }
    if (space != id && !keeps_state(limits_.parts(limit_of_[space]), image.parts)) fail_block();
    limit_of_[id] = limits_.restore(image, space == id ? LimitId{0} : limit_of_[space]);
    if (limit_of_[id] == 0) throw SnapshotError("the store has no room for its limits");
  }

  void load_keys() {
    ByteReader input(bytes_);
    const auto index = input.take<std::uint32_t>();
    const auto size = input.take<std::uint32_t>();
    if (input.failed() || index >= Table::kShards) fail_block();
    Shard& shard = table_.shard(index);
    if (std::exchange(shard_, &shard) != &shard) {
      keys_of_shards_ += size;
      ++shards_;
    }
    const std::size_t most_bytes = table_.make_room_for(shard, size, keys_of_shards_ / shards_);
    while (!input.empty()) {
      const auto tag = input.take<Tag>();
      const LimitId limit = limit_of_[input.take<LimitId>()];
      if (tag == 0 || limit == 0) fail_block();
      if (!read_key(limits_.parts(limit), input, image_)) fail_block();
      ++keys_;
      switch (table_.restore({&shard, tag}, limit, image_, now_, most_bytes)) {
        case Table::Restored::kKept:
          ++summary_.keys;
          break;
        case Table::Restored::kFresh:
          ++summary_.fresh;
          break;
        case Table::Restored::kWithoutRoom:
          ++summary_.without_room;
          break;
        case Table::Restored::kTwice:
          fail_block();
      }
    }
  }

  void load_end() {
    ByteReader input(bytes_);
    const auto keys = input.take<std::uint64_t>();
    if (input.failed() || !input.empty() || keys != keys_) fail_block();
    char more = 0;
    if (read_({&more, 1}) != 0) fail("bytes follow its end, byte " + std::to_string(at_));
  }

  MemoryStore& store_;
  Table& table_;
  LimitTable& limits_;
  const ReadBytes& read_;
  const Instant wall_;
  Instant now_ = 0;  // By the store's clock, once the header is read.
  SnapshotSummary summary_;
  std::uint64_t at_ = 0;  // The bytes that have been read.
  std::uint64_t blocks_ = 0;
  std::uint64_t keys_ = 0;
  std::string bytes_;
  KeyImage image_;
  // Of the shards that have been loaded, of which shard_ is the last.
  const Shard* shard_ = nullptr;
  std::uint64_t shards_ = 0;
  std::uint64_t keys_of_shards_ = 0;
  // By the number in the snapshot; 0 where it has none.
  std::vector<LimitId> limit_of_ = std::vector<LimitId>(kLimitIds);
};

}  // namespace

SnapshotSummary write_snapshot(MemoryStore& store, Instant now, Instant wall,
                               const WriteBytes& write) {
  return Writer(store.table(), now, wall, write).run();
}

SnapshotSummary load_snapshot(MemoryStore& store, Instant wall, const ReadBytes& read) {
  return Loader(store, wall, read).run();
}

}  // namespace sluice
