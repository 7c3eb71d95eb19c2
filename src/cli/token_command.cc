#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "service/access.h"

namespace sluice {
namespace {

constexpr const char* kTokenFooter =
    R"(Prints a new token of 256 random bits, which is for the client and not kept anywhere, and the
line for 'users' in the server's file, which has the token's SHA-256.

Example:
  sluice token --name gateway)";

int print_token(const std::string& name) {
  const std::string token = make_token();
  std::cout << "token: " << token << "\n"
            << "line:  - {name: \"" << name << "\", token: \"sha256:" << token_sha256(token)
            << "\", roles: [check]}" << std::endl;
  return 0;
}

}  // namespace

void add_token(CLI::App& app, std::function<int()>& chosen) {
  const auto name = std::make_shared<std::string>("gateway");
  CLI::App* command = app.add_subcommand("token", "Make a token for a user of sluice serve.");
  command->footer(kTokenFooter);
  command->add_option("--name", *name, "The user's name in the line")
      ->type_name("NAME")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return is_user_name(text) ? std::string() : std::string(kUserNames);
          },
          ""))
      ->capture_default_str();
  command->callback([name, &chosen] { chosen = [name] { return print_token(*name); }; });
}

}  // namespace sluice
