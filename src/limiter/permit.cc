#include "sluice/permit.h"

#include <utility>

#include "limiter/held_permit.h"

namespace sluice {

Permit::Permit(Permit&& other) noexcept
    : decision_(std::exchange(other.decision_, {})), impl_(std::exchange(other.impl_, nullptr)) {}

Permit& Permit::operator=(Permit&& other) noexcept {
  if (this == &other) return *this;
  Permit last(std::move(*this));
  decision_ = std::exchange(other.decision_, {});
  impl_ = std::exchange(other.impl_, nullptr);
  return *this;
}

Permit::~Permit() {
  if (impl_ != nullptr) impl_->end();
}

bool Permit::held() const {
  return impl_ != nullptr && impl_->held();
}

void Permit::on_lapse(std::function<void()> callback) {
  if (impl_) impl_->on_lapse(std::move(callback));
}

void Permit::release() {
  if (impl_) impl_->release();
}

void Permit::ignore() {
  if (impl_) impl_->ignore();
}

}  // namespace sluice
