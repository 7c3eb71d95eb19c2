#include "protocols/http/response.h"

#include <array>
#include <boost/beast/http/status.hpp>
#include <ctime>

#include "core/number_text.h"

namespace sluice::http {
namespace {

std::string_view reason_of(int status) {
  const auto reason =
      boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(status));
  return {reason.data(), reason.size()};
}

void append_header(std::string& output, std::string_view name, std::string_view value) {
  output.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

std::string_view DateText::at(Instant now) {
  const std::int64_t second = now / kSecondNs;
  if (second != second_) {
    second_ = second;
    const std::time_t time = second;
    std::tm parts{};
    ::gmtime_r(&time, &parts);
    std::array<char, 64> text{};
    const std::size_t size =
        std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    text_.assign(text.data(), size);
  }
  return text_;
}

void write_response(std::string& output, const ResponseOptions& options, std::string_view date,
                    const Response& response) {
  output.append("HTTP/1.1 ");
  append_number(output, response.status);
  output.append(" ").append(reason_of(response.status)).append("\r\n");
  if (response.status == 100) {
    output.append("\r\n");
    return;
  }
  append_header(output, "Date", date);
  if (!response.content_type.empty()) append_header(output, "Content-Type", response.content_type);
  if (response.status != 204) {
    output.append("Content-Length: ");
    append_number(output, response.body.size());
    output.append("\r\n");
  }
  for (const HttpHeader& header : response.headers) {
    append_header(output, header.name, header.value);
  }
  if (options.closes) {
    append_header(output, "Connection", "close");
  } else if (options.says_keep_alive) {
    append_header(output, "Connection", "keep-alive");
  }
  output.append("\r\n");
  if (!options.omits_body) output.append(response.body);
}

void append_problem(std::string& output, const Problem& problem, const ProblemType& type) {
  output.append(R"({"type":)");
  append_json_string(output, type.type.empty() ? "about:blank" : type.type);
  output.append(R"(,"title":)");
  append_json_string(output, type.title.empty() ? reason_of(problem.status) : type.title);
  output.append(R"(,"status":)");
  append_number(output, problem.status);
  output.append(R"(,"detail":)");
  append_json_string(output, problem.detail);
  output.append(problem.members).append("}");
}

void write_problem(std::string& output, const ResponseOptions& options, std::string_view date,
                   const Problem& problem, const ProblemType& type) {
  std::string body;
  append_problem(body, problem, type);
  std::vector<HttpHeader> headers{{"Cache-Control", "no-store"}};
  if (!problem.allow.empty()) headers.push_back({"Allow", std::string(problem.allow)});
  if (problem.status == 401) headers.push_back({"WWW-Authenticate", "Bearer"});
  if (problem.retry_after_s != 0) {
    headers.push_back({"Retry-After", std::to_string(problem.retry_after_s)});
  }
  write_response(
      output, options, date,
      {.status = problem.status, .content_type = kProblemJson, .body = body, .headers = headers});
}

}  // namespace sluice::http
