#include "stores/memcached/memcached_store.h"

#include <algorithm>
#include <functional>
#include <future>
#include <stdexcept>
#include <utility>

#include "algorithms/limit_definition.h"
#include "core/waiting.h"

namespace sluice::memcached {
namespace {

constexpr std::chrono::seconds kSweepPatience{5};

// What a key's value keeps one by one, at most: for algorithms whose limit is bounded because they
// keep an entry for each unit or permit.
std::int64_t kept_one_by_one(const LimitDefinition& limit) {
  std::int64_t entries = 0;
  for (const auto& part : limit.parts) {
    entries += std::visit(
        []<class P>(const P& p) -> std::int64_t {
          if constexpr (requires { P::Algorithm::kMaxLimit; }) {
            return p.params.limit;
          } else {
            return 0;
          }
        },
        part);
  }
  return entries;
}

void check_together(std::span<const Request> requests) {
  if (std::ranges::any_of(requests, [](const Request& r) { return lends(*r.limit); })) {
    throw std::invalid_argument("permits are acquired one by one, not in a list");
  }
  if (requests.size() == 1) return;
  throw std::invalid_argument(
      "on Memcached only one limit and key can be taken from in one step, not " +
      std::to_string(requests.size()) +
      ": each is a value of its own (limits that are joined by '&' are one)");
}

void require_room_in_a_value(const LimitDefinition& limit) {
  const std::int64_t kept = kept_one_by_one(limit);
  if (kept > MemcachedStore::kMaxKept) {
    const bool permits = lends(limit);
    throw StoreError("memcached store: '" + limit.expression + "' keeps up to " +
                     std::to_string(kept) + (permits ? " permits" : " admitted instants") +
                     " for a key, but at most " + std::to_string(MemcachedStore::kMaxKept) +
                     " fit into a value" + (permits ? "" : " (sliding_window has no such bound)"));
  }
}

}  // namespace

MemcachedStore::MemcachedStore(MemcachedOptions options)
    : options_(std::move(options)),
      executor_(options_),
      courier_(executor_, {.deadline = options_.deadline}),
      spaces_({.store = "memcached store", .prefix = options_.prefix}) {
  executor_.open(courier_);
  for (const auto& lane : executor_.lanes()) {
    try {
      pipelines_.push_back(
          std::make_unique<Pipeline>(courier_.loop(), lane->pipeline_options(), *lane));
    } catch (const std::runtime_error& error) {
      throw StoreError(error.what());
    }
    Pipeline& pipeline = *pipelines_.back();
    lane->attach({.kick = [&pipeline] { pipeline.kick(); },
                  .reconnect = [&pipeline](std::string_view why) { pipeline.reconnect(why); }});
  }
  courier_.start([this] {
    for (auto& pipeline : pipelines_) pipeline->start();
  });
}

MemcachedStore::~MemcachedStore() {
  if (options_.virtual_time) {
    auto swept = std::make_shared<std::promise<void>>();
    std::function<void()> done = [swept] { swept->set_value(); };
    courier_.loop().post(
        [this, done = std::move(done)]() mutable { executor_.sweep(std::move(done)); });
    swept->get_future().wait_for(kSweepPatience);
  }
  courier_.stop();
  pipelines_.clear();
}

std::shared_ptr<Space> MemcachedStore::open_space(const LimitDefinition& limit) {
  require_room_in_a_value(limit);
  return spaces_.open(limit);
}

std::shared_ptr<Space> MemcachedStore::replace_space(const std::shared_ptr<Space>& held,
                                                     const LimitDefinition& limit) {
  require_room_in_a_value(limit);
  return spaces_.open(limit, held.get());
}

void MemcachedStore::decide(std::span<const Request> requests, Instant now,
                            std::span<Decision> decisions) {
  if (requests.empty()) return;
  AwaitedInquiry inquiry;
  inquiry.requests = requests;
  inquiry.decisions = decisions.first(requests.size());
  inquiry.now = now;
  ask_and_wait(courier_, inquiry, Courier::Clock::now() + courier_.deadline());
}

Decision MemcachedStore::decide_all(std::span<const Request> requests, Instant now) {
  check_together(requests);
  Decision decision;
  decide(requests, now, {&decision, 1});
  return decision;
}

bool MemcachedStore::submit_inquiry(Inquiry& inquiry) {
  if (inquiry.together) check_together(inquiry.requests);
  return !courier_.submit(inquiry);
}

}  // namespace sluice::memcached
