#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/operation.h"
#include "protocols/http/reservations.h"
#include "protocols/http/response.h"
#include "service/decision_batch.h"
#include "service/limit_registry.h"
#include "service/server_context.h"
#include "sluice/http_headers.h"

namespace sluice::http {

using SharedLimit = std::shared_ptr<const RegisteredLimit>;

/// The limit that applies to a key. Shares ownership of the named limit.
inline std::shared_ptr<const BoundLimit> bound_for(const SharedLimit& limit, std::string_view key) {
  return {limit, &limit->bound_for(key)};
}

/// How the response to a decision is written.
enum class Form : std::uint8_t {
  kCheck,        ///< 200 or 429, the decision and the headers of its limit.
  kTaken,        ///< The same, with the units that were taken.
  kDecision,     ///< 200 and the decision.
  kCommit,       ///< 200 and the decision; if there is none, the reservation is put back.
  kDone,         ///< 204.
  kReservation,  ///< As kCheck, with the reservation's name if it was given.
  kPermit,       ///< 200 and the permit, or as kCheck.
  kHeld,         ///< 200 and the permit, or 410.
  kAll,          ///< As kCheck, with each part.
  kAuth,         ///< The statuses that the request has chosen, and the headers.
  kResult,       ///< A decision in a list, followed by a comma: no response of its own.
};

/// What a response needs besides the decision.
struct ReplyDetail {
  Form form = Form::kCheck;
  ResponseOptions options = {};
  HeaderStyle style = HeaderStyle::kIetf11;
  /// kAuth: whether a denial has a body, and the statuses.
  bool has_problem = false;
  int allow_status = 204;
  int deny_status = 429;
  /// kPermit and kHeld.
  PermitId permit = 0;
  Source giver = Source::kStore;
  /// kReservation.
  std::optional<Reservations::Place> place = {};
  /// What is reserved (kReservation), or was reserved (kCommit).
  Reservations::Reserved reserved = {};
  /// kCommit: the commit, which ends when this is destroyed.
  std::optional<Reservations::Commit> commit = {};
  /// The limits that apply to the requests' keys: one, or several that are decided together.
  boost::container::small_vector<std::shared_ptr<const BoundLimit>, 1> limits = {};
};

/// Writes the responses to decisions. Belongs to one connection.
class DecisionReplies final : public ReplyWriter {
 public:
  DecisionReplies(const Store& store, DateText& date, Reservations& reservations)
      : store_(store), date_(date), reservations_(reservations) {}

  /// The tag of a request with this response, until clear().
  std::uint32_t tag_with(ReplyDetail detail) {
    details_.push_back(std::move(detail));
    return static_cast<std::uint32_t>(details_.size() - 1);
  }
  /// A new batch begins.
  void clear() { details_.clear(); }

  void write_decisions(std::span<const ReplySlot> slots, std::span<const Decision> decisions,
                       std::string& output) override;
  void write_unavailable(const ReplySlot& slot, std::string_view why, std::string& output) override;
  void write_together(const ReplySlot& slot, const Decision& whole, std::span<const Decision> parts,
                      std::string& output) override;
  void write_refused(const ReplySlot& slot, std::string_view why, std::string& output) override;

 private:
  using Answers = std::vector<std::pair<Limit, Decision>>;

  void write(ReplyDetail& detail, const Decision& whole, std::span<const Decision> parts,
             std::string& output);
  void write_body(ReplyDetail& detail, const Decision& whole, std::span<const Decision> parts);
  void write_denial_body(const ReplyDetail& detail, const Decision& whole);
  void note_answers(const ReplyDetail& detail, const Decision& whole,
                    std::span<const Decision> parts);
  std::vector<HttpHeader> limit_headers(HeaderStyle style, const Decision& whole) const;
  void write_unavailable_for(ReplyDetail& detail, std::string_view why, std::string& output);
  void write_problem_for(const ReplyDetail& detail, const Problem& problem, const ProblemType& type,
                         std::string& output);

  const Store& store_;
  DateText& date_;
  Reservations& reservations_;
  std::vector<ReplyDetail> details_;
  // The answers for the present response; members so that their memory is reused.
  Answers answers_;
  std::string body_;
};

/// Appends the members of a decision: `"allowed":true,"limit":5,...`.
void append_decision_members(std::string& output, const Decision& decision);

}  // namespace sluice::http
