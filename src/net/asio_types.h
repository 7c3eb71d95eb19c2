#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstring>
#include <string>

// Includes Boost.Asio, which compiles slowly: for the .cc files of this module only.

namespace sluice {

// With the io_context's own executor type: Asio's default, any_io_executor, costs virtual calls.
using IoExecutor = boost::asio::io_context::executor_type;
using IoSocket =
    boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol, IoExecutor>;
using SteadyTimer = boost::asio::basic_waitable_timer<
    std::chrono::steady_clock, boost::asio::wait_traits<std::chrono::steady_clock>, IoExecutor>;

/// REQUIRES: it is none of a Unix socket.
inline boost::asio::ip::tcp::endpoint tcp_endpoint(const IoSocket::endpoint_type& endpoint) {
  boost::asio::ip::tcp::endpoint address;
  address.resize(endpoint.size());
  std::memcpy(address.data(), endpoint.data(), endpoint.size());
  return address;
}

/// The address in digits, without its port; empty for a Unix socket.
inline std::string numeric_address(const IoSocket::endpoint_type& endpoint) {
  if (endpoint.protocol().family() == AF_UNIX) return {};
  return tcp_endpoint(endpoint).address().to_string();
}

/// Whether the socket is connected to itself. That happens when no server listens on a port of this
/// machine, and the system chooses that port for the client's own end.
inline bool is_its_own_peer(const IoSocket& socket) {
  boost::system::error_code error;
  const auto own = socket.local_endpoint(error);
  return !error && own.protocol().family() != AF_UNIX && own == socket.remote_endpoint(error);
}

}  // namespace sluice
