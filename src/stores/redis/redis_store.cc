#include "stores/redis/redis_store.h"

#include <exception>
#include <new>
#include <stdexcept>
#include <utility>

#include "algorithms/limit_definition.h"
#include "core/waiting.h"
#include "stores/redis/direct_call.h"
#include "stores/redis/redis_key.h"
#include "stores/redis/redis_space.h"
#include "stores/redis/slots.h"
#include "stores/redis/sweep.h"

namespace sluice::redis {
namespace {

constexpr std::size_t kMaxIdleCalls = 256;
constexpr std::chrono::milliseconds kSweepPatience{5'000};

}  // namespace

RedisStore::RedisStore(RedisOptions options)
    : options_(std::move(options)),
      carrier_(options_),
      courier_(carrier_, {.deadline = options_.deadline}),
      subscriber_(options_, courier_.loop(), [this] { return servers(); }),
      spaces_({.store = "redis store", .prefix = options_.prefix}) {
  try {
    carrier_.open(courier_);
  } catch (const std::runtime_error& error) {
    throw StoreError(error.what());
  }
  if (options_.topology == Topology::kSingle) here_ = &only_lane(carrier_.fleet());
  courier_.start([this] { carrier_.fleet().start(); });
}

RedisStore::~RedisStore() {
  if (options_.virtual_time) {
    std::string left(kNoMemory);
    try {
      std::string prefix;
      append_encoded(prefix, options_.prefix);
      left = sweep(courier_, carrier_, prefix + ":", kSweepPatience);
    } catch (const std::exception&) {
      // That is all there is to say: the keys lapse after a day.
    }
    if (!left.empty() && options_.left_behind) options_.left_behind(left);
  }
  courier_.stop();
  carrier_.close();
}

std::shared_ptr<Space> RedisStore::open_space(const LimitDefinition& limit) {
  return spaces_.open(limit);
}

std::shared_ptr<Space> RedisStore::replace_space(const std::shared_ptr<Space>& held,
                                                 const LimitDefinition& limit) {
  return spaces_.open(limit, held.get());
}

void RedisStore::decide(std::span<const Request> requests, Instant now,
                        std::span<Decision> decisions) {
  if (requests.empty()) return;
  AwaitedInquiry inquiry;
  inquiry.requests = requests;
  inquiry.decisions = decisions.first(requests.size());
  inquiry.now = now;
  ask(inquiry);
}

Decision RedisStore::decide_all(std::span<const Request> requests, Instant now) {
  check_together(requests);
  Decision decision;
  AwaitedInquiry inquiry;
  inquiry.requests = requests;
  inquiry.decisions = {&decision, 1};
  inquiry.together = true;
  inquiry.now = now;
  ask(inquiry);
  return decision;
}

bool RedisStore::submit_inquiry(Inquiry& inquiry) {
  if (inquiry.together) check_together(inquiry.requests);
  return !courier_.submit(inquiry);
}

std::unique_ptr<Watch> RedisStore::watch(const std::shared_ptr<Space>& space, std::string_view key,
                                         std::function<void()> released) {
  try {
    return subscriber_.watch(redis_key(*space, key), std::move(released));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// Those that hold keys, as far as they are known, those that are up first.
std::vector<Endpoint> RedisStore::servers() {
  std::vector<Endpoint> found;
  for (Lane* lane : carrier_.fleet().servers()) {
    found.insert(lane->is_up() ? found.begin() : found.end(), lane->endpoint());
  }
  return found;
}

Instant RedisStore::now() const {
  return wall_now();
}

void RedisStore::ask(AwaitedInquiry& inquiry) {
  const auto deadline = Courier::Clock::now() + courier_.deadline();
  if (here_ == nullptr || !decide_here(inquiry, deadline)) {
    return ask_and_wait(courier_, inquiry, deadline);
  }
  if (!inquiry.fault.empty()) throw StoreError(inquiry.fault);
}

// True: answered. False: nothing was carried out, and the courier knows what to do.
bool RedisStore::decide_here(Inquiry& inquiry, Courier::Clock::time_point deadline) {
  std::unique_ptr<DirectCall> call = take_call();
  bool answered = false;
  if (call->load(inquiry)) {
    const auto here = here_->pipeline().run_here(*call, deadline);
    if (here == Pipeline::Here::kHandedOver && !call->await(deadline) && call->leave()) {
      (void)call.release();
      leave_unanswered(inquiry, here_->late());
      return true;
    }
    answered = here != Pipeline::Here::kBusy && call->outcome() != DirectCall::Outcome::kRefused;
  }
  if (answered) {
    if (call->outcome() == DirectCall::Outcome::kLost) {
      leave_unanswered(inquiry, call->why());
    } else {
      inquiry.fault = call->why();
    }
  }
  keep_call(std::move(call));
  return answered;
}

std::unique_ptr<DirectCall> RedisStore::take_call() {
  {
    const std::lock_guard lock(mutex_);
    if (!calls_.empty()) {
      auto call = std::move(calls_.back());
      calls_.pop_back();
      return call;
    }
  }
  return std::make_unique<DirectCall>(call_options(options_), *here_);
}

void RedisStore::keep_call(std::unique_ptr<DirectCall> call) {
  const std::lock_guard lock(mutex_);
  if (calls_.size() < kMaxIdleCalls) calls_.push_back(std::move(call));
}

void RedisStore::check_together(std::span<const Request> requests) const {
  if (requests.size() > kMaxTogether) {
    throw std::invalid_argument("at most " + std::to_string(kMaxTogether) +
                                " requests are asked together, not " +
                                std::to_string(requests.size()));
  }
  for (const Request& request : requests) {
    if (lends(*request.limit)) throw std::invalid_argument("permits are acquired one by one");
    if (request.operation != Operation::kTake) {
      throw std::invalid_argument("requests that are asked together only take");
    }
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (requests[i].space == requests[j].space && requests[i].key == requests[j].key) {
        throw std::invalid_argument("two requests that are asked together name the same key of '" +
                                    requests[i].limit->space + "'");
      }
    }
  }
  if (options_.topology != Topology::kCluster) return;
  for (const Request& request : requests) {
    if (slot_of(redis_key(*request.space, request.key)) !=
        slot_of(redis_key(*requests[0].space, requests[0].key))) {
      throw std::invalid_argument(
          "keys that are asked together on a cluster must share a slot, as equal keys do");
    }
  }
}

}  // namespace sluice::redis
