#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/arithmetic.h"
#include "core/instant.h"
#include "sluice/store.h"

namespace sluice {

/// One of the servers that a store's URL names. An IPv6 address stands without its brackets.
struct StoreHost {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(const StoreHost&, const StoreHost&) = default;
};

/// The least and the most that an option may be.
struct OptionRange {
  std::int64_t least = 0;
  std::int64_t most = kMaxCount;
};

/// A store's URL, taken apart:
///
///     scheme:                   [path][?options]
///     scheme://[user[:password]@][host[:port][,host[:port]...]]   [/path][?options]
///
/// Options are name=value, joined by '&'. In user, password, addresses, path and values %xx is one
/// byte; an
/// '@', '/', '?', '&' or '%' that separates nothing is written so. IPv6 addresses stand in
/// brackets.
///
/// Who opens a store asks for the options it knows; the store and what is put around it read the
/// same URL one after the other; finish() then refuses what nobody asked for. No sentence that this
/// class makes contains the password.
///
/// Not thread-safe.
class StoreUrl {
 public:
  static constexpr std::size_t kMaxBytes = 4096;
  static constexpr std::size_t kMaxHosts = 64;

  /// Throws StoreError, as every function that says so, whose sentence begins with the URL.
  explicit StoreUrl(std::string_view url);

  /// The URL as it was written, without its password.
  const std::string& text() const { return text_; }

  const std::string& scheme() const { return scheme_; }
  /// Whether '//' follows the scheme.
  bool has_authority() const { return has_authority_; }
  /// Empty where there is none.
  const std::string& user() const { return user_; }
  const std::string& password() const { return password_; }
  /// In the order of the URL, none if it names none. One without a port has this one.
  std::vector<StoreHost> hosts(std::uint16_t default_port) const;
  /// From its '/' on where it follows an authority; else all between scheme and options.
  const std::string& path() const { return path_; }

  /// An option's value; nothing where the option was not written. All throw StoreError where the
  /// value is not as it should be.
  std::optional<std::string> text_option(std::string_view name);
  std::optional<std::int64_t> whole_option(std::string_view name, const OptionRange& range = {});
  /// In nanoseconds, as is the range; written as in a limit: 10ms.
  std::optional<std::int64_t> duration_option(std::string_view name,
                                              const OptionRange& range = {1, kMaxDurationNs});
  /// Which of the words it is.
  std::optional<std::size_t> word_option(std::string_view name,
                                         std::initializer_list<std::string_view> words);
  bool yes_no_option(std::string_view name, bool otherwise);

  /// Throws StoreError at the first option that nobody asked for, and lists those there are.
  void finish() const;

  /// Throws StoreError: this fault, after the URL, on one line whatever they quote.
  [[noreturn]] void fail(const std::string& fault) const;

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
  std::vector<StoreHost> hosts_;  // Port 0: none was written.
  std::string path_;
  std::vector<Option> options_;
  std::vector<std::string> known_;
};

}  // namespace sluice
