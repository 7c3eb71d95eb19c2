#include "stores/memcached/key_state.h"

#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "core/together.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::memcached {
namespace {

constexpr char kVersion = 1;
constexpr std::size_t kHashBytes = 4;

template <class A>
constexpr bool kIsRing = std::is_same_v<typename A::State, Ring>;

// A state that is its own change is a few 64-bit integers, none of which is ever negative.
template <class State>
constexpr std::size_t count_of() {
  static_assert(std::is_trivially_copyable_v<State> &&
                std::has_unique_object_representations_v<State> &&
                sizeof(State) % sizeof(std::uint64_t) == 0);
  return sizeof(State) / sizeof(std::uint64_t);
}

void append_number(std::string& output, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7) output += static_cast<char>((number & 0x7f) | 0x80);
  output += static_cast<char>(number);
}

std::uint32_t hash_of(std::string_view text) {
  return static_cast<std::uint32_t>(XXH3_64bits(text.data(), text.size()));
}

}  // namespace

// Takes numbers off the front of a value. After the first that is not there or too large, all are 0
// and failed() says so.
class KeyState::Reader {
 public:
  explicit Reader(std::string_view value) : rest_(value) {}

  std::uint64_t number(std::uint64_t most = kMaxInt64) {
    std::uint64_t result = 0;
    for (int shift = 0; !rest_.empty() && shift < 63; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      result |= std::uint64_t{byte & 0x7fU} << shift;
      if ((byte & 0x80) == 0) return result <= most ? result : fail();
    }
    return fail();
  }

  std::string_view text(std::size_t bytes) {
    if (bytes > rest_.size()) fail();
    const std::string_view result = rest_.substr(0, bytes);
    rest_.remove_prefix(result.size());
    return result;
  }

  std::uint64_t fail() {
    failed_ = true;
    rest_ = {};
    return 0;
  }

  std::size_t bytes_left() const { return rest_.size(); }
  bool failed() const { return failed_; }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

void KeyState::PartState::clear() {
  numbers = {};
  slots.clear();
  first = 0;
  base = 0;
}

Ring KeyState::PartState::ring() const {
  const auto capacity = static_cast<std::uint32_t>(slots.size());
  return {.slots = slots.data(),
          .capacity = capacity,
          .head = first,
          .size = capacity - first,
          .base = base};
}

template <class A>
typename A::State KeyState::load(const PartState& state) {
  if constexpr (kIsRing<A>) {
    return state.ring();
  } else {
    static_assert(count_of<typename A::State>() <= std::tuple_size_v<Numbers>);
    typename A::State result;
    std::memcpy(static_cast<void*>(&result), state.numbers.data(), sizeof result);
    return result;
  }
}

KeyState::Judged KeyState::judge_part(const AnyPart& part, const PartState& state,
                                      Operation operation, const Call& call) {
  return std::visit(
      [&]<class P>(const P& p) -> Judged {
        using A = typename P::Algorithm;
        const auto loaded = load<A>(state);
        const auto step = operation == Operation::kRefund ? A::refund(p.params, loaded, call)
                                                          : A::take(p.params, loaded, call);
        Judged judged{.decision = step.decision, .change = {}};
        if constexpr (kIsRing<A>) {
          judged.change.ring = step.next;
        } else {
          std::memcpy(judged.change.numbers.data(), &step.next, sizeof step.next);
        }
        return judged;
      },
      part);
}

void KeyState::commit_part(const AnyPart& part, const PartChange& change, PartState& state) {
  std::visit(
      [&]<class P>(const P&) {
        if constexpr (!kIsRing<typename P::Algorithm>) {
          state.numbers = change.numbers;
        } else if (change.ring.count == 0) {
          state.clear();
        } else {
          if (change.ring.first > 0) state.base = state.ring().at(change.ring.first - 1).total;
          state.first += change.ring.first;
          state.slots.resize(state.first + change.ring.count);
          state.slots.back() = change.ring.newest;
        }
      },
      part);
}

void KeyState::write_part(std::string& output, const AnyPart& part, const PartState& state) {
  std::visit(
      [&]<class P>(const P&) {
        using A = typename P::Algorithm;
        if constexpr (!kIsRing<A>) {
          for (std::size_t i = 0; i < count_of<typename A::State>(); ++i) {
            append_number(output, state.numbers[i]);
          }
        } else {
          const Ring ring = state.ring();
          append_number(output, ring.size);
          RingEntry before{.stamp_ns = 0, .total = ring.base};
          for (std::uint32_t i = 0; i < ring.size; ++i) {
            const RingEntry& entry = ring.at(i);
            append_number(output, static_cast<std::uint64_t>(entry.stamp_ns - before.stamp_ns));
            append_number(output, entry.total - before.total);
            before = entry;
          }
        }
      },
      part);
}

void KeyState::read_part(Reader& reader, const AnyPart& part, PartState& state) {
  state.clear();
  std::visit(
      [&]<class P>(const P&) {
        using A = typename P::Algorithm;
        if constexpr (!kIsRing<A>) {
          for (std::size_t i = 0; i < count_of<typename A::State>(); ++i) {
            state.numbers[i] = reader.number();
          }
        } else {
          // An entry has at least two bytes, so that no count makes room for more than there is.
          const std::uint64_t size = reader.number(reader.bytes_left() / 2);
          state.slots.reserve(size);
          RingEntry entry;
          for (std::uint64_t i = 0; i < size && !reader.failed(); ++i) {
            const std::uint64_t later =
                reader.number(static_cast<std::uint64_t>(kEndOfTime - 1 - entry.stamp_ns));
            const std::uint64_t units =
                reader.number(static_cast<std::uint64_t>(kMaxCount) - entry.total);
            // Stamps increase, and whoever left one took something: searches rely on it.
            if (units == 0 || (i > 0 && later == 0)) reader.fail();
            entry.stamp_ns += static_cast<std::int64_t>(later);
            entry.total += units;
            state.slots.push_back(entry);
          }
        }
      },
      part);
}

void KeyState::clear() {
  parts_ = nullptr;
  expression_ = {};
  changed_ = false;
  gone_ = true;
  lifetime_ns_ = 0;
}

bool KeyState::read(std::string_view value, const LimitDefinition& asked) {
  clear();
  if (value.size() <= kHashBytes || value[0] != kVersion) return false;
  const std::string_view hashed = value.substr(0, value.size() - kHashBytes);
  std::string hash;
  for (std::uint32_t i = 0, left = hash_of(hashed); i < kHashBytes; ++i, left >>= 8) {
    hash += static_cast<char>(left & 0xff);
  }
  if (value.substr(hashed.size()) != hash) return false;

  Reader reader(hashed.substr(1));
  const std::string_view expression = reader.text(reader.number());
  if (reader.failed()) return false;
  const std::vector<AnyPart>* parts = &asked.parts;
  std::string_view made_by = asked.expression;
  if (expression != asked.expression) {
    try {
      parsed_ = parse_parts(expression);
    } catch (const InvalidLimit&) {
      return true;  // A limit of a later version: nobody here can go on from it.
    }
    parsed_expression_ = expression;
    parts = &parsed_;
    made_by = parsed_expression_;
  }
  for (std::size_t i = 0; i < parts->size(); ++i) read_part(reader, (*parts)[i], states_[i]);
  if (reader.failed() || reader.bytes_left() != 0) return false;
  parts_ = parts;
  expression_ = made_by;
  gone_ = false;
  return true;
}

void KeyState::write(std::string& output) const {
  const std::size_t begin = output.size();
  output += kVersion;
  append_number(output, expression_.size());
  output += expression_;
  for (std::size_t i = 0; i < parts_->size(); ++i) write_part(output, (*parts_)[i], states_[i]);
  std::uint32_t hash = hash_of(std::string_view(output).substr(begin));
  for (std::size_t i = 0; i < kHashBytes; ++i, hash >>= 8) {
    output += static_cast<char>(hash & 0xff);
  }
}

bool KeyState::goes_on(const LimitDefinition& limit) const {
  return parts_ != nullptr &&
         (expression_ == limit.expression || keeps_state(*parts_, limit.parts));
}

const KeyState::PartState& KeyState::state_of(std::size_t index) const {
  static const PartState kFresh;
  return readable_ ? states_[index] : kFresh;
}

Decision KeyState::judge(const Request& request, Instant now) {
  if (request.operation == Operation::kReset) {
    clear();
    changed_ = true;
    Request peek = request;
    peek.operation = Operation::kTake;
    peek.cost = 0;
    readable_ = false;
    return judge_together(peek, now);
  }
  readable_ = goes_on(*request.limit);
  const Decision decision = judge_together(request, now);
  // What is given back to a fresh key is nothing.
  const bool commits =
      decision.allowed && request.cost > 0 && (readable_ || request.operation == Operation::kTake);
  if (commits) commit(*request.limit, decision);
  return decision;
}

Decision KeyState::judge_together(const Request& request, Instant now) {
  const auto& parts = request.limit->parts;
  const Call call{now, request.cost, request.patience_ns};
  bool allowed = true;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    judged_[i] = judge_part(parts[i], state_of(i), request.operation, call);
    allowed = allowed && judged_[i].decision.allowed;
  }
  Together answer;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    // Where one denies, nothing is charged: what the others would admit stands as a peek sees it.
    const bool stands = allowed || !judged_[i].decision.allowed;
    answer.add(stands ? judged_[i].decision
                      : judge_part(parts[i], state_of(i), Operation::kTake, {.now = now, .cost = 0})
                            .decision);
  }
  return answer.decision();
}

void KeyState::commit(const LimitDefinition& limit, const Decision& decision) {
  for (std::size_t i = 0; i < limit.parts.size(); ++i) {
    if (!readable_) states_[i].clear();
    commit_part(limit.parts[i], judged_[i].change, states_[i]);
  }
  parts_ = &limit.parts;
  expression_ = limit.expression;
  changed_ = true;
  gone_ = false;
  lifetime_ns_ = decision.reset_after.count();
}

}  // namespace sluice::memcached
