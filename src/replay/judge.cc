#include "replay/judge.h"

#include <span>
#include <utility>

#include "algorithms/limit_definition.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

std::vector<std::string> expressions(const std::vector<NamedLimit>& limits) {
  std::vector<std::string> out;
  out.reserve(limits.size());
  for (const NamedLimit& limit : limits) out.push_back(limit.expression);
  return out;
}

}  // namespace

Judge::Judge(std::shared_ptr<Store> store, std::vector<NamedLimit> limits,
             const Listeners& listeners)
    : store_(std::move(store)), listeners_(listeners), tally_(expressions(limits)) {
  limits_.reserve(limits.size());
  for (NamedLimit& limit : limits) {
    auto space = store_->open_space(limit.limit.definition());
    std::string json;
    append_json_string(json, limit.expression);
    const std::size_t parts = limit.limit.definition().parts.size();
    const bool keeps_parts = listeners_.writer != nullptr && parts > 1;
    limits_.push_back({.limit = std::move(limit.limit),
                       .space = std::move(space),
                       .json = std::move(json),
                       .decisions = {},
                       .parts = std::vector<Decision>(keeps_parts ? kBatch * parts : 0)});
  }
}

void Judge::add(const LoggedRequest& request) {
  if (size_ == kBatch || (size_ > 0 && request.time_ns != now_)) flush();
  now_ = request.time_ns;
  requests_[size_].key = request.key;
  requests_[size_].cost = request.cost;
  requests_[size_++].permit = ++last_permit_;
}

void Judge::flush() {
  if (size_ == 0) return;
  std::array<Tally::KeyId, kBatch> ids;
  for (std::size_t i = 0; i < size_; ++i) ids[i] = tally_.count(requests_[i].key);
  for (std::size_t number = 0; number < limits_.size(); ++number) {
    OpenLimit& open = limits_[number];
    for (std::size_t i = 0; i < size_; ++i) {
      requests_[i].limit = &open.limit.definition();
      requests_[i].space = open.space.get();
      requests_[i].parts = open.parts_of(i);
    }
    store_->decide(std::span(requests_).first(size_), now_, open.decisions);
    for (std::size_t i = 0; i < size_; ++i) {
      if (!open.decisions[i].allowed) tally_.count_denied(number, ids[i], now_);
    }
  }
  if (listeners_.writer != nullptr) write_decisions();
  if (listeners_.charts != nullptr) chart_decisions(std::span(ids).first(size_));
  for (std::size_t i = 0; i < size_; ++i) requests_[i].parts = {};
  if (listeners_.sweep != nullptr) {
    listeners_.sweep->decide(std::span(requests_).first(size_), std::span(ids).first(size_), now_);
  }
  size_ = 0;
}

void Judge::write_decisions() {
  for (std::size_t i = 0; i < size_; ++i) {
    for (OpenLimit& open : limits_) {
      listeners_.writer->write({.time_ns = now_,
                                .key = requests_[i].key,
                                .cost = requests_[i].cost,
                                .decision = open.decisions[i],
                                .parts = open.parts_of(i)},
                               open.json);
    }
  }
}

void Judge::chart_decisions(std::span<const Tally::KeyId> ids) {
  std::array<const Decision*, kMaxCharted> decisions{};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    for (std::size_t number = 0; number < limits_.size(); ++number) {
      decisions[number] = &limits_[number].decisions[i];
    }
    listeners_.charts->add(tally_, ids[i], now_, std::span(decisions).first(limits_.size()));
  }
}

}  // namespace sluice::replay
