#include "replay/feed.h"

#include <algorithm>
#include <cassert>
#include <ostream>
#include <utility>

#include "core/descriptors.h"
#include "core/exit_status.h"
#include "core/limit_syntax.h"
#include "replay/key_template.h"
#include "replay/text.h"

namespace sluice::replay {
namespace {

constexpr std::uint64_t kMaxShown = 5;
constexpr std::uint64_t kLinesBetweenUpdates = 4096;
/// The most lines of a quoted CSV field, so that a quote that is never closed has a bounded cost.
constexpr int kMaxRecordLines = 100;
/// Descriptors for other things than the files that are read: the store, what is written.
constexpr std::size_t kOtherDescriptors = 64;
/// A time that is later than those before it by more than this may be wrong.
constexpr std::int64_t kFarNs = kDayNs;
/// So many records with such times, of all files together, may wait in the TimeOrder.
constexpr std::size_t kMostFar = TimeOrder::kReach / 2;

/// The size of all inputs together, or 0 if one is not known.
std::uint64_t total_bytes(const std::vector<Input>& inputs) {
  std::uint64_t total = 0;
  for (const Input& input : inputs) {
    if (input.bytes == 0) return 0;
    total += input.bytes;
  }
  return total;
}

}  // namespace

/// A file, and the record of it that was read last.
struct Feed::File {
  explicit File(const Input& input) : name(input.name), source(open_input(input)) {}

  std::string name;
  LineSource source;
  std::uint64_t counted_bytes = 0;  // How many of its bytes position_ includes.
  std::unique_ptr<LineReader> reader = nullptr;
  // Set with the reader:
  std::optional<KeyTemplate> key = {};
  TimeOrder::DetailSlots details = {};
  Record record = {};
  /// By this the merge compares the records of several files: the latest time in the file so far,
  /// but for that of a record that is far later, and of those that follow it, up to `most_far`.
  /// They wait for their places in the TimeOrder, so that wrong times do not hold back what follows
  /// in their file.
  std::optional<Instant> turn_ns = {};
  std::size_t far_in_a_row = 0;

  void set_turn(std::size_t most_far) {
    const bool is_far = turn_ns && record.time_ns - *turn_ns > kFarNs;
    if (is_far && far_in_a_row < most_far) {
      ++far_in_a_row;
      return;
    }
    far_in_a_row = 0;
    turn_ns = std::max(turn_ns.value_or(record.time_ns), record.time_ns);
  }
};

Feed::Feed(std::string_view command, const Logs& logs, RequestSink& sink, const Streams& streams)
    : command_(command),
      logs_(logs),
      order_(sink),
      err_(streams.err),
      progress_(streams.progress_descriptor, total_bytes(logs.inputs)) {}

void Feed::read() {
  assert(summary_.key.empty() && summary_.unreadable == 0);
  try {
    merge();
  } catch (const ReplayError&) {
    order_.flush();
    throw;
  }
  order_.flush();
  progress_.clear();
  if (summary_.requests == 0 && summary_.unreadable > 0) {
    throw ReplayError(kFailed, "not one line of the input could be read");
  }
}

LogSummary Feed::summary() const {
  LogSummary summary = summary_;
  summary.late = order_.late();
  summary.most_late_ns = order_.most_late_ns();
  return summary;
}

void Feed::warn_of_late() {
  if (order_.late() == 0) return;
  progress_.clear();
  err_ << command_ << ": " << count_of(order_.late(), "request")
       << (order_.late() == 1 ? " comes" : " come") << " too late, by up to "
       << format_duration(order_.most_late_ns())
       << ": too many later ones were read before, and limits take late requests for bursts; sort "
          "the lines of each file by time first\n";
}

void Feed::merge() {
  const std::vector<Input>& inputs = logs_.inputs;
  std::vector<std::unique_ptr<File>> files;
  // The numbers of those that have a record left, as a heap whose front is the next one.
  std::vector<std::size_t> waiting;
  const auto is_later = [&](std::size_t a, std::size_t b) {
    return std::pair(files[a]->turn_ns, a) > std::pair(files[b]->turn_ns, b);
  };
  allow_descriptors(inputs.size() + kOtherDescriptors);
  most_far_ = kMostFar / std::max<std::size_t>(1, inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    files.push_back(std::make_unique<File>(inputs[i]));
    if (next_record(*files[i])) waiting.push_back(i);
  }
  std::ranges::make_heap(waiting, is_later);
  while (!waiting.empty()) {
    std::ranges::pop_heap(waiting, is_later);
    const std::size_t next = waiting.back();
    std::unique_ptr<File>& file = files[next];
    order_.add(file->record, *file->key, file->details, next);
    if (next_record(*file)) {
      std::ranges::push_heap(waiting, is_later);
    } else {
      file.reset();
      waiting.pop_back();
    }
  }
}

/// Reads the next record of a file. False at its end.
bool Feed::next_record(File& file) {
  Line line;
  while (file.source.next(line)) {
    if (++position_.lines % kLinesBetweenUpdates == 0) {
      count_bytes(file);
      progress_.update(position_);
    }
    if (line.is_too_long) {
      reason_ = "longer than 1 MiB";
      refuse(line, file);
      continue;
    }
    if (line.text.find_first_not_of(" \t") == std::string_view::npos) continue;
    if (file.reader == nullptr && !choose_reader(line, file)) continue;
    if (read_record(line, file) == Reading::kRecord) {
      count(file.record.time_ns);
      file.set_turn(most_far_);
      if (file.record.cost > 1 && !permit_limit_.empty()) warn_of_cost(line, file);
      return true;
    }
    refuse(line, file);
  }
  count_bytes(file);
  if (file.source.error().empty()) return false;
  summary_.is_damaged = true;
  const std::string sentence = file.name + ": " + file.source.error();
  if (logs_.is_strict) throw ReplayError(kFailed, sentence);
  progress_.clear();
  err_ << command_ << ": " << sentence << '\n';
  return false;
}

void Feed::count(Instant time_ns) {
  summary_.first_ns = summary_.requests == 0 ? time_ns : std::min(summary_.first_ns, time_ns);
  summary_.last_ns = std::max(summary_.last_ns, time_ns);
  ++summary_.requests;
}

void Feed::count_bytes(File& file) {
  position_.bytes += file.source.bytes_read() - file.counted_bytes;
  file.counted_bytes = file.source.bytes_read();
}

/// Returns false if the line is no record: a header, or a line that cannot be parsed.
bool Feed::choose_reader(const Line& line, File& file) {
  Recognised recognised = recognise(line.text, logs_.format, reason_);
  if (recognised.reader == nullptr) {
    if (logs_.format == Format::kCsv) throw ReplayError(kFailed, file.name + ": " + reason_);
    refuse(line, file);
    return false;
  }
  file.reader = std::move(recognised.reader);
  file.key = logs_.key ? *logs_.key : KeyTemplate(file.reader->default_key());
  try {
    file.key->bind(*file.reader);
  } catch (const std::invalid_argument& error) {
    throw ReplayError(kMisused, file.name + ": " + error.what());
  }
  if (summary_.key.find(file.key->text()) == std::string::npos) {
    summary_.key.append(summary_.key.empty() ? "" : ", ").append(file.key->text());
  }
  file.details = order_.detail_slots(*file.reader);
  return !recognised.is_header;
}

Reading Feed::read_record(const Line& line, File& file) {
  Reading reading = file.reader->read(line.text, file.record, reason_);
  if (reading != Reading::kOpenQuote) return reading;
  const std::string reason = reason_;
  Line longer = line;
  for (int lines = 1; lines < kMaxRecordLines && file.source.extend(longer); ++lines) {
    reading = file.reader->read(longer.text, file.record, reason_);
    if (reading == Reading::kOpenQuote) continue;
    if (reading == Reading::kUnreadable) break;
    file.source.accept();
    return Reading::kRecord;
  }
  // Only the first line is lost; the next lines may be separate records.
  reason_ = reason;
  return Reading::kUnreadable;
}

/// Once: a caller of such a limit takes one permit at a time, so a cost of more is never admitted.
void Feed::warn_of_cost(const Line& line, const File& file) {
  progress_.clear();
  err_ << file.name << ':' << line.number << ": cost " << file.record.cost << ": '" << permit_limit_
       << "' denies this line, and each whose cost is above 1, for a "
       << "request takes one permit\n";
  permit_limit_.clear();
}

void Feed::refuse(const Line& line, const File& file) {
  ++summary_.unreadable;
  const std::string sentence = file.name + ":" + std::to_string(line.number) + ": " + reason_;
  if (logs_.is_strict) throw ReplayError(kFailed, sentence);
  if (summary_.unreadable > kMaxShown) return;
  progress_.clear();
  err_ << sentence << '\n';
  if (summary_.unreadable == kMaxShown)
    err_ << "(further lines that cannot be read are only counted)\n";
}

}  // namespace sluice::replay
