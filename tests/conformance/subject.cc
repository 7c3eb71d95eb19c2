#include "conformance/subject.h"

#include <array>

namespace sluice::conformance {
namespace {

// Keys of several lengths, one of them with a zero byte.
std::string_view key_text(std::size_t key) {
  using namespace std::string_view_literals;
  static constexpr std::array kKeys = {"a"sv, "a\0b"sv, "203.0.113.77 GET /a/longer/key"sv, ""sv};
  return kKeys.at(key);
}

std::string space_name(std::size_t limit, bool one_space) {
  return one_space ? "space" : "space-" + std::to_string(limit);
}

}  // namespace

Subject::Subject(const StoreCase& store, const Scenario& scenario, bool one_space)
    : restart_(store.restart), store_(store.open()) {
  for (std::size_t i = 0; i < scenario.limits.size(); ++i) {
    limits_.emplace_back(expression(scenario.limits[i]), space_name(i, one_space));
    parts_.push_back(scenario.limits[i].size());
  }
  open_spaces();
}

void Subject::open_spaces() {
  for (const Limit& limit : limits_) spaces_.push_back(store_->open_space(limit.definition()));
}

void Subject::restart(Instant now) {
  spaces_.clear();
  store_ = restart_(*store_, now);
  open_spaces();
}

Request Subject::request(const Event& event) const {
  return {.limit = &limits_.at(event.limit).definition(),
          .space = spaces_.at(event.limit).get(),
          .key = key_text(event.key),
          .operation = event.operation,
          .cost = event.cost,
          .patience_ns = event.patience_ns,
          .duration_ns = event.duration_ns,
          .permit = event.permit,
          .uncounted_parts = event.uncounted_parts};
}

Answer Subject::ask(const Event& event) {
  return ask_batch({&event, 1}).front();
}

std::vector<Answer> Subject::ask_batch(std::span<const Event> events) {
  std::vector<Answer> answers(events.size());
  std::vector<Request> requests;
  for (std::size_t i = 0; i < events.size(); ++i) {
    requests.push_back(request(events[i]));
    if (events[i].wants_parts) answers[i].parts.resize(parts_.at(events[i].limit));
    requests[i].parts = answers[i].parts;
  }
  std::vector<Decision> decisions(requests.size());
  store_->decide(requests, events.front().now, decisions);
  for (std::size_t i = 0; i < events.size(); ++i) static_cast<Decision&>(answers[i]) = decisions[i];
  return answers;
}

Answer Subject::ask_all(std::span<const Event> events) {
  Answer answer;
  std::vector<Request> requests;
  for (const auto& event : events) requests.push_back(request(event));
  // Of several, each has a decision of its own before those of its parts.
  const std::size_t own = events.size() > 1 ? 1 : 0;
  std::vector<std::vector<Decision>> told;
  for (std::size_t i = 0; i < events.size(); ++i) {
    requests[i].parts = told.emplace_back(own + parts_.at(events[i].limit));
  }
  static_cast<Decision&>(answer) = store_->decide_all(requests, events.front().now);
  for (const auto& one : told) answer.parts.insert(answer.parts.end(), one.begin(), one.end());
  return answer;
}

void showValue(const Answer& answer, std::ostream& out) {
  sluice::showValue(static_cast<const Decision&>(answer), out);
  for (const Decision& part : answer.parts) {
    out << "\n    part ";
    sluice::showValue(part, out);
  }
}

model::ModelRequest Reference::request(const Event& event) const {
  return {.space = space_name(event.limit, one_space_),
          .limits = scenario_.limits.at(event.limit),
          .key = std::string(key_text(event.key)),
          .operation = event.operation,
          .cost = event.cost,
          .patience_ns = event.patience_ns,
          .duration_ns = event.duration_ns,
          .permit = event.permit,
          .uncounted_parts = event.uncounted_parts};
}

Answer Reference::ask(const Event& event) {
  Answer answer{model_.decide(request(event), event.now), {}};
  if (event.wants_parts) answer.parts = model_.parts();
  return answer;
}

Answer Reference::ask_all(std::span<const Event> events) {
  std::vector<model::ModelRequest> requests;
  for (const auto& event : events) requests.push_back(request(event));
  Answer answer{model_.decide_all(requests, events.front().now), {}};
  answer.parts = model_.parts();
  return answer;
}

}  // namespace sluice::conformance
