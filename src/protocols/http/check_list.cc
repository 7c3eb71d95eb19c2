#include "protocols/http/check_list.h"

#include <cassert>
#include <utility>

#include "protocols/http/asking.h"

namespace sluice::http {
namespace {

// The usual length of one decision in the results.
constexpr std::size_t kUsualBytes = 128;

}  // namespace

CheckList::CheckList(std::unique_ptr<Arena> arena, boost::json::value body,
                     const ResponseOptions& options)
    : options_(options),
      arena_(std::move(arena)),
      body_(std::move(body)),
      checks_(body_.as_object().at("checks").as_array()),
      results_(R"({"results":[)") {
  assert(checks_.size() <= kMost);
  results_.reserve(checks_.size() * kUsualBytes);
}

void CheckList::ask(ThreadState& thread, DecisionReplies& replies) {
  DecisionBatch& batch = thread.context.batch;
  const std::uint32_t tag = replies.tag_with({.form = Form::kResult});
  for (std::size_t added = 0; added < DecisionBatch::kMaxRequests && !is_done();) {
    const std::size_t opened = thread.context.limits.opened();
    try {
      const Check check = read_check(thread, checks_, next_++);
      batch.add(check.limit, check.request, {.tag = tag});
    } catch (const Problem& problem) {
      std::string& others = batch.other_replies(results_);
      append_problem(others, problem);
      others += ',';
    }
    added += batch.weight(thread.context.limits.opened() != opened);
  }
}

void CheckList::respond(std::string& output, std::string_view date) {
  assert(is_done());
  if (results_.ends_with(',')) results_.pop_back();
  results_.append("]}");
  write_response(output, options_, date, {.content_type = kJson, .body = results_});
}

}  // namespace sluice::http
