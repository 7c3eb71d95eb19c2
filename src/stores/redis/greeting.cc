#include "stores/redis/greeting.h"

#include "stores/redis/reply.h"
#include "stores/redis/script.h"
#include "stores/redis/server_error.h"

namespace sluice::redis {

std::string script_load_command() {
  std::string command;
  append_command(command, {"SCRIPT", "LOAD", script_text()});
  return command;
}

Greeting::Greeting(const RedisOptions& options, const Parts& parts) {
  if (parts.with_script && !options.password.empty()) {
    if (options.user.empty()) {
      add(Wanted::kNoError, {"AUTH", options.password});
    } else {
      add(Wanted::kNoError, {"AUTH", options.user, options.password});
    }
  }
  if (parts.with_script && options.database != 0) {
    add(Wanted::kNoError, {"SELECT", std::to_string(options.database)});
  }
  // Before what may be refused: whoever is not let in at all is told so by the first reply.
  add(Wanted::kNoError, {"PING"});
  add(Wanted::kAnything, {"CLIENT", "SETNAME", "sluice"});
  if (parts.must_be_primary) add(Wanted::kPrimary, {"ROLE"});
  if (parts.with_script) {
    wanted_.push_back(Wanted::kNoError);
    text_ += script_load_command();
  }
}

void Greeting::add(Wanted wanted, std::initializer_list<std::string_view> command) {
  wanted_.push_back(wanted);
  append_command(text_, command);
}

std::optional<std::string> Greeting::fault(std::size_t i, std::string_view reply) const {
  const Wanted wanted = wanted_.at(i);
  if (wanted == Wanted::kAnything) return std::nullopt;
  if (reply.front() == '-') return ": " + std::string(error_text(reply));
  if (wanted == Wanted::kNoError) return std::nullopt;
  const auto role = read_reply(reply);
  if (role && !role->elements.empty() && role->elements[0].text == "master") return std::nullopt;
  return " is not the primary";
}

}  // namespace sluice::redis
