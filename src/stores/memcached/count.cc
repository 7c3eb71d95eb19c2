#include "stores/memcached/count.h"

#include <algorithm>
#include <utility>

namespace sluice::memcached {

void Count::ask(const Question& question, Lane& lane) {
  const Request& request = question.errand.requests[0];
  const auto& space = static_cast<const MemcachedSpace&>(*request.space);
  const SubWindows& windows = question.windows;
  lane_ = &lane;
  errand_ = &question.errand;
  errand_->holder = static_cast<Query*>(this);
  now_ = question.now;
  expiry_s_ = question.expiry_s;
  cost_ = request.cost;
  current_ = static_cast<std::size_t>(windows.before);
  const auto size = static_cast<std::size_t>(windows.before + 1 + windows.after);
  names_.resize(size);
  const std::int64_t first = windows.number_at(now_) - windows.before;
  for (std::size_t i = 0; i < size; ++i) {
    // Before the first sub-window of all there was none: its name is that of no counter.
    const std::int64_t number = first + static_cast<std::int64_t>(i);
    space.counter_name_of(request.key, windows.kind + '.' + std::to_string(number), names_[i]);
  }
  counts_.assign(size, 0);
  given_.assign(size, 0);
  fault_.clear();
  // What can never be admitted is not added.
  const bool adds = request.operation == Operation::kTake && cost_ > 0 && judge(cost_).allowed;
  send(request.operation == Operation::kReset ? Stage::kForgets
       : adds                                 ? Stage::kAdds
                                              : Stage::kLooks);
}

void Count::send(Stage stage) {
  stage_ = stage;
  lane_->send(*this);
}

std::size_t Count::commands() const {
  if (stage_ != Stage::kGivesBack) return names_.size();
  return names_.size() - static_cast<std::size_t>(std::ranges::count(given_, 0U));
}

void Count::write(std::string& output, std::uint32_t number) {
  // Units are added before anything is looked at, so that of two who race one sees both.
  if (stage_ == Stage::kAdds) {
    append_add(output, {names_[current_], static_cast<std::uint64_t>(cost_), expiry_s_}, number++);
  }
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (stage_ == Stage::kForgets) {
      append_delete(output, {names_[i], std::nullopt}, number++);
    } else if (stage_ == Stage::kGivesBack) {
      if (given_[i] > 0) append_subtract(output, {names_[i], given_[i]}, number++);
    } else if (stage_ == Stage::kLooks || i != current_) {
      append_get(output, names_[i], number++);
    }
  }
}

bool Count::can_be(const MetaReply& reply) const {
  switch (reply.code) {
    case Code::kValue:
    case Code::kMiss:
      return stage_ == Stage::kLooks || stage_ == Stage::kAdds;
    case Code::kDone:
    case Code::kNotFound:
      return stage_ == Stage::kForgets || stage_ == Stage::kGivesBack;
    case Code::kNotStored:  // Somebody else made the counter at the same moment.
      return stage_ == Stage::kAdds;
    case Code::kError:
      return true;
    default:
      return false;
  }
}

// Sets fault_ at the first reply that is no count.
void Count::read(std::span<const MetaReply> replies) {
  for (std::size_t i = 0, next = stage_ == Stage::kAdds ? 1 : 0; i < counts_.size(); ++i) {
    const bool adds = stage_ == Stage::kAdds && i == current_;
    const MetaReply& reply = adds ? replies[0] : replies[next++];
    const auto count = reply.code == Code::kMiss ? 0 : read_counter(reply.text);
    counts_[i] = count.value_or(0);
    if (count || !fault_.empty()) continue;
    fault_ = lane_->name() + ": " +
             (reply.code == Code::kError ? std::string(reply.text)
                                         : "'" + names_[i] + "' is no counter");
  }
}

void Count::on_replies(std::span<const MetaReply> replies) {
  if (stage_ == Stage::kAdds) return on_added(replies);
  if (stage_ == Stage::kLooks) {
    read(replies);
    return on_looked();
  }
  const auto error = std::ranges::find(replies, Code::kError, &MetaReply::code);
  if (error != replies.end()) return fail(lane_->name() + ": " + std::string(error->text));
  if (errand_ != nullptr && stage_ == Stage::kForgets) *errand_->decision = judge(0);
  finish();
}

void Count::on_added(std::span<const MetaReply> replies) {
  if (replies[0].code != Code::kValue) {  // Nothing was added.
    return fail(lane_->name() + ": " +
                (replies[0].code == Code::kError ? std::string(replies[0].text)
                                                 : "'" + names_[current_] + "' cannot be made"));
  }
  read(replies);
  const auto own = static_cast<std::uint64_t>(cost_);
  if (counts_[current_] == own) owner_.on_made(*lane_, names_[current_]);
  // Judged as if it had not been added yet. The units of one who has gone are of no use to anybody.
  counts_[current_] -= std::min(own, counts_[current_]);
  bool keeps = false;
  if (errand_ != nullptr && fault_.empty()) {
    *errand_->decision = judge(cost_);
    keeps = errand_->decision->allowed;
    owner_.on_decided(*std::exchange(errand_, nullptr));
  } else if (errand_ != nullptr) {
    owner_.on_failed(*std::exchange(errand_, nullptr), fault_);
  }
  if (keeps) return finish();
  given_[current_] = own;
  send(Stage::kGivesBack);
}

void Count::on_looked() {
  if (!fault_.empty()) return fail(fault_);
  if (errand_ == nullptr) return finish();
  if (errand_->requests[0].operation != Operation::kRefund) {
    *errand_->decision = judge(cost_);
    return finish();
  }
  // Newest first.
  auto left = static_cast<std::uint64_t>(cost_);
  for (std::size_t i = counts_.size(); i-- > 0;) {
    given_[i] = std::min(counts_[i], left);
    counts_[i] -= given_[i];
    left -= given_[i];
  }
  *errand_->decision = judge(0);
  stage_ = Stage::kGivesBack;
  if (commands() == 0) return finish();
  send(stage_);
}

void Count::on_lost(Loss loss, std::string_view why) {
  // Adding twice, or taking off twice, would be wrong; looking twice is not.
  const bool again = loss == Loss::kUnsent || stage_ == Stage::kLooks;
  if (!again || lane_->is_broken()) return fail(why);
  send(stage_);
}

std::string Count::abandon(Errand&) {
  errand_ = nullptr;
  return lane_->name() + " did not answer";
}

// REQUIRES: the errand is still there.
Decision Count::judge(std::int64_t cost) const {
  return judge_counts(*errand_->requests[0].limit, {counts_, current_},
                      {.now = now_, .cost = cost});
}

void Count::finish() {
  if (errand_ != nullptr) owner_.on_decided(*std::exchange(errand_, nullptr));
  owner_.on_counted(*this);
}

void Count::fail(std::string_view why) {
  if (errand_ != nullptr) owner_.on_failed(*std::exchange(errand_, nullptr), why);
  owner_.on_counted(*this);
}

}  // namespace sluice::memcached
