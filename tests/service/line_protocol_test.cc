// A protocol that only this test uses, over real sockets: it shows that service/ and net/ do not
// depend on RESP. A client sends lines "LIMIT KEY", and reads "yes REMAINING" or "no", or "error:
// WHY"; "ping" is answered "pong", "bye" ends the connection.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/stream_handler.h"
#include "net/stream_server.h"
#include "service/server_context.h"
#include "sluice/store.h"
#include "testing/line_server.h"
#include "testing/served_store.h"

namespace sluice {
namespace {

class CheckHandler final : public StreamHandler, private ReplyWriter {
 public:
  CheckHandler(std::shared_ptr<ServerContext> server, std::size_t thread, Wake wake)
      : server_(std::move(server)),
        context_(server_->thread(thread)),
        counted_(server_->protocol("line")),
        wake_(std::move(wake)) {}

  Progress on_data(std::string_view input, std::string& output) override {
    if (pending_ != nullptr) {
      if (!pending_->is_ready()) return {0, Next::kLater};
      pending_->get().write(*this, context_.counters, output);
      pending_.reset();
    }
    if (closing_) return {input.size(), Next::kClose};
    context_.begin_batch();
    Progress progress{.consumed = 0, .next = Next::kMore};
    for (std::size_t lines = 0; lines < DecisionBatch::kMaxRequests && !closing_; ++lines) {
      const std::string_view rest = input.substr(progress.consumed);
      const std::size_t end = rest.find('\n');
      if (end == std::string_view::npos) {
        progress.next = Next::kNeedMore;
        break;
      }
      progress.consumed += end + 1;
      run(rest.substr(0, end), output);
    }
    pending_ = context_.batch.ask(*this, wake_, output);
    if (pending_ != nullptr) progress.next = Next::kLater;
    if (pending_ == nullptr && closing_) progress.next = Next::kClose;
    return progress;
  }

 private:
  void run(std::string_view line, std::string& output) {
    if (line == "ping") {
      context_.batch.other_replies(output) += "pong\n";
    } else if (line == "bye") {
      closing_ = true;
    } else {
      check(line, output);
    }
  }

  void check(std::string_view line, std::string& output) {
    const std::size_t blank = std::min(line.find(' '), line.size());
    try {
      const auto& limit = context_.limits.find(line.substr(0, blank));
      const std::string_view key = line.substr(std::min(blank + 1, line.size()));
      context_.batch.add(limit, {.key = key}, {});
    } catch (const InvalidLimit& error) {
      context_.batch.other_replies(output) += "error: " + std::string(error.what()) + "\n";
    }
  }

  void write_decisions(std::span<const ReplySlot>, std::span<const Decision> decisions,
                       std::string& output) override {
    for (const Decision& decision : decisions) {
      output += decision.allowed ? "yes " + std::to_string(decision.remaining) + "\n" : "no\n";
    }
  }

  void write_unavailable(const ReplySlot&, std::string_view why, std::string& output) override {
    output += "error: " + std::string(why) + "\n";
  }

  // No line asks for several decisions together.
  void write_together(const ReplySlot&, const Decision&, std::span<const Decision>,
                      std::string&) override {}
  void write_refused(const ReplySlot&, std::string_view, std::string&) override {}

  const std::shared_ptr<ServerContext> server_;
  ThreadContext& context_;
  const CountedConnection counted_;
  const Wake wake_;
  bool closing_ = false;
  std::shared_ptr<PendingAnswers> pending_;
};

class LineProtocolTest : public testing::Test {
 protected:
  void serve(std::shared_ptr<Store> store) {
    const std::vector<Limit> named{Limit("token_bucket 2/1h", "login"),
                                   Limit("token_bucket 100/1h", "api")};
    context = std::make_shared<ServerContext>(std::move(store), named, 1);
    const auto make_handler = [context = context](AcceptedStream stream) {
      return std::make_unique<CheckHandler>(context, stream.thread, std::move(stream.wake));
    };
    server = std::make_unique<StreamServer>(std::vector<Service>{{any_port(), make_handler, ""}},
                                            StreamServerOptions{});
    server->start();
  }

  std::string read(Client& client, const std::string& expected) {
    return client.read(expected.size());
  }

  Address address() const { return server->addresses()[0]; }

  std::shared_ptr<ScriptedStore> later = later_store();
  std::shared_ptr<ServerContext> context;
  std::unique_ptr<StreamServer> server;
};

const std::string kRequests = "ping\nlogin bob\nlogin bob\nping\nother bob\nlogin bob\nlogin eve\n";
const std::string kReplies =
    "pong\nyes 1\nyes 0\npong\nerror: no limit is named 'other'\nno\nyes 1\n";

TEST_F(LineProtocolTest, ServesAStoreThatAnswersAtOnce) {
  serve(open_store("memory:"));
  Client client(address());
  ASSERT_TRUE(client.send(kRequests));
  EXPECT_EQ(read(client, kReplies), kReplies);
  ASSERT_TRUE(client.send("api x\nbye\nping\n"));
  EXPECT_EQ(client.read_all(), "yes 99\n");
  EXPECT_EQ(context->protocol("line").accepted, 1U);
  const std::vector<OutcomeCount> outcomes = context->outcomes();
  ASSERT_EQ(outcomes.size(), 3U);
  EXPECT_EQ(outcomes[0], (OutcomeCount{"login", Outcome::kAllowed, Source::kStore, 3}));
  EXPECT_EQ(outcomes[1], (OutcomeCount{"login", Outcome::kDenied, Source::kStore, 1}));
  EXPECT_EQ(outcomes[2], (OutcomeCount{"api", Outcome::kAllowed, Source::kStore, 1}));
}

TEST_F(LineProtocolTest, ServesAStoreThatAnswersLater) {
  serve(later);
  Client client(address());
  ASSERT_TRUE(client.send(kRequests + "api lost\nbye\n"));
  ASSERT_TRUE(later->await_pending(1));
  Client other(address());
  ASSERT_TRUE(other.send("ping\n"));
  EXPECT_EQ(other.read(5), "pong\n");  // Served while the store has not answered the first.
  ASSERT_TRUE(later->answer());
  EXPECT_EQ(client.read_all(),
            kReplies + "error: redis://far.example:6379 has not answered within 10ms\n");
}

}  // namespace
}  // namespace sluice
