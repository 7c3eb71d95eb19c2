#include "replay/judge.h"

#include <span>
#include <utility>

#include "replay/text.h"

namespace sluice::replay {
namespace {

/// A batch ends early when its keys pass this, so that long keys do not pile up.
constexpr std::size_t kMaxBatchKeyBytes = std::size_t{256} * 1024;

std::vector<std::string> expressions(const std::vector<NamedLimit>& limits) {
  std::vector<std::string> out;
  out.reserve(limits.size());
  for (const NamedLimit& limit : limits) out.push_back(limit.expression);
  return out;
}

}  // namespace

Judge::Judge(std::shared_ptr<Store> store, std::vector<NamedLimit> limits, DecisionWriter* writer)
    : store_(std::move(store)), writer_(writer), tally_(expressions(limits)) {
  lanes_.reserve(limits.size());
  for (NamedLimit& limit : limits) {
    auto space = store_->open_space(limit.limit.definition());
    std::string json;
    append_json_string(json, limit.expression);
    lanes_.push_back({.limit = std::move(limit.limit),
                      .space = std::move(space),
                      .json = std::move(json),
                      .decisions = {}});
  }
}

void Judge::add(const Record& record, const KeyTemplate& key) {
  const bool has_room = size_ < kBatch && keys_.size() < kMaxBatchKeyBytes;
  if (size_ > 0 && (record.time_ns != now_ || !has_room)) flush();
  now_ = record.time_ns;
  key.append_key(record, keys_);
  requests_[size_].cost = record.cost;
  requests_[size_].permit = ++last_permit_;
  key_ends_[size_++] = keys_.size();
}

void Judge::flush() {
  if (size_ == 0) return;
  std::array<Tally::KeyId, kBatch> ids;
  std::size_t start = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    requests_[i].key = std::string_view(keys_).substr(start, key_ends_[i] - start);
    start = key_ends_[i];
    ids[i] = tally_.count(requests_[i].key, now_);
  }
  for (std::size_t lane_number = 0; lane_number < lanes_.size(); ++lane_number) {
    Lane& lane = lanes_[lane_number];
    for (std::size_t i = 0; i < size_; ++i) {
      requests_[i].limit = &lane.limit.definition();
      requests_[i].space = lane.space.get();
    }
    store_->decide(std::span(requests_).first(size_), now_, lane.decisions);
    for (std::size_t i = 0; i < size_; ++i) {
      if (!lane.decisions[i].allowed) tally_.count_denied(lane_number, ids[i], now_);
    }
  }
  if (writer_ != nullptr) write_decisions();
  size_ = 0;
  keys_.clear();
}

void Judge::write_decisions() {
  for (std::size_t i = 0; i < size_; ++i) {
    for (const Lane& lane : lanes_) {
      writer_->write({.time_ns = now_,
                      .key = requests_[i].key,
                      .cost = requests_[i].cost,
                      .decision = lane.decisions[i]},
                     lane.json);
    }
  }
}

}  // namespace sluice::replay
