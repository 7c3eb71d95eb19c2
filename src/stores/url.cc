#include "stores/url.h"

#include <algorithm>

#include "core/ascii.h"
#include "core/limit_syntax.h"
#include "core/near_miss.h"
#include "core/read_number.h"
#include "core/safe_text.h"

namespace sluice {
namespace {

bool is_host(std::string_view host) {
  return !host.empty() && std::ranges::all_of(host, is_in_names);
}

// Checks only the form; the system checks the address when it is used. A zone may follow a '%'.
bool is_ipv6(std::string_view address) {
  return address.find(':') != address.npos && std::ranges::all_of(address, [](char c) {
           return is_letter_or_digit(c) || c == ':' || c == '.' || c == '%';
         });
}

bool is_letter_or_plus(char c) {
  return (c >= 'a' && c <= 'z') || c == '+';
}

bool is_option_letter(char c) {
  return (c >= 'a' && c <= 'z') || c == '_';
}

bool is_control(unsigned char c) {
  return c < ' ' || c == 0x7f;
}

// Removes and returns the text before the separator, or all of it if there is none.
std::string_view cut(std::string_view& text, char separator) {
  const std::string_view before = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), before.size() + 1));
  return before;
}

}  // namespace

StoreUrl::StoreUrl(std::string_view url) {
  if (url.size() > kMaxBytes) {
    throw StoreError("store: its URL has " + std::to_string(url.size()) + " bytes, at most " +
                     std::to_string(kMaxBytes));
  }
  std::string_view rest = url;
  const std::string_view scheme = cut(rest, ':');
  if (scheme.size() == url.size() || !std::ranges::all_of(scheme, is_letter_or_plus)) {
    fail("a store is written scheme:, as in memory:");
  }
  scheme_ = scheme;
  if (std::ranges::any_of(url, is_control)) fail("a control character in it is written %xx");
  has_authority_ = rest.starts_with("//");
  std::string_view authority;
  if (has_authority_) {
    rest.remove_prefix(2);
    authority = rest.substr(0, rest.find_first_of("/?"));
    rest.remove_prefix(authority.size());
  }
  // This '@' ends a password that contains a '/' or '?' which is not escaped.
  if (rest.find('@') != rest.npos)
    fail("an '@' is written %40, and a '/' or '?' before it %2F, %3F");
  text_ = scheme_ + (has_authority_ ? "://" : ":");
  read_authority(authority);
  const std::string_view path = cut(rest, '?');
  path_ = decode(path, "the path");
  text_ += path;
  read_options(rest);
}

void StoreUrl::read_authority(std::string_view authority) {
  if (const std::size_t at = authority.rfind('@'); at != authority.npos) {
    std::string_view who = authority.substr(0, at);
    authority.remove_prefix(at + 1);
    // A list in which each host has a user would otherwise name the last host alone.
    if (who.find('@') != who.npos) {
      fail("user and password stand once, before the first host; an '@' in them is written %40");
    }
    const std::string_view user = cut(who, ':');
    user_ = decode(user, "the user");
    password_ = decode(who, "the password");
    // A user without a password may be a password without a user.
    text_ += (who.empty() ? "" : std::string(user) + ":") + "***@";
  }
  text_ += authority;
  if (authority.empty()) return;
  if (authority.ends_with(',')) fail("a host is missing after the last ','");
  while (!authority.empty()) read_host(cut(authority, ','));
}

void StoreUrl::read_host(std::string_view host) {
  if (hosts_.size() == kMaxHosts) fail("at most " + std::to_string(kMaxHosts) + " hosts are named");
  Endpoint read;
  std::string_view port;
  if (host.starts_with('[')) {
    const std::size_t bracket = std::min(host.find(']'), host.size());
    read.host = decode(host.substr(1, bracket - 1), "an address");
    port = host.substr(std::min(bracket + 1, host.size()));
    if (!is_ipv6(read.host) || bracket == host.size() || (!port.empty() && port[0] != ':')) {
      fail("an IPv6 address is written [address] or [address]:port");
    }
  } else {
    read.host = host.substr(0, host.find(':'));
    port = host.substr(read.host.size());
    if (!is_host(read.host)) {
      fail(
          "a host is made of letters, digits, '.', '-' and '_', or is an IPv6 address in brackets");
    }
  }
  if (!port.empty()) {
    if (!read_number(port.substr(1), read.port)) read.port = 0;
    if (read.port == 0) fail("a port is a whole number from 1 to 65535");
  }
  hosts_.push_back(std::move(read));
}

void StoreUrl::read_options(std::string_view query) {
  for (char separator = '?'; !query.empty(); separator = '&') {
    std::string_view value = cut(query, '&');
    const bool has_value = value.find('=') != value.npos;
    std::string name(cut(value, '='));
    if (!has_value || !std::ranges::all_of(name, is_option_letter)) {
      // It may belong to a password.
      fail("each option is written name=value, the name in small letters, as in deny_cache=1s");
    }
    if (std::ranges::find(options_, name, &Option::name) != options_.end()) {
      fail("the option '" + name + "' is given twice");
    }
    text_ += separator + name + "=" + (name.ends_with("password") ? "***" : std::string(value));
    std::string decoded = decode(value, "the option '" + name + "'");
    options_.push_back({.name = std::move(name), .value = std::move(decoded)});
  }
}

std::string StoreUrl::decode(std::string_view escaped, std::string_view what) const {
  std::string text;
  while (!escaped.empty()) {
    char c = escaped.front();
    escaped.remove_prefix(1);
    if (c == '%') {
      const int byte = hex_byte(escaped);
      if (byte < 0) {
        fail("in " + std::string(what) + " a '%' is followed by two hexadecimal digits");
      }
      c = static_cast<char>(byte);
      escaped.remove_prefix(2);
    }
    // A C string, such as a path, would end there.
    if (c == '\0') fail("in " + std::string(what) + " a zero byte cannot be");
    text += c;
  }
  return text;
}

std::vector<Endpoint> StoreUrl::hosts(std::uint16_t default_port) const {
  std::vector<Endpoint> hosts = hosts_;
  for (Endpoint& host : hosts) {
    if (host.port == 0) host.port = default_port;
  }
  return hosts;
}

const std::string* StoreUrl::find(std::string_view name) {
  known_.emplace_back(name);
  for (Option& option : options_) {
    if (option.name != name) continue;
    option.asked_for = true;
    return &option.value;
  }
  return nullptr;
}

std::optional<std::string> StoreUrl::text_option(std::string_view name) {
  const std::string* value = find(name);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<std::int64_t> StoreUrl::whole_option(std::string_view name,
                                                   const OptionRange& range) {
  const std::string* value = find(name);
  if (value == nullptr) return std::nullopt;
  std::int64_t number = 0;
  if (!read_number(*value, number) || number < range.least || number > range.most) {
    fail(std::string(name) + " is a whole number from " + std::to_string(range.least) + " to " +
         std::to_string(range.most));
  }
  return number;
}

std::optional<std::int64_t> StoreUrl::duration_option(std::string_view name,
                                                      const OptionRange& range) {
  const std::string* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (range.or_no && *value == "no") return 0;
  std::int64_t duration_ns = 0;
  try {
    duration_ns = parse_duration(*value, 0, value->size());
  } catch (const InvalidLimit&) {
    duration_ns = 0;  // Below every range.
  }
  if (duration_ns < std::max<std::int64_t>(range.least, 1) || duration_ns > range.most) {
    fail(std::string(name) + " is a duration, as 10ms or 1m30s, from " +
         format_duration(range.least) + " to " + format_duration(range.most) +
         (range.or_no ? ", or no" : ""));
  }
  return duration_ns;
}

std::optional<std::size_t> StoreUrl::word_option(std::string_view name,
                                                 std::initializer_list<std::string_view> words) {
  const std::string* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto* word = std::ranges::find(words, *value);
  if (word == words.end()) {
    std::string choices;
    for (const auto choice : words) {
      choices += (choices.empty() ? "" : " or ") + std::string(choice);
    }
    fail(std::string(name) + " is " + choices);
  }
  return static_cast<std::size_t>(word - words.begin());
}

bool StoreUrl::yes_no_option(std::string_view name, bool otherwise) {
  const auto word = word_option(name, {"no", "yes"});
  return word ? *word == 1 : otherwise;
}

void StoreUrl::finish() const {
  for (const Option& option : options_) {
    if (option.asked_for) continue;
    std::string there_are = known_.empty() ? "; there are none" : "; there are ";
    for (const std::string& name : known_) there_are += (&name == &known_[0] ? "" : ", ") + name;
    const std::vector<std::string_view> names(known_.begin(), known_.end());
    fail("there is no option '" + option.name + "'" + suggest_name(option.name, names) + there_are);
  }
}

void StoreUrl::fail(const std::string& message) const {
  // The path of a file may have any characters.
  throw StoreError("store" + (scheme_.empty() ? "" : " '" + scheme_ + ":'") + ": " +
                   printable(message, 4 * message.size()));
}

}  // namespace sluice
