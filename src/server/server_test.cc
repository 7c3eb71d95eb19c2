#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "servers/certificates.h"
#include "service/limit_registry.h"
#include "stores/memory/memory_store.h"
#include "testing/error_of.h"
#include "testing/failing_new.h"
#include "testing/line_server.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

// What the registries of all threads remember leaves half of a store's spaces to others.
static_assert(2 * kMaxThreads * LimitRegistry::kMaxRemembered <= MemoryStore::kMaxLimits);

// Empty if it serves.
std::string refusal(const ServerOptions& options) {
  return error_of<ConfigError>([&] { const Server server(options); });
}

ServerOptions on(const std::string& address) {
  return {.addresses = {{"resp", {address}}}, .threads = 1};
}

TEST(ServerTest, SaysWhereItReallyServes) {
  EXPECT_THAT(
      Server({.addresses = {{"resp", {"127.0.0.1:0", "[::1]:0"}}}, .threads = 2}).description(),
      MatchesRegex("serving RESP on 127.0.0.1:[1-9][0-9]*, \\[::1\\]:[1-9][0-9]* "
                   "\\(2 threads, 0 named limits, memory:\\)"));
  EXPECT_THAT(Server(on("127.0.0.1:0")).description(),
              HasSubstr("(1 thread, 0 named limits, memory:)"));
}

// The log says of a failed reload that all stays as it was.
TEST(ServerTest, WithoutMemoryItReloadsOrNotOrTheProcessEnds) {
  ServerOptions next = on("127.0.0.1:0");
  next.limits.named = {NamedLimit(Limit("token_bucket 3/1h", "login"))};
  std::optional<Server> server;
  const auto reload = [&] {
    const long succeeding = news_succeeding.exchange(-1);
    server.emplace(on("127.0.0.1:0"));
    server->start();
    news_succeeding = succeeding;
    server->reload(next);
  };
  const auto is_whole = [&](bool is_done) {
    Client client(*parse_address(server->address(0)).address);
    return client.send("SLUICE.CHECK login k\r\n") && client.read(1) == (is_done ? "*" : "-");
  };
  EXPECT_GT(end_without_memory(reload, is_whole, 80), 0);
}

TEST(ServerTest, ServesNoPublicAddressWhoseOwnFilesAskForNoCertificate) {
  const servers::Certificates& made = servers::certificates();
  ServerOptions options = on("0.0.0.0:0");
  options.tls = {.certificate = made.server, .key = made.server_key, .client_ca = made.ca};
  EXPECT_EQ(refusal(options), "");
  options.addresses["resp"][0].tls = TlsServerFiles{};
  EXPECT_THAT(refusal(options), HasSubstr("without users"));
}

TEST(ServerTest, SpeaksTlsWhereItIsToldTo) {
  const servers::Certificates& made = servers::certificates();
  const std::string path = testing::TempDir() + "sluice_tls_" + std::to_string(::getpid());
  ServerOptions options = on("127.0.0.1:0");
  options.addresses["resp"].emplace_back("unix:" + path);
  options.addresses["resp"].emplace_back("[::1]:0", TlsServerFiles{});
  options.tls = {.certificate = made.server, .key = made.server_key, .client_ca = ""};
  EXPECT_THAT(Server(options).description(),
              MatchesRegex("serving RESP on 127.0.0.1:[0-9]* with TLS, unix:[^ ]*, "
                           "\\[::1\\]:[0-9]* \\(.*"));
  options.tls.certificate = "/nonexistent/pem";
  const std::string error =
      "the certificate file /nonexistent/pem cannot be used: No such file or directory";
  EXPECT_EQ(refusal(options), error);
  // All that cannot be used are named, each once.
  const TlsServerFiles wrong{
      .certificate = made.server, .key = "/nonexistent/key", .client_ca = ""};
  options.addresses["resp"].emplace_back("127.0.0.1:0", wrong);
  options.addresses["resp"].emplace_back("[::1]:0", wrong);
  EXPECT_EQ(refusal(options),
            error + "; the key in /nonexistent/key cannot be used: No such file or directory");
}

TEST(ServerTest, RefusesInvalidOptions) {
  EXPECT_EQ(refusal({.addresses = {{"http", {"[::1]:1"}}, {"resp", {"127.0.0.1:1", "[0::1]:1"}}}}),
            "the address [::1]:1 is there twice");
  for (const auto& [one, all] : {std::pair("127.0.0.1:1", "0.0.0.0:1"), {"[::1]:1", "[::]:1"}}) {
    const std::string both = std::string(all) + " and " + one;
    EXPECT_EQ(refusal({.addresses = {{"http", {all}}, {"resp", {one}}}, .insecure = true}),
              "the addresses " + both + " overlap");
  }
  EXPECT_EQ(refusal({.addresses = {{"resp", {"127.0.0.1:0", "127.0.0.1:0"}}}, .threads = 1}), "");
  EXPECT_EQ(refusal({.addresses = {{"telnet", {"127.0.0.1:0"}}}}), "there is no protocol 'telnet'");
  EXPECT_EQ(refusal({.addresses = {{"resp", {"127.0.0.1:0"}}}, .threads = 65}),
            "65 threads are too many, 64 are the most");
  ServerOptions options = on("127.0.0.1:0");
  // A link that leads nowhere would be as if there were no snapshot, and be replaced by the next.
  const std::string link = testing::TempDir() + "snapshot." + std::to_string(::getpid());
  std::filesystem::create_symlink("nowhere", link);
  options.snapshot.file = link;
  EXPECT_EQ(refusal(options), "snapshot: " + link + " is a symbolic link, and must be a file");
  std::filesystem::remove(link);
}

}  // namespace
}  // namespace sluice
