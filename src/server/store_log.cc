#include "server/store_log.h"

#include <utility>

namespace sluice {
namespace {

LogEvent log_event_of(const StoreEvent& event) {
  const StoreHealth& health = event.health;
  switch (event.kind) {
    case StoreEvent::Kind::kUp:
      return {LogLevel::kInfo, "store_back", event.message};
    case StoreEvent::Kind::kDown:
      return {LogLevel::kWarning,
              "store_lost",
              event.message,
              {{"reason", std::string(health.reason)}}};
    case StoreEvent::Kind::kLate:
      return {LogLevel::kWarning,
              "store_late",
              event.message,
              {{"round_trip_seconds", in_seconds(health.late_round_trip)},
               {"deadline_seconds", in_seconds(health.deadline)}}};
    case StoreEvent::Kind::kRefused:
      return {LogLevel::kWarning, "store_refuses", event.message, {{"reason", health.refusal}}};
    case StoreEvent::Kind::kClock:
      return {LogLevel::kWarning,
              "clock_behind",
              event.message,
              {{"behind_seconds", in_seconds(health.clock_lag)}}};
    case StoreEvent::Kind::kFull:
      break;
  }
  return {LogLevel::kWarning,
          "store_full",
          event.message,
          {{"evicted", static_cast<std::int64_t>(health.evicted)},
           {"without_room", static_cast<std::int64_t>(health.without_room)}}};
}

}  // namespace

StoreObserver log_store_events(LogFunction log) {
  return [log = std::move(log)](const StoreEvent& event) {
    if (event.kind == StoreEvent::Kind::kUp && event.health.times_lost == 0) return;
    log(log_event_of(event));
  };
}

}  // namespace sluice
