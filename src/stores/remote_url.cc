#include "stores/remote_url.h"

#include <algorithm>
#include <random>
#include <sstream>

#include "net/tls_client.h"

namespace sluice {

std::shared_ptr<TlsContext> read_tls(StoreUrl& url, bool wanted) {
  if (!wanted) return nullptr;
  return std::make_shared<TlsContext>(
      TlsOptions{.ca_file = url.text_option("ca").value_or(""),
                 .certificate_file = url.text_option("cert").value_or(""),
                 .key_file = url.text_option("key").value_or(""),
                 .server_name = url.text_option("server_name").value_or(""),
                 .insecure = !url.yes_no_option("verify", true)});
}

std::chrono::nanoseconds read_deadline(StoreUrl& url, const StoreOptions& options) {
  using namespace std::chrono_literals;
  constexpr std::int64_t kLeastNs = 1'000'000;
  constexpr std::int64_t kMostNs = 60'000'000'000;
  const auto written = url.duration_option("deadline", {.least = kLeastNs, .most = kMostNs});
  const std::chrono::nanoseconds deadline = written ? std::chrono::nanoseconds(*written) : 10ms;
  return options.virtual_time ? std::max<std::chrono::nanoseconds>(deadline, 5s) : deadline;
}

std::size_t read_connections(StoreUrl& url) {
  constexpr std::int64_t kMost = 64;
  return static_cast<std::size_t>(
      url.whole_option("connections", {.least = 1, .most = kMost}).value_or(1));
}

std::string replay_suffix() {
  std::random_device random;
  std::ostringstream suffix;
  suffix << "-replay-" << std::hex << random() << random();
  return suffix.str();
}

}  // namespace sluice
