#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// Writes metrics in Prometheus's text format, version 0.0.4: first a family, then its samples.
class MetricsText {
 public:
  enum class Type : std::uint8_t { kCounter, kGauge, kHistogram };
  /// Names of labels and their values. Any bytes may stand in a value.
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

  /// Begins a family. REQUIRES: no family of this name was begun before; the name of a counter ends
  /// in "_total".
  void family(std::string_view name, Type type, std::string_view help);

  /// A sample of the family that was begun last; of a histogram, `suffix` says which.
  void sample(Labels labels, std::uint64_t value, std::string_view suffix = {});
  void sample(Labels labels, double value, std::string_view suffix = {});

  /// A family of one sample.
  template <class Value>
  void single(std::string_view name, Type type, std::string_view help, Value value,
              Labels labels = {}) {
    family(name, type, help);
    sample(labels, value);
  }

  const std::string& text() const { return text_; }

  /// A number as it stands in a sample, or in the label `le`.
  static std::string number(double value);

 private:
  void begin_sample(Labels labels, std::string_view suffix);

  std::string family_;
  std::string text_;
};

}  // namespace sluice
