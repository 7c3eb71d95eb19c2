#include "pages/pages.h"

#include <gtest/gtest.h>

namespace sluice::pages {
namespace {

TEST(Pages, NoDataEndsItsElement) {
  const std::string page = filled(report_page(), R"({"key":"</script><script>alert(1)<!--"})");
  EXPECT_NE(page.find(R"({"key":"\u003c/script>\u003cscript>alert(1)\u003c!--"})"),
            std::string::npos);
  EXPECT_EQ(page.size(), report_page().size() - std::string_view("@DATA@").size() + 3 * 5 + 39);
}

// The policy forbids the browser to load anything, and so do these to ask for it.
TEST(Pages, LoadNothing) {
  for (const std::string_view loads : {"<script src", "<link", "@import", "url(http"}) {
    EXPECT_EQ(report_page().find(loads), std::string_view::npos) << loads;
  }
  EXPECT_NE(report_page().find("default-src 'none'"), std::string_view::npos);
}

}  // namespace
}  // namespace sluice::pages
