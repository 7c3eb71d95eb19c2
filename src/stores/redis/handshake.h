#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/redis_options.h"

namespace sluice::redis {

/// SCRIPT LOAD with the one script.
std::string script_load_command();

/// What a new connection begins with, and what the server has to answer to it.
class Handshake {
 public:
  /// What the connection is for.
  enum class Purpose : std::uint8_t {
    kDecisions,   ///< Of any server.
    kPrimary,     ///< Decisions, of a server that has to say that it is a primary.
    kSubscriber,  ///< Messages.
    kSentinel,    ///< A sentinel, which has no password or database of ours, and runs no script.
  };
  Handshake(const RedisOptions& options, Purpose purpose);

  /// Its commands, each of which has one reply.
  const std::string& text() const { return text_; }
  std::size_t replies() const { return wanted_.size(); }

  /// Why a server that replies so to the i-th is not to be used, as what follows its name; nothing
  /// where it is.
  std::optional<std::string> error(std::size_t i, std::string_view reply) const;

 private:
  /// What a reply has to be.
  enum class Wanted : std::uint8_t {
    kNoError,
    kAnything,
    kPrimary,  ///< The role of one.
  };

  void add(Wanted wanted, std::initializer_list<std::string_view> command);

  std::string text_;
  std::vector<Wanted> wanted_;  // One for each command.
};

}  // namespace sluice::redis
