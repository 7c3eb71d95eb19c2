#include "stores/redis/sweep.h"

#include <memory>
#include <semaphore>
#include <string_view>
#include <utility>

namespace sluice::redis {
namespace {

// One server's keys are found by SCAN and removed as they are found. The last to let go of `done`
// ends the wait: a lane that is closed lets go as well.
struct Sweep {
  Sweep(std::string matching, std::shared_ptr<std::binary_semaphore> ended)
      : pattern(std::move(matching)), done(std::move(ended)) {}
  ~Sweep() { done->release(); }
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  std::string pattern;
  std::shared_ptr<std::binary_semaphore> done;
};

std::string escape(std::string_view prefix) {
  std::string pattern;
  for (const char c : prefix) {
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern + "*";
}

void scan(const std::shared_ptr<Sweep>& sweep, Lane& lane, std::string_view cursor) {
  std::string command;
  append_command(command, {"SCAN", cursor, "MATCH", sweep->pattern, "COUNT", "1000"});
  lane.ask(std::move(command), [sweep, &lane](const Reply* reply, std::string_view) {
    if (reply == nullptr || reply->elements.size() != 2) return;
    for (const Reply& key : reply->elements[1].elements) {
      std::string removal;
      append_command(removal, {"UNLINK", key.text});
      lane.ask(std::move(removal), [sweep](const Reply*, std::string_view) {});
    }
    if (reply->elements[0].text != "0") scan(sweep, lane, reply->elements[0].text);
  });
  lane.kick();
}

}  // namespace

void sweep(Courier& courier, Fleet& fleet, const std::string& prefix,
           std::chrono::milliseconds patience) {
  const auto done = std::make_shared<std::binary_semaphore>(0);
  courier.loop().post([&fleet, pattern = escape(prefix), done] {
    const auto all = std::make_shared<Sweep>(pattern, done);
    for (Lane* lane : fleet.servers()) {
      if (lane->is_up()) scan(all, *lane, "0");
    }
  });
  (void)done->try_acquire_for(patience);
}

}  // namespace sluice::redis
