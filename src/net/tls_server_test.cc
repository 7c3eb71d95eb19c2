#include "net/tls_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "net/tls_client.h"
#include "servers/certificates.h"
#include "testing/error_of.h"
#include "testing/line_server.h"

namespace sluice {
namespace {

using servers::certificates;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/// A client that speaks TLS, and gives up after ten seconds.
class TlsTestClient {
 public:
  struct Options {
    int version = TLS1_3_VERSION;
    bool has_certificate = false;
    SSL_SESSION* session = nullptr;
  };

  TlsTestClient(const Address& address, Options options)
      : ssl_(SSL_new(context(options)->native_handle()), SSL_free), client_(address) {
    SSL_set_min_proto_version(ssl_.get(), options.version);
    SSL_set_max_proto_version(ssl_.get(), options.version);
    SSL_clear_options(ssl_.get(), SSL_OP_IGNORE_UNEXPECTED_EOF);  // See read_all().
    SSL_set_fd(ssl_.get(), client_.fd());
    if (options.session != nullptr) SSL_set_session(ssl_.get(), options.session);
    SSL_connect(ssl_.get());
  }
  explicit TlsTestClient(const Address& address) : TlsTestClient(address, Options{}) {}

  bool send(std::string_view text) {
    std::size_t sent = 0;
    return SSL_write_ex(ssl_.get(), text.data(), text.size(), &sent) == 1 && sent == text.size();
  }
  std::string read(std::size_t bytes) {
    std::string text(bytes, '\0');
    std::size_t got = 0;
    std::size_t n = 0;
    while (got < bytes && SSL_read_ex(ssl_.get(), text.data() + got, bytes - got, &n) == 1) {
      got += n;
    }
    return text.substr(0, got);
  }
  bool echoes(std::string_view line) { return send(line) && read(line.size()) == line; }

  /// All bytes until the server ends the stream; with "(torn)" at the end if it does not end it as
  /// TLS requires.
  std::string read_all() {
    std::string text;
    std::string piece(65'536, '\0');
    std::size_t n = 0;
    ERR_clear_error();
    while (SSL_read_ex(ssl_.get(), piece.data(), piece.size(), &n) == 1) text.append(piece, 0, n);
    if (SSL_get_error(ssl_.get(), 0) != SSL_ERROR_ZERO_RETURN) text += "(torn)";
    return text;
  }
  void end() { SSL_shutdown(ssl_.get()); }
  /// Sends a record without any text of the client.
  bool renew_keys() {
    return SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1 &&
           SSL_do_handshake(ssl_.get()) == 1;
  }
  bool is_resumed() const { return SSL_session_reused(ssl_.get()) == 1; }
  std::string servers_name() const {
    char name[100] = "";
    X509* const certificate = SSL_get0_peer_certificate(ssl_.get());
    X509_NAME_oneline(X509_get_subject_name(certificate), name, sizeof(name));
    return name;
  }
  std::shared_ptr<SSL_SESSION> session() const {
    return {SSL_get1_session(ssl_.get()), SSL_SESSION_free};
  }
  /// What TLS runs on.
  Client& below() { return client_; }

 private:
  static std::shared_ptr<boost::asio::ssl::context> context(const Options& options) {
    TlsOptions files{.ca_file = certificates().ca};
    if (options.has_certificate) {
      files.certificate_file = certificates().client;
      files.key_file = certificates().client_key;
    }
    return TlsContext(files).current();
  }

  // First: once the client is connected, the server's time for the handshake runs.
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  Client client_;
};

TlsServerFiles server_files() {
  return {.certificate = certificates().server, .key = certificates().server_key, .client_ca = ""};
}

class TlsServerTest : public StreamServerFixture {
 protected:
  // Else what OpenSSL sends to a server that has closed the connection ends the process.
  TlsServerTest() { std::signal(SIGPIPE, SIG_IGN); }

  Service tls_service(const TlsServerFiles& files, MakeHandler handlers = line_handlers()) {
    Service service = line_service(std::move(handlers));
    service.tls = std::make_shared<TlsServer>(files);
    service.on_tls_failure = [this](const std::string& peer, const std::string& why) {
      const std::lock_guard lock(mutex_);
      failures_.push_back(peer + ": " + why);
    };
    return service;
  }
  void serve(const StreamServerOptions& options = {.threads = 2}) {
    serve(line_handlers(), options);
  }
  void serve(MakeHandler handlers, const StreamServerOptions& options = {.threads = 2}) {
    StreamServerFixture::serve(tls_service(server_files(), std::move(handlers)), options);
  }

  // Why peers did not agree on TLS, with their addresses.
  std::vector<std::string> failures() {
    const std::lock_guard lock(mutex_);
    return failures_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> failures_;  // guarded by mutex_
};

TEST_F(TlsServerTest, SendsLongRepliesToAPeerThatReadsThemLate) {
  serve({.limits = {.max_pending_bytes = 100'000}});
  TlsTestClient client(address());
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += "big 1000000\nend\n";
  ASSERT_TRUE(client.send(lines));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(client.read(1'000'000), std::string(1'000'000, 'x'));
    EXPECT_EQ(client.read(4), "end\n");
  }
}

TEST_F(TlsServerTest, KeepsWhatComesWhileTheHandlerWaits) {
  PendingLines waiting;
  serve(later_handlers(waiting));
  TlsTestClient client(address());
  std::string lines;
  std::string expected;
  for (int i = 0; i < 20'000; ++i) {
    const std::string line = std::to_string(i) + "\n";
    lines += (i % 100 == 0 ? "" : "=") + line;
    expected += line;
  }
  auto answering = std::async(std::launch::async, [&] { waiting.answer(200); });
  ASSERT_TRUE(client.send(lines));
  EXPECT_EQ(client.read(expected.size()), expected);
  answering.get();
  server_.reset();
}

TEST_F(TlsServerTest, AnswersAfterThePeerHasEndedItsSide) {
  serve();
  TlsTestClient client(address());
  ASSERT_TRUE(client.send("a\nb\n"));
  client.end();
  EXPECT_EQ(client.read_all(), "a\nb\n");
}

TEST_F(TlsServerTest, EndsTheStreamAsTlsDemands) {
  serve();
  TlsTestClient client(address());
  ASSERT_TRUE(client.send("a\nclose\nb\n"));
  EXPECT_EQ(client.read_all(), "a\nbye\n");
}

TEST_F(TlsServerTest, AnswersWhatHasComeWhenItStops) {
  serve();
  TlsTestClient client(address());
  EXPECT_TRUE(client.echoes("a\n"));
  ASSERT_TRUE(client.send("b\n"));
  server_->stop(std::chrono::seconds(10));
  EXPECT_EQ(client.read_all(), "b\n");
}

TEST_F(TlsServerTest, ClosesAConnectionWithWrongBytes) {
  serve();
  TlsTestClient client(address());
  EXPECT_TRUE(client.echoes("a\n"));
  ASSERT_TRUE(client.below().send("this is no record of TLS\n"));
  EXPECT_THAT(client.below().read_all(), Not(HasSubstr("no record")));
  TlsTestClient other(address());
  EXPECT_TRUE(other.echoes("a\n"));
  EXPECT_THAT(failures(), IsEmpty());
}

TEST_F(TlsServerTest, TellsWhyAPeerDoesNotAgree) {
  serve();
  Client plain(address());
  ASSERT_TRUE(plain.send("GET / HTTP/1.1\r\n"));
  plain.read_all();
  EXPECT_THAT(failures(), ElementsAre("127.0.0.1: http request"));
}

// A request that was carried out gets its reply, even if wrong bytes follow it.
TEST_F(TlsServerTest, SendsTheRepliesThatItMadeBeforeWrongBytes) {
  serve();
  const std::string line = "line\n";
  for (const std::size_t lines : {1U, 1'000U, 20'000U, 33'000U, 47'000U}) {
    LineHandler::answered_bytes = 0;
    TlsTestClient client(address());
    std::string text;
    for (std::size_t i = 0; i < lines; ++i) text += line;
    ASSERT_TRUE(client.send(text));
    ASSERT_TRUE(client.below().send("this is no record of TLS\n"));
    const std::string replies = client.read_all();
    EXPECT_EQ(std::ranges::count(replies, '\n') * line.size(), LineHandler::answered_bytes.load());
  }
}

// A client and another one on the server's only thread. The first has sent a line that waits for
// the store.
class TlsServerHeldTest : public TlsServerTest {
 protected:
  TlsServerHeldTest() {
    serve(later_handlers(lines_), {});
    client_.emplace(address());
    other_.emplace(address());
    // What the client sends must not wait for the server to acknowledge what it has sent before.
    const int at_once = 1;
    ::setsockopt(client_->below().fd(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
    EXPECT_TRUE(client_->send("held\n"));
    held_ = lines_.take();
  }

  // The server has then read what the client had sent.
  void await_read() {
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(other_->send("=a\n"));
      EXPECT_EQ(other_->read(2), "a\n");
    }
  }

  PendingLines lines_;
  std::shared_ptr<PendingLine> held_;
  std::optional<TlsTestClient> client_;
  std::optional<TlsTestClient> other_;
};

TEST_F(TlsServerHeldTest, SendsAReplyThatComesLaterThanWrongBytes) {
  ASSERT_TRUE(client_->below().send("this is no record of TLS\n"));
  await_read();
  held_->answer();
  EXPECT_EQ(client_->read(5), "held\n");
}

// The second record waits for the first reply. The third has arrived, and is not read before that.
TEST_F(TlsServerHeldTest, AnswersWhatHasComeBehindAReplyThatIsAwaitedWhenItStops) {
  ASSERT_TRUE(client_->send("=a\n"));
  await_read();
  ASSERT_TRUE(client_->send("=b\n"));
  auto stopped = std::async(std::launch::async, [&] { server_->stop(std::chrono::seconds(10)); });
  EXPECT_EQ(other_->read_all(), "");  // The thread has told all connections to finish.
  held_->answer();
  EXPECT_EQ(client_->read_all(), "held\na\nb\n");
  stopped.get();
}

TEST_F(TlsServerTest, ClosesAPeerWhoseHandshakeTakesTooLong) {
  serve({.limits = {.handshake_timeout = milliseconds(2'000), .sweep_interval = milliseconds(5)}});
  TlsTestClient client(address());
  Client silent(address());
  Client slow(address());
  // The header of a record whose content never comes.
  ASSERT_TRUE(slow.send(std::string_view("\x16\x03\x01\x02\x00", 5)));
  EXPECT_TRUE(client.echoes("others are served\n"));
  EXPECT_THAT(silent.read_all(), Not(HasSubstr("(timeout)")));
  EXPECT_THAT(slow.read_all(), Not(HasSubstr("(timeout)")));
  EXPECT_THAT(failures(), ElementsAre(": ", ": "));
  EXPECT_TRUE(client.echoes("and for as long as they like\n"));
}

// What has come of a record is a part of a request, though nothing of it can be decrypted yet.
TEST_F(TlsServerTest, ClosesWhereTheRestOfARecordDoesNotCome) {
  Service service = tls_service(server_files());
  service.timeouts.request = milliseconds(50);
  StreamServerFixture::serve(service, {.limits = {.sweep_interval = milliseconds(5)}});
  TlsTestClient idle(address());
  EXPECT_TRUE(idle.echoes("a\n"));
  TlsTestClient renewed(address());
  EXPECT_TRUE(renewed.renew_keys());
  std::deque<TlsTestClient> clients;
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    for (const std::size_t bytes : {1, 5, 6}) {
      for (const bool is_first : {true, false}) {
        TlsTestClient& slow = clients.emplace_back(address(), TlsTestClient::Options{version});
        EXPECT_TRUE(is_first || slow.echoes("a\n"));
        // The beginning of a record of 32 bytes.
        ASSERT_TRUE(slow.below().send(std::string_view("\x17\x03\x03\x00\x20x", bytes)));
      }
    }
  }
  for (std::size_t i = 0; i < clients.size(); ++i) {
    EXPECT_EQ(clients[i].read_all(), "too slow\n") << i;
  }
  EXPECT_TRUE(idle.echoes("b\n"));
  EXPECT_TRUE(renewed.echoes("b\n"));
}

TEST_F(TlsServerTest, SaysNothingUnencryptedWhenItIsFull) {
  serve({.max_connections = 1});
  TlsTestClient client(address());
  EXPECT_TRUE(client.echoes("a\n"));
  Client second(address());
  EXPECT_EQ(second.read_all(), "");
}

TEST_F(TlsServerTest, ResumesSessions) {
  TlsServerFiles files = server_files();
  files.client_ca = certificates().ca;
  // Answers with the name in the client's certificate.
  StreamServerFixture::serve(tls_service(files, [](const AcceptedStream& stream) {
    return std::make_unique<CallingHandler>(
        [name = stream.certificate + "\n"](LineHandler&, std::string_view input,
                                           std::string& output) {
          if (!input.empty()) output += name;
          return StreamHandler::Progress{.consumed = input.size()};
        });
  }));
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    std::shared_ptr<SSL_SESSION> session;
    for (const bool is_resumed : {false, true}) {
      TlsTestClient client(address(), {version, true, session.get()});
      ASSERT_TRUE(client.send("?"));
      EXPECT_EQ(client.read(10), "CN=client\n");
      EXPECT_EQ(client.is_resumed(), is_resumed);
      session = client.session();
      client.end();  // Else OpenSSL takes the session for broken.
    }
  }
}

// Not with those that a server with former files has had.
TEST_F(TlsServerTest, AnotherServerInItsPlaceResumesNoSessions) {
  serve();
  TlsTestClient before(address());
  EXPECT_EQ(before.servers_name(), "/CN=server");
  EXPECT_TRUE(before.echoes("a\n"));
  const auto session = before.session();
  server_->replace({tls_service({.certificate = certificates().client,
                                 .key = certificates().client_key,
                                 .client_ca = ""})},
                   [] {});
  TlsTestClient after(address(), {.session = session.get()});
  EXPECT_EQ(after.servers_name(), "/CN=client");
  EXPECT_FALSE(after.is_resumed());
  EXPECT_TRUE(before.echoes("b\n"));
}

std::string refusal(const TlsServerFiles& files) {
  return error_of<std::runtime_error>([&] { const TlsServer server(files); });
}

TEST(TlsServerFilesTest, SaysWhichCannotBeUsed) {
  TlsServerFiles files = server_files();
  files.certificate = "/none";
  EXPECT_EQ(refusal(files), "the certificate file /none cannot be used: No such file or directory");
  files = server_files();
  files.client_ca = files.key;
  EXPECT_THAT(refusal(files), StartsWith("the CA file " + files.client_ca + " cannot be used: "));
  // The certificate's file may have the key as well.
  const std::string both = temporary_path("both");
  std::ofstream(both) << std::ifstream(files.certificate).rdbuf()
                      << std::ifstream(files.key).rdbuf();
  EXPECT_EQ(refusal({.certificate = both, .key = "", .client_ca = ""}), "");
  std::filesystem::remove(both);
}

TEST(TlsServerFilesTest, RefusesAKeyWithAPassphrase) {
  const std::string locked = temporary_path("locked");
  TlsServerFiles files = server_files();
  for (const std::string lock : {"pkcs8 -topk8", "ec -aes128"}) {
    const std::string command = "openssl " + lock + " -passout pass:secret -in " + files.key +
                                " -out " + locked + " 2>/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(refusal({.certificate = files.certificate, .key = locked, .client_ca = ""}),
              "the key in " + locked + " cannot be used: keys with a passphrase are not supported");
  }
  std::filesystem::remove(locked);
}

}  // namespace
}  // namespace sluice
