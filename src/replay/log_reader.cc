// The common format is
//     host ident user [day/month/year:hour:minute:second zone] "request" status bytes
// and the combined one adds "referer" "user agent". Inside quotes a backslash escapes a quote. In a
// log of several sites the virtual host comes first, as in Apache's vhost_combined:
//     example.com:80 host ident user [...

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>

#include "core/ascii.h"
#include "replay/record.h"

namespace sluice::replay {
namespace {

enum Field : std::size_t {
  kIp,
  kIdent,
  kUser,
  kTime,
  kMethod,
  kPath,
  kProtocol,
  kStatus,
  kBytes,
  kRequest,
  kVhost,
  kReferer,
  kUserAgent,
  kFieldCount,
};

constexpr std::array<std::string_view, kFieldCount> kNames = {
    "ip",     "ident", "user",    "time",  "method",  "path",      "protocol",
    "status", "bytes", "request", "vhost", "referer", "user_agent"};

constexpr std::size_t kDateBytes = sizeof("17/May/2015") - 1;
constexpr std::size_t kTimeBytes = sizeof("17/May/2015:10:05:03 +0000") - 1;

/// A heuristic: operating systems choose client ports from here on or higher (Linux from 32768),
/// and the usual server ports (80, 443, 8080, 8443, 9443) are below.
constexpr int kFirstClientPort = 10'000;

/// The number of exactly `digits` digits at `at`, which is in range; -1 if they are no digits.
int digits_at(std::string_view text, std::size_t at, std::size_t digits) {
  int number = 0;
  for (const char c : text.substr(at, digits)) {
    if (c < '0' || c > '9') return -1;
    number = number * 10 + (c - '0');
  }
  return number;
}

/// Converts "17/May/2015:10:05:03 +0000" to an instant. Successive lines often have the same
/// second, and nearly always the same day, so it caches both.
class LogClock {
 public:
  bool read(std::string_view text, Instant& time_ns) {
    if (known_ == kTimeBytes && std::memcmp(text.data(), last_.data(), kTimeBytes) == 0) {
      time_ns = last_ns_;
      return true;
    }
    if (known_ == 0 || std::memcmp(text.data(), last_.data(), kDateBytes) != 0) {
      known_ = 0;
      day_s_ = read_day(text);
      if (day_s_ == kNoDay) return false;
    }
    known_ = kDateBytes;
    std::memcpy(last_.data(), text.data(), kTimeBytes);
    std::int64_t second = 0;
    if (!read_second(text.substr(kDateBytes), second)) return false;
    const std::int64_t seconds = day_s_ + second;
    if (seconds < 0 || seconds >= kEndOfTime / kSecondNs) return false;
    last_ns_ = time_ns = seconds * kSecondNs;
    known_ = kTimeBytes;
    return true;
  }

 private:
  static constexpr std::int64_t kNoDay = std::numeric_limits<std::int64_t>::min();

  static std::int64_t read_day(std::string_view text) {
    constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
    const std::size_t month = kMonths.find(text.substr(3, 3));
    if (month == std::string_view::npos || month % 3 != 0) return kNoDay;
    const int day = digits_at(text, 0, 2);
    const int year = digits_at(text, 7, 4);
    if (text[2] != '/' || text[6] != '/' || day < 1 || year < 0) return kNoDay;
    const std::chrono::year_month_day date{std::chrono::year(year),
                                           std::chrono::month(static_cast<unsigned>(month / 3 + 1)),
                                           std::chrono::day(static_cast<unsigned>(day))};
    if (!date.ok()) return kNoDay;
    return std::int64_t{std::chrono::sys_days(date).time_since_epoch().count()} * 86'400;
  }

  /// ":10:05:03 +0200" as seconds after the day's UTC midnight.
  static bool read_second(std::string_view text, std::int64_t& second) {
    const int hour = digits_at(text, 1, 2);
    const int minute = digits_at(text, 4, 2);
    const int of_minute = digits_at(text, 7, 2);
    const int zone_hour = digits_at(text, 11, 2);
    const int zone_minute = digits_at(text, 13, 2);
    const bool fine = text[0] == ':' && text[3] == ':' && text[6] == ':' && text[9] == ' ' &&
                      (text[10] == '+' || text[10] == '-') && hour >= 0 && hour < 24 &&
                      minute >= 0 && minute < 60 && of_minute >= 0 && of_minute <= 60 &&
                      zone_hour >= 0 && zone_hour < 24 && zone_minute >= 0 && zone_minute < 60;
    if (!fine) return false;
    const int zone = (zone_hour * 60 + zone_minute) * 60;
    second = (hour * 60 + minute) * 60 + of_minute - (text[10] == '+' ? zone : -zone);
    return true;
  }

  /// The last text, of which the first known_ bytes (none, the date or all) were valid.
  std::array<char, kTimeBytes> last_{};
  std::size_t known_ = 0;
  Instant last_ns_ = 0;
  std::int64_t day_s_ = 0;
};

/// Splits a line field by field. Each function returns false if the line ends too early.
class Cutter {
 public:
  explicit Cutter(std::string_view line) : at_(line.data()), end_(line.data() + line.size()) {}

  bool skip(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  bool at_end() const { return at_ == end_; }

  /// Reads up to a space, and skips it.
  bool word(std::string_view& field) {
    const char* space = find(at_, ' ');
    if (space == nullptr) return false;
    field = {at_, space};
    at_ = space + 1;
    return true;
  }

  /// Reads up to a space or the line's end.
  std::string_view last_word() {
    const char* space = find(at_, ' ');
    const std::string_view field{at_, space == nullptr ? end_ : space};
    at_ = field.data() + field.size();
    return field;
  }

  /// Reads up to the " [" before the time, and skips it; without a time, up to the first one. A
  /// user's name may contain spaces and brackets, but no quote that is not escaped, so a client
  /// cannot write the end of a time into it.
  bool up_to_bracket(std::string_view& field) {
    const char* found = nullptr;
    for (const char* from = at_; const char* bracket = find(from, '['); from = bracket + 1) {
      if (bracket == at_ || bracket[-1] != ' ') continue;
      const bool is_time = is_time_at(bracket + 1);
      if (found == nullptr || is_time) found = bracket;
      if (is_time) break;
    }
    if (found == nullptr) return false;
    field = {at_, found - 1};
    at_ = found + 1;
    return true;
  }

  bool fixed(std::size_t bytes, std::string_view& field) {
    if (static_cast<std::size_t>(end_ - at_) < bytes) return false;
    field = {at_, bytes};
    at_ += bytes;
    return true;
  }

  /// Reads text in quotes; the closing quote is not escaped by a backslash and ends the field.
  bool quoted(std::string_view& field) {
    if (!skip('"')) return false;
    for (const char* from = at_; const char* quote = find(from, '"'); from = quote + 1) {
      if (quote != at_ && quote[-1] == '\\' && is_escaped(quote)) continue;
      if (quote + 1 != end_ && quote[1] != ' ') continue;
      field = {at_, quote};
      at_ = quote + 1;
      return true;
    }
    return false;
  }

 private:
  const char* find(const char* from, char c) const {
    return static_cast<const char*>(std::memchr(from, c, static_cast<std::size_t>(end_ - from)));
  }

  /// Whether as many bytes as a time has are followed by what follows a time.
  bool is_time_at(const char* at) const {
    constexpr std::string_view kBehind = "] \"";
    return std::string_view(at, end_)
        .substr(std::min<std::size_t>(kTimeBytes, static_cast<std::size_t>(end_ - at)))
        .starts_with(kBehind);
  }

  bool is_escaped(const char* quote) const {
    const char* first = quote;
    while (first != at_ && first[-1] == '\\') --first;
    return (quote - first) % 2 == 1;
  }

  const char* at_;
  const char* end_;
};

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_digit);
}

bool is_number_or_dash(std::string_view text) {
  return text == "-" || is_number(text);
}

/// The port, or -1.
int read_port(std::string_view text) {
  if (text.empty() || text.size() > 5) return -1;
  const int port = digits_at(text, 0, text.size());
  return port > 65'535 ? -1 : port;
}

/// Whether `word` is a virtual host: "example.com:80", "192.0.2.1:80", "[2001:db8::1]:80" or
/// "web1". In the logs of proxies, this position may have a forwarded address instead: one without
/// a port or with a client's port, a list of them, or "unknown".
bool is_virtual_host(std::string_view word) {
  if (word == "unknown" || word.find(',') != std::string_view::npos) return false;
  const std::size_t colon = word.rfind(':');
  const std::string_view host = word.substr(0, colon);
  const bool in_brackets = host.starts_with('[');
  const bool is_address =
      in_brackets || host.find_first_not_of("0123456789.") == std::string_view::npos;
  if (colon == std::string_view::npos) return !is_address;
  const int port = read_port(word.substr(colon + 1));
  if (port < 0 || (!in_brackets && host.find(':') != std::string_view::npos)) return false;
  return !is_address || port < kFirstClientPort;
}

/// Whether a word is what another program puts before a line, and cannot be a forwarded address:
/// it begins with an RFC 3339 date, is a number (a time, an id), or ends like "nginx[7]:".
bool is_prefix(std::string_view word) {
  constexpr std::string_view kDate = "dddd-dd-ddT";
  const auto is_like = [](char c, char like) { return like == 'd' ? is_digit(c) : c == like; };
  if (std::ranges::equal(word.substr(0, kDate.size()), kDate, is_like)) return true;
  if (!word.starts_with('[') && word.ends_with("]:")) return true;
  return word.find_first_not_of("0123456789.") == std::string_view::npos &&
         std::ranges::count(word, '.') <= 1;
}

/// How what was parsed as the user begins if a word precedes the client or its proxy.
constexpr std::string_view kNoIdent = "- ";

/// With a virtual host, or with a forwarded address before that of the proxy, every word is one
/// position later: the client or the proxy was parsed as the ident, and the ident, which is "-", as
/// the start of the user.
void part_first_word(std::vector<std::string_view>& fields) {
  fields[kVhost] = "-";
  if (fields[kIdent] == "-" || !fields[kUser].starts_with(kNoIdent)) return;
  if (is_prefix(fields[kIp])) return;
  if (is_virtual_host(fields[kIp])) {
    fields[kVhost] = fields[kIp];
    fields[kIp] = fields[kIdent];
  }
  fields[kIdent] = fields[kUser].substr(0, 1);
  fields[kUser].remove_prefix(kNoIdent.size());
}

/// Whether something else than one of these precedes the client, such as the time and the program
/// of syslog: the words "client - -" are then inside what was parsed as the user, or it begins with
/// the ident. A list of forwarded addresses looks alike, but its first address ends with a comma.
bool has_prefix(const std::vector<std::string_view>& fields) {
  if (fields[kIdent] == "-" || fields[kIp].ends_with(',')) return false;
  return fields[kUser].starts_with(kNoIdent) || fields[kUser].find(" - ") != std::string_view::npos;
}

/// Splits "GET /path HTTP/1.1"; a missing part is "-", as everywhere in these logs.
void split_request(std::string_view request, std::vector<std::string_view>& fields) {
  fields[kRequest] = request;
  fields[kMethod] = fields[kPath] = fields[kProtocol] = "-";
  const std::size_t first = request.find(' ');
  if (first == std::string_view::npos) return;
  fields[kMethod] = request.substr(0, first);
  std::string_view rest = request.substr(first + 1);
  const std::size_t last = rest.rfind(' ');
  if (last != std::string_view::npos && rest.substr(last + 1).starts_with("HTTP/")) {
    fields[kProtocol] = rest.substr(last + 1);
    rest = rest.substr(0, last);
  }
  fields[kPath] = rest;
}

class LogReader : public LineReader {
 public:
  explicit LogReader(Format format)
      : is_combined_(format == Format::kCombined),
        field_count_(is_combined_ ? std::size_t{kFieldCount} : std::size_t{kReferer}) {}

  std::optional<std::size_t> slot(std::string_view name) override {
    const auto end = kNames.begin() + static_cast<std::ptrdiff_t>(field_count_);
    const auto* const found = std::find(kNames.begin(), end, name);
    if (found == end) return std::nullopt;
    return static_cast<std::size_t>(found - kNames.begin());
  }

  std::vector<std::string_view> names() const override {
    return {kNames.begin(), kNames.begin() + static_cast<std::ptrdiff_t>(field_count_)};
  }

  bool is_target(std::size_t slot) const override { return slot == kPath; }

  std::string_view default_key() const override { return "{ip}"; }

  Reading read(std::string_view line, Record& record, std::string& reason) override {
    record.cost = 1;
    record.fields.resize(kFieldCount);
    const char* error = cut(line, record);
    if (error == nullptr) return Reading::kRecord;
    reason = error;
    return Reading::kUnreadable;
  }

 private:
  /// Returns null, or a message.
  const char* cut(std::string_view line, Record& record) {
    std::vector<std::string_view>& fields = record.fields;
    if (line.empty()) return "an empty line";
    Cutter cutter(line);
    if (!cutter.word(fields[kIp])) return "no client address";
    bool is_list = fields[kIp].ends_with(',');
    bool is_whole = cutter.word(fields[kIdent]);
    // The others of a list of forwarded addresses, which a client may end with a comma, are
    // skipped.
    while (is_whole && is_list && fields[kIdent] != "-") {
      is_list = fields[kIdent].ends_with(',');
      is_whole = cutter.word(fields[kIdent]);
    }
    if (!is_whole || !cutter.up_to_bracket(fields[kUser])) {
      return "no [time] after the client address, ident and user";
    }
    part_first_word(fields);
    if (has_prefix(fields)) return "text before the client address that is no virtual host";
    // The first of a list is the client, however many proxies follow.
    fields[kIp] = fields[kIp].substr(0, fields[kIp].find(','));
    if (fields[kIp].empty()) return "no client address";
    if (!cutter.fixed(kTimeBytes, fields[kTime]) || !cutter.skip(']') || !cutter.skip(' ')) {
      return "no time of the form [17/May/2015:10:05:03 +0000]";
    }
    if (!clock_.read(fields[kTime], record.time_ns)) {
      return "the time is not a date and time from 1970 to 2116";
    }
    std::string_view request;
    if (!cutter.quoted(request) || !cutter.skip(' ')) return "no \"request\" after the time";
    split_request(request, fields);
    if (!cutter.word(fields[kStatus]) || !is_number_or_dash(fields[kStatus])) {
      return "no status after the request";
    }
    fields[kBytes] = cutter.last_word();
    if (!is_number_or_dash(fields[kBytes])) return "no number of bytes after the status";
    if (!is_combined_) return nullptr;
    if (!cutter.skip(' ') || !cutter.quoted(fields[kReferer])) {
      return "no \"referer\" after the number of bytes";
    }
    if (!cutter.skip(' ') || !cutter.quoted(fields[kUserAgent])) {
      return "no \"user agent\" after the referer";
    }
    return nullptr;
  }

  bool is_combined_;
  std::size_t field_count_;
  LogClock clock_;
};

}  // namespace

std::unique_ptr<LineReader> make_log_reader(Format format) {
  return std::make_unique<LogReader>(format);
}

}  // namespace sluice::replay
