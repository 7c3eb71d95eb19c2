#pragma once

#include <yaml-cpp/yaml.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

inline constexpr std::size_t kMaxConfigBytes = 1024 * 1024;

/// A member of a map in a YAML file.
struct YamlMember {
  std::string name;
  YAML::Node key;
  YAML::Node value;
};

/// A YAML file of one document. Reports mistakes with their place. All members throw ConfigError
/// "PATH:LINE:COLUMN: sentence" at a mistake.
class YamlFile {
 public:
  /// Reads the file. Also throws ConfigError "PATH: sentence" if it cannot be read, or has
  /// more than kMaxConfigBytes. Waits for what a pipe has.
  static YamlFile open(const std::string& path);

  /// Parses its text.
  YamlFile(std::string text, std::string path);

  const YAML::Node& root() const { return root_; }
  const std::string& path() const { return path_; }

  /// Throws ConfigError for a mistake at this node.
  [[noreturn]] void fail(const YAML::Node& at, const std::string& sentence) const;
  /// The same, for a mistake in a member's value, or at its name if it has no value.
  [[noreturn]] void fail_value(const YamlMember& member, const std::string& sentence) const;
  /// The same, at the character `offset` of a text, or at its start if the text is folded or
  /// escaped.
  [[noreturn]] void fail_within(const YAML::Node& text, std::size_t offset,
                                const std::string& sentence) const;

  /// The members of a map, in order. `what` names the map in sentences: "'listen'". Refuses a value
  /// that is not a map, and a name that occurs twice.
  std::vector<YamlMember> members(const YAML::Node& map, const std::string& what) const;
  /// The same; refuses names that are not among `known`.
  std::vector<YamlMember> members(const YAML::Node& map, const std::string& what,
                                  std::span<const std::string_view> known) const;

  /// A text that is not empty. `example` is a valid one, for messages.
  std::string text(const YamlMember& member, std::string_view example) const;
  /// The items of a list, or the only one without a list, each as a member of its own.
  std::vector<YamlMember> items(const YamlMember& member) const;
  /// The index of the member's text among `choices`.
  std::size_t choice(const YamlMember& member, std::span<const std::string_view> choices) const;
  /// yes or no, or what YAML reads as these: true, off, and so on.
  bool yes_or_no(const YamlMember& member) const;
  /// Whether the value is no, or what YAML reads as no.
  bool is_no(const YamlMember& member) const;
  /// A duration as in a limit: 1h30m, 500ms. Refuses one below or above the bounds. `otherwise`,
  /// for messages, says what else the value could be.
  std::chrono::nanoseconds duration(const YamlMember& member, std::chrono::nanoseconds least,
                                    std::chrono::nanoseconds most,
                                    std::string_view otherwise = {}) const;

 private:
  [[noreturn]] void fail_at(const YAML::Mark& mark, const std::string& sentence) const;
  void refuse_zeros() const;
  void check_documents() const;
  std::size_t line_begin(int line) const;
  std::size_t offset_of(const YAML::Mark& mark) const;

  std::string text_;
  std::string path_;
  YAML::Node root_;
};

}  // namespace sluice
