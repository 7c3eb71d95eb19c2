#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "protocols/http/context.h"

namespace sluice::http {

/// The body of a POST, which is a JSON object, kept in the thread's arena. Throws Problem: 415 if
/// it is not sent as application/json, 400 if it is not a JSON object.
boost::json::value parse_body(ThreadState& thread, const Message& message);

/// Reads the members of a JSON object, each once. Its functions throw Problem, which names the
/// wrong member.
class Members {
 public:
  struct Range {
    std::int64_t least = 0;
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
  };

  /// REQUIRES: the object outlives this.
  explicit Members(const boost::json::value& object);

  bool has(std::string_view name);
  /// A member of any type.
  const boost::json::value& value(std::string_view name) { return require(name); }
  /// A text of at most kMaxTextBytes. The view refers to the object.
  std::string_view text(std::string_view name);
  /// If the member is missing, `absent`; if there is no `absent`, the member is required.
  std::int64_t integer(std::string_view name, Range range, std::optional<std::int64_t> absent = {});
  bool flag(std::string_view name);
  const boost::json::array& array(std::string_view name);
  /// Throws Problem if the object has a member that was not read. REQUIRES: every member that the
  /// object may have has been read.
  void end() const;

  [[noreturn]] void refuse(const std::string& why) const;
  /// Throws Problem if the object has a member whose name is near to that of a missing one.
  void refuse_near_miss(std::string_view missing) const;

  /// As long as a command of RESP.
  static constexpr std::size_t kMaxTextBytes = 64 * 1024;

 private:
  static boost::json::string_view to_json(std::string_view text) {
    return {text.data(), text.size()};
  }
  /// Names the member that was probably meant, of those asked for.
  [[noreturn]] void refuse_unknown(std::string_view name) const;
  const boost::json::value* find(std::string_view name);
  const boost::json::value& require(std::string_view name);

  const boost::json::object& object_;
  boost::container::small_vector<std::string_view, 8> asked_;
  std::size_t found_ = 0;  // Of what was asked for.
};

}  // namespace sluice::http
