#pragma once

#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "conformance/every_store.h"
#include "conformance/scenario.h"
#include "model/model.h"
#include "sluice/limit.h"

namespace sluice::conformance {

/// A decision, and those that were combined to it: empty where the event does not want them.
struct Answer : Decision {
  std::vector<Decision> parts;

  friend bool operator==(const Answer&, const Answer&) = default;
};
/// Every field of all of them.
void showValue(const Answer& answer, std::ostream& out);

/// A newly opened store with the limits of a scenario. Thread-safe, like the store.
class Subject {
 public:
  Subject(const StoreCase& store, const Scenario& scenario, bool one_space = false);

  /// REQUIRES: the store can; no other thread uses it; no later event is before `now`.
  void restart(Instant now);

  Answer ask(const Event& event);
  /// Sends all events in one batch, at the instant of the first one.
  std::vector<Answer> ask_batch(std::span<const Event> events);
  /// Takes from all or none, at the instant of the first event, and asks for the decision of each.
  Answer ask_all(std::span<const Event> events);

 private:
  void open_spaces();
  Request request(const Event& event) const;

  std::function<std::shared_ptr<Store>(Store& store, Instant now)> restart_;
  std::shared_ptr<Store> store_;
  std::vector<Limit> limits_;
  std::vector<std::size_t> parts_;  // How many each limit has.
  std::vector<std::shared_ptr<Space>> spaces_;
};

/// The model with the same limits.
class Reference {
 public:
  explicit Reference(const Scenario& scenario, bool one_space = false)
      : scenario_(scenario), one_space_(one_space) {}

  Answer ask(const Event& event);
  Answer ask_all(std::span<const Event> events);

 private:
  model::ModelRequest request(const Event& event) const;

  Scenario scenario_;
  bool one_space_;
  model::Model model_;
};

}  // namespace sluice::conformance
