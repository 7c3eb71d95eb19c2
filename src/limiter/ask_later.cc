#include "limiter/ask_later.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "limiter/waiting_lines.h"
#include "sluice/store.h"

namespace sluice {
namespace {

/// An inquiry that owns itself and whatever it refers to, until it is answered.
class OwnedInquiry : public Inquiry {
 public:
  // Its own from here on: it may be answered, and gone, before submit() returns.
  void ask(Store& store) {
    std::exception_ptr error;
    try {
      if (!store.submit_inquiry(*this)) return;
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    end(std::move(error));
  }

  void answered() noexcept final { end(nullptr); }

 private:
  virtual void tell(std::exception_ptr error) = 0;

  void end(std::exception_ptr error) {
    const std::unique_ptr<OwnedInquiry> self(this);
    const auto is_lost = [](const Decision& one) { return one.source == Source::kUnanswered; };
    if (!error && std::ranges::any_of(decisions, is_lost)) {
      error = std::make_exception_ptr(StoreError(fault));
    }
    tell(std::move(error));
  }
};

class OneAsked final : public OwnedInquiry {
 public:
  OneAsked(const BoundLimit& bound, const Request& request, DecisionCallback told)
      : bound_(bound), key_(request.key), request_(request), told_(std::move(told)) {
    request_.key = key_;
    requests = {&request_, 1};
    decisions = {&decision_, 1};
  }

 private:
  void tell(std::exception_ptr error) override {
    if (error) decision_ = {};
    told_(decision_, std::move(error));
  }

  const BoundLimit bound_;
  const std::string key_;
  Request request_;
  Decision decision_{.source = Source::kUnanswered};
  const DecisionCallback told_;
};

class ManyAsked final : public OwnedInquiry {
 public:
  ManyAsked(Questions questions, BatchCallback told)
      : bounds_(std::move(questions.bounds)),
        requests_(questions.requests.begin(), questions.requests.end()),
        decisions_(questions.together ? 1 : requests_.size(), {.source = Source::kUnanswered}),
        told_(std::move(told)) {
    copy_keys();
    requests = requests_;
    decisions = decisions_;
    together = questions.together;
  }

 private:
  void copy_keys() {
    std::size_t bytes = 0;
    for (const Request& request : requests_) bytes += request.key.size();
    keys_.reserve(bytes);
    for (Request& request : requests_) {
      const std::size_t begin = keys_.size();
      keys_.append(request.key);
      request.key = std::string_view(keys_).substr(begin);
    }
  }

  void tell(std::exception_ptr error) override { told_(std::move(decisions_), std::move(error)); }

  const std::vector<BoundLimit> bounds_;
  std::string keys_;
  std::vector<Request> requests_;
  std::vector<Decision> decisions_;
  const BatchCallback told_;
};

void ask_at_once(Store& store, const Request& request, const DecisionCallback& answered) {
  Decision decision;
  std::exception_ptr error;
  try {
    store.decide({&request, 1}, kStoreTime, {&decision, 1});
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  answered(decision, std::move(error));
}

}  // namespace

void ask_later(Store& store, const BoundLimit& bound, const Request& request,
               DecisionCallback answered) {
  if (store.answers_later()) {
    (new OneAsked(bound, request, std::move(answered)))->ask(store);
  } else {
    ask_at_once(store, request, answered);
  }
}

void ask_later(Store& store, Questions questions, BatchCallback answered) {
  (new ManyAsked(std::move(questions), std::move(answered)))->ask(store);
}

DecisionCallback then_wake(const BoundLimit& bound, std::string_view key, DecisionCallback told) {
  return [space = bound.space.get(), key = std::string(key), told = std::move(told)](
             const Decision& decision, std::exception_ptr error) {
    if (!error) space->companion<WaitingLines>().released(key);
    told(decision, std::move(error));
  };
}

}  // namespace sluice
