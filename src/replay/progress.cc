#include "replay/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr std::chrono::milliseconds kPatience(500);
constexpr std::chrono::milliseconds kBetweenDraws(100);
constexpr std::size_t kBarColumns = 18;
/// In seconds: more is not worth showing.
constexpr double kLongestLeft = 99 * 3'600;

/// "1:05:09", or "0:09" below an hour.
std::string clock_text(std::uint64_t seconds) {
  const auto two_digits = [](std::uint64_t number) {
    return (number < 10 ? "0" : "") + std::to_string(number);
  };
  const std::string seconds_text = ':' + two_digits(seconds % 60);
  const std::uint64_t minutes = seconds / 60;
  if (minutes < 60) return std::to_string(minutes) + seconds_text;
  return std::to_string(minutes / 60) + ':' + two_digits(minutes % 60) + seconds_text;
}

}  // namespace

std::string progress_text(const Position& position, std::uint64_t total_bytes,
                          std::chrono::nanoseconds elapsed) {
  const double elapsed_s = std::chrono::duration<double>(elapsed).count();
  std::string text = grouped(position.lines) + " lines";
  if (elapsed_s > 0) {
    const double rate = static_cast<double>(position.lines) / elapsed_s;
    text += "  " + grouped(static_cast<std::uint64_t>(rate)) + "/s";
  }
  if (total_bytes == 0) return text;
  const double share =
      std::min(1.0, static_cast<double>(position.bytes) / static_cast<double>(total_bytes));
  if (elapsed_s > 0 && share > 0) {
    const double left_s = std::min(elapsed_s / share * (1 - share), kLongestLeft);
    text += "  " + clock_text(static_cast<std::uint64_t>(std::ceil(left_s))) + " left";
  }
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kBarColumns));
  const std::string percent = std::to_string(static_cast<int>(share * 100));
  return "[" + std::string(filled, '#') + std::string(kBarColumns - filled, ' ') + "] " +
         std::string(3 - percent.size(), ' ') + percent + " %  " + text;
}

Progress::Progress(int descriptor, std::uint64_t total_bytes)
    : descriptor_(descriptor),
      total_bytes_(total_bytes),
      start_(std::chrono::steady_clock::now()),
      next_draw_(start_ + kPatience) {}

void Progress::update(const Position& position) {
  if (descriptor_ < 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + kBetweenDraws;
  is_visible_ = true;
  draw("\r\x1b[K" + progress_text(position, total_bytes_, now - start_));
}

void Progress::clear() {
  if (!is_visible_) return;
  is_visible_ = false;
  draw("\r\x1b[K");
}

void Progress::draw(const std::string& text) {
  // If the terminal takes no more text, stop drawing; the replay goes on.
  if (write(descriptor_, text.data(), text.size()) < 0) descriptor_ = -1;
}

}  // namespace sluice::replay
