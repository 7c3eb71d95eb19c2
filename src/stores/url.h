#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/arithmetic.h"
#include "core/instant.h"
#include "net/endpoint.h"
#include "sluice/store.h"

namespace sluice {

/// How to open a store, besides its URL.
struct StoreOptions {
  /// Each decision gets its instant from the caller, as in replay. The store reads no clock, uses
  /// the same hashing in every run, and forgets or evicts no key for lack of room; it throws
  /// StoreError instead. Its keys are useless afterwards: a store on Redis removes them when it is
  /// destroyed, and those that it cannot remove expire within a day; those on Memcached expire
  /// after a day, or later if their states last longer.
  bool virtual_time = false;
  /// For a memory store: the clock of the instants that the caller passes with each decision, if
  /// that is not the system's. The store goes by it when it forgets keys to make room for limits.
  std::function<Instant()> caller_clock = {};
};

/// The least and the largest value of an option.
struct OptionRange {
  std::int64_t least = 0;
  std::int64_t most = kMaxCount;
  bool or_no = false;  ///< The value of a duration may also be the word no, which is 0.
};

/// A parsed URL of a store:
///
///     scheme:                   [path][?options]
///     scheme://[user[:password]@][host[:port][,host[:port]...]]   [/path][?options]
///
/// Options are name=value, joined by '&'. In user, password, addresses, path and values, %xx is one
/// byte; an '@', '/', '?', '&' or '%' that is no separator must be written so. IPv6 addresses are
/// written in brackets.
///
/// The functions that open a store, and the layers around it, each read the options that they know;
/// finish() then rejects options that none of them has read.
///
/// An error names the scheme and what is wrong, and quotes no other part of the URL but what stands
/// where options have their names, if it looks like one: if a separator is missing or should have
/// been escaped, each part may be the password.
///
/// Not thread-safe.
class StoreUrl {
 public:
  static constexpr std::size_t kMaxBytes = 4096;
  static constexpr std::size_t kMaxHosts = 64;

  /// Throws StoreError, whose message begins with the scheme.
  explicit StoreUrl(std::string_view url);

  /// The URL as given, without its passwords; for a store that could be opened, since else the
  /// password may be in a wrong place.
  const std::string& text() const { return text_; }

  const std::string& scheme() const { return scheme_; }
  /// Whether '//' follows the scheme.
  bool has_authority() const { return has_authority_; }
  /// Empty if there is none.
  const std::string& user() const { return user_; }
  const std::string& password() const { return password_; }
  /// The servers, in the order of the URL. A server without a port gets `default_port`.
  std::vector<Endpoint> hosts(std::uint16_t default_port) const;
  /// If there is an authority, the path from its '/' on; else all text between scheme and options.
  const std::string& path() const { return path_; }

  /// The value of an option; nothing if it is not given. All throw StoreError if the value is
  /// invalid.
  std::optional<std::string> text_option(std::string_view name);
  std::optional<std::int64_t> whole_option(std::string_view name, const OptionRange& range = {});
  /// In nanoseconds, like the range; written as in a limit: 10ms.
  std::optional<std::int64_t> duration_option(std::string_view name,
                                              const OptionRange& range = {1, kMaxDurationNs});
  /// The index of the word that the value equals.
  std::optional<std::size_t> word_option(std::string_view name,
                                         std::initializer_list<std::string_view> words);
  bool yes_no_option(std::string_view name, bool otherwise);

  /// Throws StoreError for the first option that has not been read, and lists the known ones.
  void finish() const;

  /// Throws StoreError with the scheme and this message, which quotes no more of the URL than that.
  [[noreturn]] void fail(const std::string& message) const;

 private:
  struct Option {
    std::string name;
    std::string value;
    bool asked_for = false;
  };

  void read_authority(std::string_view authority);
  void read_host(std::string_view host);
  void read_options(std::string_view query);
  std::string decode(std::string_view escaped, std::string_view what) const;
  const std::string* find(std::string_view name);

  std::string text_;
  std::string scheme_;
  bool has_authority_ = false;
  std::string user_;
  std::string password_;
  std::vector<Endpoint> hosts_;  // Port 0: not given.
  std::string path_;
  std::vector<Option> options_;
  std::vector<std::string> known_;
};

}  // namespace sluice
