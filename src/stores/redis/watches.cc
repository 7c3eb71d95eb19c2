#include "stores/redis/watches.h"

#include <algorithm>
#include <utility>

namespace sluice::redis {

struct Watches::Listener {
  explicit Listener(std::function<void()> call) : released(std::move(call)) {}

  const std::function<void()> released;
  std::recursive_mutex mutex;  // Held while it is called: the watch may go within its own call.
  bool is_gone = false;
};

class Watches::Handle final : public Watch {
 public:
  Handle(std::shared_ptr<Watches> all, std::string channel, std::shared_ptr<Listener> listener)
      : all_(std::move(all)), channel_(std::move(channel)), listener_(std::move(listener)) {}
  ~Handle() override { all_->remove(channel_, listener_); }

 private:
  const std::shared_ptr<Watches> all_;
  const std::string channel_;
  const std::shared_ptr<Listener> listener_;
};

std::unique_ptr<Watch> Watches::add(std::string channel, std::function<void()> released) {
  const auto listener = std::make_shared<Listener>(std::move(released));
  const std::lock_guard lock(mutex_);
  const std::size_t bytes = channel.size() + std::max(bytes_, changed_bytes_);
  if (changed_ == nullptr || count_ == kMaxWatches || bytes > kMaxBytes) return nullptr;
  auto& listeners = channels_[channel];
  if (listeners.empty()) tell(channel);
  listeners.insert(listener);
  ++count_;
  bytes_ += channel.size();
  return std::make_unique<Handle>(shared_from_this(), std::move(channel), listener);
}

void Watches::remove(const std::string& channel, const std::shared_ptr<Listener>& listener) {
  {
    const std::lock_guard lock(listener->mutex);
    listener->is_gone = true;
  }
  const std::lock_guard lock(mutex_);
  const auto found = channels_.find(channel);
  found->second.erase(listener);
  --count_;
  bytes_ -= channel.size();
  if (!found->second.empty()) return;
  channels_.erase(found);
  tell(channel);
}

void Watches::note_change(const std::string& channel) {
  if (changes_.insert(channel).second) changed_bytes_ += channel.size();
}

void Watches::tell(const std::string& channel) {
  if (changed_ == nullptr) return;
  // While there are no watches, the subscriber may have dropped its connection and the changes.
  const bool is_new = changes_.empty() || channels_.size() <= 1;
  note_change(channel);
  if (is_new) changed_();
}

std::set<std::string> Watches::take_changed() {
  const std::lock_guard lock(mutex_);
  changed_bytes_ = 0;
  return std::exchange(changes_, {});
}

void Watches::change_all() {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, listeners] : channels_) note_change(name);
}

bool Watches::wants(const std::string& channel) const {
  const std::lock_guard lock(mutex_);
  return channels_.contains(channel);
}

bool Watches::empty() const {
  const std::lock_guard lock(mutex_);
  return channels_.empty();
}

void Watches::call(const std::string& channel) const {
  std::set<std::shared_ptr<Listener>> listeners;
  {
    const std::lock_guard lock(mutex_);
    const auto found = channels_.find(channel);
    if (found != channels_.end()) listeners = found->second;
  }
  for (const auto& listener : listeners) {
    const std::lock_guard lock(listener->mutex);
    if (!listener->is_gone) listener->released();
  }
}

void Watches::close() {
  const std::lock_guard lock(mutex_);
  changed_ = nullptr;
}

}  // namespace sluice::redis
