#include "stores/redis/watches.h"

#include <utility>

namespace sluice::redis {

class Watches::One final : public Watch {
 public:
  One(std::shared_ptr<Watches> all, std::string of, std::uint64_t id)
      : channel(std::move(of)), number(id), all_(std::move(all)) {}
  ~One() override { all_->remove(*this); }

  const std::string channel;
  const std::uint64_t number;

 private:
  const std::shared_ptr<Watches> all_;
};

std::unique_ptr<Watch> Watches::add(std::string channel, std::function<void()> released) {
  auto shared = std::make_shared<const std::function<void()>>(std::move(released));
  const std::lock_guard lock(mutex_);
  if (changed_ == nullptr || count_ == kMaxWatches || bytes_ + channel.size() > kMaxBytes) {
    return nullptr;
  }
  Ones& ones = channels_[channel];
  if (ones.empty()) tell(channel);
  ones.emplace(++made_, std::move(shared));
  ++count_;
  bytes_ += channel.size();
  return std::make_unique<One>(shared_from_this(), std::move(channel), made_);
}

// One that is being called is waited for, unless it goes from within that call.
void Watches::remove(const One& one) {
  std::unique_lock lock(mutex_);
  const auto found = channels_.find(one.channel);
  found->second.erase(one.number);
  --count_;
  bytes_ -= one.channel.size();
  if (found->second.empty()) {
    channels_.erase(found);
    tell(one.channel);
  }
  if (caller_ != std::this_thread::get_id()) {
    called_.wait(lock, [&] { return calling_ != one.number; });
  }
}

void Watches::tell(const std::string& channel) {
  if (changed_ == nullptr) return;
  const bool is_new = changes_.insert(channel).second;
  if (is_new && changes_.size() == 1) changed_();
}

std::set<std::string> Watches::take_changed() {
  const std::lock_guard lock(mutex_);
  return std::exchange(changes_, {});
}

std::vector<std::string> Watches::channels() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  names.reserve(channels_.size());
  for (const auto& [name, ones] : channels_) names.push_back(name);
  return names;
}

bool Watches::wants(const std::string& channel) const {
  const std::lock_guard lock(mutex_);
  return channels_.contains(channel);
}

bool Watches::empty() const {
  const std::lock_guard lock(mutex_);
  return channels_.empty();
}

void Watches::call(std::string_view channel) {
  const std::string name(channel);
  std::unique_lock lock(mutex_);
  // Those that come while others are called have nothing to be told yet.
  const std::uint64_t last = made_;
  caller_ = std::this_thread::get_id();
  while (true) {
    const auto found = channels_.find(name);
    if (found == channels_.end()) break;
    const auto next = found->second.upper_bound(calling_);
    if (next == found->second.end() || next->first > last) break;
    calling_ = next->first;
    Released released = next->second;
    lock.unlock();
    called_.notify_all();
    (*released)();
    released.reset();
    lock.lock();
  }
  calling_ = 0;
  caller_ = {};
  lock.unlock();
  called_.notify_all();
}

void Watches::close() {
  const std::lock_guard lock(mutex_);
  changed_ = nullptr;
}

}  // namespace sluice::redis
