// A budget of language-model tokens per hour for each tenant. Before a call it is not known how
// many tokens the call will use:
//   llm_budget STORE_URL LIMIT < calls
//   llm_budget memory: 'token_bucket 1000000/1h' < calls
// A call is a line, "TENANT ESTIMATE USED", or "TENANT ESTIMATE fails". The program reserves the
// estimate before the call, so that concurrent calls cannot overdraw the budget together, and
// settles the real use after it.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "sluice/sluice.h"

namespace {

struct Call {
  std::string tenant;
  std::int64_t estimate = 0;
  std::optional<std::int64_t> used;  // None: the model fails.
};

std::optional<Call> read_call(const std::string& line) {
  std::istringstream words(line);
  Call call;
  std::string used;
  if (!(words >> call.tenant >> call.estimate >> used) || call.estimate < 1) return std::nullopt;
  if (used == "fails") return call;
  std::istringstream number(used);
  std::int64_t units = 0;
  if (!(number >> units) || units < 0) return std::nullopt;
  call.used = units;
  return call;
}

// Stands for the model. Returns the tokens that the call used.
std::int64_t ask_the_model(const Call& call) {
  if (!call.used) throw std::runtime_error("the model does not answer");
  return *call.used;
}

void answer(sluice::Limiter& budget, const Call& call) {
  // A patience (longest wait) of 0: this caller prefers a denial to waiting, so an admission has no
  // delay.
  sluice::Reservation tokens =
      budget.reserve(call.tenant, call.estimate, std::chrono::nanoseconds(0));
  if (!tokens) {
    const std::chrono::nanoseconds retry_after = tokens.decision().retry_after;
    if (retry_after == sluice::kNever) {
      std::printf("413 more than the whole budget\n");
    } else {
      const auto wait = std::chrono::ceil<std::chrono::seconds>(retry_after);
      std::printf("429 retry after %lld s\n", static_cast<long long>(wait.count()));
    }
    return;
  }
  std::int64_t used = 0;
  try {
    used = ask_the_model(call);
  } catch (const std::exception& error) {
    tokens.cancel();
    std::printf("502 %s\n", error.what());
    return;
  }
  const sluice::Decision left = tokens.commit(used);  // Even if it is more than the estimate.
  std::printf("200 used %lld, %lld left\n", static_cast<long long>(used),
              static_cast<long long>(left.remaining));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: llm_budget STORE_URL LIMIT < calls\n");
    return 2;
  }
  try {
    sluice::Limiter budget(sluice::open_store(arguments[1]), sluice::Limit(arguments[2], "tokens"));
    for (std::string line; std::getline(std::cin, line); std::fflush(stdout)) {
      if (const std::optional<Call> call = read_call(line)) {
        answer(budget, *call);
      } else {
        std::printf("400 not a call\n");
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llm_budget: %s\n", error.what());
    return 1;
  }
}
