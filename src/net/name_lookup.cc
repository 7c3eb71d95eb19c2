#include "net/name_lookup.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace sluice {
namespace {

constexpr int kMaxHelpers = 4;

}  // namespace

/// Shared by its asker and the helper that works on it, either of which may go first. Goes back to
/// the loop itself, so that no memory is taken for an answer.
class NameLookup::Question final : public Task {
 public:
  Question(EventLoop& loop, const Endpoint& endpoint, Found found, Resolve resolve)
      : endpoint_{.host = endpoint.host, .port = endpoint.port},
        resolve_(resolve),
        loop_(&loop),
        found_(std::move(found)) {}

  FoundAddresses ask() const { return resolve_(endpoint_); }

  void forget() {
    const std::lock_guard lock(mutex_);
    loop_ = nullptr;
  }

  void answer(FoundAddresses addresses) { answer_ = std::move(addresses); }

  /// Sends the answer to the loop. The lock is held meanwhile, so that the loop lives.
  static void send(const std::shared_ptr<Question>& question) {
    const std::lock_guard lock(question->mutex_);
    if (question->loop_ != nullptr) question->loop_->post(question);
  }

  void run() override {
    Found found;
    {
      const std::lock_guard lock(mutex_);
      if (loop_ == nullptr) return;
      found = std::move(found_);
    }
    found(std::move(answer_));
  }

 private:
  const Endpoint endpoint_;
  const Resolve resolve_;
  // The helper's until it is sent, then the loop's. Made while there is memory for it.
  FoundAddresses answer_{{}, "there is no memory for it"};
  std::mutex mutex_;
  EventLoop* loop_;  // Null: nobody waits any more. Guarded by mutex_, as is what follows.
  Found found_;
};

/// The helper threads and what waits for them. A helper that finds nothing to do ends.
class NameLookup::Helpers {
 public:
  /// Never destroyed: a helper may still be waiting for the resolver when the program ends.
  static Helpers& all() {
    static Helpers* const helpers = new Helpers;
    return *helpers;
  }

  void ask(const std::shared_ptr<Question>& question) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(question);
    if (helpers_ == kMaxHelpers) return;
    try {
      std::thread([this] { work(); }).detach();
      ++helpers_;
    } catch (const std::exception&) {
      if (helpers_ != 0) return;
      waiting_.pop_back();
      question->answer({{}, "the system starts no thread that could look it up"});
      Question::send(question);
    }
  }

  void forget(const std::shared_ptr<Question>& question) {
    const std::lock_guard lock(mutex_);
    std::erase(waiting_, question);
  }

 private:
  void work() {
    while (const std::shared_ptr<Question> question = next()) {
      try {
        question->answer(question->ask());
      } catch (const std::exception&) {
        // There is no memory for the answer, which stays the one that the question was made with.
      }
      Question::send(question);
    }
  }

  std::shared_ptr<Question> next() {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) {
      --helpers_;
      return nullptr;
    }
    std::shared_ptr<Question> question = std::move(waiting_.front());
    waiting_.pop_front();
    return question;
  }

  std::mutex mutex_;
  std::deque<std::shared_ptr<Question>> waiting_;  // At most one for each NameLookup there is.
  int helpers_ = 0;
};

NameLookup::NameLookup(EventLoop& loop, const Endpoint& endpoint, Found found, Resolve resolve)
    : question_(std::make_shared<Question>(loop, endpoint, std::move(found), resolve)) {
  Helpers::all().ask(question_);
}

NameLookup::~NameLookup() {
  Helpers::all().forget(question_);
  question_->forget();
}

}  // namespace sluice
