#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/store.h"
#include "fallback/last_answers.h"
#include "stores/memory/memory_store.h"

namespace sluice {

/// The local states: a memory store with which this process answers while its remote store does
/// not. While the remote store answers, they are left alone, but for permits, blocks, resets, and
/// what this process uses of its share. Before a key is decided here, set_told() brings it to what
/// the remote store told last.
///
/// They admit 1/shares of each limit, rounded down, less what the remote store has admitted to this
/// process: one unit of the remote store counts as `shares` units here. Each permit counts as one
/// here too, and is granted while fewer permits are held than the share allows.
///
/// All spaces are those of open_space(). Thread-safe.
class LocalFallback {
 public:
  /// `shares` is at least 1. Throws StoreError where max_bytes is out of the range of
  /// MemoryOptions::max_bytes.
  LocalFallback(std::size_t max_bytes, std::int64_t shares);

  /// The secret with which the caller hashes keys.
  const HashSecret& secret() { return store_.table().options().secret; }

  /// As Store::replace_space(), but limits of one name have another space for each `number`, which
  /// tells the kinds of their states apart: one does not end the states of the other.
  std::shared_ptr<Space> open_space(const std::shared_ptr<Space>& held, LimitDefinition limit,
                                    std::uint64_t number);

  /// Whether the local states must be told of the request when the remote store has answered it:
  /// what remains does not tell all of it.
  bool mirrors(const Request& request) const;

  /// The remote store has given this answer, which arrived at `at`, to such a request: does the
  /// same here. Of requests that were asked together, `allowed` says whether all were admitted. The
  /// hash is made with secret().
  void mirror(const KeyHash& key, Request request, const Decision& told, Instant at);

  /// Brings each part of the key's limit of which the remote store has told something to that: as
  /// many units remain as it said then, less those that this process has admitted and not charged
  /// to it yet (`pending`). If some remain, a block of the key is over. If none do, and the remote
  /// store denied what would be admitted here before the wait that it gave is over, the key is
  /// blocked until then (as where another process has blocked it), or until all parts are fresh, if
  /// it has told that of a sooner time. Of the request, here and below, only the limit and the
  /// space are used.
  void set_told(const KeyHash& key, const Request& request, const LastAnswers::News& told,
                std::int64_t pending, Instant now);

  struct Due {
    std::int64_t charge = 0;
    std::int64_t lost = 0;
  };
  /// Of `units` of a key that were admitted here and are not all over: those that the remote store
  /// is to be charged, and those that may count but cannot be charged. Lost are all of a key that
  /// the local states have forgotten; and, of an `&`, whose parts are charged together, what a
  /// bucket among them cannot hold. The rest does not count any more.
  Due due(const KeyHash& key, const Request& request, std::int64_t units, Instant now);

  /// The time until no part of the key's limit counts what was admitted here.
  std::chrono::nanoseconds reset_after(const KeyHash& key, const Request& request, Instant now);

  /// Decides what the remote store did not answer: one request, or several that are asked together,
  /// at most kMaxTogether. Source::kLocal.
  Decision answer(std::span<const Request> requests, Instant now);

 private:
  memory::Place place_of(const KeyHash& key, const Request& request) {
    return store_.table().place_of(memory::MemorySpace::of(request), key);
  }
  bool admits_just_before(const memory::Place& place, const Request& request,
                          const LastAnswers::Denied& denied);
  std::int64_t counting(const memory::Place& place, const AnyPart& part, std::size_t index,
                        Instant now);
  Decision answer_for_permit(Request request, Instant now);
  memory::Used used(const AnyPart& part, const LastAnswers::Told& told, std::int64_t counting,
                    std::int64_t pending) const;
  std::int64_t scaled_cost(const Request& request) const;
  Decision unscaled(Decision decision, std::int64_t cost) const;
  void round_down(const Request& request, Instant now, Decision& decision);

  const std::int64_t shares_;
  MemoryStore store_;
};

}  // namespace sluice
