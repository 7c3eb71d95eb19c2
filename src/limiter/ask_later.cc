#include "limiter/ask_later.h"

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "sluice/store.h"

namespace sluice {
namespace {

/// A question that owns itself and whatever it refers to, until it is answered.
class OwnedInquiry final : public Inquiry {
 public:
  OwnedInquiry(const BoundLimit& bound, const Request& request, DecisionCallback told)
      : bound_(bound), key_(request.key), request_(request), told_(std::move(told)) {
    request_.key = key_;
    requests = {&request_, 1};
    decisions = {&decision_, 1};
  }

  void answered() noexcept override {
    const std::unique_ptr<OwnedInquiry> self(this);
    if (decision_.source == Source::kUnanswered) {
      told_({}, std::make_exception_ptr(StoreError(fault)));
    } else {
      told_(decision_, nullptr);
    }
  }

  /// As answered(), where it was refused at once.
  void failed(std::exception_ptr error) {
    const std::unique_ptr<OwnedInquiry> self(this);
    told_({}, std::move(error));
  }

 private:
  const BoundLimit bound_;
  const std::string key_;
  Request request_;
  Decision decision_{.source = Source::kUnanswered};
  const DecisionCallback told_;
};

void ask_at_once(Store& store, const Request& request, const DecisionCallback& answered) {
  Decision decision;
  std::exception_ptr error;
  try {
    store.decide({&request, 1}, kStoreTime, {&decision, 1});
  } catch (const StoreError&) {
    error = std::current_exception();
  }
  answered(decision, std::move(error));
}

}  // namespace

void ask_later(Store& store, const BoundLimit& bound, const Request& request,
               DecisionCallback answered) {
  if (!store.answers_later()) {
    ask_at_once(store, request, answered);
    return;
  }
  // Its own from here on: it may be answered, and gone, before submit() returns.
  auto* const inquiry = new OwnedInquiry(bound, request, std::move(answered));
  std::exception_ptr error;
  try {
    if (!store.submit(*inquiry)) return;
  } catch (const StoreError&) {
    error = std::current_exception();
  }
  if (error) {
    inquiry->failed(std::move(error));
  } else {
    inquiry->answered();
  }
}

}  // namespace sluice
