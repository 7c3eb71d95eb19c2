#include "protocols/http/check_list.h"

#include "protocols/http/asking.h"

namespace sluice::http {
namespace {

const boost::json::array& require_few(const boost::json::array& checks) {
  if (checks.size() <= CheckList::kMost) return checks;
  throw Problem{.detail = "there are " + std::to_string(checks.size()) + " checks, at most " +
                          std::to_string(CheckList::kMost)};
}

}  // namespace

CheckList::CheckList(const boost::json::array& checks, const ResponseOptions& options)
    : options_(options),
      checks_(require_few(checks), boost::json::storage_ptr(&memory_)),
      results_(R"({"results":[)") {}

void CheckList::ask(ThreadState& thread, DecisionReplies& replies) {
  DecisionBatch& batch = thread.context.batch;
  for (std::size_t added = 0; added < DecisionBatch::kMaxRequests && !is_done(); ++added) {
    const std::size_t at = next_++;
    try {
      const Check check = read_check(thread, checks_[at], "checks[" + std::to_string(at) + "]: ");
      batch.add(check.request,
                {.tag = replies.tag_with({.form = Form::kResult}), .limit = check.limit->number},
                check.limit);
    } catch (const Problem& problem) {
      std::string& others = batch.other_replies(results_);
      append_problem(others, problem);
      others += ',';
    }
  }
}

void CheckList::respond(std::string& output, std::string_view date) {
  if (results_.ends_with(',')) results_.pop_back();
  results_.append("]}");
  write_response(output, options_, date, {.content_type = kJson, .body = results_});
}

}  // namespace sluice::http
