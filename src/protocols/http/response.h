#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/instant.h"
#include "core/safe_text.h"
#include "protocols/http/message.h"
#include "sluice/http_headers.h"

namespace sluice::http {

inline constexpr std::string_view kJson = "application/json";
inline constexpr std::string_view kProblemJson = "application/problem+json";

/// How the request wants its response.
struct ResponseOptions {
  bool omits_body = false;  ///< HEAD: only the headers of the body are sent.
  bool closes = false;      ///< The connection is closed after this response.
  bool says_keep_alive = false;
};

struct Response {
  int status = 200;
  /// Empty: there is no body.
  std::string_view content_type = {};
  std::string_view body = {};
  std::span<const HttpHeader> headers = {};
};

/// The text of a Date header, which changes each second. Not thread-safe.
class DateText {
 public:
  /// Valid until the next call.
  std::string_view at(Instant now);

 private:
  std::int64_t second_ = -1;
  std::string text_;
};

/// Appends responses. Beast's serializer would need its own containers of headers, which take as
/// much time as the rest of a request.
void write_response(std::string& output, const ResponseOptions& options, std::string_view date,
                    const Response& response);

/// The problem object (RFC 9457). `type` is a URI; empty for about:blank, where the title is the
/// status's reason.
struct ProblemType {
  std::string_view type = {};
  std::string_view title = {};
};
void append_problem(std::string& output, const Problem& problem, const ProblemType& type = {});

/// Appends a response whose body is the problem, with the headers that belong to it. No cache keeps
/// it: some would keep a 404, for example.
void write_problem(std::string& output, const ResponseOptions& options, std::string_view date,
                   const Problem& problem, const ProblemType& type = {});

/// The type of 503 while the store does not answer, and of 429, as the IANA registers them.
inline constexpr ProblemType kReducedCapacity = {
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
    "Temporary reduced capacity"};
inline constexpr ProblemType kQuotaExceeded = {
    "https://iana.org/assignments/http-problem-types#quota-exceeded", "Quota exceeded"};

}  // namespace sluice::http
