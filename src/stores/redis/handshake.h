#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/request_pipeline.h"
#include "stores/redis/redis_options.h"

namespace sluice::redis {

/// The command SCRIPT LOAD with the script.
std::string script_load_command();

/// The part of a PipelineUser that all connections to Redis share: the handshake, the check of
/// the replies to it, and RESP framing.
class RedisPipelineUser : public PipelineUser {
 public:
  /// The purpose of the connection.
  enum class Purpose : std::uint8_t {
    kNode,        ///< Decisions, of a node of a cluster, which redirects if it is a replica.
    kPrimary,     ///< Decisions, of a server that must not be a replica.
    kSubscriber,  ///< Receives published messages.
    kSentinel,    ///< A sentinel, with a user of its own; it has no database and runs no script.
  };

  /// The beginning of error sentences: "redis 127.0.0.1:6379".
  const std::string& name() const { return name_; }

  std::string handshake() final { return text_; }
  std::size_t handshake_replies() final { return wanted_.size(); }
  std::optional<std::string> on_handshake_reply(std::size_t i, std::string_view reply) final;
  std::unique_ptr<Framing> make_framing() final;

 protected:
  RedisPipelineUser(const RedisOptions& options, Purpose purpose, std::string name);

 private:
  /// What kind of reply is expected.
  enum class Wanted : std::uint8_t {
    kNoError,
    kAnything,
    kPrimary,  ///< Anything but the role of a replica.
  };

  void add(Wanted wanted, std::initializer_list<std::string_view> command);

  const std::string name_;
  std::string text_;
  std::vector<Wanted> wanted_;  // One for each command.
};

}  // namespace sluice::redis
