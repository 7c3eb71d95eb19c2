// For any bytes in a log, every reader accepts a line or says why it does not, a record is within
// the store's bounds, and what is printed of it has no control characters.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "check.h"
#include "core/safe_text.h"
#include "replay/key_template.h"
#include "replay/record.h"

namespace {

using namespace sluice;

constexpr replay::Format kFormats[] = {replay::Format::kAuto, replay::Format::kCommon,
                                       replay::Format::kCombined, replay::Format::kCsv,
                                       replay::Format::kJsonLines};
constexpr std::size_t kColumns = 60;

void check_text(std::string_view text) {
  for (const char c : printable(text, kColumns)) {
    check(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
  std::string json;
  append_json_string(json, text);
  check(json.size() >= 2 && json.find('\n') == std::string::npos);
}

struct File {
  std::unique_ptr<replay::LineReader> reader;
  replay::KeyTemplate key{"{ip}"};
};

// False if the line is a header or fits no format.
bool open(File& file, std::string_view line, replay::Format format) {
  std::string reason;
  auto recognised = replay::recognise(line, format, reason);
  check(recognised.reader != nullptr || !reason.empty());
  if (recognised.reader == nullptr) return false;
  file.key = replay::KeyTemplate(recognised.reader->default_key());
  try {
    file.key.bind(*recognised.reader);
  } catch (const std::invalid_argument&) {
    return false;  // A CSV header without a column key.
  }
  file.reader = std::move(recognised.reader);
  return !recognised.is_header;
}

void read(File& file, std::string_view line) {
  // Memory of exactly its size, so that the address sanitizer reports a read beyond it.
  const auto exact = std::make_unique<char[]>(line.size());
  line.copy(exact.get(), line.size());
  replay::Record record;
  std::string reason;
  const auto reading = file.reader->read({exact.get(), line.size()}, record, reason);
  check((reading == replay::Reading::kRecord) == reason.empty());
  check_text(reason);
  if (reading != replay::Reading::kRecord) return;
  check(record.time_ns >= 0 && record.time_ns < kEndOfTime);
  check(record.cost >= 0 && record.cost <= kMaxCount);
  std::string key;
  file.key.append_key(record, key);
  check_text(key);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  // The first byte says which format is asked for; the rest is the file.
  const replay::Format format = kFormats[data[0] % std::size(kFormats)];
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  File file;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.empty()) continue;
    if (file.reader == nullptr && !open(file, line, format)) continue;
    read(file, line);
  }
  return 0;
}
