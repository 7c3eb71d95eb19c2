#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/number_text.h"
#include "core/safe_text.h"
#include "replay/text.h"

namespace sluice::replay {

/// Writes JSON. The caller opens and closes objects and arrays, and names each member of an object
/// before its value. Not thread-safe.
class JsonWriter {
 public:
  enum class Layout { kCompact, kIndented };

  /// kIndented is one value on each line, two spaces for each level; kCompact has no spaces.
  explicit JsonWriter(Layout layout) : is_indented_(layout == Layout::kIndented) {}

  /// `bracket` is `{` or `[`.
  void open(char bracket) {
    begin_value();
    out_ += bracket;
    is_first_ = true;
    ++depth_;
  }

  /// `bracket` is the one that closes what was opened last.
  void close(char bracket) {
    --depth_;
    if (!is_first_) new_line();
    is_first_ = false;
    out_ += bracket;
  }

  void name(std::string_view name) {
    add(name);
    out_ += is_indented_ ? ": " : ":";
    is_after_name_ = true;
  }

  void add(std::string_view text) {
    begin_value();
    append_json_string(out_, text);
  }
  template <std::integral Value>
  void add(Value value) {
    begin_value();
    if constexpr (std::same_as<Value, bool>) {
      out_ += value ? "true" : "false";
    } else {
      append_number(out_, value);
    }
  }
  void add(std::nullptr_t) {
    begin_value();
    out_ += "null";
  }

  /// A member with its value.
  template <class Value>
  void add(std::string_view name, const Value& value) {
    this->name(name);
    add(value);
  }

  /// Opens a member that is an object or an array.
  void open(std::string_view name, char bracket) {
    this->name(name);
    open(bracket);
  }

  /// An array with what number_of() makes of each item.
  template <class Items, class NumberOf>
  void add_numbers(const Items& items, const NumberOf& number_of) {
    open('[');
    for (const auto& item : items) add(number_of(item));
    close(']');
  }

  /// A member that is an array with an object for each item, whose members write(item) adds.
  template <class Items, class Write>
  void add_objects(std::string_view name, const Items& items, const Write& write) {
    open(name, '[');
    for (const auto& item : items) {
      open('{');
      write(item);
      close('}');
    }
    close(']');
  }

  std::string text() && { return std::move(out_); }

 private:
  void begin_value() {
    if (std::exchange(is_after_name_, false)) return;
    if (!is_first_) out_ += ',';
    is_first_ = false;
    if (depth_ > 0) new_line();
  }

  void new_line() {
    if (is_indented_) out_.append("\n").append(2 * depth_, ' ');
  }

  bool is_indented_;
  std::string out_;
  std::size_t depth_ = 0;
  bool is_first_ = true;
  bool is_after_name_ = false;
};

}  // namespace sluice::replay
