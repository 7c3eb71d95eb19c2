#include "service/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "service/metrics_text.h"
#include "service/server_context.h"
#include "testing/ask_batch.h"
#include "testing/served_store.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

/// The samples of a text in Prometheus's format.
class Exposition {
 public:
  explicit Exposition(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with('#')) continue;
      const std::size_t blank = line.rfind(' ');
      EXPECT_TRUE(samples.try_emplace(line.substr(0, blank), line.substr(blank + 1)).second)
          << "twice: " << line;
    }
  }

  /// By name and labels, as they are written.
  std::map<std::string, std::string> samples;

  /// The samples of this family, as they are written after its name.
  std::map<std::string, std::string> of(const std::string& family) const {
    std::map<std::string, std::string> found;
    for (const auto& [name, value] : samples) {
      if (name.starts_with(family + "{")) found[name.substr(family.size())] = value;
    }
    return found;
  }
};

class MetricsTest : public testing::Test {
 protected:
  void take(std::string_view limit, std::string_view key, int count = 1) {
    ThreadContext& own = context.thread(1);
    for (int i = 0; i < count; ++i) {
      const auto& found = own.limits.find(limit);
      own.batch.add(found, {.key = key}, {});
      ask_batch(own, *store);
    }
  }
  Exposition metrics() const { return Exposition(metrics_text(context)); }
  std::string value(const std::string& sample) const {
    const Exposition all = metrics();
    const auto at = all.samples.find(sample);
    return at == all.samples.end() ? "(none)" : at->second;
  }

  std::shared_ptr<ScriptedStore> store = still_store();
  ServerContext context{store,
                        std::vector<Limit>{Limit("token_bucket 2/1h", "login")},
                        2,
                        {.store_url = "redis://:***@10.0.0.7", .max_connections = 70}};
};

TEST_F(MetricsTest, CountsDecisionsByLimitOutcomeAndSource) {
  EXPECT_THAT(
      metrics().of("sluice_decisions_total"),
      UnorderedElementsAre(Pair(R"({limit="login",outcome="allowed",source="store"})", "0"),
                           Pair(R"({limit="login",outcome="denied",source="store"})", "0"),
                           Pair(R"-({limit="(other)",outcome="allowed",source="store"})-", "0"),
                           Pair(R"-({limit="(other)",outcome="denied",source="store"})-", "0")));
  decide_locally(*store, {.allowed = true});
  store->loses = [](const Request& request) { return request.key == "lost"; };
  take("login", "bob", 5);
  take("login", "local");
  take("login", "lost", 3);
  take("token_bucket 7/1h", "bob");
  EXPECT_THAT(
      metrics().of("sluice_decisions_total"),
      UnorderedElementsAre(Pair(R"({limit="login",outcome="allowed",source="local"})", "1"),
                           Pair(R"({limit="login",outcome="allowed",source="store"})", "2"),
                           Pair(R"({limit="login",outcome="denied",source="store"})", "3"),
                           Pair(R"({limit="login",outcome="denied",source="unavailable"})", "3"),
                           Pair(R"-({limit="(other)",outcome="allowed",source="store"})-", "1"),
                           Pair(R"-({limit="(other)",outcome="denied",source="store"})-", "0")));
}

// The number of series does not depend on what clients ask for.
TEST_F(MetricsTest, HasAsManySeriesAsTheFileHasLimits) {
  take("token_bucket 7/1h", "bob");
  const std::size_t series = metrics().samples.size();
  for (int i = 1; i <= 300; ++i) {
    take("token_bucket " + std::to_string(i) + "/1h", "key" + std::to_string(i));
  }
  EXPECT_EQ(metrics().samples.size(), series);
}

TEST_F(MetricsTest, TimesEachBatchOfAStoreThatAnswersLater) {
  const auto later = later_store();
  ServerContext server(later, std::vector<Limit>{Limit("token_bucket 2/1h", "login")}, 1);
  ThreadContext& own = server.thread(0);
  const auto& limit = own.limits.find("login");
  for (int i = 0; i < 3; ++i) {
    for (const char* key : {"ann", "bob"}) own.batch.add(limit, {.key = key}, {});
    ask_batch(own, *later);
  }
  const auto counts = server.durations().decisions;
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}), 6U);
}

TEST_F(MetricsTest, CountsDurationsInBuckets) {
  context.thread(0).counters.durations.add(250, 3);
  context.thread(1).counters.durations.add(251, 2);
  context.thread(1).counters.durations.add(2'000'000'000, 1);
  const auto buckets = metrics().of("sluice_decision_duration_seconds_bucket");
  EXPECT_EQ(buckets.size(), DurationCounts::kBuckets);
  EXPECT_EQ(buckets.at(R"({store="redis",le="2.5e-07"})"), "3");
  EXPECT_EQ(buckets.at(R"({store="redis",le="5e-07"})"), "5");
  EXPECT_EQ(buckets.at(R"({store="redis",le="1"})"), "5");
  EXPECT_EQ(buckets.at(R"({store="redis",le="+Inf"})"), "6");
  EXPECT_EQ(std::stod(value("sluice_decision_duration_seconds_sum{store=\"redis\"}")), 2.000001252);
}

TEST_F(MetricsTest, TellsHowTheStoreIs) {
  EXPECT_EQ(value("sluice_store_up{store=\"redis\"}"), "0");
  StoreHealth& now = store->health;
  now.state = StoreHealth::State::kUp;
  now.times_lost = 2;
  now.deadline = std::chrono::milliseconds(10);
  now.round_trip_p50 = std::chrono::microseconds(120);
  now.round_trip_p99 = std::chrono::microseconds(3'400);
  now.late_replies = 3;
  now.late_server = 4;
  now.late_here = 5;
  now.clock_behind = 6;
  now.refused = 12;
  now.unanswered = 7;
  now.charged_back = 8;
  now.not_charged_back = 9;
  now.evicted = 10;
  now.without_room = 11;
  std::map<std::string, std::string> told;
  for (const auto& [name, value] : metrics().samples) {
    if (name.starts_with("sluice_store_")) told[name.substr(13)] = value;
  }
  const std::map<std::string, std::string> expected{
      {"up{store=\"redis\"}", "1"},
      {"lost_total{store=\"redis\"}", "2"},
      {"deadline_seconds{store=\"redis\"}", "0.01"},
      {"round_trip_p50_seconds{store=\"redis\"}", "0.00012"},
      {"round_trip_p99_seconds{store=\"redis\"}", "0.0034"},
      {"late_replies_total{store=\"redis\"}", "3"},
      {"late_requests_total{store=\"redis\",side=\"server\"}", "4"},
      {"late_requests_total{store=\"redis\",side=\"process\"}", "5"},
      {"clock_behind_total{store=\"redis\"}", "6"},
      {"refused_total{store=\"redis\"}", "12"},
      {"unanswered_total{store=\"redis\"}", "7"},
      {"charged_back_units_total{store=\"redis\"}", "8"},
      {"not_charged_back_units_total{store=\"redis\"}", "9"},
      {"evicted_keys_total{store=\"redis\"}", "10"},
      {"without_room_total{store=\"redis\"}", "11"}};
  EXPECT_EQ(told, expected);
}

TEST_F(MetricsTest, CountsConnectionsByProtocol) {
  ProtocolCounters& resp = context.protocol("resp");
  ++context.protocol("http").refused;
  std::optional<CountedConnection> first(resp);
  const CountedConnection second(resp);
  first.reset();
  resp.parse_errors = 4;
  EXPECT_THAT(metrics().of("sluice_connections"),
              ElementsAre(Pair(R"({protocol="http"})", "0"), Pair(R"({protocol="resp"})", "1")));
  EXPECT_EQ(value(R"(sluice_connections_accepted_total{protocol="resp"})"), "2");
  EXPECT_EQ(value(R"(sluice_connections_refused_total{protocol="http"})"), "1");
  EXPECT_EQ(value(R"(sluice_parse_errors_total{protocol="resp"})"), "4");
  resp.timed_out_idle = 5;
  resp.timed_out_requests = 6;
  resp.timed_out_unread = 7;
  resp.accept_failures = 8;
  resp.without_room = 9;
  const std::string timed_out = R"(sluice_connections_timed_out_total{protocol="resp",reason=)";
  EXPECT_EQ(value(timed_out + R"("idle"})"), "5");
  EXPECT_EQ(value(timed_out + R"("request"})"), "6");
  EXPECT_EQ(value(timed_out + R"("unread"})"), "7");
  EXPECT_EQ(value(R"(sluice_accept_failures_total{protocol="resp"})"), "8");
  EXPECT_EQ(value(R"(sluice_connections_without_room_total{protocol="resp"})"), "9");
  EXPECT_EQ(value("sluice_max_connections"), "70");
}

// Times are those of the wall clock, which the store's clock may differ from.
TEST_F(MetricsTest, TellsAboutTheProcess) {
  EXPECT_NEAR(std::stod(value("process_start_time_seconds")), in_seconds(wall_now()), 600);
  EXPECT_NEAR(std::stod(value("sluice_last_reload_time_seconds")), in_seconds(wall_now()), 600);
  EXPECT_GT(std::stoul(value("process_resident_memory_bytes")), 0U);
  const auto build = metrics().of("sluice_build_info");
  ASSERT_EQ(build.size(), 1U);
  EXPECT_THAT(build.begin()->first, testing::MatchesRegex(R"re(\{version="[0-9.]+"\})re"));
}

TEST_F(MetricsTest, CountsSnapshots) {
  EXPECT_EQ(value("sluice_last_snapshot_time_seconds"), "0");
  context.count_snapshot(true);
  context.count_snapshot(false);
  context.count_snapshot(false);
  EXPECT_NEAR(std::stod(value("sluice_last_snapshot_time_seconds")), in_seconds(wall_now()), 600);
  EXPECT_THAT(
      metrics().of("sluice_snapshots_total"),
      ElementsAre(Pair(R"({outcome="failed"})", "2"), Pair(R"({outcome="succeeded"})", "1")));
}

TEST_F(MetricsTest, TellsHowOftenASnapshotIsWritten) {
  const std::string name = "sluice_snapshot_interval_seconds";
  EXPECT_THAT(metrics().of(name), ElementsAre());
  const ServerContext keeps(store, {}, 1, {.snapshot_every = std::chrono::minutes(90)});
  EXPECT_THAT(metrics_text(keeps), testing::HasSubstr("\n" + name + " 5400\n"));
}

TEST(MetricsTextTest, EscapesLabels) {
  MetricsText out;
  out.family("jobs", MetricsText::Type::kGauge, "Jobs.");
  out.sample({{"name", "a\\b\"c\nd\te"}, {"kind", "\xc3\xa4\xff"}}, std::uint64_t{3});
  EXPECT_EQ(out.text(),
            "# HELP jobs Jobs.\n# TYPE jobs gauge\n"
            "jobs{name=\"a\\\\b\\\"c\\nd\te\",kind=\"\xc3\xa4?\"} 3\n");
}

TEST(MetricsTextTest, WritesNumbersThatReadersUnderstand) {
  EXPECT_EQ(MetricsText::number(0), "0");
  EXPECT_EQ(MetricsText::number(2.5e-07), "2.5e-07");
  EXPECT_EQ(std::stod(MetricsText::number(1'700'000'000.25)), 1'700'000'000.25);
}

}  // namespace
}  // namespace sluice
