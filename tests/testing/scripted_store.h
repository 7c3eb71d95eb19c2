#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/batch.h"
#include "core/store.h"
#include "sluice/health.h"
#include "stores/memory/memory_store.h"

namespace sluice {

/// The test double for stores: a memory store that the test controls. It answers at once, when the
/// test says so, or on a thread of its own. It can lose requests and report permits that other
/// processes release, and it records its requests.
///
/// Thread-safe, except for the members that a test sets and reads directly: use them only while no
/// other thread asks.
class ScriptedStore final : public Store {
 public:
  enum class Answers : std::uint8_t {
    kAtOnce,
    kWhenTold,        ///< A submitted batch waits for answer(). decide() is answered at once.
    kOnAnotherThread  ///< A submitted batch is answered on a thread of its own.
  };

  struct Asked {
    std::string key = {};
    Operation operation = Operation::kTake;
    std::int64_t cost = 1;
    std::int64_t patience_ns = kDefaultPatience;
    std::int64_t most_denial_age_ns = kMaxInt64;
    PermitId permit = 0;
    Source giver = Source::kStore;
    bool is_reclaim = false;
    Instant now = kStoreTime;

    friend bool operator==(const Asked&, const Asked&) = default;
  };

  struct Watched {
    std::shared_ptr<Space> space;
    std::string key = {};
  };

  ScriptedStore() = default;
  /// Completes pending requests as unavailable.
  ~ScriptedStore() override;

  /// @name What the test says
  /// @{
  Answers answers = Answers::kAtOnce;
  /// Which requests are lost: they are not carried out and not answered. If empty, none is.
  std::function<bool(const Request&)> loses;
  /// The error that says why a request was lost.
  std::string error = "the line is cut";
  /// Decides in the place of the memory, where it is set and returns a decision. An answer of
  /// kUnavailable is lost. Of requests that are asked together, it is called for the first.
  std::function<std::optional<Decision>(const Request&)> says;
  /// Runs once, after the next requests were decided and before the last of their answers arrives.
  std::function<void()> on_the_way;
  /// Its own time, where it is set; else the memory's.
  std::optional<Instant> clock;
  /// When the answers to submitted batches arrived (Batch::OuterStore); by default, just now.
  std::optional<std::chrono::steady_clock::time_point> arrived;
  /// What it says of its health.
  StoreHealth health = {};
  /// Can tell of permits that are released elsewhere.
  bool tells = false;
  /// Opens no space that is not open yet.
  bool refuses_spaces = false;
  /// open_space() throws this, where it is set.
  std::exception_ptr breaks = nullptr;

  void lose_all() {
    loses = [](const Request&) { return true; };
  }
  void lose_nothing() { loses = nullptr; }
  /// Requests are sent, and their replies are lost: the store may have carried them out.
  void lose_replies() {
    says = [](const Request&) {
      return Decision{.source = Source::kUnavailable, .taken = kTakenUnknown};
    };
  }
  /// Answers the batch that has waited longest, on this thread; waits for one to be submitted where
  /// none is pending. False where none is within ten seconds.
  bool answer();
  /// Answers all that is pending now.
  void answer_all();
  /// The batch that was submitted last is completed without the answers to requests for this key,
  /// or without any. They wait for answer() as another batch, if the store is that of a
  /// FallbackStore.
  void be_late(std::string_view key = {});
  /// It can be asked again.
  void come_back() { up_(); }
  /// A permit was released elsewhere: tells all that watch.
  void tell();
  /// @}

  /// @name What the test sees
  /// @{

  /// What was asked, in order: of a batch, when it was submitted.
  std::vector<Asked> asked;
  /// How many requests each batch, or group, of them had.
  std::vector<std::size_t> batches;
  /// How often a space was opened or replaced.
  int opened = 0;

  /// How many batches wait for answer().
  std::size_t pending() const;
  /// Returns once so many do. False where they do not within ten seconds.
  bool await_pending(std::size_t count) const;
  /// What is watched at the moment.
  std::vector<Watched> watched() const;
  /// How many callers hold spaces.
  std::size_t held_spaces() const;
  /// @}

  std::shared_ptr<Space> replace_space(const std::shared_ptr<Space>& held,
                                       const LimitDefinition& limit) override;
  void decide(std::span<const Request> requests, Instant now,
              std::span<Decision> decisions) override;
  using Store::decide_all;
  void decide_all(std::span<const Request> requests, Instant now, Decision& decision) override;
  void submit(std::unique_ptr<Batch> batch) override;
  void submit_and_wait(std::unique_ptr<Batch> batch) override;
  bool answers_later() const override { return answers != Answers::kAtOnce; }
  Watch watch(const std::shared_ptr<Space>& space, std::string_view key,
              std::function<void()> released) override;
  void add_health(StoreHealth& to) const override { to = health; }
  void on_up(std::function<void()> up) override { up_ = std::move(up); }
  Instant now() const override { return clock ? *clock : memory_.now(); }

 private:
  class Listener;

  Decision answer_to(std::span<const Request> requests, bool together, Instant now);
  void note(std::span<const Request> requests, Instant now);
  bool carry_out(std::span<const Request> requests, bool together, Instant now,
                 std::span<Decision> decisions, Batch* batch = nullptr);
  void carry_out(Batch& batch);

  std::function<void()> up_;
  std::mutex reply_mutex_;  // One reply at a time is told to batches.
  mutable std::mutex mutex_;
  mutable std::condition_variable submitted_;
  // Guarded by mutex_, as `asked`, `batches`, `opened` and what decides:
  MemoryStore memory_;
  std::deque<std::unique_ptr<Batch>> pending_;
  std::vector<std::thread> threads_;
  std::vector<const Listener*> listeners_;
  std::multimap<std::string, std::weak_ptr<Space>> spaces_;
};

}  // namespace sluice
