// Checks with the model what the headers promise: a client that follows them is admitted.

#include "sluice/http_headers.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/instant.h"
#include "model/model.h"
#include "testing/made_headers.h"

namespace sluice {
namespace {

using model::Kind;
using model::Model;
using model::ModelLimit;
using model::ModelLimits;
using model::ModelRequest;
using model::Wide;

// Nothing, or the text of the header.
std::optional<std::string> header(const std::vector<HttpHeader>& headers, std::string_view name) {
  const auto found = std::ranges::find(headers, name, &HttpHeader::name);
  if (found == headers.end()) return std::nullopt;
  return found->value;
}

// The number of a parameter, such as ";q=", of the first member that has it.
std::optional<std::int64_t> number(std::string_view text, std::string_view parameter) {
  const std::size_t at = text.find(parameter);
  if (at == std::string_view::npos) return std::nullopt;
  std::int64_t value = 0;
  const std::string_view digits = text.substr(at + parameter.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// The member of a list with this name.
std::string member(std::string_view list, std::string_view quoted_name) {
  const std::size_t begin = list.find(quoted_name);
  RC_ASSERT(begin != std::string_view::npos);
  return std::string(list.substr(begin, list.find(", ", begin) - begin));
}

rc::Gen<ModelLimit> any_limit() {
  return rc::gen::suchThat(
      rc::gen::exec([] {
        ModelLimit limit;
        limit.kind =
            *rc::gen::element(Kind::kFixedWindow, Kind::kSlidingLog, Kind::kSlidingWindow,
                              Kind::kSlidingCounter, Kind::kTokenBucket, Kind::kLeakyBucket);
        limit.count = *rc::gen::element<std::int64_t>(1, 2, 3, 7, 60, 1000, 65'536, kMaxCount);
        limit.window_ns = *rc::gen::element<std::int64_t>(
            1, 10 * kMillisecondNs, kSecondNs - 1, kSecondNs, kSecondNs + 1, 7 * kSecondNs,
            kMinuteNs, kHourNs + 1, kDayNs, 400 * kDayNs);
        if (*rc::gen::arbitrary<bool>()) limit.burst = *rc::gen::element<std::int64_t>(1, 5, 2000);
        limit.queue = *rc::gen::element<std::int64_t>(0, 1, 10, 50'000);
        limit.strict = *rc::gen::arbitrary<bool>();
        limit.anchor_first = *rc::gen::arbitrary<bool>();
        limit.borrow = *rc::gen::arbitrary<bool>();
        return limit;
      }),
      [](const ModelLimit& limit) { return limit.definable(); });
}

// Requests of one key in order of time, each with the headers of its answer.
class Client {
 public:
  explicit Client(ModelLimits limits)
      : limits_(std::move(limits)), limit_(model::expression(limits_), "api") {
    RC_LOG(limit_.expression());
  }

  // Makes a request some time after the last one. Most are near the edges of the limit.
  void ask() {
    const ModelLimit& one = *rc::gen::elementOf(limits_);
    const auto most = static_cast<std::int64_t>(std::min(one.most(), Wide{kMaxCount} - 1));
    now_ += *rc::gen::oneOf(rc::gen::element<std::int64_t>(0, 1, kSecondNs, one.window_ns),
                            rc::gen::inRange<std::int64_t>(0, one.window_ns + 1));
    request_ = {.space = "api",
                .limits = limits_,
                .key = "key",
                .operation = *rc::gen::weightedElement<Operation>({{12, Operation::kTake},
                                                                   {2, Operation::kRefund},
                                                                   {1, Operation::kCharge},
                                                                   {1, Operation::kBlock}}),
                .cost = *rc::gen::element<std::int64_t>(0, 1, 1, 2, most / 3, most, most + 1),
                .duration_ns = 3 * kSecondNs + 1};
    decision_ = model_.decide(request_, now_);
    const std::pair<Limit, Decision> answer[] = {{limit_, decision_}};
    headers_ = made_headers(answer, HeaderStyle::kIetf11);
    for (const HttpHeader& one_header : headers_) {
      RC_LOG() << "at " << now_ << ": " << one_header.name << ": " << one_header.value << '\n';
    }
  }

  const Decision& decision() const { return decision_; }
  const std::vector<HttpHeader>& headers() const { return headers_; }
  std::int64_t asked_cost() const { return request_.cost; }
  Instant now() const { return now_; }

  // A copy of the model in which the client takes units at `now`.
  struct Taken {
    Decision decision;
    Model model;
  };
  Taken take(const Model& from, std::int64_t cost, Instant now) const {
    Model copy = from;
    const ModelRequest request{.space = "api", .limits = limits_, .key = "key", .cost = cost};
    const Decision decision = copy.decide(request, now);
    return {decision, std::move(copy)};
  }
  // Whether this cost is admitted at that time, which is after now.
  bool admits(const Model& from, std::int64_t cost, Wide at) const {
    if (at >= Wide{kEndOfTime}) return true;  // No request is made then.
    return take(from, cost, static_cast<Instant>(at)).decision.allowed;
  }
  const Model& model() const { return model_; }

 private:
  ModelLimits limits_;
  Limit limit_;
  Model model_;
  Instant now_ = 1'700'000'000 * kSecondNs;
  ModelRequest request_;
  Decision decision_;
  std::vector<HttpHeader> headers_;
};

// A RateLimit and a RateLimit-Policy of the same name.
struct Told {
  std::int64_t quota = 0;
  std::int64_t remaining = 0;
  std::optional<std::int64_t> policy_window_s;
  std::optional<std::int64_t> window_s;
};

Told told_to(const Client& client) {
  const std::string remaining = header(client.headers(), "RateLimit").value();
  const std::string name = remaining.substr(0, remaining.find(';')) + ";";
  const std::string policy = member(header(client.headers(), "RateLimit-Policy").value(), name);
  return {.quota = number(policy, ";q=").value(),
          .remaining = number(remaining, ";r=").value(),
          .policy_window_s = number(policy, ";w="),
          .window_s = number(remaining, ";t=")};
}

void check_rate(const Told& told) {
  RC_ASSERT(told.policy_window_s.has_value() == told.window_s.has_value());
  if (!told.window_s) return;
  RC_ASSERT(*told.window_s >= 1);
  RC_ASSERT(Wide{told.remaining} * *told.policy_window_s <= Wide{told.quota} * *told.window_s);
}

void check_retry_after(const Client& client) {
  const auto retry_after = header(client.headers(), "Retry-After");
  const Decision& decision = client.decision();
  RC_ASSERT(retry_after.has_value() == (!decision.allowed && decision.retry_after != kNever));
  if (!retry_after) return;
  const std::int64_t wait_s = std::stoll(*retry_after);
  RC_ASSERT(wait_s >= 1);
  RC_ASSERT(
      client.admits(client.model(), client.asked_cost(), client.now() + Wide{wait_s} * kSecondNs));
}

// A client that uses exactly the units that the headers say are left is admitted, and again when
// the key is fresh.
void check_remaining(const Client& client, std::int64_t remaining) {
  const auto spent = client.take(client.model(), remaining, client.now());
  RC_ASSERT(spent.decision.allowed);
  RC_ASSERT(client.admits(spent.model, remaining,
                          Wide{client.now()} + spent.decision.reset_after.count()));
}

TEST(HttpHeaders, AClientThatDoesAsTheySayIsServed) {
  rc::detail::checkGTest([] {
    Client client({*any_limit()});
    const int requests = *rc::gen::inRange(1, 20);
    for (int i = 0; i < requests; ++i) {
      client.ask();
      const Told told = told_to(client);
      check_rate(told);
      check_retry_after(client);
      if (told.remaining > 0) {
        check_remaining(client, told.remaining);
      } else if (told.window_s) {
        RC_ASSERT(
            client.admits(client.model(), 1, client.now() + Wide{*told.window_s} * kSecondNs));
      }
    }
  });
}

TEST(HttpHeaders, OfAJoinedLimitOnePartIsTold) {
  rc::detail::checkGTest([] {
    Client client({*any_limit(), *any_limit(), *any_limit()});
    const int requests = *rc::gen::inRange(1, 10);
    for (int i = 0; i < requests; ++i) {
      client.ask();
      check_rate(told_to(client));
      check_retry_after(client);
      const std::string policies = header(client.headers(), "RateLimit-Policy").value();
      for (const char* name : {"\"api\";", "\"api.2\";", "\"api.3\";"}) {
        RC_ASSERT(number(member(policies, name), ";q=").value() >= 1);
      }
    }
  });
}

}  // namespace
}  // namespace sluice
