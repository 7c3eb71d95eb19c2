#include "service/access.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "testing/users.h"

namespace sluice {
namespace {

using Verdict = Access::Verdict;

// Of a client that has sent no token.
Identity identity(Access& access, bool is_local, std::string_view certificate) {
  return ClientAccess(access, is_local, certificate).identity();
}

TEST(AccessTest, KeepsTheSha256OfATokenInHexadecimalDigits) {
  EXPECT_EQ(token_sha256("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(AccessTest, WithoutUsersItDependsOnWhereTheClientIs) {
  Access strict({}, false);
  Access open({}, true);  // The server was told: --insecure.
  for (Access* access : {&strict, &open}) {
    EXPECT_FALSE(access->has_users());
    EXPECT_EQ(identity(*access, true, "").roles, kAllRoles);
    EXPECT_EQ(identity(*access, true, "CN=gateway").roles, kAllRoles);
    EXPECT_EQ(identity(*access, false, "CN=gateway").roles, Roles{kCheckRole});
  }
  EXPECT_EQ(identity(open, false, "").roles, kAllRoles);
  EXPECT_FALSE(identity(strict, false, "").is_known);
}

TEST(ClientAccessTest, IsWhoItWasWhereTheUserIsRemovedOrHasAnotherToken) {
  Access access(test_users());
  ClientAccess client(access, false, "CN=gateway");
  EXPECT_EQ(client.log_in("operator", "other", "192.0.2.1"), Verdict::kRight);
  ClientAccess removed(access, false, "");
  EXPECT_EQ(removed.log_in("", "secret", "192.0.2.1"), Verdict::kRight);
  const auto replace = [&](const std::vector<User>& by) {
    access.users().replace(std::make_shared<const Access::Users>(by));
    client.update();
    removed.update();
  };
  std::vector<User> changed = test_users();
  changed.erase(changed.begin());
  changed[0].roles = kAdminRole;
  replace(changed);
  EXPECT_EQ(client.identity().roles, Roles{kAdminRole});
  EXPECT_FALSE(removed.identity().is_known);
  changed[0].token_sha256 = token_sha256("rotated");
  replace(changed);
  EXPECT_EQ(client.identity().roles, Roles{kCheckRole});  // By its certificate.
  changed.pop_back();
  replace(changed);
  EXPECT_FALSE(client.identity().is_known);
  replace(test_users());
  EXPECT_EQ(client.identity().roles, kCheckRole | kAdminRole);
  EXPECT_TRUE(removed.identity().is_known);
  client.log_out();
  EXPECT_EQ(client.identity().roles, Roles{kCheckRole});
}

TEST(ClientAccessTest, FromElsewhereGainsNothingWhereAllUsersAreRemoved) {
  Access access(test_users(), false);
  ClientAccess local(access, true, "");
  ClientAccess remote(access, false, "");
  access.users().replace(std::make_shared<const Access::Users>());
  for (ClientAccess* client : {&local, &remote}) client->update();
  EXPECT_FALSE(local.has_users());
  EXPECT_EQ(local.identity().roles, kAllRoles);
  EXPECT_FALSE(remote.identity().is_known);
  remote.log_out();
  EXPECT_FALSE(remote.identity().is_known);
  access.users().replace(std::make_shared<const Access::Users>(test_users()));
  local.update();
  EXPECT_FALSE(local.identity().is_known);
}

TEST(AccessTest, RefusesWrongTokens) {
  Access access(test_users());
  EXPECT_EQ(access.log_in("gateway", "secret", "192.0.2.1").verdict, Verdict::kRight);
  EXPECT_EQ(access.wrong_tokens(), 0U);
  for (const auto& [name, token] :
       std::vector<std::pair<std::string, std::string>>{{"gateway", "other"},
                                                        {"gateway", ""},
                                                        {"gateway", "Secret"},
                                                        {"nobody", "secret"},
                                                        {"", ""},
                                                        {"", "CN=gateway"},
                                                        {"CN=gateway", ""}}) {
    const Access::Login login = access.log_in(name, token, "192.0.2.1");
    EXPECT_EQ(login.verdict, Verdict::kWrong) << name << " " << token;
    EXPECT_FALSE(login.identity.is_known);
    EXPECT_EQ(login.identity.roles, Roles{kNoRole});
  }
  EXPECT_EQ(access.wrong_tokens(), 7U);
}

TEST(AccessTest, DefaultIsTheUserOfThatNameIfThereIsOne) {
  std::vector<User> named = test_users();
  Access access(named);
  const Access::Login login = access.log_in("default", "secret", "192.0.2.1");
  EXPECT_EQ(login.verdict, Verdict::kRight);
  EXPECT_EQ(login.identity.name, "gateway");
  named.push_back({"default", token_sha256("its"), "", kCheckRole});
  access.users().replace(std::make_shared<const Access::Users>(named));
  EXPECT_EQ(access.log_in("default", "secret", "192.0.2.1").verdict, Verdict::kWrong);
  EXPECT_EQ(access.log_in("default", "its", "192.0.2.1").identity.name, "default");
}

TEST(AccessTest, LimitsTheWrongTokensOfAnAddress) {
  Access access(test_users());
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(access.log_in("gateway", "wrong", "192.0.2.1").verdict, Verdict::kWrong);
  }
  EXPECT_EQ(access.log_in("gateway", "wrong", "192.0.2.1").verdict, Verdict::kTooManyWrong);
  EXPECT_EQ(access.log_in("gateway", "wrong", "192.0.2.2").verdict, Verdict::kWrong);
  EXPECT_EQ(access.log_in("gateway", "secret", "192.0.2.1").verdict, Verdict::kRight);
}

}  // namespace
}  // namespace sluice
