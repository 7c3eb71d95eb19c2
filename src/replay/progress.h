#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace sluice::replay {

/// The progress of a replay.
struct Position {
  std::uint64_t bytes = 0;
  std::uint64_t lines = 0;
};

/// A progress bar on a terminal. It appears after half a second, is redrawn at most ten times a
/// second, and is removed at the end. It is the only part of replay that reads a clock; results do
/// not depend on it.
class Progress {
 public:
  /// `descriptor` is the terminal, or -1 for no bar. `total_bytes` is the size of all input, or 0
  /// if it is not known; then the bar only counts lines.
  Progress(int descriptor, std::uint64_t total_bytes);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Cheap enough to call for every block of input, but not for every line.
  void update(const Position& position);

  /// Removes the bar, so that other text can be written; the next update() may draw it again.
  void clear();

 private:
  void draw(const std::string& text);

  int descriptor_;
  std::uint64_t total_bytes_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_draw_;
  bool is_visible_ = false;
};

/// The bar's text: `[########          ]  45 %  1,234,567 lines  2,000,000/s  0:09 left`, at most
/// 79 columns; without the bar and the time left if total_bytes is 0.
std::string progress_text(const Position& position, std::uint64_t total_bytes,
                          std::chrono::nanoseconds elapsed);

}  // namespace sluice::replay
