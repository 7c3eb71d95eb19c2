#include "stores/redis/server_error.h"

#include <array>
#include <charconv>
#include <utility>

#include "stores/redis/slots.h"

namespace sluice::redis {
namespace {

using Kind = ServerError::Kind;

constexpr std::array<std::pair<std::string_view, Kind>, 11> kKinds{{
    {"MOVED", Kind::kMoved},
    {"ASK", Kind::kAsk},
    {"TRYAGAIN", Kind::kTryAgain},
    {"CLUSTERDOWN", Kind::kClusterDown},
    {"LOADING", Kind::kLoading},
    {"MASTERDOWN", Kind::kLoading},
    {"BUSY", Kind::kBusy},
    {"READONLY", Kind::kReadOnly},
    {"NOSCRIPT", Kind::kNoScript},
    {"NOAUTH", Kind::kNoAuth},
    {"NOPERM", Kind::kNoPerm},
}};

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  return read.ec == std::errc{} && read.ptr == end;
}

// "3999 127.0.0.1:6381", the host perhaps empty or an IPv6 address.
bool read_direction(std::string_view text, ServerError& error) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos) return false;
  const std::string_view address = text.substr(space + 1);
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return false;
  error.host = address.substr(0, colon);
  if (error.host == "?") error.host.clear();  // It does not know its own name.
  return read_number(text.substr(0, space), error.slot) && error.slot < kSlots &&
         read_number(address.substr(colon + 1), error.port) && error.port != 0;
}

}  // namespace

ServerError read_server_error(std::string_view text) {
  // What comes out of a script names the place in it, and may have come after something was done.
  if (text.find("@user_script") != text.npos) return {};
  const std::size_t space = text.find(' ');
  const std::string_view word = text.substr(0, space);
  for (const auto& [name, kind] : kKinds) {
    if (word != name) continue;
    // Who may not run the command itself may not touch any key with it.
    if (kind == Kind::kNoPerm && text.find(" to run the ") != text.npos) return {};
    ServerError error{.kind = kind};
    if (kind != Kind::kMoved && kind != Kind::kAsk) return error;
    if (space != std::string_view::npos && read_direction(text.substr(space + 1), error)) {
      return error;
    }
    return {};
  }
  return {};
}

}  // namespace sluice::redis
