#include "core/batch.h"

namespace sluice {

Batch::Batch(std::span<const Request> requests, Mode mode, Instant now)
    : mode_(mode), now_(now), requests_(requests.begin(), requests.end()) {
  assert(!requests.empty());
  assert(now == kStoreTime || (now >= 0 && now < kEndOfTime));
  std::size_t key_bytes = 0;
  for (const Request& request : requests_) {
    assert(request.cost >= 0);
    key_bytes += request.key.size();
  }
  keys_.resize(key_bytes, boost::container::default_init);
  char* copy = keys_.data();
  for (Request& request : requests_) {
    request.key = {copy, request.key.copy(copy, request.key.size())};
    copy += request.key.size();
  }
  // The batch also owns the decisions of parts, since the caller may go away. Requests that are
  // asked together always get theirs: a FallbackStore records them.
  keep_parts([this](const Request& request) {
    return std::max<std::size_t>(is_group() ? 1 : 0, request.parts.size());
  });
  decisions_.resize(mode == Mode::kTogether ? 1 : requests_.size(),
                    Decision{.source = Source::kUnavailable});
}

Batch::~Batch() = default;

}  // namespace sluice
