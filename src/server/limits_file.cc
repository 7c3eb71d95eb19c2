#include "server/limits_file.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <system_error>

#include "server/config_error.h"

namespace sluice {
namespace {

/// The text of a file, for what must be said about a place in it.
class LimitsText {
 public:
  LimitsText(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  /// `column` counts characters, from 0 like the mark's own.
  [[noreturn]] void fail(YAML::Mark mark, const std::string& sentence) const {
    // An empty document has no place.
    const int line = mark.is_null() ? 0 : mark.line;
    const int column = mark.is_null() ? 0 : mark.column;
    throw ConfigError(path_ + ":" + std::to_string(line + 1) + ":" + std::to_string(column + 1) +
                      ": " + sentence);
  }

  /// The place of the character `offset` of a scalar, where the file has its text as it is.
  YAML::Mark within(const YAML::Node& scalar, std::size_t offset) const {
    YAML::Mark mark = scalar.Mark();
    if (mark.is_null()) return mark;
    const std::string_view line = line_at(mark.line);
    auto column = static_cast<std::size_t>(mark.column);
    if (column < line.size() && (line[column] == '"' || line[column] == '\'')) ++column;
    const std::string& value = scalar.Scalar();
    if (column <= line.size() && line.substr(column).starts_with(value)) {
      mark.column = static_cast<int>(column + std::min(offset, value.size()));
    }
    return mark;
  }

 private:
  std::string_view line_at(int number) const {
    std::string_view rest = text_;
    for (int i = 0; i < number; ++i) {
      const std::size_t end = rest.find('\n');
      if (end == std::string_view::npos) return {};
      rest.remove_prefix(end + 1);
    }
    return rest.substr(0, rest.find('\n'));
  }

  std::string_view text_;
  const std::string& path_;
};

/// Keeps nothing of a document but where it starts.
class DocumentStart final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { mark_ = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  const YAML::Mark& mark() const { return mark_; }

 private:
  YAML::Mark mark_;
};

/// The first document. On some input yaml-cpp finds empty documents without end, so they must never
/// be read until there are no more.
YAML::Node load(std::string_view yaml, const LimitsText& source) {
  try {
    return YAML::Load(std::string(yaml));
  } catch (const YAML::Exception& error) {
    source.fail(error.mark, "this is not YAML: " + error.msg);
  }
}

void refuse_second_document(std::string_view yaml, const LimitsText& source) {
  std::istringstream text{std::string(yaml)};
  DocumentStart start;
  try {
    YAML::Parser parser(text);
    if (!parser.HandleNextDocument(start) || !parser.HandleNextDocument(start)) return;
  } catch (const YAML::Exception& error) {
    source.fail(error.mark, "this is not YAML: " + error.msg);
  }
  source.fail(start.mark(), "there is a second document");
}

YAML::Node find_limits(const YAML::Node& root, const LimitsText& source) {
  if (!root.IsMap()) source.fail(root.Mark(), "the file must be a map with the key 'limits'");
  YAML::Node limits;
  bool found = false;
  for (const auto& entry : root) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (key != "limits") {
      source.fail(entry.first.Mark(), "the key '" + key + "' is unknown: 'limits' is the only one");
    }
    if (found) source.fail(entry.first.Mark(), "the key 'limits' is there twice");
    limits.reset(entry.second);
    found = true;
    if (!limits.IsMap()) {
      source.fail(limits.IsNull() ? entry.first.Mark() : limits.Mark(),
                  "'limits' must be a map of names to limit expressions");
    }
  }
  if (!found) source.fail(root.Mark(), "the file must be a map with the key 'limits'");
  return limits;
}

Limit read_limit(const YAML::Node& name, const YAML::Node& expression, const LimitsText& source) {
  if (!name.IsScalar()) source.fail(name.Mark(), "the name of a limit must be a text");
  const std::string& text = name.Scalar();
  if (!expression.IsScalar()) {
    source.fail(expression.IsNull() ? name.Mark() : expression.Mark(),
                "the limit '" + text + "' must be a text like \"sliding_log 5/10m\"");
  }
  if (text.empty()) source.fail(name.Mark(), "the name of a limit is empty");
  // First without the name, so that a fault is known to be the expression's or else the name's.
  try {
    const Limit unnamed(expression.Scalar());
  } catch (const InvalidLimit& error) {
    source.fail(source.within(expression, error.position()), error.what());
  }
  try {
    return Limit(expression.Scalar(), text);
  } catch (const InvalidLimit& error) {
    source.fail(source.within(name, error.position()), error.what());
  }
}

}  // namespace

std::vector<Limit> parse_limits(std::string_view yaml, const std::string& path) {
  const LimitsText source(yaml, path);
  const YAML::Node entries = find_limits(load(yaml, source), source);
  refuse_second_document(yaml, source);
  std::vector<Limit> limits;
  std::set<std::string> names;
  for (const auto& entry : entries) {
    if (limits.size() == kMaxNamedLimits) {
      source.fail(entry.first.Mark(),
                  "there are more than " + std::to_string(kMaxNamedLimits) + " limits");
    }
    limits.push_back(read_limit(entry.first, entry.second, source));
    if (!names.insert(limits.back().space()).second) {
      source.fail(entry.first.Mark(), "two limits are named '" + limits.back().space() + "'");
    }
  }
  return limits;
}

std::vector<Limit> read_limits_file(const std::string& path) {
  const auto fail = [&path](const std::string& why) {
    throw ConfigError(path + ": the limits cannot be read: " + why);
  };
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(std::generic_category().message(errno));
  std::string text(kMaxLimitsFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) fail(std::generic_category().message(errno));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxLimitsFileBytes) {
    fail("it has more than " + std::to_string(kMaxLimitsFileBytes) + " bytes");
  }
  return parse_limits(text, path);
}

}  // namespace sluice
