#include "stores/redis/answer.h"

#include "core/assign.h"
#include "core/block.h"
#include "stores/redis/part_codec.h"

namespace sluice::redis {
namespace {

// How the C++ transition is asked the same.
Call call_of(const Answer& answer) {
  const bool up_to = answer.request.operation == Operation::kTakeUpTo;
  return {.now = answer.now,
          .cost = answer.cost,
          .patience_ns = up_to ? kDefaultPatience : answer.request.patience_ns,
          .unspent_only = up_to,
          .permit = answer.request.permit};
}

template <class A>
[[gnu::flatten]] void decide(const typename A::Params& params, const typename A::State& state,
                             const Answer& answer, Decision& decision) {
  assign(decision, apply<A>(answer.request.operation, params, state, call_of(answer)).decision);
  if (!answer.retract || !decision.allowed) return;
  assign(decision, A::take(params, state, {.now = answer.now, .cost = 0}).decision);
}

// The same where the request has taken something before, and rounding twice is not rounding once:
// as if all were asked for at once. False where the state does not have what was taken.
template <class A>
bool decide_further(const typename A::Params& params, const typename A::State& state,
                    const Answer& answer, Decision& decision) {
  typename A::State before = state;
  if (!PartCodec<A>::go_back(before, answer.taken)) return false;
  Call call = call_of(answer);
  call.cost += answer.taken;
  decision = apply<A>(answer.request.operation, params, before, call).decision;
  if (decision.allowed && !answer.retract) return true;
  const bool allowed = decision.allowed;
  decision = A::take(params, state, {.now = answer.now, .cost = 0}).decision;
  decision.allowed = allowed;
  return true;
}

// What follows from the permits that are held afterwards; what is renewed or given back was held if
// the script says so.
Decision decide_permits(const Concurrency::Params& params, const Concurrency::Held& held,
                        const Answer& answer) {
  const Operation operation = answer.request.operation;
  bool allowed = true;
  if (takes(operation, answer.cost)) {
    const bool room =
        answer.admitted ? held.count > 0 && held.count <= params.limit : held.count < params.limit;
    allowed = answer.cost == 1 && room;
  } else if (operation == Operation::kRenew) {
    allowed = answer.admitted && held.count > 0 && held.last_ns - params.lease_ns >= answer.now;
  } else if (operation == Operation::kRelease) {
    allowed = answer.admitted;
  }
  Decision decision = Concurrency::answer(params, held, allowed, call_of(answer));
  if (!allowed && !takes(operation, answer.cost)) decision.retry_after = kNever;
  return decision;
}

// False where what is held makes no sense.
bool judge_permits(const Concurrency::Params& params, Answer& answer, Decision& decision) {
  Concurrency::Held held;
  if (answer.request.operation != Operation::kReset) {
    if (answer.state == nullptr || !read_held(answer.sum, held)) return false;
    if (held.count > 0 && held.last_ns <= answer.now) return false;
    if (held.count >= params.limit && held.room_ns <= answer.now) return false;
  }
  decision = decide_permits(params, held, answer);
  return true;
}

// False where the state is none.
template <class A>
bool judge_part(const typename A::Params& params, Answer& answer, Decision& decision) {
  if constexpr (LendingAlgorithm<A>) {
    return judge_permits(params, answer, decision);
  } else {
    typename A::State state;
    RingAnswer ring;
    if (answer.state != nullptr && answer.request.operation != Operation::kReset) {
      if constexpr (kIsRing<A>) {
        if (!ring.read(answer.sum)) return false;
        answer.sum += kSumBytes;
        state =
            ring.ring({.operation = answer.request.operation, .cost = answer.cost}, params.limit);
      } else if (!PartCodec<A>::read(answer.state, state)) {
        return false;
      }
      answer.state += PartCodec<A>::kStateBytes;
    }
    if constexpr (requires { PartCodec<A>::go_back(state, answer.taken); }) {
      if (answer.taken > 0) return decide_further<A>(params, state, answer, decision);
    }
    decide<A>(params, state, answer, decision);
    return true;
  }
}

bool judge_parts(Answer& answer, Together& together) {
  for (const AnyPart& part : answer.request.limit->parts) {
    Decision decision;
    if (!answer.judge(part, decision)) return false;
    together.add(decision);
  }
  return true;
}

// The same for a key that is blocked until then: its parts answer as one.
bool judge_blocked(Answer& answer, Together& together) {
  const bool denied = takes(answer.request.operation, answer.cost);
  answer.retract = answer.retract || denied;
  Together parts;
  if (!judge_parts(answer, parts)) return false;
  together.add(block_decision(parts.decision(), denied, answer.now, answer.until));
  return true;
}

}  // namespace

bool Answer::judge(const AnyPart& part, Decision& decision) {
  return std::visit(
      [&]<class P>(const P& p) {
        return judge_part<typename P::Algorithm>(p.params, *this, decision);
      },
      part);
}

bool Answer::judge(Together& together) {
  return until == 0 ? judge_parts(*this, together) : judge_blocked(*this, together);
}

}  // namespace sluice::redis
