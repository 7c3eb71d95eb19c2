#include "replay/feed.h"

#include <ostream>

namespace sluice::replay {
namespace {

constexpr std::uint64_t kMaxShown = 5;
constexpr std::uint64_t kLinesBetweenUpdates = 4096;
/// The most lines of a quoted CSV field, so that a quote that is never closed has a bounded cost.
constexpr int kMaxRecordLines = 100;

}  // namespace

void Feed::read(const OpenFile& file) {
  LineSource source(file.descriptor);
  const std::uint64_t bytes_before = position_.bytes;
  reader_.reset();
  Line line;
  while (source.next(line)) {
    if (++position_.lines % kLinesBetweenUpdates == 0 && progress_.is_drawn()) {
      position_.bytes = bytes_before + source.bytes_read();
      progress_.update(position_);
    }
    if (line.is_too_long) {
      reason_ = "longer than 1 MiB";
      refuse(line, file);
      continue;
    }
    if (line.text.find_first_not_of(" \t") == std::string_view::npos) continue;
    if (reader_ == nullptr && !choose_reader(line, file)) continue;
    if (read_record(source, line) == Reading::kRecord) {
      order_.add(record_, *key_);
    } else {
      refuse(line, file);
    }
  }
  position_.bytes = bytes_before + source.bytes_read();
  if (source.error().empty()) return;
  is_damaged_ = true;
  const std::string sentence = file.name + ": " + source.error();
  if (options_.is_strict) throw ReplayError(1, sentence);
  progress_.clear();
  err_ << options_.command << ": " << sentence << '\n';
}

/// Returns false if the line is no record: a header, or a line that cannot be parsed.
bool Feed::choose_reader(const Line& line, const OpenFile& file) {
  Recognised recognised = recognise(line.text, options_.format, reason_);
  if (recognised.reader == nullptr) {
    if (options_.format == Format::kCsv) throw ReplayError(1, file.name + ": " + reason_);
    refuse(line, file);
    return false;
  }
  reader_ = std::move(recognised.reader);
  key_ = options_.key ? *options_.key : KeyTemplate(reader_->default_key());
  try {
    key_->bind(*reader_);
  } catch (const std::invalid_argument& error) {
    throw ReplayError(2, file.name + ": " + error.what());
  }
  if (keys_used_.find(key_->text()) == std::string::npos) {
    keys_used_.append(keys_used_.empty() ? "" : ", ").append(key_->text());
  }
  order_.begin_file(*reader_);
  return !recognised.is_header;
}

Reading Feed::read_record(LineSource& source, const Line& line) {
  Reading reading = reader_->read(line.text, record_, reason_);
  if (reading != Reading::kOpenQuote) return reading;
  const std::string reason = reason_;
  Line longer = line;
  for (int lines = 1; lines < kMaxRecordLines && source.extend(longer); ++lines) {
    reading = reader_->read(longer.text, record_, reason_);
    if (reading == Reading::kOpenQuote) continue;
    if (reading == Reading::kUnreadable) break;
    source.accept();
    return Reading::kRecord;
  }
  // Only the first line is lost; the next lines may be separate records.
  reason_ = reason;
  return Reading::kUnreadable;
}

void Feed::refuse(const Line& line, const OpenFile& file) {
  ++unreadable_;
  const std::string sentence = file.name + ":" + std::to_string(line.number) + ": " + reason_;
  if (options_.is_strict) throw ReplayError(1, sentence);
  if (unreadable_ > kMaxShown) return;
  progress_.clear();
  err_ << sentence << '\n';
  if (unreadable_ == kMaxShown) err_ << "(further lines that cannot be read are only counted)\n";
}

}  // namespace sluice::replay
