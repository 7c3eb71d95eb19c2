// An HTTP server that asks clients with too many requests to wait:
//   http_server PORT STORE_URL LIMIT [TRUSTED_PROXY...]
//   http_server 8080 memory: 'token_bucket 5/1s burst=10' 10.0.0.0/8
// Every response has the headers RateLimit-Policy and RateLimit, which tell the client what is left
// (see sluice/http_headers.h for other styles); a 429 also has Retry-After. The server's one thread
// waits neither for the store nor for a delay: it serves other clients meanwhile.
#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/asio.h"
#include "sluice/keys.h"
#include "sluice/sluice.h"

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;
using namespace std::chrono_literals;

constexpr std::size_t kMaxBodyBytes = 64 * 1024;

struct Site {
  sluice::Limiter limiter;
  sluice::ClientIp client_ip;
};

std::string client_of(const Site& site, const std::string& peer, const Request& request) {
  std::vector<std::string_view> forwarded;
  const auto [first, last] = request.equal_range("X-Forwarded-For");
  for (auto line = first; line != last; ++line) {
    forwarded.emplace_back(line->value().data(), line->value().size());
  }
  return site.client_ip.key(peer, forwarded);
}

Response respond(const Request& request, http::status status, std::string text) {
  Response response(status, request.version());
  response.set(http::field::content_type, "text/plain");
  response.body() = std::move(text);
  response.keep_alive(request.keep_alive());
  response.prepare_payload();
  return response;
}

Response respond(const Request& request, const sluice::Limit& limit,
                 const sluice::Decision& decision) {
  Response response = decision.allowed
                          ? respond(request, http::status::ok, "hello\n")
                          : respond(request, http::status::too_many_requests, "not so fast\n");
  const std::pair<sluice::Limit, sluice::Decision> answers[] = {{limit, decision}};
  for (const auto& [name, value] : sluice::http_headers(answers, sluice::HeaderStyle::kIetf11,
                                                        std::chrono::system_clock::now())) {
    response.set(name, value);
  }
  return response;
}

asio::awaitable<Response> answer(Site& site, const std::string& peer, const Request& request) {
  try {
    const std::string client = client_of(site, peer, request);
    const sluice::Decision decision =
        co_await sluice::async_check(site.limiter, client, 1, asio::use_awaitable);
    if (decision.delay > 0ns) {  // A leaky_bucket: the request may go ahead after this wait.
      asio::steady_timer timer(co_await asio::this_coro::executor, decision.delay);
      co_await timer.async_wait(asio::use_awaitable);
    }
    co_return respond(request, site.limiter.limit(), decision);
  } catch (const sluice::StoreError&) {  // Only where the store's URL says on_failure=raise.
    co_return respond(request, http::status::service_unavailable, "try again later\n");
  }
}

// Serves one connection. An exception (the client has gone, or is silent) ends only this one.
asio::awaitable<void> serve(Site& site, tcp::socket socket) {
  const std::string peer = socket.remote_endpoint().address().to_string();
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer;
  bool more = true;
  while (more) {
    http::request_parser<http::string_body> parser;
    parser.body_limit(kMaxBodyBytes);
    stream.expires_after(30s);
    co_await http::async_read(stream, buffer, parser, asio::use_awaitable);
    const Response response = co_await answer(site, peer, parser.get());
    more = response.keep_alive();
    stream.expires_after(30s);
    co_await http::async_write(stream, response, asio::use_awaitable);
  }
  stream.socket().shutdown(tcp::socket::shutdown_send);
}

asio::awaitable<void> listen(Site& site, tcp::acceptor& acceptor) {
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer pause(executor);
  while (true) {
    auto [error, socket] = co_await acceptor.async_accept(asio::as_tuple(asio::use_awaitable));
    if (!error) {
      asio::co_spawn(executor, serve(site, std::move(socket)), asio::detached);
      continue;
    }
    pause.expires_after(100ms);  // Too many connections: wait until one ends.
    co_await pause.async_wait(asio::use_awaitable);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const int port = count < 4 ? 0 : std::atoi(arguments[1]);
  if (port < 1 || port > 65'535) {
    std::fprintf(stderr, "usage: http_server PORT STORE_URL LIMIT [TRUSTED_PROXY...]\n");
    return 2;
  }
  try {
    asio::io_context context(1);  // Destroyed last: pending requests to the store complete on it.
    Site site{
        sluice::Limiter(sluice::open_store(arguments[2]), sluice::Limit(arguments[3], "http")),
        sluice::ClientIp({.trusted_proxies = {arguments + 4, arguments + count}})};
    // Only for this machine: a proxy on it accepts the connections of others.
    tcp::acceptor acceptor(context,
                           {asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(port)});
    asio::signal_set signals(context, SIGINT, SIGTERM);
    signals.async_wait([&](const boost::system::error_code&, int) { context.stop(); });
    asio::co_spawn(context, listen(site, acceptor), asio::detached);
    context.run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "http_server: %s\n", error.what());
    return 1;
  }
}
