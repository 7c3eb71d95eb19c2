#include "server/server.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "net/address.h"
#include "net/stream_server.h"
#include "server/limits_file.h"
#include "server/resp_service.h"
#include "sluice/store.h"
#include "stores/url.h"

namespace sluice {
namespace {

/// Descriptors besides the connections': listeners, loops, files.
constexpr rlim_t kOtherDescriptors = 1024;

std::size_t usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&cores)));
}

/// As far as the system lets us. Where it does not, accepting pauses while there are none left.
void allow_descriptors(std::size_t connections) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = std::min(limit.rlim_max, connections + kOtherDescriptors);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::vector<Address> read_addresses(const ServerOptions& options) {
  std::vector<Address> addresses;
  for (const std::string& text : options.resp) {
    ParsedAddress parsed = parse_address(text);
    if (!parsed.address) throw ConfigError(parsed.error);
    if (!options.insecure && !parsed.address->is_local()) {
      throw ConfigError("refusing to serve on " + text +
                        ", which other machines may reach without a password and unencrypted; "
                        "--insecure allows it");
    }
    addresses.push_back(*std::move(parsed.address));
  }
  if (addresses.empty()) throw ConfigError("there is no address to serve on");
  return addresses;
}

std::size_t choose_threads(const ServerOptions& options) {
  if (options.threads > kMaxThreads) {
    throw ConfigError(std::to_string(options.threads) + " threads are too many, " +
                      std::to_string(kMaxThreads) + " are the most");
  }
  return options.threads != 0 ? options.threads : std::min(usable_cores(), kMaxThreads);
}

}  // namespace

struct Server::Parts {
  std::size_t threads = 1;
  std::string store_url;
  std::optional<StreamServer> streams;
};

Server::Server(const ServerOptions& options) : parts_(std::make_unique<Parts>()) {
  const std::vector<Address> addresses = read_addresses(options);
  parts_->threads = choose_threads(options);
  RespParts resp{.store = nullptr, .limits = {}, .threads = parts_->threads};
  if (!options.limits_file.empty()) resp.limits = read_limits_file(options.limits_file);
  try {
    parts_->store_url = StoreUrl(options.store).text();
    resp.store = open_store(options.store);
  } catch (const StoreError& error) {
    throw ConfigError(error.what());
  }
  allow_descriptors(options.max_connections);
  parts_->streams.emplace(
      make_resp_services(addresses, resp),
      StreamServerOptions{.threads = parts_->threads, .max_connections = options.max_connections});
}

Server::~Server() = default;

std::string Server::description() const {
  std::string line = "serving RESP on ";
  const char* separator = "";
  for (const Address& address : parts_->streams->addresses()) {
    line += std::exchange(separator, ", ") + address.text();
  }
  line += " (" + std::to_string(parts_->threads) + (parts_->threads == 1 ? " thread" : " threads");
  return line + ", " + parts_->store_url + ")";
}

void Server::start() {
  parts_->streams->start();
}

void Server::stop(std::chrono::milliseconds grace) {
  parts_->streams->stop(grace);
}

}  // namespace sluice
