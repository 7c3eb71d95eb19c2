#include "replay/progress.h"

#include <unistd.h>

#include <algorithm>

#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr std::chrono::milliseconds kPatience(500);
constexpr std::chrono::milliseconds kBetweenDraws(100);
constexpr std::size_t kBarColumns = 30;

}  // namespace

std::string progress_text(const Position& position, std::uint64_t total_bytes) {
  const std::string lines = grouped(position.lines) + " lines";
  if (total_bytes == 0) return lines;
  const double share =
      std::min(1.0, static_cast<double>(position.bytes) / static_cast<double>(total_bytes));
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(kBarColumns));
  const std::string percent = std::to_string(static_cast<int>(share * 100));
  return "[" + std::string(filled, '#') + std::string(kBarColumns - filled, ' ') + "] " +
         std::string(3 - percent.size(), ' ') + percent + " %  " + lines;
}

Progress::Progress(int descriptor, std::uint64_t total_bytes)
    : descriptor_(descriptor),
      total_bytes_(total_bytes),
      next_draw_(std::chrono::steady_clock::now() + kPatience) {}

void Progress::update(const Position& position) {
  if (descriptor_ < 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + kBetweenDraws;
  is_visible_ = true;
  draw("\r\x1b[K" + progress_text(position, total_bytes_));
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
