#include "core/store.h"

#include <utility>

namespace sluice {
namespace {

/// Stands between a Batch and a store that still takes an Inquiry.
class BatchInquiry final : public Inquiry {
 public:
  explicit BatchInquiry(std::unique_ptr<Batch> batch) : batch_(std::move(batch)) {
    requests = batch_->requests();
    decisions = batch_->decisions();
    together = batch_->is_together();
    now = batch_->now();
  }

  void answered() noexcept override {
    const std::unique_ptr<BatchInquiry> self(this);
    batch_->set_error(fault);
    Batch::complete(std::move(batch_));
  }

 private:
  std::unique_ptr<Batch> batch_;
};

}  // namespace

void Store::submit(std::unique_ptr<Batch> batch) {
  auto inquiry = std::make_unique<BatchInquiry>(std::move(batch));
  try {
    if (!submit_inquiry(*inquiry)) {
      static_cast<void>(inquiry.release());  // It ends itself when it is answered.
      return;
    }
  } catch (const StoreError& error) {
    inquiry->fault = error.what();
  }
  inquiry.release()->answered();
}

}  // namespace sluice
