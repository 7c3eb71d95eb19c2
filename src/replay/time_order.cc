#include "replay/time_order.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace sluice::replay {

TimeOrder::TimeOrder(RequestSink& sink, std::size_t reach)
    : sink_(sink), reach_(reach), details_(sink.details().size()) {
  in_order_.reserve(2 * reach);
  texts_.ends.reserve(2 * reach * (1 + details_.size()));
  kept_.ends.reserve(2 * reach * (1 + details_.size()));
}

TimeOrder::DetailSlots TimeOrder::detail_slots(LineReader& reader) const {
  DetailSlots slots;
  for (const std::string_view name : sink_.details()) slots.push_back(reader.optional_slot(name));
  return slots;
}

void TimeOrder::add(const Record& record, const KeyTemplate& key, const DetailSlots& details,
                    std::size_t file) {
  assert(details.size() == details_.size());
  if (passed_ns_ && record.time_ns < *passed_ns_) {
    ++late_count_;
    most_late_ns_ = std::max(most_late_ns_, *passed_ns_ - record.time_ns);
  }
  const Waiting added{
      .time_ns = record.time_ns, .file = file, .cost = record.cost, .text = texts_.ends.size()};
  const bool is_in_order = in_order_.empty() || !added.is_before(in_order_.back());
  (is_in_order ? in_order_ : out_of_order_).push_back(added);
  key.append_key(record, texts_.bytes);
  texts_.ends.push_back(texts_.bytes.size());
  for (const std::optional<std::size_t>& slot : details) {
    if (slot) texts_.bytes += record.fields[*slot];
    texts_.ends.push_back(texts_.bytes.size());
  }
  const std::size_t waiting = in_order_.size() + out_of_order_.size();
  if (waiting >= 2 * reach_) {
    release(reach_);
  } else if (texts_.bytes.size() > kMaxTextBytes) {
    release(waiting / 2);
  }
}

/// Passes on waiting records, and keeps the `kept` latest ones.
void TimeOrder::release(std::size_t kept) {
  const auto is_earlier = [](const Waiting& a, const Waiting& b) { return a.is_before(b); };
  const auto kept_before = out_of_order_.begin() + static_cast<std::ptrdiff_t>(sorted_);
  std::stable_sort(kept_before, out_of_order_.end(), is_earlier);
  std::inplace_merge(out_of_order_.begin(), kept_before, out_of_order_.end(), is_earlier);
  auto ordered = in_order_.begin();
  auto disordered = out_of_order_.begin();
  for (std::size_t left = in_order_.size() + out_of_order_.size(); left > kept; --left) {
    // The last record in order is later than all that are out of order, so it does not end before
    // them. Of equal times and one file, those in order came first.
    const bool is_ordered = disordered == out_of_order_.end() || !is_earlier(*disordered, *ordered);
    pass_on(is_ordered ? *ordered++ : *disordered++);
  }
  sink_.flush();
  in_order_.erase(in_order_.begin(), ordered);
  out_of_order_.erase(out_of_order_.begin(), disordered);
  sorted_ = out_of_order_.size();
  keep_texts(in_order_);
  keep_texts(out_of_order_);
  std::swap(texts_, kept_);
  kept_.bytes.clear();
  kept_.ends.clear();
}

void TimeOrder::pass_on(const Waiting& waiting) {
  passed_ns_ = std::max(passed_ns_.value_or(waiting.time_ns), waiting.time_ns);
  const auto text = [&](std::size_t i) {
    const std::size_t begin = begin_of_text(i);
    return std::string_view(texts_.bytes).substr(begin, texts_.ends[i] - begin);
  };
  for (std::size_t i = 0; i < details_.size(); ++i) details_[i] = text(waiting.text + 1 + i);
  sink_.add({.time_ns = waiting.time_ns,
             .cost = waiting.cost,
             .key = text(waiting.text),
             .details = details_});
}

/// Copies the texts of these records to kept_.
void TimeOrder::keep_texts(std::vector<Waiting>& all) {
  for (Waiting& waiting : all) {
    const std::size_t begin = begin_of_text(waiting.text);
    const std::size_t last = waiting.text + details_.size();
    const std::size_t shift = kept_.bytes.size() - begin;  // May wrap around.
    kept_.bytes.append(texts_.bytes, begin, texts_.ends[last] - begin);
    for (std::size_t i = waiting.text; i <= last; ++i) kept_.ends.push_back(texts_.ends[i] + shift);
    waiting.text = kept_.ends.size() - 1 - details_.size();
  }
}

}  // namespace sluice::replay
