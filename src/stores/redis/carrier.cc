#include "stores/redis/carrier.h"

#include <algorithm>
#include <exception>

#include "stores/redis/redis_space.h"
#include "stores/redis/slots.h"

namespace sluice::redis {
namespace {

// A server that cannot answer now is asked again after this.
constexpr std::chrono::milliseconds kRest{3};

std::unique_ptr<Fleet> make_fleet(const FleetParts& parts) {
  switch (parts.options.topology) {
    case Topology::kSentinel:
      return make_sentinel_fleet(parts);
    case Topology::kCluster:
      return make_cluster_fleet(parts);
    case Topology::kSingle:
      break;
  }
  return make_single_fleet(parts);
}

}  // namespace

void RedisCarrier::open(Courier& courier) {
  courier_ = &courier;
  rest_.emplace(courier.loop(), [this] {
    route_all(resting_);
    dispatch();
  });
  fleet_ = make_fleet({.options = options_, .courier = courier, .owner = *this, .changed = [this] {
                         route_all(waiting_);
                         dispatch();
                       }});
}

// Which slot matters where keys are spread, over nodes or over connections.
std::uint16_t RedisCarrier::slot_of(const Errand& errand) {
  if (options_.topology != Topology::kCluster && options_.connections == 1) return 0;
  const Request& request = errand.requests[0];
  key_.clear();
  append_redis_key(key_, *request.space, request.key);
  return redis::slot_of(key_);
}

// Where a step throws, nobody has taken the errand.
template <typename Step>
void RedisCarrier::take(Errand& errand, Step step) {
  try {
    step();
  } catch (const std::exception&) {
    courier_->fail(errand, kNoMemory);
  }
}

void RedisCarrier::carry(Errand& errand) {
  take(errand, [&] {
    errand.slot = slot_of(errand);
    route(errand);
  });
}

// First: once a lane has the errand, nothing is to go wrong.
void RedisCarrier::touch(Lane& lane) {
  if (!touched_.empty() && touched_.back() == &lane) return;
  touch_another(lane);
}

void RedisCarrier::touch_another(Lane& lane) {
  if (std::find(touched_.begin(), touched_.end(), &lane) == touched_.end()) {
    touched_.push_back(&lane);
  }
}

void RedisCarrier::route(Errand& errand) {
  const Way way = fleet_->way(errand.slot);
  if (way.lane != nullptr) {
    touch(*way.lane);
    way.lane->carry(errand);
  } else if (!way.why.empty()) {
    courier_->fail(errand, way.why);
  } else {
    waiting_.push_back(errand);
  }
}

void RedisCarrier::route_all(ErrandList& errands) {
  for (std::size_t left = errands.size(); left > 0 && !errands.empty(); --left) {
    Errand& errand = errands.pop_front();
    take(errand, [&] { route(errand); });
  }
}

void RedisCarrier::dispatch() {
  // A lane's kick may lead back here.
  std::vector<Lane*> lanes;
  lanes.swap(touched_);
  for (Lane* lane : lanes) lane->kick();
  if (touched_.empty()) {
    lanes.clear();
    touched_.swap(lanes);
  }
}

std::string_view RedisCarrier::abandon(Errand& errand) {
  Lane::abandon(errand);
  const Way way = fleet_->way(errand.slot);
  return way.lane != nullptr ? way.lane->late() : nowhere_.late();
}

void RedisCarrier::on_up(Lane& lane) {
  if (options_.virtual_time) greeted_.insert(lane.name());
  fleet_->on_up(lane);
}

void RedisCarrier::on_refused(Errand& errand, Lane& lane, std::string_view text) {
  take(errand, [&] { take_back(errand, lane, text); });
  dispatch();
}

void RedisCarrier::take_back(Errand& errand, Lane& lane, std::string_view text) {
  if (text.empty()) return route(errand);
  const ServerError error = read_server_error(text);
  const auto fail = [&] { courier_->fail(errand, lane.name() + ": " + std::string(text)); };
  using Kind = ServerError::Kind;
  switch (error.kind) {
    case Kind::kMoved:
    case Kind::kAsk:
      return redirect(errand, lane, error);
    case Kind::kTryAgain:
      errand.alone = true;
      return rest(errand);
    case Kind::kBusy:
      return rest(errand);
    case Kind::kClusterDown:
    case Kind::kReadOnly:
      return fleet_->doubt(lane, text) ? rest(errand) : fail();
    case Kind::kLoading:
      return rest(errand);
    case Kind::kNoAuth:
    case Kind::kNoScript:
    case Kind::kNoPerm:
    case Kind::kOther:
      return fail();
  }
}

void RedisCarrier::redirect(Errand& errand, Lane& lane, const ServerError& error) {
  if (++errand.tries > kMaxRedirects) {
    return courier_->fail(errand, lane.name() + " redirected once too often");
  }
  const Way to = fleet_->redirect(error, lane);
  if (to.lane == nullptr) return courier_->fail(errand, lane.name() + ": " + std::string(to.why));
  touch(*to.lane);
  if (error.kind == ServerError::Kind::kAsk) {
    to.lane->carry_asking(errand);
  } else {
    to.lane->carry(errand);
  }
}

void RedisCarrier::rest(Errand& errand) {
  if (!rest_->is_set()) rest_->set(kRest);
  resting_.push_back(errand);
}

}  // namespace sluice::redis
