#include "service/metrics_text.h"

#include <cassert>

#include "core/number_text.h"
#include "core/utf8.h"

namespace sluice {
namespace {

std::string_view name_of(MetricsText::Type type) {
  switch (type) {
    case MetricsText::Type::kCounter:
      return "counter";
    case MetricsText::Type::kGauge:
      return "gauge";
    case MetricsText::Type::kHistogram:
      break;
  }
  return "histogram";
}

// Bytes that are not UTF-8 become question marks.
void append_label_value(std::string& output, std::string_view value) {
  while (!value.empty()) {
    const std::size_t bytes = utf8_character_bytes(value);
    const char c = value[0];
    if (bytes == 0) {
      output += '?';
    } else if (c == '\\' || c == '"') {
      output += {'\\', c};
    } else if (c == '\n') {
      output += "\\n";
    } else {
      output += value.substr(0, bytes);
    }
    value.remove_prefix(bytes == 0 ? 1 : bytes);
  }
}

}  // namespace

void MetricsText::family(std::string_view name, Type type, std::string_view help) {
  assert((type == Type::kCounter) == name.ends_with("_total"));
  assert(help.find_first_of("\\\n") == std::string_view::npos);
  family_ = name;
  text_.append("# HELP ").append(name).append(" ").append(help).append("\n");
  text_.append("# TYPE ").append(name).append(" ").append(name_of(type)).append("\n");
}

void MetricsText::begin_sample(Labels labels, std::string_view suffix) {
  assert(!family_.empty());
  text_.append(family_).append(suffix);
  char before = '{';
  for (const auto& [name, value] : labels) {
    text_ += before;
    text_.append(name).append("=\"");
    append_label_value(text_, value);
    text_ += '"';
    before = ',';
  }
  if (before == ',') text_ += '}';
  text_ += ' ';
}

void MetricsText::sample(Labels labels, std::uint64_t value, std::string_view suffix) {
  begin_sample(labels, suffix);
  text_.append(std::to_string(value)).append("\n");
}

void MetricsText::sample(Labels labels, double value, std::string_view suffix) {
  begin_sample(labels, suffix);
  text_.append(number(value)).append("\n");
}

std::string MetricsText::number(double value) {
  std::string text;
  append_number(text, value);
  return text;
}

}  // namespace sluice
