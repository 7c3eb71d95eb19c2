#include "net/stream_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>

namespace sluice {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

/// Lines: "close" says bye and closes, "big N" answers N bytes, any other is echoed. Two a call.
class LineHandler : public StreamHandler {
 public:
  Progress on_data(std::string_view input, std::string& output) override {
    Progress progress;
    for (int lines = 0; lines < 2; ++lines) {
      const std::string_view rest = input.substr(progress.consumed);
      const std::size_t end = rest.find('\n');
      if (end == std::string_view::npos) return progress;
      progress.consumed += end + 1;
      const std::string line(rest.substr(0, end));
      if (line == "close") {
        output += "bye\n";
        progress.next = Next::kClose;
        return progress;
      }
      if (line.starts_with("big ")) {
        output.append(std::stoul(line.substr(4)), 'x');
      } else {
        output += line + "\n";
      }
    }
    progress.next = Next::kMore;
    return progress;
  }
};

HandlerFactory line_handlers() {
  return [](std::size_t) { return std::make_unique<LineHandler>(); };
}

Address any_port() {
  return {Address::Family::kIpv4, "127.0.0.1", 0};
}

std::string temporary_path(const std::string& name) {
  return testing::TempDir() + "sluice_net_" + std::to_string(::getpid()) + "_" + name;
}

StreamServer make_server(const Address& address, const StreamServerOptions& options = {}) {
  return StreamServer({{address, line_handlers(), "no room\n"}}, options);
}

/// A blocking client that gives up, and fails its test, after ten seconds.
class Client {
 public:
  explicit Client(const Address& address, int receive_buffer_bytes = 0)
      : fd_(::socket(address.family == Address::Family::kUnix ? AF_UNIX : AF_INET, SOCK_STREAM,
                     0)) {
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (receive_buffer_bytes != 0) {
      ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(int));
    }
    connected_ = address.family == Address::Family::kUnix ? connect_unix(address.host)
                                                          : connect_ipv4(address.port);
  }

  bool connected() const { return connected_; }
  bool send(std::string_view text) {
    return ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  void end() { ::shutdown(fd_.get(), SHUT_WR); }

  std::string read(std::size_t bytes) {
    std::string text(bytes, '\0');
    std::size_t got = 0;
    while (got < bytes) {
      const ssize_t n = ::recv(fd_.get(), text.data() + got, bytes - got, 0);
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    return text.substr(0, got);
  }

  /// Everything until the other side ends; "(reset)" or "(timeout)" at the end where it does not.
  std::string read_all() {
    std::string text;
    std::string piece(65536, '\0');
    while (true) {
      const ssize_t n = ::recv(fd_.get(), piece.data(), piece.size(), 0);
      if (n == 0) return text;
      if (n < 0) return text + (errno == EAGAIN ? "(timeout)" : "(reset)");
      text.append(piece, 0, static_cast<std::size_t>(n));
    }
  }

 private:
  bool connect_ipv4(std::uint16_t port) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
  }
  bool connect_unix(const std::string& path) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    path.copy(to.sun_path, sizeof(to.sun_path) - 1);
    return ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0;
  }

  UniqueFd fd_;
  bool connected_ = false;
};

class StreamServerTest : public testing::Test {
 protected:
  void serve(const StreamServerOptions& options = {}) {
    server_ = std::make_unique<StreamServer>(
        std::vector<Service>{{any_port(), line_handlers(), "no room\n"}}, options);
    server_->start();
  }
  Address address() const { return server_->addresses()[0]; }

  std::unique_ptr<StreamServer> server_;
};

TEST_F(StreamServerTest, AnswersLinesHoweverTheyAreCut) {
  serve();
  Client client(address());
  for (const char* piece : {"he", "ll", "o\nwo", "rld\n"}) ASSERT_TRUE(client.send(piece));
  EXPECT_EQ(client.read(12), "hello\nworld\n");
}

TEST_F(StreamServerTest, AnswersAPipelineInOrder) {
  serve({.threads = 2});
  Client client(address());
  std::string lines;
  for (int i = 0; i < 20'000; ++i) lines += std::to_string(i) + "\n";
  auto sending = std::async(std::launch::async, [&] { return client.send(lines); });
  EXPECT_EQ(client.read(lines.size()), lines);
  EXPECT_TRUE(sending.get());
}

TEST_F(StreamServerTest, ServesManyOnEveryThread) {
  std::atomic<unsigned> threads_used = 0;
  const HandlerFactory factory = [&](std::size_t thread) {
    threads_used |= 1U << thread;
    return std::make_unique<LineHandler>();
  };
  const Address address{Address::Family::kUnix, temporary_path("many.sock"), 0};
  StreamServer server({{address, factory, ""}}, {.threads = 3});
  server.start();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 9; ++i) {
    clients.push_back(std::make_unique<Client>(address));
    ASSERT_TRUE(clients.back()->send("x\n"));
    EXPECT_EQ(clients.back()->read(2), "x\n");
  }
  EXPECT_EQ(threads_used, 7U);
  EXPECT_EQ(server.connections(), 9U);
}

TEST_F(StreamServerTest, AnswersAPeerThatHasEndedItsSide) {
  serve();
  Client client(address());
  ASSERT_TRUE(client.send("big 5000000\nlast\nunfinished"));
  client.end();
  EXPECT_EQ(client.read_all(), std::string(5'000'000, 'x') + "last\n");
}

TEST_F(StreamServerTest, DeliversTheLastAnswerThoughThePeerStillTalks) {
  serve();
  Client client(address());
  ASSERT_TRUE(client.send("close\n" + std::string(300'000, 'y')));
  EXPECT_EQ(client.read(4), "bye\n");
  ASSERT_TRUE(client.send("more\n"));
  client.end();
  EXPECT_EQ(client.read_all(), "");
}

TEST_F(StreamServerTest, ClosesAPeerWhoseInputNeverEnds) {
  serve();
  Client client(address());
  client.send(std::string(2 * kMaxInputBytes, 'y'));
  EXPECT_THAT(client.read_all(), testing::AnyOf("", "(reset)"));
}

TEST_F(StreamServerTest, HoldsBackWhatAPeerDoesNotReadAndGoesOnWhenItDoes) {
  serve({.limits = {.max_pending_bytes = 100'000}});
  Client client(address(), 4096);
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += "big 50000\n" + std::to_string(i) + "\n";
  ASSERT_TRUE(client.send(lines));
  std::string expected;
  for (int i = 0; i < 300; ++i) expected += std::string(50'000, 'x') + std::to_string(i) + "\n";
  EXPECT_TRUE(client.read(expected.size()) == expected);
  ASSERT_TRUE(client.send("still here\n"));
  EXPECT_EQ(client.read(11), "still here\n");
}

TEST_F(StreamServerTest, ClosesAPeerThatNeverReadsAndKeepsMemoryBounded) {
  std::atomic<std::size_t> answered_bytes = 0;
  class Counting : public LineHandler {
   public:
    explicit Counting(std::atomic<std::size_t>& bytes) : bytes_(bytes) {}
    Progress on_data(std::string_view input, std::string& output) override {
      const std::size_t before = output.size();
      const Progress progress = LineHandler::on_data(input, output);
      bytes_ += output.size() - before;
      return progress;
    }

   private:
    std::atomic<std::size_t>& bytes_;
  };
  const HandlerFactory factory = [&](std::size_t) {
    return std::make_unique<Counting>(answered_bytes);
  };
  StreamServer server({{any_port(), factory, ""}}, {.limits = {.max_pending_bytes = 1 << 20,
                                                               .stuck_timeout = milliseconds(50)}});
  server.start();
  Client client(server.addresses()[0], 4096);
  const std::string line = "big 1000\n";
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += line;
  int rounds = 0;
  while (rounds < 20'000 && client.send(lines)) ++rounds;
  // The peer was closed long before it had sent 180 MB, and what the server had answered is its
  // bound and what the kernel's buffers hold.
  EXPECT_LT(rounds, 20'000);
  EXPECT_LT(answered_bytes, 12U << 20);
  EXPECT_EQ(server.connections(), 0U);
}

TEST_F(StreamServerTest, RefusesOneTooManyAndTakesTheNextWhenOneHasGone) {
  serve({.max_connections = 1});
  auto first = std::make_unique<Client>(address());
  ASSERT_TRUE(first->send("x\n"));
  ASSERT_EQ(first->read(2), "x\n");
  Client second(address());
  EXPECT_EQ(second.read_all(), "no room\n");
  first.reset();
  std::string answer;
  while (answer != "x\n") {  // Until the server has seen the first one go.
    Client third(address());
    third.send("x\n");
    answer = third.read(2);
  }
  EXPECT_EQ(answer, "x\n");
}

TEST_F(StreamServerTest, PausesAcceptingWithoutDescriptorsAndGoesOn) {
  serve();
  std::vector<UniqueFd> hoard;
  Client waiting(address());  // Has its descriptor before they run out.
  ASSERT_TRUE(waiting.send("x\n"));
  ASSERT_EQ(waiting.read(2), "x\n");
  UniqueFd next(::socket(AF_INET, SOCK_STREAM, 0));
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{.rlim_cur = 64, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  while (true) {
    UniqueFd fd(::dup(0));
    if (!fd) break;
    hoard.push_back(std::move(fd));
  }
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address().port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(next.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
  ASSERT_TRUE(waiting.send("y\n"));
  EXPECT_EQ(waiting.read(2), "y\n");
  EXPECT_EQ(server_->connections(), 1U);
  hoard.clear();
  ::setrlimit(RLIMIT_NOFILE, &before);
  char answer[2] = {};
  EXPECT_EQ(::send(next.get(), "z\n", 2, 0), 2);
  EXPECT_EQ(::recv(next.get(), answer, 2, MSG_WAITALL), 2);
  EXPECT_EQ(std::string_view(answer, 2), "z\n");
}

TEST_F(StreamServerTest, StopAnswersWhatHasComeAndSendsWhatWaits) {
  serve();
  Client slow(address());
  Client idle(address());
  ASSERT_TRUE(slow.send("big 20000000\nlast\n"));
  ASSERT_EQ(slow.read(1), "x");
  auto stopping = std::async(std::launch::async, [&] { server_->stop(milliseconds(10'000)); });
  EXPECT_EQ(idle.read_all(), "");
  const std::string rest = slow.read_all();
  EXPECT_EQ(rest.size(), 20'000'000U - 1 + 5);
  EXPECT_TRUE(rest.ends_with("xlast\n"));
  stopping.get();
  EXPECT_FALSE(Client(address()).connected());
}

TEST_F(StreamServerTest, StopDoesNotWaitForeverForAPeerThatNeverReads) {
  serve();
  Client stuck(address(), 4096);
  ASSERT_TRUE(stuck.send("big 20000000\n"));
  ASSERT_EQ(stuck.read(1), "x");
  const auto start = EventLoop::Clock::now();
  server_->stop(milliseconds(50));
  EXPECT_LT(EventLoop::Clock::now() - start, milliseconds(5'000));
}

TEST(ListenerTest, RefusesAPortThatIsTaken) {
  StreamServer first = make_server(any_port());
  const Address taken = first.addresses()[0];
  try {
    make_server(taken);
    FAIL() << "two servers on " << taken.text();
  } catch (const ListenError& error) {
    EXPECT_EQ(std::string(error.what()),
              "cannot listen on " + taken.text() + ": Address already in use");
  }
  first.stop(milliseconds(0));
  EXPECT_EQ(make_server(taken).addresses()[0], taken);
}

TEST(ListenerTest, ReplacesOnlyAStaleSocketFileAndRemovesItsOwn) {
  const Address address{Address::Family::kUnix, temporary_path("stale.sock"), 0};
  {
    StreamServer live = make_server(address);
    EXPECT_THROW(make_server(address), ListenError);
    ASSERT_TRUE(std::filesystem::exists(address.host));
    // A second name for the socket stays when the server goes, and leads nowhere.
    std::filesystem::create_hard_link(address.host, address.host + ".kept");
  }
  EXPECT_FALSE(std::filesystem::exists(address.host));
  std::filesystem::rename(address.host + ".kept", address.host);
  StreamServer next = make_server(address);
  next.start();
  Client client(address);
  ASSERT_TRUE(client.send("x\n"));
  EXPECT_EQ(client.read(2), "x\n");
}

TEST(ListenerTest, LeavesAFileThatIsNoSocket) {
  const Address address{Address::Family::kUnix, temporary_path("file"), 0};
  std::ofstream(address.host) << "precious";
  EXPECT_THROW(make_server(address), ListenError);
  EXPECT_EQ(std::filesystem::file_size(address.host), 8U);
  std::filesystem::remove(address.host);
}

}  // namespace
}  // namespace sluice
