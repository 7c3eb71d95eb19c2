#include "sluice/recipes.h"

#include <memory>
#include <utility>

#include "core/limit_syntax.h"
#include "core/safe_text.h"
#include "sluice/limit.h"

namespace sluice {
namespace {

std::string sentence(const std::string& expression, const std::string& name,
                     const Decision& decision) {
  std::string text = "'" + printable(name, 64) + "' has used up its limit, " + expression;
  if (decision.retry_after == kNever) return text;
  return text + ": try again in " + format_duration(decision.retry_after.count());
}

}  // namespace

Throttle::Throttle(std::shared_ptr<Store> store, std::string_view name)
    : store_(std::move(store)), name_(name) {}

Throttle& Throttle::allow(std::int64_t runs) {
  runs_ = runs;
  return *this;
}

Throttle& Throttle::every(std::chrono::nanoseconds window) {
  window_ = window;
  return *this;
}

Throttle& Throttle::block(std::chrono::nanoseconds patience) {
  patience_ = patience;
  return *this;
}

std::string Throttle::expression() const {
  return "fixed_window " + std::to_string(runs_) + "/" + std::to_string(window_.count()) +
         "ns anchor=first";
}

Decision Throttle::acquire() const {
  const Limit limit(expression(), "throttle." + std::to_string(window_.count()));
  return Limiter(store_, limit).acquire(name_, 1, patience_);
}

void Throttle::exceed(const Decision& decision) const {
  throw LimitExceeded(sentence(Limit(expression()).expression(), name_, decision), decision);
}

Funnel::Funnel(std::shared_ptr<Store> store, std::string_view name)
    : store_(std::move(store)), name_(name) {}

Funnel& Funnel::limit(std::int64_t runs) {
  runs_ = runs;
  return *this;
}

Funnel& Funnel::release_after(std::chrono::nanoseconds lease) {
  lease_ = lease;
  return *this;
}

Funnel& Funnel::block(std::chrono::nanoseconds patience) {
  patience_ = patience;
  return *this;
}

std::string Funnel::expression() const {
  return "concurrency " + std::to_string(runs_) + " lease=" + std::to_string(lease_.count()) + "ns";
}

Permit Funnel::acquire() const {
  const Limit limit(expression(), "funnel");
  return ConcurrencyLimiter(store_, limit).acquire(name_, patience_);
}

void Funnel::exceed(const Decision& decision) const {
  throw LimitExceeded(sentence(Limit(expression()).expression(), name_, decision), decision);
}

}  // namespace sluice
