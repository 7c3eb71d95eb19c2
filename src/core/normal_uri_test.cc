#include "core/normal_uri.h"

#include <gtest/gtest.h>

#include <utility>

namespace sluice {
namespace {

TEST(NormalUri, HostsHaveOneSpelling) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"", ""},
      {"a.com", "a.com"},
      {"A.Com", "a.com"},
      {"a.com:8000", "a.com"},
      {"a.com.", "a.com"},
      {"a.com.:80", "a.com"},
      {"192.0.2.1:80", "192.0.2.1"},
      {"[2001:DB8::1]:80", "[2001:db8::1]"},
      {"[2001:db8::1]", "[2001:db8::1]"},
      {"[2001:db8::1", "[2001:db8::1"},
      {":80", ""},
  };
  for (const auto& [authority, host] : rows) {
    std::string output = "/x ";
    append_normal_host(authority, output);
    EXPECT_EQ(output, "/x " + std::string(host)) << authority;
  }
}

TEST(NormalUri, AWholeUrlHasAnAuthority) {
  EXPECT_EQ(authority_of("https://A.com:80/b//c"), "A.com:80");
  EXPECT_EQ(authority_of("https://a.com?b"), "a.com");
  for (const char* target : {"/a", "/http://b", "*", "", "a.com/b", "http:///b"}) {
    EXPECT_EQ(authority_of(target), "") << target;
  }
}

TEST(NormalUri, PathsHaveOneSpelling) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"/login", "/login"},
      {"/login?a=/../b", "/login"},
      {"/login#a/..", "/login"},
      {"/%6cogin", "/login"},
      {"/%6C%6f%67in", "/login"},
      {"//login", "/login"},
      {"/./login", "/login"},
      {"/login/../login", "/login"},
      {"/x/y/../../login", "/login"},
      {"/../../login", "/login"},
      {"//A/../%6cogin?x", "/login"},
      {"/x//../login", "/login"},
      {"/%2E%2e/login", "/login"},
      {"https://a.com/login?b", "/login"},
      {"http://a.com//./login", "/login"},
      {"/login/", "/login/"},
      {"/login//", "/login/"},
      {"/login/.", "/login/"},
      {"/login/x/..", "/login/"},
      {"/Login", "/Login"},
      {"/..login/.x/...", "/..login/.x/..."},
      {"/%7ea-b._~", "/~a-b._~"},
      {"/a%2fb%3F%25%c3%a9", "/a%2Fb%3F%25%C3%A9"},
      {"/\xC3\xA9 \x7F", "/%C3%A9%20%7F"},
      {"/a!$&'()*+,;=:@b", "/a!$&'()*+,;=:@b"},
      {"/%21%24%26%27%28%29%2a%2b%2c%3b%3d%3a%40", "/!$&'()*+,;=:@"},
      {"/\"<>[\\]^`{|}", "/%22%3C%3E%5B%5C%5D%5E%60%7B%7C%7D"},
      {"/%22%3c%3e%5b%5c%5d%5e%60%7b%7c%7d", "/%22%3C%3E%5B%5C%5D%5E%60%7B%7C%7D"},
      {"/%", "/%25"},
      {"/%zz%6", "/%25zz%256"},
      {"/%%341", "/%2541"},
      {"/a/http://b", "/a/http:/b"},
      {"/", "/"},
      {"/..", "/"},
      {"/.", "/"},
      {"", "/"},
      {"?a", "/"},
      {"http://a.com", "/"},
      {"http:///b", "/b"},
      {"http://a.com?b=/c", "/"},
      {"*", "*"},
      {"-", "-"},
      {"a/../b", "a/../b"},
  };
  for (const auto& [target, path] : rows) {
    std::string output = "/x ";
    append_normal_path(target, output);
    EXPECT_EQ(output, "/x " + std::string(path)) << target;
    // No second spelling comes of it.
    std::string again = "/x ";
    append_normal_path(output.substr(3), again);
    EXPECT_EQ(again, output);
  }
}

}  // namespace
}  // namespace sluice
