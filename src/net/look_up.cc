#include "net/look_up.h"

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <system_error>
#include <thread>

#include "core/without_signals.h"

namespace sluice {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

LookupResult look_up_host(const Endpoint& endpoint) {
  asio::io_context unused;
  error_code error;
  // Not address_configured: on a machine without a network it would hide localhost.
  const auto results = tcp::resolver(unused).resolve(endpoint.host, std::to_string(endpoint.port),
                                                     tcp::resolver::numeric_service, error);
  LookupResult found;
  if (error) found.error = error.message();
  for (const auto& result : results) {
    if (found.addresses.size() < kMaxAddresses) found.addresses.emplace_back(result.endpoint());
  }
  return found;
}

std::optional<LookupResult> address_without_lookup(const Endpoint& endpoint) {
  const std::string& path = endpoint.unix_path;
  if (path.size() > kMaxUnixPathBytes) {
    return LookupResult{{},
                        "its path has " + std::to_string(path.size()) + " bytes, a socket's has " +
                            std::to_string(kMaxUnixPathBytes) + " at most"};
  }
  if (!path.empty()) return LookupResult{{asio::local::stream_protocol::endpoint(path)}, {}};
  error_code is_name;
  const auto numeric = asio::ip::make_address(endpoint.host, is_name);
  if (is_name) return std::nullopt;
  return LookupResult{{tcp::endpoint(numeric, endpoint.port)}, {}};
}

// The thread may still run when the program ends. A caller of the library may have led to this: its
// thread takes signals, the new one must not.
void begin_lookup(const std::shared_ptr<asio::io_context>& context, const Endpoint& endpoint,
                  LookupResult (*look_up)(const Endpoint&),
                  const std::function<void(LookupResult)>& done) {
  const WithoutSignals without_signals;
  try {
    std::thread([=] {
      asio::post(*context, [done, found = look_up(endpoint)] { done(found); });
    }).detach();
  } catch (const std::system_error& error) {
    done({{}, "the system starts no thread: " + error.code().message()});
  }
}

}  // namespace sluice
