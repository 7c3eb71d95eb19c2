#include "replay/key_template.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "testing/error_of.h"

namespace sluice::replay {
namespace {

constexpr std::string_view kLine =
    "::1 - - [17/May/2015:10:05:03 +0000] \"GET /./a?b HTTP/1.1\" 200 5 \"-\" \"curl\"";

std::string key_of(std::string_view text) {
  const auto reader = make_log_reader(Format::kCombined);
  KeyTemplate key(text);
  key.bind(*reader);
  Record record;
  std::string reason;
  EXPECT_EQ(reader->read(kLine, record, reason), Reading::kRecord) << reason;
  std::string out;
  key.append_key(record, out);
  return out;
}

std::string template_fault(std::string_view text) {
  return error_of<std::invalid_argument>(
      [&] { KeyTemplate(text).bind(*make_log_reader(Format::kCommon)); });
}

TEST(KeyTemplate, MixesFieldsAndText) {
  EXPECT_EQ(key_of("{ip}"), "::1");
  EXPECT_EQ(key_of("{ip} {method} {path}"), "::1 GET /a");
  EXPECT_EQ(key_of("{request}"), "GET /./a?b HTTP/1.1");
  EXPECT_EQ(key_of("<{user_agent}{user_agent}>"), "<curlcurl>");
  EXPECT_EQ(key_of("everyone"), "everyone");
  EXPECT_EQ(key_of(""), "");
}

TEST(KeyTemplate, DoubledBracesAreBraces) {
  EXPECT_EQ(key_of("{{ip}}"), "{ip}");
  EXPECT_EQ(key_of("{{{ip}}}"), "{::1}");
}

TEST(KeyTemplate, SaysWhatIsWrong) {
  EXPECT_EQ(template_fault("{ip}"), "");
  EXPECT_EQ(template_fault("{nope}"),
            "key template \"{nope}\": there is no field {nope}; there are ip, ident, user, time, "
            "method, path, protocol, status, bytes, request, vhost");
  EXPECT_EQ(template_fault("a {ip"),
            "key template \"a {ip\": a { without its } at character 3 (write {{ for a brace)");
  EXPECT_EQ(template_fault("ip}"),
            "key template \"ip}\": a } without its { at character 3 (write }} for a brace)");
  EXPECT_EQ(template_fault("ip"),
            "key template \"ip\": all requests would have the same key; did you mean {ip}?");
  EXPECT_EQ(template_fault("ips"), "");
  EXPECT_EQ(template_fault("the ip"), "");
  EXPECT_EQ(template_fault("{}"), "key template \"{}\": a field without a name at character 1");
}

TEST(KeyTemplate, MissesNoBracesOfAColumn) {
  std::string reason;
  const auto reader = make_csv_reader("time,user", reason);
  EXPECT_THROW(KeyTemplate("user").bind(*reader), std::invalid_argument);
  EXPECT_NO_THROW(KeyTemplate("users").bind(*reader));
  // Each line of JSON has fields of its own.
  EXPECT_NO_THROW(KeyTemplate("user").bind(*make_json_lines_reader()));
}

}  // namespace
}  // namespace sluice::replay
