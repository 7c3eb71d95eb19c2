#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/request_pipeline.h"
#include "net/tls_client.h"
#include "net/tls_server.h"
#include "servers/certificates.h"
#include "testing/error_of.h"
#include "testing/request_pipeline_fixture.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// The server's end of a TLS stream, as a script uses it.
class TlsPeer {
 public:
  struct Options {
    bool wants_certificate = false;
    int version = TLS1_3_VERSION;
  };

  TlsPeer(Peer peer, Options options)
      : peer_(std::move(peer)), ssl_(SSL_new(server(options).context().native_handle()), SSL_free) {
    SSL_set_max_proto_version(ssl_.get(), options.version);
    SSL_set_fd(ssl_.get(), peer_.fd());
  }

  bool shake_hands() { return SSL_accept(ssl_.get()) == 1; }
  /// The name the client has asked for.
  std::string name() const {
    const char* name = SSL_get_servername(ssl_.get(), TLSEXT_NAMETYPE_host_name);
    return name == nullptr ? "" : name;
  }

  std::string line() {
    std::string text;
    char byte = 0;
    while (SSL_read(ssl_.get(), &byte, 1) == 1) {
      text += byte;
      if (byte == '\n') break;
    }
    return text;
  }
  bool send(std::string_view bytes) {
    std::size_t sent = 0;
    return SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &sent) == 1;
  }
  /// What TLS runs on.
  Peer& below() { return peer_; }
  void close() {
    SSL_shutdown(ssl_.get());
    peer_.close();
  }

 private:
  static TlsServer server(const Options& options) {
    const servers::Certificates& files = servers::certificates();
    return TlsServer({.certificate = files.server,
                      .key = files.server_key,
                      .client_ca = options.wants_certificate ? files.ca.string() : ""});
  }

  Peer peer_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
};

class RequestPipelineTlsTest : public RequestPipelineFixture {
 protected:
  PipelineOptions with(TlsOptions tls) const {
    PipelineOptions options = patient(server_.endpoint());
    options.endpoint.tls = std::make_shared<TlsContext>(std::move(tls));
    // Only one attempt is looked at.
    options.least_pause = options.most_pause = kNever;
    return options;
  }
  PipelineOptions trusting() const { return with({.ca_file = files_.ca}); }

  /// Accepts the next connection that begins TLS. While the test has not answered that yet, the
  /// client may ask on another connection whether the server speaks without TLS.
  TlsPeer accept_tls(TlsPeer::Options of_peer = {}) {
    while (true) {
      Peer peer = server_.accept();
      char first = 0;
      ::recv(peer.fd(), &first, 1, MSG_PEEK);
      if (first == SSL3_RT_HANDSHAKE) return {std::move(peer), of_peer};
    }
  }
  /// Opens, and accepts the connection.
  TlsPeer meet(const PipelineOptions& options, TlsPeer::Options of_peer = {}) {
    open(options);
    return accept_tls(of_peer);
  }
  /// The same, and agrees on TLS.
  TlsPeer agree(const PipelineOptions& options, TlsPeer::Options of_peer = {}) {
    TlsPeer peer = meet(options, of_peer);
    EXPECT_TRUE(peer.shake_hands());
    return peer;
  }

  void expect_answer(TlsPeer& peer) {
    TestCommand& asked = ask_on(peer);
    EXPECT_TRUE(peer.send("yes\n"));
    ASSERT_TRUE(asked.await_end());
    EXPECT_EQ(asked.answer, "yes\n");
  }

  const servers::Certificates& files_ = servers::certificates();
  FakeServer server_;
};

TEST_F(RequestPipelineTlsTest, SpeaksToAServerWhoseCertificateIsForItsAddress) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsPeer peer = agree(trusting(), {.version = version});
    EXPECT_EQ(peer.name(), "");
    expect_answer(peer);
    close();
    EXPECT_EQ(peer.line(), "");
  }
  EXPECT_THAT(downs(), IsEmpty());
}

// A zone names a network interface of this machine.
TEST_F(RequestPipelineTlsTest, AnAddressIsCheckedWithoutItsZone) {
  const auto tls = trusting().endpoint.tls;
  const TlsClient client({.host = "fe80::1%lo", .port = 1, .tls = tls});
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(tls->current()->native_handle()),
                                                      SSL_free);
  client.prepare(ssl.get());
  char* const checked = X509_VERIFY_PARAM_get1_ip_asc(SSL_get0_param(ssl.get()));
  EXPECT_STREQ(checked, "FE80:0:0:0:0:0:0:1");
  OPENSSL_free(checked);
}

// The connection below is still up.
TEST_F(RequestPipelineTlsTest, IsResetAfterWhatIsNoRecord) {
  TlsPeer peer = agree(trusting());
  TestCommand& asked = ask_on(peer);
  peer.below().send("this is no record of TLS\n");
  ASSERT_TRUE(asked.await_end());
  EXPECT_THAT(asked.why, HasSubstr(" failed: "));
  EXPECT_TRUE(peer.below().ends_in_reset());
}

TEST_F(RequestPipelineTlsTest, RefusesACertificateThatIsNotForTheServer) {
  for (const auto& [tls, error] : std::vector<std::pair<TlsOptions, std::string>>{
           // Of the system, and of a file.
           {{}, "127.0.0.1: unable to get local issuer certificate"},
           {{.ca_file = files_.stranger_ca}, "127.0.0.1: unable to get local issuer certificate"},
           {{.ca_file = files_.ca, .server_name = "other.example"},
            "other.example: hostname mismatch"},
           {{.ca_file = files_.ca, .server_name = "127.0.0.2"},
            "127.0.0.2: IP address mismatch"}}) {
    EXPECT_FALSE(meet(with(tls)).shake_hands());
    ASSERT_TRUE(await_downs(1));
    EXPECT_EQ(downs().at(0), "cannot agree on TLS with " + server_.endpoint().text() +
                                 ": its certificate is not accepted for " + error);
    close();
    user_.downs.clear();
  }
  EXPECT_EQ(user_.ups, 0U);
}

TEST_F(RequestPipelineTlsTest, TrustsTheAuthorityThatItsFileHasNow) {
  const std::filesystem::path file = testing::TempDir() + "ca." + std::to_string(::getpid());
  auto written = std::filesystem::file_time_type::clock::now();
  const auto put = [&](const std::filesystem::path& ca) {
    std::filesystem::copy_file(ca, file, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::last_write_time(file, written += std::chrono::seconds(1));
  };
  put(files_.stranger_ca);
  PipelineOptions options = with({.ca_file = file});
  options.least_pause = options.most_pause = std::chrono::milliseconds(1);
  // Each attempt reads the file before the server answers.
  TlsPeer first = meet(options);
  put(files_.server_key);  // No authority: the former one is trusted.
  EXPECT_FALSE(first.shake_hands());
  TlsPeer second = accept_tls();
  std::filesystem::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), S_IRUSR), 0);  // Nor is a pipe, and it is not waited for.
  EXPECT_FALSE(second.shake_hands());
  TlsPeer third = accept_tls();
  std::filesystem::remove(file);
  put(files_.ca);
  EXPECT_FALSE(third.shake_hands());
  TlsPeer peer = accept_tls();
  ASSERT_TRUE(peer.shake_hands());
  expect_answer(peer);
  std::filesystem::remove(file);
}

TEST_F(RequestPipelineTlsTest, AnyCertificateWillDoWhereNothingIsChecked) {
  TlsPeer peer = agree(
      with({.ca_file = files_.stranger_ca, .server_name = "other.example", .insecure = true}));
  EXPECT_EQ(peer.name(), "other.example");
  expect_answer(peer);
}

TEST_F(RequestPipelineTlsTest, SaysThatTheServerWantsACertificate) {
  user_.handshake_text = "hello\n";
  user_.handshake_count = 1;
  TlsPeer peer = meet(trusting(), {.wants_certificate = true});
  EXPECT_FALSE(peer.shake_hands());
  ASSERT_TRUE(await_downs(1));
  EXPECT_EQ(downs().at(0), "the connection to " + server_.endpoint().text() +
                               " failed: tlsv13 alert certificate required");
}

TEST_F(RequestPipelineTlsTest, AServerThatAnswersWithoutTlsIsFoundOut) {
  open(trusting());
  Peer peer = server_.accept();
  peer.send("-I speak no TLS, and say so at length\n");
  ASSERT_TRUE(await_downs(1));
  EXPECT_EQ(downs().at(0), "cannot agree on TLS with " + server_.endpoint().text() +
                               ": the server speaks without TLS");
}

// As redis-server, which takes the beginning of TLS for that of a command, and waits for the rest.
TEST_F(RequestPipelineTlsTest, ASilentServerThatSpeaksWithoutTlsIsFoundOut) {
  open(trusting());
  const Peer silent = server_.accept();
  Peer asked = server_.accept();
  EXPECT_EQ(asked.line(), "PING\r\n");
  asked.send("+PONG\r\n");
  ASSERT_TRUE(await_downs(1));
  EXPECT_EQ(downs().at(0), "cannot agree on TLS with " + server_.endpoint().text() +
                               ": the server speaks without TLS");
}

TEST_F(RequestPipelineTlsTest, LongRepliesAndCommandsPass) {
  TlsPeer peer = agree(trusting());
  const std::string longest(3'000'000, 'x');
  TestCommand& asked = command(longest + "\n");
  ask({&asked});
  EXPECT_EQ(peer.line(), longest + "\n");
  EXPECT_TRUE(peer.send(longest + "y"));
  EXPECT_TRUE(peer.send("\n"));
  ASSERT_TRUE(asked.await_end());
  EXPECT_EQ(asked.answer, longest + "y\n");
}

// Two records that have arrived are read one after the other.
TEST_F(RequestPipelineTlsTest, AThreadThatWasLateDoesNotTakeTheServerForSilent) {
  PipelineOptions options = trusting();
  options.silence_timeout = std::chrono::milliseconds(30);
  TlsPeer peer = agree(options);
  const int at_once = 1;
  ::setsockopt(peer.below().fd(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
  ASSERT_TRUE(await_up());
  TestCommand& first = command("first\n");
  TestCommand& second = command("second\n");
  on_thread([&] {
    ask_here({&first, &second});
    context_.asio()->poll();
    EXPECT_EQ(peer.line() + peer.line(), "first\nsecond\n");
    EXPECT_TRUE(peer.send("1\n") && peer.send("2\n"));
    const auto late = std::chrono::steady_clock::now() + std::chrono::milliseconds(40);
    while (std::chrono::steady_clock::now() < late) {
    }
  });
  ASSERT_TRUE(second.await_end());
  EXPECT_EQ(first.answer, "1\n");
  EXPECT_EQ(second.answer, "2\n");
  EXPECT_THAT(downs(), IsEmpty());
}

TEST_F(RequestPipelineTlsTest, TheEndIsNoticed) {
  TlsPeer peer = agree(trusting());
  TestCommand& asked = ask_on(peer);
  peer.send("half");
  peer.close();
  ASSERT_TRUE(asked.await_end());
  EXPECT_EQ(asked.loss, Loss::kMayBeExecuted);
  EXPECT_EQ(asked.why, server_.endpoint().text() + " closed the connection");
}

TEST_F(RequestPipelineTlsTest, FilesThatCannotBeUsedAreNamed) {
  const auto misuse = [&](Endpoint endpoint, const TlsOptions& tls) {
    endpoint.tls = std::make_shared<TlsContext>(tls);
    return error_of<std::runtime_error>(
        [&] { RequestPipeline::make(context_, patient(endpoint), user_); });
  };
  const std::string key = files_.client_key;
  const std::string other_key = files_.server_key;
  const std::string pem = files_.client;
  for (const auto& [tls, error] : std::vector<std::pair<TlsOptions, std::string>>{
           {{.ca_file = "/no/ca.pem"},
            "the CA file /no/ca.pem cannot be used: No such file or directory"},
           {{.ca_file = key},
            "the CA file " + key + " cannot be used: no certificate or crl found"},
           {{.certificate_file = key, .key_file = key},
            "the certificate file " + key + " cannot be used: it has no certificate in PEM"},
           {{.certificate_file = pem},
            "the key in " + pem +
                " cannot be used: it has no private key without a passphrase in PEM"},
           {{.certificate_file = pem, .key_file = other_key},
            "the key in " + other_key + " cannot be used: key values mismatch"},
           {{.key_file = key}, "the key file " + key + " needs a certificate file beside it"},
           {{.server_name = std::string(256, 'x')},
            "the server name has 256 bytes, at most 255"}}) {
    EXPECT_EQ(misuse({.host = "127.0.0.1", .port = 1}, tls), "TLS to 127.0.0.1:1: " + error);
  }
  EXPECT_EQ(
      misuse({.unix_path = "/tmp/x"}, {}),
      "TLS to unix:/tmp/x: a server name is needed, to compare the server's certificate with");
}

}  // namespace
}  // namespace sluice
