// The first line is the key parameter of a proxy's request, the next four say what its client
// asked, the last is any other header. For any input the proxy gets an answer. A key without fields
// is used as it is; the fields of a key can only be set by a trusted proxy.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "http_connection.h"
#include "protocols/http/handler.h"
#include "testing/served_store.h"

namespace {

using namespace sluice;

constexpr std::array<std::string_view, 5> kHeaders = {
    "X-Forwarded-For: ", "X-Forwarded-Method: ", "X-Forwarded-Host: ", "X-Forwarded-Uri: ",
    "X-Any: "};

// Encodes a text as a value of a query.
std::string encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string output;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    output += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return output;
}

struct Exchanged {
  std::string reply;
  std::vector<ScriptedStore::Asked> asked;
};

Exchanged ask(std::string_view key, std::string_view headers, const std::string& peer) {
  static const auto store = [] {
    auto made = still_store();
    made->says = [](const Request&) { return Decision{.allowed = true}; };
    return made;
  }();
  static const MakeHandler server = server_over(store);
  store->asked.clear();
  store->batches.clear();
  const std::string request = "GET /auth?limit=login&key=" + encoded(key) +
                              " HTTP/1.1\r\nHost: localhost\r\n" + std::string(headers) + "\r\n";
  const std::string reply = replies_to(request, request.size(), server, peer);
  return {reply, store->asked};
}

// Doubles each brace.
std::string literal(std::string_view text) {
  std::string output;
  for (const char c : text) output.append(c == '{' || c == '}' ? 2 : 1, c);
  return output;
}

std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(line.size() == text.size() ? line.size() : line.size() + 1);
  return line;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view key = take_line(text);
  std::string headers;
  for (const std::string_view name : kHeaders) {
    headers.append(name).append(take_line(text)).append("\r\n");
  }
  const Exchanged of_proxy = ask(key, headers, "127.0.0.1");
  check(of_proxy.reply.starts_with("HTTP/1.1 "));
  check(of_proxy.asked.size() == (of_proxy.reply.starts_with("HTTP/1.1 204 ") ? 1 : 0));

  const Exchanged of_text = ask(literal(key), {}, "127.0.0.1");
  if (of_text.reply.starts_with("HTTP/1.1 204 ")) check(of_text.asked[0].key == key);

  // {header:...} may name any header, also X-Any, which no proxy sets.
  if (key.find("header:") != key.npos) return 0;
  const Exchanged of_other = ask(key, headers, "203.0.113.9");
  const Exchanged of_silent = ask(key, {}, "203.0.113.9");
  if (of_other.asked.empty()) return 0;  // A header that is none.
  check(of_other.asked == of_silent.asked);
  return 0;
}
