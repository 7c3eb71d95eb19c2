#include "stores/url.h"

#include <algorithm>

#include "core/limit_syntax.h"
#include "core/near_miss.h"
#include "core/read_number.h"

namespace sluice {
namespace {

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_host(std::string_view host) {
  return !host.empty() && std::ranges::all_of(host, [](char c) {
    return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_';
  });
}

// Checks only the form; the system checks the address when it is used. A zone may follow a '%'.
bool is_ipv6(std::string_view address) {
  return address.find(':') != address.npos && std::ranges::all_of(address, [](char c) {
           return is_letter_or_digit(c) || c == ':' || c == '.' || c == '%';
         });
}

// The text on one line, with control characters replaced.
std::string printable(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(
      line, [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return line;
}

// The position of the first option with a password.
std::size_t find_password_option(std::string_view url) {
  return std::min({url.find("?password="), url.find("&password="), url.find("sentinel_password=")});
}

std::string without_password_option(std::string_view url) {
  const std::size_t option = find_password_option(url);
  if (option == url.npos) return printable(url);
  return printable(url.substr(0, url.find('=', option) + 1)) + "***";
}

// The ':' of the first server that is followed by no port: by a password, if "@host" is missing.
std::size_t find_wrong_port(std::string_view url) {
  const std::size_t slashes = url.find("://");
  if (slashes == url.npos) return url.npos;
  const std::size_t end = std::min(url.find_first_of("/?", slashes + 3), url.size());
  for (std::size_t begin = slashes + 3; begin < end;) {
    const std::size_t next = std::min(url.find(',', begin), end);
    const bool is_ipv6 = url[begin] == '[';
    const std::size_t colon = url.find(':', is_ipv6 ? std::min(url.find(']', begin), next) : begin);
    if (colon < next && url.find_first_not_of("0123456789", colon + 1) < next) return colon;
    begin = next + 1;
  }
  return url.npos;
}

// The password of an invalid URL may be anywhere before its last '@', and that of an option may
// extend to the end. So all of that is hidden: too much rather than too little.
std::string without_password(std::string_view url) {
  const std::size_t at = url.rfind('@');
  if (at == url.npos) {
    const std::size_t colon = find_wrong_port(url);
    if (colon == url.npos) return without_password_option(url);
    return printable(url.substr(0, colon + 1)) + "***";
  }
  const std::size_t slashes = url.find("://");
  std::size_t begin = slashes < at ? slashes + 3 : std::min(at, url.find(':') + 1);
  const std::size_t colon = url.find(':', begin);
  if (colon < at) begin = colon + 1;
  // One may be inside the other.
  const std::size_t option = find_password_option(url);
  if (option < at) return printable(url.substr(0, std::min(begin, option))) + "***";
  return printable(url.substr(0, begin)) + "***" + without_password_option(url.substr(at));
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
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
  text_ = without_password(url);
  const std::size_t colon = url.find(':');
  if (colon == url.npos) fail("a store is written scheme:, as in memory:");
  scheme_ = url.substr(0, colon);
  std::string_view rest = url.substr(colon + 1);
  has_authority_ = rest.starts_with("//");
  std::string_view authority;
  if (has_authority_) {
    rest.remove_prefix(2);
    authority = rest.substr(0, rest.find_first_of("/?"));
    rest.remove_prefix(authority.size());
  }
  // This '@' ends a password that contains a '/' or '?' which is not escaped. The text before it
  // appears in no error message, since this is the only one.
  if (rest.find('@') != rest.npos)
    fail("an '@' is written %40, and a '/' or '?' before it %2F, %3F");
  read_authority(authority);
  path_ = decode(cut(rest, '?'), "the path");
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
    user_ = decode(cut(who, ':'), "the user");
    password_ = decode(who, "the password");
  }
  if (authority.empty()) return;
  if (authority.ends_with(',')) fail("a host is missing after the last ','");
  while (!authority.empty()) read_host(cut(authority, ','));
}

void StoreUrl::read_host(std::string_view host) {
  if (hosts_.size() == kMaxHosts) fail("at most " + std::to_string(kMaxHosts) + " hosts are named");
  StoreHost read;
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
    if (read.port == 0) fail("the port of '" + read.host + "' is a whole number from 1 to 65535");
  }
  hosts_.push_back(std::move(read));
}

void StoreUrl::read_options(std::string_view query) {
  while (!query.empty()) {
    const std::string_view pair = cut(query, '&');
    const std::size_t equals = pair.find('=');
    if (equals == pair.npos) {
      // After an option it may belong to a password.
      fail((options_.empty() ? "'" + printable(pair) + "'"
                             : "what follows the option '" + options_.back().name + "'") +
           " is not an option=value");
    }
    std::string name = printable(pair.substr(0, equals));
    for (const Option& option : options_) {
      if (option.name == name) fail("the option '" + name + "' is given twice");
    }
    std::string value = decode(pair.substr(equals + 1), "the option '" + name + "'");
    options_.push_back({.name = std::move(name), .value = std::move(value)});
  }
}

std::string StoreUrl::decode(std::string_view escaped, std::string_view what) const {
  std::string text;
  while (!escaped.empty()) {
    char c = escaped.front();
    escaped.remove_prefix(1);
    if (c == '%') {
      const int high = escaped.size() < 2 ? -1 : hex_digit(escaped[0]);
      const int low = escaped.size() < 2 ? -1 : hex_digit(escaped[1]);
      if (high < 0 || low < 0) {
        fail("in " + std::string(what) + " a '%' is followed by two hexadecimal digits");
      }
      c = static_cast<char>(high * 16 + low);
      escaped.remove_prefix(2);
    }
    // A C string, such as a path, would end there.
    if (c == '\0') fail("in " + std::string(what) + " a zero byte cannot be");
    text += c;
  }
  return text;
}

std::vector<StoreHost> StoreUrl::hosts(std::uint16_t default_port) const {
  std::vector<StoreHost> hosts = hosts_;
  for (StoreHost& host : hosts) {
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
  return read_duration(name, *value, range, "");
}

std::optional<std::int64_t> StoreUrl::duration_or_no_option(std::string_view name,
                                                            const OptionRange& range) {
  const std::string* value = find(name);
  if (value == nullptr) return std::nullopt;
  return *value == "no" ? 0 : read_duration(name, *value, range, ", or no");
}

// `otherwise` says what else the value could be.
std::int64_t StoreUrl::read_duration(std::string_view name, std::string_view value,
                                     const OptionRange& range, std::string_view otherwise) const {
  std::int64_t duration_ns = 0;
  try {
    duration_ns = parse_duration(value, 0, value.size());
  } catch (const InvalidLimit&) {
    duration_ns = 0;  // Below every range.
  }
  if (duration_ns < std::max<std::int64_t>(range.least, 1) || duration_ns > range.most) {
    fail(std::string(name) + " is a duration, as 10ms or 1m30s, from " +
         format_duration(range.least) + " to " + format_duration(range.most) +
         std::string(otherwise));
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
  throw StoreError("store '" + known_text() + "': " + printable(message));
}

// An option that is not known may be a misspelt password, which may extend to the end.
std::string StoreUrl::known_text() const {
  std::string_view rest = text_;
  std::string known(cut(rest, '?'));
  for (char separator = '?'; !rest.empty(); separator = '&') {
    const std::string_view pair = cut(rest, '&');
    const std::string_view name = pair.substr(0, pair.find('='));
    const bool is_known = std::ranges::find(known_, name) != known_.end();
    known += separator + std::string(is_known ? pair : name);
    if (!is_known) return known + (name == pair ? "" : "=***");
  }
  return known;
}

}  // namespace sluice
