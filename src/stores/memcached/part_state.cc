#include "stores/memcached/part_state.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace sluice::memcached {
namespace {

constexpr std::size_t kIdBytes = 8;
// A permit lapses a lease after an instant.
constexpr Instant kLastLapse = kEndOfTime - 1 + kMaxDurationNs;

// A state that is its own change is a few 64-bit integers, none of which is ever negative.
template <class State>
constexpr std::size_t count_of() {
  static_assert(std::is_trivially_copyable_v<State> &&
                std::has_unique_object_representations_v<State> &&
                sizeof(State) % sizeof(std::uint64_t) == 0);
  return sizeof(State) / sizeof(std::uint64_t);
}

}  // namespace

void PartState::clear() {
  numbers_ = {};
  slots_.clear();
  first_ = 0;
  base_ = 0;
  permits_.clear();
}

bool PartState::is_fresh() const {
  return numbers_ == Numbers{} && slots_.size() == first_ && permits_.empty();
}

Ring PartState::ring() const {
  const auto capacity = static_cast<std::uint32_t>(slots_.size());
  return {.slots = slots_.data(),
          .capacity = capacity,
          .head = first_,
          .size = capacity - first_,
          .base = base_};
}

template <class A>
typename A::State PartState::load() const {
  if constexpr (kIsRing<A>) {
    return ring();
  } else if constexpr (kIsPermits<A>) {
    return permits_;
  } else {
    static_assert(count_of<typename A::State>() <= std::tuple_size_v<Numbers>);
    typename A::State result;
    std::memcpy(static_cast<void*>(&result), numbers_.data(), sizeof result);
    return result;
  }
}

PartState::Judged PartState::judge(const AnyPart& part, Operation operation,
                                   const Call& call) const {
  return std::visit(
      [&]<class P>(const P& p) -> Judged {
        using A = typename P::Algorithm;
        const auto step = apply<A>(operation, p.params, load<A>(), call);
        Judged judged{.decision = step.decision, .change = {}};
        if constexpr (kIsRing<A>) {
          judged.change.ring = step.next;
        } else if constexpr (kIsPermits<A>) {
          judged.change.permits = step.next;
        } else {
          std::memcpy(judged.change.numbers.data(), &step.next, sizeof step.next);
        }
        return judged;
      },
      part);
}

void PartState::commit(const AnyPart& part, const Change& change) {
  std::visit(
      [&]<class P>(const P&) {
        using A = typename P::Algorithm;
        if constexpr (kIsRing<A>) {
          commit_ring(change.ring);
        } else if constexpr (kIsPermits<A>) {
          commit_permits(change.permits);
        } else {
          numbers_ = change.numbers;
        }
      },
      part);
}

void PartState::commit_ring(const RingChange& change) {
  if (change.count == 0) return clear();
  if (change.first > 0) base_ = ring().at(change.first - 1).total;
  first_ += change.first;
  slots_.resize(first_ + change.count);
  slots_.back() = change.newest;
}

void PartState::commit_permits(const PermitChange& change) {
  const auto size = static_cast<std::uint32_t>(permits_.size());
  permits_.resize(std::max(size, change.size_after(size)));
  permits_.resize(sluice::commit_permits(permits_, size, change));
}

void PartState::write(const AnyPart& part, ValueWriter& writer) const {
  std::visit(
      [&]<class P>(const P&) {
        using A = typename P::Algorithm;
        if constexpr (kIsRing<A>) {
          write_ring(writer);
        } else if constexpr (kIsPermits<A>) {
          write_permits(writer);
        } else {
          for (std::size_t i = 0; i < count_of<typename A::State>(); ++i) {
            writer.number(numbers_[i]);
          }
        }
      },
      part);
}

void PartState::write_ring(ValueWriter& writer) const {
  const Ring entries = ring();
  writer.number(entries.size);
  RingEntry before{.stamp_ns = 0, .total = entries.base};
  for (std::uint32_t i = 0; i < entries.size; ++i) {
    const RingEntry& entry = entries.at(i);
    writer.number(static_cast<std::uint64_t>(entry.stamp_ns - before.stamp_ns));
    writer.number(entry.total - before.total);
    before = entry;
  }
}

void PartState::write_permits(ValueWriter& writer) const {
  writer.number(permits_.size());
  Instant before = 0;
  for (const PermitEntry& permit : permits_) {
    writer.number(static_cast<std::uint64_t>(permit.lapses_ns - before));
    writer.bytes(permit.id, kIdBytes);
    before = permit.lapses_ns;
  }
}

void PartState::read(const AnyPart& part, ValueReader& reader) {
  clear();
  std::visit(
      [&]<class P>(const P&) {
        using A = typename P::Algorithm;
        if constexpr (kIsRing<A>) {
          read_ring(reader);
        } else if constexpr (kIsPermits<A>) {
          read_permits(reader);
        } else {
          for (std::size_t i = 0; i < count_of<typename A::State>(); ++i) {
            numbers_[i] = reader.number(kMaxInt64);
          }
        }
      },
      part);
}

void PartState::read_ring(ValueReader& reader) {
  // An entry has at least two bytes, so that no count makes room for more than there is.
  const std::uint64_t size = reader.number(reader.bytes_left() / 2);
  slots_.resize(size);
  RingEntry entry;
  ValueReader numbers = reader;  // A local variable's place in the value stays in a register.
  for (RingEntry& slot : slots_) {
    const std::uint64_t later =
        numbers.number(static_cast<std::uint64_t>(kEndOfTime - 1 - entry.stamp_ns));
    const std::uint64_t units = numbers.number(static_cast<std::uint64_t>(kMaxCount) - entry.total);
    // Stamps increase, and whoever left one took something: searches rely on it.
    if (units == 0 || (later == 0 && &slot != slots_.data())) numbers.fail();
    if (numbers.failed()) break;
    entry.stamp_ns += static_cast<std::int64_t>(later);
    entry.total += units;
    slot = entry;
  }
  reader = numbers;
}

void PartState::read_permits(ValueReader& reader) {
  const std::uint64_t size = reader.number(reader.bytes_left() / (1 + kIdBytes));
  permits_.reserve(size);
  PermitEntry permit;
  for (std::uint64_t i = 0; i < size && !reader.failed(); ++i) {
    permit.lapses_ns += static_cast<std::int64_t>(
        reader.number(static_cast<std::uint64_t>(kLastLapse - permit.lapses_ns)));
    permit.id = reader.bytes(kIdBytes);
    if (permit.id == 0) reader.fail();
    permits_.push_back(permit);
  }
}

}  // namespace sluice::memcached
