// For any body of a POST there is one answer: JSON of the length that the head says, with a status
// that the interface has. The connection stays usable, and a chunked body gets the same answer; but
// if there is no such path or method, it is not read, and the connection is closed.

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "http_connection.h"
#include "protocols/http/handler.h"
#include "testing/served_store.h"

namespace {

using sluice::check;

constexpr std::array<std::string_view, 12> kPaths = {
    "/v1/check",         "/v1/peek",           "/v1/take",    "/v1/refund", "/v1/charge",
    "/v1/reset",         "/v1/block",          "/v1/reserve", "/v1/commit", "/v1/permits/acquire",
    "/v1/permits/renew", "/v1/permits/release"};
constexpr std::array kStatuses = {200, 204, 400, 404, 409, 410, 413, 421, 429, 503};
constexpr std::string_view kNext = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

std::string head_of(std::string_view path) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
}

// A store without states, so that equal requests have equal answers. It denies keys of even length.
const std::shared_ptr<sluice::ScriptedStore>& store() {
  static const auto made = [] {
    auto store = sluice::still_store();
    store->says = [](const sluice::Request& request) {
      return sluice::Decision{.allowed = request.key.size() % 2 == 1, .limit = 5};
    };
    return store;
  }();
  return made;
}

std::string reply_to(std::string_view bytes) {
  static const sluice::MakeHandler server = sluice::server_over(store());
  store()->asked.clear();
  store()->batches.clear();
  return sluice::replies_to(bytes, bytes.size(), server);
}

struct Response {
  int status = 0;
  std::string_view body;
  bool closes = false;
};

// Checks the head of the response, and that the response to kNext follows unless it closes.
Response response_of(std::string_view reply) {
  const std::size_t end = reply.find("\r\n\r\n");
  check(reply.starts_with("HTTP/1.1 ") && end != reply.npos);
  const int status = std::stoi(std::string(reply.substr(9, 3)));
  check(std::ranges::find(kStatuses, status) != kStatuses.end());
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  const std::size_t length = reply.substr(0, end).find(kLength);
  check((length == reply.npos) == (status == 204));
  const std::size_t size =
      length == reply.npos ? 0 : std::stoul(std::string(reply.substr(length + kLength.size(), 8)));
  const bool closes = reply.substr(0, end).find("\r\nConnection: close") != reply.npos;
  reply.remove_prefix(end + 4);
  const std::string_view next = reply.substr(size);
  check(closes ? next.empty() : next.starts_with("HTTP/1.1 200 "));
  return {status, reply.substr(0, size), closes};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  // The first byte says what is asked; the rest is the body.
  const std::string_view path = kPaths[data[0] % kPaths.size()];
  const std::string body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string length = "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  const std::string whole = head_of(path) + length + body + std::string(kNext);
  const std::string reply = reply_to(whole);
  const Response response = response_of(reply);
  const std::string_view answer = response.body;
  check(!response.closes);
  boost::json::error_code error;
  if (!answer.empty()) boost::json::parse({answer.data(), answer.size()}, error);
  check(!error);
  // Names of reservations and permits are random.
  if (answer.find("\"reservation\"") != answer.npos || answer.find("\"permit\"") != answer.npos) {
    return 0;
  }
  std::string chunks = head_of(path) + "Transfer-Encoding: chunked\r\n\r\n";
  for (const char byte : body) chunks += std::string("1\r\n") + byte + "\r\n";
  chunks += "0\r\n\r\n" + std::string(kNext);
  const std::string chunked_reply = reply_to(chunks);
  const Response chunked = response_of(chunked_reply);
  check(chunked.body == answer && chunked.status == response.status);
  check(!chunked.closes || response.status == 404 || response.status == 405);
  return 0;
}
