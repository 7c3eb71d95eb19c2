#include "server/check_options.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "core/number_text.h"
#include "limiter/open_store.h"
#include "server/config_error.h"
#include "server/limits_file.h"
#include "service/overrides.h"
#include "stores/stores.h"
#include "stores/url.h"

namespace sluice {
namespace {

void check_snapshot(const ServerOptions& options) {
  const std::filesystem::path file = options.snapshot.file;
  if (file.empty()) return;
  if (StoreUrl(options.store).scheme() != "memory") {
    throw ConfigError(
        "snapshot: only a store memory: has one, and the server has another store, which keeps its "
        "states itself");
  }
  std::error_code ignored;
  const std::filesystem::file_status there = std::filesystem::symlink_status(file, ignored);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    // The next snapshot would replace the link, and not the file to which it leads.
    const std::string what = std::filesystem::is_directory(there) ? "a folder"
                             : std::filesystem::is_symlink(there) ? "a symbolic link"
                                                                  : "no regular file";
    throw ConfigError("snapshot: " + file.string() + " is " + what + ", and must be a file");
  }
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  const auto require = [](const std::string& path, int access, const std::string& otherwise) {
    if (::access(path.c_str(), access) == 0) return;
    throw ConfigError("snapshot: " + otherwise + path + ": " +
                      std::generic_category().message(errno));
  };
  require(folder, W_OK | X_OK, "no file can be made in the folder ");
  require(folder, R_OK, "cannot open the folder, which is synced after each snapshot, ");
  if (std::filesystem::exists(there)) require(file, R_OK, "cannot read ");
}

void check_limits(const ServerOptions& options) {
  const StoreUrl url(options.store);
  for (const NamedLimit& named : options.limits.named) {
    check_limit(url, named.limit.definition());
    for (const LimitOverride& each : named.overrides) {
      if (each.limit) check_limit(url, each.limit->definition());
    }
  }
}

// Who reads a token on its way can use it.
void warn_of_clear_text(const ServerOptions& options, const std::vector<Listening>& listening,
                        const LogFunction& log) {
  const bool has_tokens = std::ranges::any_of(
      options.users, [](const User& user) { return !user.token_sha256.empty(); });
  if (!has_tokens) return;
  for (const Listening& each : listening) {
    if (each.address.is_local() || !each.tls.certificate.empty()) continue;
    const std::string address = each.address.text();
    log({LogLevel::kWarning,
         "tokens_in_clear_text",
         "other machines can reach " + address +
             ", and send their tokens there in clear text: it has no TLS (tls)",
         {{"address", address}}});
  }
}

// An operator who writes `users: []` may expect that the server refuses all clients.
void warn_of_empty_users(const ServerOptions& options, const LogFunction& log) {
  if (!options.has_empty_users) return;
  log({LogLevel::kWarning, "no_users",
       "'users' has no user, which is as if it were left out: no client is asked for a token"});
}

// Of the patterns that match a key, the first applies.
void warn_of_hidden_overrides(const NamedLimit& named, const LogFunction& log) {
  std::string sentence;
  std::size_t hidden = 0;
  for (auto each = named.overrides.begin(); each != named.overrides.end(); ++each) {
    if (!is_pattern(each->key)) continue;
    // A pattern that matches the text of another one matches all of its keys, since only a '*' can
    // match a '*'.
    const auto before =
        std::find_if(named.overrides.begin(), each, [&](const LimitOverride& other) {
          return is_pattern(other.key) && matches(other.key, each->key);
        });
    if (before == each) continue;
    ++hidden;
    if (hidden > 1) continue;  // One sentence names the first and counts the others.
    sentence = "the limit " + named.limit.space() + ": the override '" + each->key +
               "' never applies, since '" + before->key + "' stands before it";
  }
  if (hidden == 0) return;
  if (hidden > 1) sentence += "; the same is true for " + counted(hidden - 1, "other");
  log({LogLevel::kWarning,
       "override_hidden",
       std::move(sentence),
       {{"limit", named.limit.space()}}});
}

}  // namespace

void check_options(const ServerOptions& options) {
  try {
    check_store_url(options.store);
    check_limits(options);
    check_snapshot(options);
  } catch (const std::runtime_error& error) {
    throw ConfigError(error.what());
  }
}

void warn_of_options(const ServerOptions& options, const std::vector<Listening>& listening,
                     const LogFunction& log) {
  warn_of_rounding(options.limits.named, log);
  for (const NamedLimit& named : options.limits.named) warn_of_hidden_overrides(named, log);
  warn_of_empty_users(options, log);
  warn_of_clear_text(options, listening, log);
  const auto certified = std::ranges::count_if(
      options.users, [](const User& user) { return !user.certificate.empty(); });
  const bool asks = std::ranges::any_of(
      listening, [](const Listening& each) { return !each.tls.client_ca.empty(); });
  if (certified == 0 || asks) return;
  log({LogLevel::kWarning,
       "certificates_not_asked",
       counted(static_cast<std::size_t>(certified), "user") +
           " with a certificate can do nothing: no address asks clients for one (tls.client_ca)",
       {{"users", std::int64_t{certified}}}});
}

}  // namespace sluice
