#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <memory>
#include <string>

#include "protocols/http/context.h"

namespace sluice::http {

/// A request for many independent decisions. They take several batches; while a store that answers
/// later decides one, the thread serves other connections. Each batch is for this request only, and
/// its replies are appended to results().
class CheckList {
 public:
  static constexpr std::size_t kMost = 1'000;

  /// The body has been parsed in this arena, and has an array "checks" of at most kMost.
  CheckList(std::unique_ptr<Arena> arena, boost::json::value body, const ResponseOptions& options);

  /// Adds the next checks to the batch, as many as it holds.
  void ask(ThreadState& thread, DecisionReplies& replies);

  std::string& results() { return results_; }
  bool is_done() const { return next_ == checks_.size(); }

  /// Appends the response. REQUIRES: is_done(), and the last batch has been answered.
  void respond(std::string& output, std::string_view date);

 private:
  const ResponseOptions options_;
  const std::unique_ptr<Arena> arena_;
  const boost::json::value body_;
  const boost::json::array& checks_;
  std::size_t next_ = 0;
  std::string results_;
};

}  // namespace sluice::http
