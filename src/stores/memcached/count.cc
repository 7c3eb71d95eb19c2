#include "stores/memcached/count.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/block.h"

namespace sluice::memcached {

void Count::ask(const Question& question, Lane& lane) {
  const Request& request = question.errand.requests[0];
  const auto& space = static_cast<const MemcachedSpace&>(*request.space);
  const SubWindows& windows = question.windows;
  lane_ = &lane;
  errand_ = &question.errand;
  errand_->holder = static_cast<Query*>(this);
  now_ = question.now;
  answered_by_ = question.answered_by;
  expiry_s_ = question.expiry_s;
  operation_ = request.operation;
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
  space.counter_name_of(request.key, "block", block_name_);
  counts_.assign(size, 0);
  given_.assign(size, 0);
  blocked_until_ = 0;
  block_token_.reset();
  wrapped_ = false;
  fault_.clear();
  // Of units that can never be admitted none is added.
  const std::int64_t most = operation_ == Operation::kCharge ? kMaxCount : judge(0).limit;
  units_ = static_cast<std::uint64_t>(std::min(cost_, most));
  send(first_stage());
}

Count::Stage Count::first_stage() const {
  switch (operation_) {
    case Operation::kReset:
      return Stage::kForgets;
    case Operation::kTake:
      return cost_ > 0 && judge(cost_).allowed ? Stage::kAdds : Stage::kLooks;
    case Operation::kTakeUpTo:
    case Operation::kCharge:
      return cost_ > 0 ? Stage::kAdds : Stage::kLooks;
    default:
      return Stage::kLooks;
  }
}

void Count::send(Stage stage) {
  stage_ = stage;
  // A token is of use to the connection only by which it came.
  if (stage == Stage::kBlocks) {
    lane_->send_now(*this);
  } else {
    lane_->send(*this);
  }
}

std::size_t Count::commands() const {
  if (stage_ == Stage::kBlocks) return 1;
  if (stage_ != Stage::kGivesBack) return names_.size() + 1;
  return names_.size() - static_cast<std::size_t>(std::ranges::count(given_, 0U));
}

void Count::write(std::string& output, std::uint32_t number) {
  // For one who has gone nothing is done any more, but what was added for them is taken back.
  const bool takes_back = stage_ == Stage::kGivesBack && operation_ != Operation::kRefund;
  if (errand_ == nullptr && !takes_back) stage_ = Stage::kLooks;
  if (stage_ == Stage::kBlocks) {
    const std::string until = std::to_string(blocked_until_);
    return append_set(output, {block_name_, until, expiry_s_, block_token_}, number);
  }
  // Units are added before anything is looked at, so that of two who race one sees both.
  if (stage_ == Stage::kAdds) append_add(output, {names_[current_], units_, expiry_s_}, number++);
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (stage_ == Stage::kForgets) {
      append_delete(output, {names_[i], std::nullopt}, number++);
    } else if (stage_ == Stage::kGivesBack) {
      if (given_[i] > 0) append_subtract(output, {names_[i], given_[i], wrapped_}, number++);
    } else if (stage_ == Stage::kLooks || i != current_) {
      append_get(output, names_[i], number++);
    }
  }
  if (stage_ == Stage::kForgets) append_delete(output, {block_name_, std::nullopt}, number);
  if (stage_ == Stage::kLooks || stage_ == Stage::kAdds) append_get(output, block_name_, number);
}

bool Count::can_be(const MetaReply& reply) const {
  switch (reply.code) {
    case Code::kValue:
    case Code::kMiss:
      return stage_ == Stage::kLooks || stage_ == Stage::kAdds;
    case Code::kDone:
    case Code::kNotFound:
      return stage_ == Stage::kForgets || stage_ == Stage::kGivesBack || stage_ == Stage::kBlocks;
    case Code::kNotStored:  // Somebody else made the item at the same moment.
      return stage_ == Stage::kAdds || stage_ == Stage::kBlocks;
    case Code::kExists:
      return stage_ == Stage::kBlocks;
    case Code::kError:
      return true;
  }
  return false;
}

// Sets fault_ at the first reply that is no number.
void Count::read(std::span<const MetaReply> replies) {
  for (std::size_t i = 0, next = stage_ == Stage::kAdds ? 1 : 0; i < counts_.size(); ++i) {
    const bool adds = stage_ == Stage::kAdds && i == current_;
    const MetaReply& reply = adds ? replies[0] : replies[next++];
    counts_[i] = read_number(reply, names_[i], std::numeric_limits<std::uint64_t>::max());
  }
  const MetaReply& block = replies.back();
  blocked_until_ = static_cast<Instant>(read_number(block, block_name_, kLastBlock));
  block_token_.reset();
  if (block.code == Code::kValue) block_token_ = block.token;
}

// Sets fault_ where counters may have lapsed, or begun, since they were asked for.
void Count::expect_in_time() {
  if (!fault_.empty() || wall_now() <= answered_by_) return;
  fault_ = lane_->name() + " answered two sub-windows late: others may have begun since";
}

std::uint64_t Count::read_number(const MetaReply& reply, const std::string& name,
                                 std::uint64_t most) {
  const auto number = reply.code == Code::kMiss ? 0 : read_counter(reply.text);
  if (number && *number <= most) return *number;
  if (fault_.empty()) {
    fault_ = lane_->name() + ": " +
             (reply.code == Code::kError ? std::string(reply.text)
                                         : "'" + name + "' holds no number that belongs there");
  }
  return 0;
}

void Count::on_replies(std::span<const MetaReply> replies) {
  if (stage_ == Stage::kAdds) return on_added(replies);
  if (stage_ == Stage::kLooks) {
    read(replies);
    return on_looked();
  }
  const auto error = std::ranges::find(replies, Code::kError, &MetaReply::code);
  if (error != replies.end()) return fail(lane_->name() + ": " + std::string(error->text));
  if (stage_ == Stage::kBlocks) return on_blocked(replies[0]);
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
  if (counts_[current_] == units_) owner_.on_made(*lane_, names_[current_]);
  const auto sum = read_counter(replies[0].text);
  wrapped_ = sum && *sum < units_;
  // Judged as if they had not been added yet: where the sum was too large for a counter, this
  // difference is what was there all the same. The units of one who has gone are of no use to
  // anybody, but those that are charged have been used.
  counts_[current_] -= units_;
  std::uint64_t kept = 0;
  if (operation_ == Operation::kCharge && fault_.empty()) counts_[current_] += kept = charged();
  expect_in_time();
  if (errand_ != nullptr && fault_.empty()) {
    const Verdict judged = verdict();
    kept += static_cast<std::uint64_t>(judged.units);
    *errand_->decision = judged.decision;
    owner_.on_decided(*std::exchange(errand_, nullptr));
  } else if (errand_ != nullptr) {
    owner_.on_failed(*std::exchange(errand_, nullptr), fault_);
  }
  if (kept == units_) return finish();
  given_[current_] = units_ - kept;
  send(Stage::kGivesBack);
}

// Of the units that are charged so many as the sum can hold.
std::uint64_t Count::charged() const {
  auto room = static_cast<std::uint64_t>(kMaxCount);
  for (const std::uint64_t count : counts_) room -= std::min(room, count);
  return std::min(room, units_);
}

void Count::on_looked() {
  expect_in_time();
  if (!fault_.empty()) return fail(fault_);
  if (errand_ == nullptr) return finish();
  if (operation_ == Operation::kRefund) return refund();
  if (operation_ == Operation::kBlock) return block();
  *errand_->decision = verdict().decision;
  finish();
}

// Newest units first.
void Count::refund() {
  auto left = static_cast<std::uint64_t>(cost_);
  for (std::size_t i = counts_.size(); i-- > 0;) {
    given_[i] = std::min(counts_[i], left);
    counts_[i] -= given_[i];
    left -= given_[i];
  }
  *errand_->decision = verdict().decision;
  stage_ = Stage::kGivesBack;
  if (commands() == 0) return finish();
  send(stage_);
}

void Count::block() {
  if (block_token_ == 0U) return fail(lane_->no_tokens());
  const Instant before = blocked_until_;
  blocked_until_ = block_until(before, now_, errand_->requests[0].duration_ns);
  *errand_->decision = verdict().decision;
  if (blocked_until_ == before) return finish();
  send(Stage::kBlocks);
}

void Count::on_blocked(const MetaReply& reply) {
  // Somebody else has blocked it at the same moment, or lifted the block: look again.
  if (reply.code != Code::kDone) return send(Stage::kLooks);
  if (!block_token_) owner_.on_made(*lane_, block_name_);
  finish();
}

void Count::on_lost(Loss loss, std::string_view why) {
  // Adding twice, or taking off twice, would be wrong; looking twice is not.
  const bool again = loss == Loss::kUnsent || stage_ == Stage::kLooks;
  if (!again || lane_->is_broken()) return fail(why);
  send(stage_ == Stage::kBlocks ? Stage::kLooks : stage_);
}

std::string_view Count::abandon(Errand&) {
  errand_ = nullptr;
  return lane_->late();
}

// REQUIRES: the errand is still there.
Decision Count::judge(std::int64_t cost) const {
  return judge_counts(*errand_->requests[0].limit, {counts_, current_},
                      {.now = now_, .cost = cost});
}

// REQUIRES: as judge().
Count::Verdict Count::verdict() const {
  Verdict result;
  if (operation_ == Operation::kTake) result.units = cost_;
  if (operation_ == Operation::kTakeUpTo && cost_ > 0) {
    // Where there is nothing to take, one unit is denied.
    result.units = std::clamp<std::int64_t>(judge(0).remaining, 1, cost_);
  }
  result.decision = judge(result.units);
  if (now_ < blocked_until_) {
    const bool taking = takes(operation_, cost_);
    const Decision there = taking && result.decision.allowed ? judge(0) : result.decision;
    result.decision = block_decision(there, taking, now_, blocked_until_);
  }
  if (!result.decision.allowed) result.units = 0;
  if (operation_ == Operation::kTakeUpTo) result.decision.taken = result.units;
  return result;
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
