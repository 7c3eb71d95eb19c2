#include <boost/json/basic_parser_impl.hpp>
#include <limits>

#include "replay/numbers.h"
#include "replay/record.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

namespace json = boost::json;

enum class Kind : std::uint8_t { kAbsent, kString, kNumber, kWord, kNested };

/// A requested field and its value in the line.
struct Wanted {
  std::string name;
  Kind kind = Kind::kAbsent;
  /// The string, unescaped; or the number or word as written.
  std::string text = {};
};

/// Handles the parser's events and keeps the requested top-level fields; the last one of a name
/// counts. Numbers are kept as text, because a double would round a time in nanoseconds.
class Handler {
 public:
  static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_array_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_key_size = std::numeric_limits<std::size_t>::max();
  static constexpr std::size_t max_string_size = std::numeric_limits<std::size_t>::max();

  std::vector<Wanted> wanted;
  bool is_object = false;

  void start() {
    for (Wanted& field : wanted) field.kind = Kind::kAbsent;
    is_object = false;
    depth_ = 0;
    current_ = nullptr;
    text_.clear();
  }

  bool on_document_begin(json::error_code&) { return true; }
  bool on_document_end(json::error_code&) { return true; }
  bool on_object_begin(json::error_code&) {
    is_object = is_object || depth_ == 0;
    return open();
  }
  bool on_object_end(std::size_t, json::error_code&) { return close(); }
  bool on_array_begin(json::error_code&) { return open(); }
  bool on_array_end(std::size_t, json::error_code&) { return close(); }
  bool on_key_part(json::string_view part, std::size_t, json::error_code&) { return add(part); }
  bool on_key(json::string_view part, std::size_t, json::error_code&) {
    add(part);
    if (depth_ == 1) {
      current_ = nullptr;
      for (Wanted& field : wanted) {
        if (field.name == text_) current_ = &field;
      }
    }
    text_.clear();
    return true;
  }
  bool on_string_part(json::string_view part, std::size_t, json::error_code&) { return add(part); }
  bool on_string(json::string_view part, std::size_t, json::error_code&) {
    return add(part) && keep(Kind::kString);
  }
  bool on_number_part(json::string_view part, json::error_code&) { return add(part); }
  bool on_int64(std::int64_t, json::string_view part, json::error_code&) { return number(part); }
  bool on_uint64(std::uint64_t, json::string_view part, json::error_code&) { return number(part); }
  bool on_double(double, json::string_view part, json::error_code&) { return number(part); }
  bool on_bool(bool value, json::error_code&) { return word(value ? "true" : "false"); }
  bool on_null(json::error_code&) { return word("null"); }
  bool on_comment_part(json::string_view, json::error_code&) { return true; }
  bool on_comment(json::string_view, json::error_code&) { return true; }

 private:
  bool open() {
    if (depth_ == 1) keep(Kind::kNested);
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }
  bool add(json::string_view part) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool number(json::string_view part) { return add(part) && keep(Kind::kNumber); }
  bool word(json::string_view text) { return add(text) && keep(Kind::kWord); }
  bool keep(Kind kind) {
    if (depth_ == 1 && current_ != nullptr) {
      current_->kind = kind;
      current_->text.swap(text_);
    }
    text_.clear();
    return true;
  }

  std::size_t depth_ = 0;
  Wanted* current_ = nullptr;
  std::string text_;
};

json::parse_options tolerant_options() {
  json::parse_options options;
  // Servers log what clients sent; a wrong byte in one field does not make the line invalid.
  options.allow_invalid_utf8 = true;
  return options;
}

class JsonLinesReader : public LineReader {
 public:
  JsonLinesReader() : parser_(tolerant_options()) {
    parser_.handler().wanted = {{.name = "time"}, {.name = "time_ns"}, {.name = "cost"}};
  }

  std::optional<std::size_t> slot(std::string_view name) override {
    const std::size_t found = want(name);
    uses_[found] = Use::kRequired;
    return found;
  }

  std::optional<std::size_t> optional_slot(std::string_view name) override {
    const std::size_t found = want(name);
    if (uses_[found] == Use::kNone) uses_[found] = Use::kOptional;
    return found;
  }

  std::vector<std::string_view> names() const override { return {}; }

  std::string_view default_key() const override { return "{key}"; }

  Reading read(std::string_view line, Record& record, std::string& reason) override {
    return parse(line, reason) && read_time(record, reason) && read_cost_field(record, reason) &&
                   read_fields(record, reason)
               ? Reading::kRecord
               : Reading::kUnreadable;
  }

 private:
  enum Fixed : std::size_t { kTime, kTimeNs, kCost };
  enum class Use : std::uint8_t { kNone, kOptional, kRequired };

  std::size_t want(std::string_view name) {
    std::vector<Wanted>& wanted = parser_.handler().wanted;
    std::size_t found = 0;
    while (found < wanted.size() && wanted[found].name != name) ++found;
    if (found == wanted.size()) wanted.push_back({.name = std::string(name)});
    uses_.resize(wanted.size(), Use::kNone);
    return found;
  }

  const Wanted& field(std::size_t slot) { return parser_.handler().wanted[slot]; }

  bool parse(std::string_view line, std::string& reason) {
    parser_.handler().start();
    parser_.reset();
    json::error_code error;
    const std::size_t used = parser_.write_some(false, line.data(), line.size(), error);
    if (!error && used < line.size()) error = json::error::extra_data;
    if (error) {
      reason =
          "not a JSON object: " + error.message() + " at character " + std::to_string(used + 1);
      return false;
    }
    if (!parser_.handler().is_object) reason = "not a JSON object";
    return parser_.handler().is_object;
  }

  bool read_time(Record& record, std::string& reason) {
    const Wanted& exact = field(kTimeNs);
    if (exact.kind == Kind::kNumber) return read_nanoseconds(exact.text, record.time_ns, reason);
    const Wanted& time = field(kTime);
    if (time.kind == Kind::kNumber || time.kind == Kind::kString) {
      return read_seconds(time.text, record.time_ns, reason);
    }
    const bool is_there = time.kind != Kind::kAbsent || exact.kind != Kind::kAbsent;
    reason = is_there ? "the field time or time_ns is not a number" : "no field time or time_ns";
    return false;
  }

  bool read_cost_field(Record& record, std::string& reason) {
    record.cost = 1;
    const Wanted& cost = field(kCost);
    if (cost.kind == Kind::kAbsent) return true;
    if (cost.kind == Kind::kNumber) return read_cost(cost.text, record.cost, reason);
    reason = "the field cost is not a number";
    return false;
  }

  bool read_fields(Record& record, std::string& reason) {
    record.fields.resize(uses_.size());
    for (std::size_t slot = 0; slot < uses_.size(); ++slot) {
      if (uses_[slot] == Use::kNone) continue;
      const Wanted& wanted = field(slot);
      const bool is_absent = wanted.kind == Kind::kAbsent || wanted.kind == Kind::kNested;
      if (is_absent && uses_[slot] == Use::kOptional) {
        record.fields[slot] = {};
        continue;
      }
      if (is_absent) {
        const std::string name = "field " + printable(wanted.name, kFieldColumns);
        reason = wanted.kind == Kind::kAbsent ? "no " + name
                                              : "the " + name + " is an object or an array";
        return false;
      }
      record.fields[slot] = wanted.text;
    }
    return true;
  }

  json::basic_parser<Handler> parser_;
  /// By slot: who asked for the field. A line must have those that are required.
  std::vector<Use> uses_;
};

}  // namespace

std::unique_ptr<LineReader> make_json_lines_reader() {
  return std::make_unique<JsonLinesReader>();
}

}  // namespace sluice::replay
