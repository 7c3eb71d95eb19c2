#include "server/certificate_dates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;

constexpr std::int64_t kDayS = 24 * 60 * 60;
constexpr std::int64_t kNowS = 1'700'000'000;

TEST(CertificateDatesTest, WarnsOfThoseThatEndWithinTwoWeeks) {
  const auto warnings_of = [](std::int64_t left_s) {
    const std::vector<ServedCertificate> all{
        {.protocol = "http", .listener = "0.0.0.0:443", .not_after_s = kNowS + 90 * kDayS},
        {.protocol = "resp", .listener = "0.0.0.0:6380", .not_after_s = kNowS + left_s}};
    return certificate_warnings(all, kNowS);
  };
  const auto says = [](const std::string& when) {
    return ElementsAre(
        Field(&LogEvent::message, "the certificate that is shown on 0.0.0.0:6380 " + when));
  };
  EXPECT_THAT(warnings_of(14 * kDayS), IsEmpty());
  EXPECT_THAT(warnings_of(14 * kDayS - 1), says("ends within 14 days"));
  EXPECT_THAT(warnings_of(3 * kDayS), says("ends within 3 days"));
  EXPECT_THAT(warnings_of(1), says("ends within 1 day"));
  EXPECT_THAT(warnings_of(0), says("has ended: clients refuse it"));
}

}  // namespace
}  // namespace sluice
