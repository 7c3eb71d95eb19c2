#include "server/yaml_file.h"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "core/limit_syntax.h"
#include "core/near_miss.h"
#include "core/safe_text.h"
#include "server/config_error.h"
#include "sluice/limit.h"

namespace sluice {
namespace {

/// What yaml-cpp most often means by messages that do not say it.
std::string hint_for(const std::string& message) {
  if (message == "bad file") return " (its values are nested too deeply)";
  if (message != "illegal map value") return "";
  return " (tabs cannot indent, and a value that ends with a colon needs quotes)";
}

/// Whether a byte order mark says that the text is UTF-16 or UTF-32, which has zero bytes.
bool is_wide(std::string_view text) {
  return text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
}

/// Keeps only where each document and its last scalar start.
class DocumentPlaces final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { start_ = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string&) override {
    last_scalar_ = mark;
  }
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  const YAML::Mark& start() const { return start_; }
  const YAML::Mark& last_scalar() const { return last_scalar_; }

 private:
  YAML::Mark start_;
  YAML::Mark last_scalar_ = YAML::Mark::null_mark();
};

// Whether the scalar at the start of `text` has an opening quote without a closing one.
bool is_unclosed(std::string_view text) {
  // An anchor and a tag may stand before it.
  while (text.starts_with('&') || text.starts_with('!')) {
    text.remove_prefix(std::min(text.size(), text.find_first_of(" \n")));
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \n")));
  }
  if (!text.starts_with('\'') && !text.starts_with('"')) return false;
  const char quote = text.front();
  for (std::size_t at = 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (text[at] == quote) {
      const bool is_escaped = quote == '\'' && at + 1 < text.size() && text[at + 1] == quote;
      if (!is_escaped) return false;
      ++at;
    }
  }
  return true;
}

std::string joined(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) {
    text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

}  // namespace

YamlFile YamlFile::open(const std::string& path) {
  const auto fail = [&path](const std::string& why) {
    throw ConfigError(path + ": the file cannot be read: " + why);
  };
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(std::generic_category().message(errno));
  std::string text(kMaxConfigBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) fail(std::generic_category().message(errno));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxConfigBytes) {
    fail("it has more than " + std::to_string(kMaxConfigBytes) + " bytes");
  }
  return {std::move(text), path};
}

YamlFile::YamlFile(std::string text, std::string path)
    : text_(std::move(text)), path_(std::move(path)) {
  // A byte order mark, which counts in no column.
  if (text_.starts_with("\xEF\xBB\xBF")) text_.erase(0, 3);
  if (!is_wide(text_)) refuse_zeros();
  // The first document. On some input yaml-cpp finds empty documents without end, so they must
  // never be read until there are no more.
  try {
    root_ = YAML::Load(text_);
  } catch (const YAML::Exception& error) {
    fail_at(error.mark, "this is not YAML: " + error.msg + hint_for(error.msg));
  }
  if (root_.IsNull()) fail(root_, "the file is empty");
  if (!root_.IsMap()) fail(root_, "the file must be a map, with 'limits:' for example");
  check_documents();
}

// Refuses zero bytes: a file that was not written whole may have them in the place of its end.
// yaml-cpp takes them for a part of a comment, or for backslashes.
void YamlFile::refuse_zeros() const {
  const std::size_t zero = text_.find('\0');
  if (zero == std::string::npos) return;
  const auto before = std::string_view(text_).substr(0, zero);
  YAML::Mark mark;
  mark.line = static_cast<int>(std::ranges::count(before, '\n'));
  mark.column = static_cast<int>(zero - (before.rfind('\n') + 1));  // rfind() may be npos.
  fail_at(mark, "this is not YAML: a byte is zero: was it written whole, and as UTF-8?");
}

// Refuses a second document, and a quote that the end of the file closes, which yaml-cpp accepts.
void YamlFile::check_documents() const {
  std::istringstream text(text_);
  DocumentPlaces places;
  bool has_second = false;
  try {
    YAML::Parser parser(text);
    parser.HandleNextDocument(places);
    const YAML::Mark last = places.last_scalar();
    if (!last.is_null() && is_unclosed(std::string_view(text_).substr(offset_of(last)))) {
      fail_at(last, "the quote that begins here is not closed");
    }
    has_second = parser.HandleNextDocument(places);
  } catch (const YAML::Exception& error) {
    fail_at(error.mark, "this is not YAML: " + error.msg);
  }
  if (has_second) fail_at(places.start(), "there is a second document");
}

void YamlFile::fail_at(const YAML::Mark& mark, const std::string& sentence) const {
  // An empty document has no position.
  const int line = mark.is_null() ? 0 : mark.line;
  const int column = mark.is_null() ? 0 : mark.column;
  throw ConfigError(path_ + ":" + std::to_string(line + 1) + ":" + std::to_string(column + 1) +
                    ": " + sentence);
}

void YamlFile::fail(const YAML::Node& at, const std::string& sentence) const {
  fail_at(at.Mark(), sentence);
}

void YamlFile::fail_value(const YamlMember& member, const std::string& sentence) const {
  fail(member.value.IsNull() ? member.key : member.value, sentence);
}

void YamlFile::fail_within(const YAML::Node& text, std::size_t offset,
                           const std::string& sentence) const {
  YAML::Mark mark = text.Mark();
  if (mark.is_null()) fail_at(mark, sentence);
  const std::size_t begin = line_begin(mark.line);
  const std::string_view line =
      std::string_view(text_).substr(begin, text_.find('\n', begin) - begin);
  auto column = static_cast<std::size_t>(mark.column);
  if (column < line.size() && (line[column] == '"' || line[column] == '\'')) ++column;
  const std::string& value = text.Scalar();
  if (column <= line.size() && line.substr(column).starts_with(value)) {
    mark.column = static_cast<int>(column + std::min(offset, value.size()));
  }
  fail_at(mark, sentence);
}

// Where the line begins in the text; lines count from 0.
std::size_t YamlFile::line_begin(int line) const {
  std::size_t begin = 0;
  for (int i = 0; i < line; ++i) {
    const std::size_t end = text_.find('\n', begin);
    if (end == std::string::npos) return text_.size();
    begin = end + 1;
  }
  return begin;
}

std::size_t YamlFile::offset_of(const YAML::Mark& mark) const {
  return std::min(text_.size(), line_begin(mark.line) + static_cast<std::size_t>(mark.column));
}

std::vector<YamlMember> YamlFile::members(const YAML::Node& map, const std::string& what) const {
  if (!map.IsMap()) fail(map, what + " must be a map");
  std::vector<YamlMember> all;
  std::set<std::string> names;
  for (const auto& entry : map) {
    if (!entry.first.IsScalar()) fail(entry.first, "a name in " + what + " must be a text");
    const std::string& name = entry.first.Scalar();
    if (name.empty()) fail(entry.first, "a name in " + what + " is empty");
    if (!names.insert(name).second) {
      fail(entry.first, "'" + without_url(name) + "' is there twice in " + what);
    }
    all.push_back({name, entry.first, entry.second});
  }
  return all;
}

std::vector<YamlMember> YamlFile::members(const YAML::Node& map, const std::string& what,
                                          std::span<const std::string_view> known) const {
  std::vector<YamlMember> all = members(map, what);
  for (const YamlMember& member : all) {
    if (std::ranges::find(known, member.name) != known.end()) continue;
    fail(member.key, "there is no '" + without_url(member.name) + "' in " + what +
                         suggest_name(member.name, known) + "; there can be " + joined(known));
  }
  return all;
}

std::string YamlFile::text(const YamlMember& member, std::string_view example) const {
  if (!member.value.IsScalar() || member.value.Scalar().empty()) {
    fail_value(member, "'" + member.name + "' must be a text like " + std::string(example));
  }
  return member.value.Scalar();
}

std::vector<YamlMember> YamlFile::items(const YamlMember& member) const {
  if (!member.value.IsSequence()) return {member};
  std::vector<YamlMember> all;
  for (const auto& item : member.value) all.push_back({member.name, item, item});
  return all;
}

std::size_t YamlFile::choice(const YamlMember& member,
                             std::span<const std::string_view> choices) const {
  std::string names;
  for (const std::string_view each : choices) {
    if (!names.empty()) names += each == choices.back() ? " or " : ", ";
    names += each;
  }
  const auto at =
      member.value.IsScalar() ? std::ranges::find(choices, member.value.Scalar()) : choices.end();
  if (at == choices.end()) fail_value(member, "'" + member.name + "' must be " + names);
  return static_cast<std::size_t>(at - choices.begin());
}

bool YamlFile::yes_or_no(const YamlMember& member) const {
  bool value = false;
  if (!member.value.IsScalar() || !YAML::convert<bool>::decode(member.value, value)) {
    fail_value(member, "'" + member.name + "' must be yes or no");
  }
  return value;
}

bool YamlFile::is_no(const YamlMember& member) const {
  return member.value.IsScalar() && !member.value.as<bool>(true);
}

std::chrono::nanoseconds YamlFile::duration(const YamlMember& member,
                                            std::chrono::nanoseconds least,
                                            std::chrono::nanoseconds most,
                                            std::string_view otherwise) const {
  const std::string written = text(member, "5s");
  std::int64_t duration_ns = 0;
  // A limit has no window of zero, but here zero can have a meaning.
  const bool is_zero = written == "0" || written == "0s";
  try {
    if (!is_zero) duration_ns = parse_duration(written, 0, written.size());
  } catch (const InvalidLimit& error) {
    fail_within(member.value, error.position(),
                "'" + member.name + "' must be a duration like 5s or 1m30s" +
                    std::string(otherwise) + "; the units are ns us ms s m h d w");
  }
  if (duration_ns < least.count() || duration_ns > most.count()) {
    fail_value(member, "'" + member.name + "' must be from " + format_duration(least.count()) +
                           " to " + format_duration(most.count()) + std::string(otherwise));
  }
  return std::chrono::nanoseconds(duration_ns);
}

}  // namespace sluice
