#include "stores/redis/handshake.h"

#include <algorithm>
#include <utility>

#include "stores/redis/resp.h"
#include "stores/redis/script_call.h"

namespace sluice::redis {

namespace {

// Whether the reply to ROLE or HELLO says so. (An error says nothing: the client may lack the
// right to ask.)
bool is_replica(const Reply& reply) {
  const std::vector<Reply>& words = reply.elements;
  if (words.empty()) return false;
  if (words[0].text == "slave") return true;
  const auto role = std::ranges::find(words, "role", &Reply::text);
  return words.end() - role > 1 && role[1].text == "replica";
}

}  // namespace

std::string script_load_command() {
  return command_of({"SCRIPT", "LOAD", script_text()});
}

RedisPipelineUser::RedisPipelineUser(const RedisOptions& options, Purpose purpose, std::string name)
    : name_(std::move(name)) {
  const bool decides = purpose == Purpose::kNode || purpose == Purpose::kPrimary;
  const Wanted role = purpose == Purpose::kPrimary ? Wanted::kPrimary : Wanted::kAnything;
  const bool is_sentinel = purpose == Purpose::kSentinel;
  const std::string& user = is_sentinel ? options.sentinel_user : options.user;
  const std::string& password = is_sentinel ? options.sentinel_password : options.password;
  if (!user.empty()) {
    add(Wanted::kNoError, {"AUTH", user, password});
  } else if (!password.empty()) {
    add(Wanted::kNoError, {"AUTH", password});
  }
  if (decides && options.database != 0) {
    add(Wanted::kNoError, {"SELECT", std::to_string(options.database)});
  }
  // Before commands that may be refused: the first reply to a client without access says so.
  add(Wanted::kNoError, {"PING"});
  // A server that knows users knows HELLO, too, which every user may send, and which tells the role
  // of the server. CLIENT SETNAME and ROLE may be refused, and the refusal would be in the server's
  // log of security events.
  if (user.empty()) {
    add(Wanted::kAnything, {"CLIENT", "SETNAME", "sluice"});
    if (role == Wanted::kPrimary) add(role, {"ROLE"});
  } else {
    add(role, {"HELLO", "2", "SETNAME", "sluice"});
  }
  if (decides) {
    wanted_.push_back(Wanted::kNoError);
    text_ += script_load_command();
  }
}

void RedisPipelineUser::add(Wanted wanted, std::initializer_list<std::string_view> command) {
  wanted_.push_back(wanted);
  append_command(text_, command);
}

std::optional<std::string> RedisPipelineUser::on_handshake_reply(std::size_t i,
                                                                 std::string_view reply) {
  const Wanted wanted = wanted_.at(i);
  if (wanted == Wanted::kAnything) return std::nullopt;
  if (wanted == Wanted::kPrimary) {
    const auto role = read_reply(reply);
    if (!role || !is_replica(*role)) return std::nullopt;
    return name_ + " is a replica, not the primary";
  }
  if (reply.front() != '-') return std::nullopt;
  return name_ + ": " + std::string(without_arguments(error_text(reply)));
}

std::unique_ptr<Framing> RedisPipelineUser::make_framing() {
  return std::make_unique<RespFraming>();
}

}  // namespace sluice::redis
