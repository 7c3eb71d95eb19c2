#include "server/protocols.h"

#include <array>

#include "protocols/http/handler.h"
#include "protocols/resp/handler.h"

namespace sluice {
namespace {

// The table of protocols. A new one is its folder and one row here; CONTRIBUTING.md lists the
// rest.
constexpr std::array kProtocols = std::to_array<ServedProtocol>({
    {"resp", "RESP", "127.0.0.1:6380", resp::handlers, resp::kRefusal, resp::kTimeouts},
    {"http", "HTTP", "", http::handlers, http::kRefusal, http::kTimeouts},
    {"admin", "admin HTTP", "", http::admin_handlers, http::kRefusal, http::kTimeouts, true},
});

}  // namespace

std::span<const ServedProtocol> protocols() {
  return kProtocols;
}

}  // namespace sluice
