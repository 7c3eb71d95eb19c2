#include <fstream>
#include <string>

#include "net/request_pipeline.h"
#include "net/request_pipeline_fixture_test.h"
#include "net/tls_server_test.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class RequestPipelineTlsTest : public RequestPipelineFixture {
 protected:
  static void SetUpTestSuite() { certificates = std::make_unique<Certificates>(); }
  static void TearDownTestSuite() { certificates.reset(); }

  static PipelineOptions trusting(const FakeServer& server, const std::string& ca = "ca.pem") {
    PipelineOptions options = patient(server.endpoint());
    options.endpoint.tls = TlsOptions{.ca_file = certificates->path(ca)};
    // Only one attempt is looked at.
    options.least_pause = options.most_pause = kNever;
    return options;
  }

  static TlsPeer accept(FakeServer& server, TlsPeer::Options options = {}) {
    return {server.accept(), *certificates, options};
  }

  void expect_answer(TlsPeer& peer) {
    TestCommand& asked = command("?\n");
    ask({&asked});
    EXPECT_EQ(peer.line(), "?\n");
    EXPECT_TRUE(peer.send("yes\n"));
    ASSERT_TRUE(asked.await_end());
    EXPECT_EQ(asked.answer, "yes\n");
  }

  std::string misuse(const Endpoint& endpoint) {
    try {
      RequestPipeline pipeline(context_, patient(endpoint), user_);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  static std::unique_ptr<Certificates> certificates;
};

std::unique_ptr<Certificates> RequestPipelineTlsTest::certificates;

TEST_F(RequestPipelineTlsTest, SpeaksToAServerWhoseCertificateIsForItsAddress) {
  FakeServer server;
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    open(trusting(server));
    TlsPeer peer = accept(server, {.version = version});
    ASSERT_TRUE(peer.shake_hands());
    EXPECT_EQ(peer.name(), "");
    expect_answer(peer);
    close();
    EXPECT_EQ(peer.line(), "");
  }
  EXPECT_THAT(downs(), IsEmpty());
}

TEST_F(RequestPipelineTlsTest, SpeaksToAServerWhoseCertificateIsForItsName) {
  FakeServer server;
  PipelineOptions options = trusting(server);
  options.endpoint.tls->server_name = "localhost";
  open(options);
  TlsPeer peer = accept(server);
  ASSERT_TRUE(peer.shake_hands());
  EXPECT_EQ(peer.name(), "localhost");
  expect_answer(peer);
}

TEST_F(RequestPipelineTlsTest, IsGivenUpWithACommandInFlightAsAnyOther) {
  FakeServer server;
  open(trusting(server));
  TlsPeer peer = accept(server);
  ASSERT_TRUE(peer.shake_hands());
  TestCommand& asked = command("?\n");
  ask({&asked});
  EXPECT_EQ(peer.line(), "?\n");
  on_thread([this] { pipeline_->reconnect("127.0.0.1 is of no use"); });
  ASSERT_TRUE(asked.await_end());
  EXPECT_EQ(asked.loss, Loss::kUnknown);
  EXPECT_EQ(peer.line(), "");
}

// The connection below is still up.
TEST_F(RequestPipelineTlsTest, IsResetAfterWhatIsNoRecord) {
  FakeServer server;
  open(trusting(server));
  TlsPeer peer = accept(server);
  ASSERT_TRUE(peer.shake_hands());
  TestCommand& asked = command("?\n");
  ask({&asked});
  EXPECT_EQ(peer.line(), "?\n");
  peer.below().send("this is no record of TLS\n");
  ASSERT_TRUE(asked.await_end());
  EXPECT_THAT(asked.why, HasSubstr(" failed: "));
  EXPECT_TRUE(peer.below().ends_in_reset());
}

TEST_F(RequestPipelineTlsTest, RefusesACertificateOfAnUnknownAuthority) {
  FakeServer server;
  open(trusting(server, "other-ca.pem"));
  TlsPeer peer = accept(server);
  EXPECT_FALSE(peer.shake_hands());
  ASSERT_TRUE(await_downs(1));
  EXPECT_EQ(downs().at(0), "cannot agree on TLS with " + server.endpoint().text() +
                               ": its certificate is not accepted for 127.0.0.1: "
                               "self-signed certificate in certificate chain");
  EXPECT_EQ(user_.ups, 0U);
}

TEST_F(RequestPipelineTlsTest, TheSystemDoesNotKnowOurAuthority) {
  FakeServer server;
  PipelineOptions options = trusting(server);
  options.endpoint.tls->ca_file = "";
  open(options);
  TlsPeer peer = accept(server);
  EXPECT_FALSE(peer.shake_hands());
  ASSERT_TRUE(await_downs(1));
  EXPECT_THAT(downs().at(0),
              HasSubstr("its certificate is not accepted for 127.0.0.1: self-signed"));
}

TEST_F(RequestPipelineTlsTest, RefusesACertificateForAnotherHost) {
  FakeServer server;
  for (const auto& [name, fault] :
       {std::pair("other.example", "hostname mismatch"), {"127.0.0.2", "IP address mismatch"}}) {
    PipelineOptions options = trusting(server);
    options.endpoint.tls->server_name = name;
    open(options);
    TlsPeer peer = accept(server);
    EXPECT_FALSE(peer.shake_hands());
    ASSERT_TRUE(board_.wait([&] { return !user_.downs.empty(); }));
    EXPECT_EQ(downs().at(0), "cannot agree on TLS with " + server.endpoint().text() +
                                 ": its certificate is not accepted for " + name + ": " + fault);
    close();
    user_.downs.clear();
  }
}

TEST_F(RequestPipelineTlsTest, AnyCertificateWillDoWhereNothingIsChecked) {
  FakeServer server;
  PipelineOptions options = trusting(server, "other-ca.pem");
  options.endpoint.tls->insecure = true;
  options.endpoint.tls->server_name = "other.example";
  open(options);
  TlsPeer peer = accept(server);
  ASSERT_TRUE(peer.shake_hands());
  EXPECT_EQ(peer.name(), "other.example");
  expect_answer(peer);
}

TEST_F(RequestPipelineTlsTest, ShowsItsOwnCertificate) {
  FakeServer server;
  PipelineOptions options = trusting(server);
  options.endpoint.tls->certificate_file = certificates->path("client.pem");
  options.endpoint.tls->key_file = certificates->path("client.key");
  open(options);
  TlsPeer peer = accept(server, {.wants_certificate = true});
  ASSERT_TRUE(peer.shake_hands());
  expect_answer(peer);
}

TEST_F(RequestPipelineTlsTest, SaysThatTheServerWantsACertificate) {
  FakeServer server;
  user_.handshake_text = "hello\n";
  user_.handshake_count = 1;
  open(trusting(server));
  TlsPeer peer = accept(server, {.wants_certificate = true});
  EXPECT_FALSE(peer.shake_hands());
  ASSERT_TRUE(await_downs(1));
  EXPECT_EQ(downs().at(0), "the connection to " + server.endpoint().text() +
                               " failed: tlsv13 alert certificate required");
}

TEST_F(RequestPipelineTlsTest, AServerWithoutTlsIsNotUnderstood) {
  FakeServer server;
  open(trusting(server));
  Peer peer = server.accept();
  peer.send("-I speak no TLS, and say so at length\n");
  ASSERT_TRUE(await_downs(1));
  EXPECT_EQ(downs().at(0),
            "cannot agree on TLS with " + server.endpoint().text() + ": wrong version number");
}

TEST_F(RequestPipelineTlsTest, LongRepliesAndCommandsPass) {
  FakeServer server;
  open(trusting(server));
  TlsPeer peer = accept(server);
  ASSERT_TRUE(peer.shake_hands());
  const std::string longest(3'000'000, 'x');
  TestCommand& asked = command(longest + "\n");
  ask({&asked});
  EXPECT_EQ(peer.line(), longest + "\n");
  EXPECT_TRUE(peer.send(longest + "y"));
  EXPECT_TRUE(peer.send("\n"));
  ASSERT_TRUE(asked.await_end());
  EXPECT_EQ(asked.answer, longest + "y\n");
}

TEST_F(RequestPipelineTlsTest, TheEndIsNoticed) {
  FakeServer server;
  open(trusting(server));
  TlsPeer peer = accept(server);
  ASSERT_TRUE(peer.shake_hands());
  TestCommand& asked = command("?\n");
  ask({&asked});
  EXPECT_EQ(peer.line(), "?\n");
  peer.send("half");
  peer.close();
  ASSERT_TRUE(asked.await_end());
  EXPECT_EQ(asked.loss, Loss::kUnknown);
  EXPECT_EQ(asked.why, server.endpoint().text() + " closed the connection");
}

TEST_F(RequestPipelineTlsTest, FilesThatCannotBeUsedAreNamed) {
  const auto with = [](const TlsOptions& tls) {
    return Endpoint{.host = "127.0.0.1", .port = 1, .tls = tls};
  };
  const std::string key = certificates->path("client.key");
  const std::string pem = certificates->path("client.pem");
  EXPECT_EQ(misuse(with({.ca_file = "/no/ca.pem"})),
            "TLS to 127.0.0.1:1: the CA file /no/ca.pem cannot be used: No such file or directory");
  EXPECT_EQ(misuse(with({.ca_file = key})), "TLS to 127.0.0.1:1: the CA file " + key +
                                                " cannot be used: no certificate or crl found");
  EXPECT_EQ(misuse(with({.certificate_file = key, .key_file = key})),
            "TLS to 127.0.0.1:1: the certificate file " + key + " cannot be used: no start line");
  EXPECT_EQ(misuse(with({.certificate_file = pem})),
            "TLS to 127.0.0.1:1: the key in " + pem + " cannot be used: unsupported");
  EXPECT_EQ(misuse(with({.certificate_file = pem, .key_file = certificates->path("server.key")})),
            "TLS to 127.0.0.1:1: the key in " + certificates->path("server.key") +
                " cannot be used: key values mismatch");
  EXPECT_EQ(misuse(with({.key_file = key})),
            "TLS to 127.0.0.1:1: the key file " + key + " needs a certificate file beside it");
  EXPECT_EQ(
      misuse({.unix_path = "/tmp/x", .tls = TlsOptions{}}),
      "TLS to unix:/tmp/x: a server name is needed, to compare the server's certificate with");
  EXPECT_EQ(misuse(with({.server_name = std::string(256, 'x')})),
            "TLS to 127.0.0.1:1: the server name has 256 bytes, at most 255");
}

}  // namespace
}  // namespace sluice
