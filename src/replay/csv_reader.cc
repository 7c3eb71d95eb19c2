#include <algorithm>

#include "replay/numbers.h"
#include "replay/record.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr std::size_t kMaxColumns = 1024;
constexpr std::size_t kNoColumn = static_cast<std::size_t>(-1);

/// Splits one CSV record into fields. Fields without escaped quotes refer to the line, the others
/// to a buffer that the next record reuses.
class CsvCutter {
 public:
  Reading cut(std::string_view line, std::vector<std::string_view>& fields, std::string& reason) {
    fields.clear();
    unescaped_.clear();
    // Views into the buffer must stay valid, so it must not grow while a record is split.
    unescaped_.reserve(line.size());
    std::size_t at = 0;
    for (;;) {
      if (fields.size() == kMaxColumns) {
        reason = "more than " + std::to_string(kMaxColumns) + " fields";
        return Reading::kUnreadable;
      }
      const Reading reading = at < line.size() && line[at] == '"'
                                  ? cut_quoted(line, at, fields, reason)
                                  : cut_plain(line, at, fields, reason);
      if (reading != Reading::kRecord) return reading;
      if (at == line.size()) return Reading::kRecord;
      ++at;  // The comma.
    }
  }

 private:
  static std::string field_number(const std::vector<std::string_view>& fields) {
    return "field " + std::to_string(fields.size() + 1);
  }

  /// Leaves `at` at the comma or at the end.
  static Reading cut_plain(std::string_view line, std::size_t& at,
                           std::vector<std::string_view>& fields, std::string& reason) {
    const std::string_view field = line.substr(at, line.find(',', at) - at);
    if (field.find('"') != std::string_view::npos) {
      reason = "a quote inside " + field_number(fields) + ", which does not start with one";
      return Reading::kUnreadable;
    }
    fields.push_back(field);
    at += field.size();
    return Reading::kRecord;
  }

  /// As cut_plain(), for a field that starts with a quote.
  Reading cut_quoted(std::string_view line, std::size_t& at, std::vector<std::string_view>& fields,
                     std::string& reason) {
    const std::size_t kept = unescaped_.size();
    bool is_escaped = false;
    for (std::size_t from = at + 1;;) {
      const std::size_t quote = line.find('"', from);
      if (quote == std::string_view::npos) {
        reason = "the quote that opens " + field_number(fields) + " is never closed";
        return Reading::kOpenQuote;
      }
      const std::string_view piece = line.substr(from, quote - from);
      if (quote + 1 < line.size() && line[quote + 1] == '"') {
        is_escaped = true;
        unescaped_.append(piece).push_back('"');
        from = quote + 2;
        continue;
      }
      if (quote + 1 < line.size() && line[quote + 1] != ',') {
        reason = "text after the closing quote of " + field_number(fields);
        return Reading::kUnreadable;
      }
      if (is_escaped) unescaped_ += piece;
      fields.push_back(is_escaped ? std::string_view(unescaped_).substr(kept) : piece);
      at = quote + 1;
      return Reading::kRecord;
    }
  }

  std::string unescaped_;
};

class CsvReader : public LineReader {
 public:
  explicit CsvReader(const std::vector<std::string_view>& header)
      : names_(header.begin(), header.end()), time_(column("time")), cost_(column("cost")) {}

  bool has_time() const { return time_ != kNoColumn; }

  std::optional<std::size_t> slot(std::string_view name) override {
    const std::size_t found = column(name);
    if (found == kNoColumn) return std::nullopt;
    return found;
  }

  std::vector<std::string_view> names() const override { return {names_.begin(), names_.end()}; }

  std::string_view default_key() const override { return "{key}"; }

  Reading read(std::string_view line, Record& record, std::string& reason) override {
    const Reading reading = cutter_.cut(line, record.fields, reason);
    if (reading != Reading::kRecord) return reading;
    const std::size_t count = record.fields.size();
    // A cost in the last column may be omitted together with its comma.
    const bool lacks_cost = count + 1 == names_.size() && cost_ == count;
    if (lacks_cost) record.fields.emplace_back();
    if (count != names_.size() && !lacks_cost) {
      reason = std::to_string(count) + (count == 1 ? " field" : " fields") +
               " where the header has " + std::to_string(names_.size());
      return Reading::kUnreadable;
    }
    if (!read_seconds(record.fields[time_], record.time_ns, reason)) return Reading::kUnreadable;
    record.cost = 1;
    if (cost_ == kNoColumn || record.fields[cost_].empty()) return Reading::kRecord;
    return read_cost(record.fields[cost_], record.cost, reason) ? Reading::kRecord
                                                                : Reading::kUnreadable;
  }

 private:
  std::size_t column(std::string_view name) const {
    const auto found = std::find(names_.begin(), names_.end(), name);
    return found == names_.end() ? kNoColumn : static_cast<std::size_t>(found - names_.begin());
  }

  std::vector<std::string> names_;
  std::size_t time_;
  std::size_t cost_;
  CsvCutter cutter_;
};

}  // namespace

std::unique_ptr<LineReader> make_csv_reader(std::string_view header, std::string& reason) {
  std::vector<std::string_view> names;
  CsvCutter cutter;
  if (cutter.cut(header, names, reason) != Reading::kRecord) {
    reason = "the CSV header: " + reason;
    return nullptr;
  }
  auto reader = std::make_unique<CsvReader>(names);
  if (reader->has_time()) return reader;
  reason = "the CSV header \"" + printable(header, kFieldColumns) + "\" has no column time";
  return nullptr;
}

}  // namespace sluice::replay
