#include "load/options.h"

#include <charconv>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace sluice::bench {
namespace {

constexpr std::string_view kHelp =
    "usage: sluice_load --address IPV4:PORT --command COMMAND\n"
    "  --command ping|throttle|check|evalsha|new-limit\n"
    "  --sha SHA1                    the script of evalsha\n"
    "  --caller-clock                tells the script the time\n"
    "  --limit BURST,COUNT,PERIOD_S  (1000,1,3600)\n"
    "  --other-limit BURST,COUNT,PERIOD_S  of every other key\n"
    "  --connections N (50)  --pipeline N (1)  --keys N (1000000)\n"
    "  --requests N | --seconds S    the length of a run (1 second)\n"
    "  --order random|in-order|new|zipf  of the keys\n"
    "  --on-demand                   one run for each line of standard input\n";

bool fail(std::string_view option, std::string_view value, std::string_view wanted) {
  std::fprintf(stderr, "sluice_load: %.*s '%.*s' is not %.*s\n", static_cast<int>(option.size()),
               option.data(), static_cast<int>(value.size()), value.data(),
               static_cast<int>(wanted.size()), wanted.data());
  return false;
}

/// Parses `text`. Returns false if it is no number from `least` to `most`.
template <class Number>
bool read_number(std::string_view text, Number least, Number most, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && *number >= least &&
         *number <= most;
}

bool read_limit(std::string_view text, LimitNumbers* limit) {
  const std::size_t first = text.find(',');
  const std::size_t second = text.find(',', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return false;
  constexpr std::int64_t kMost = 1'000'000'000;
  return read_number(text.substr(0, first), std::int64_t{0}, kMost, &limit->burst) &&
         read_number(text.substr(first + 1, second - first - 1), std::int64_t{1}, kMost,
                     &limit->count) &&
         read_number(text.substr(second + 1), std::int64_t{1}, kMost, &limit->period_s);
}

struct Argument {
  std::string_view option;
  std::string_view value;
};

/// Words of the command line, and what each stands for.
template <class Value>
using Words = std::vector<std::pair<std::string_view, Value>>;

template <class Value>
bool read_word(const Words<Value>& words, const Argument& argument, Value* value) {
  for (const auto& [word, meaning] : words) {
    if (word != argument.value) continue;
    *value = meaning;
    return true;
  }
  return fail(argument.option, argument.value, "one of those in --help");
}

bool read_command(const Argument& argument, Command* command) {
  return read_word<Command>({{"ping", Command::kPing},
                             {"throttle", Command::kThrottle},
                             {"check", Command::kCheck},
                             {"evalsha", Command::kEvalsha},
                             {"new-limit", Command::kNewLimit}},
                            argument, command);
}

bool read_order(const Argument& argument, Order* order) {
  return read_word<Order>({{"random", Order::kRandom},
                           {"in-order", Order::kInOrder},
                           {"new", Order::kNew},
                           {"zipf", Order::kZipf}},
                          argument, order);
}

Reply reply_of(Command command) {
  if (command == Command::kPing) return Reply::kPong;
  return command == Command::kCheck || command == Command::kNewLimit ? Reply::kSix : Reply::kFive;
}

bool read_words(const Argument& argument, LoadOptions* options) {
  const auto& [option, value] = argument;
  if (option == "--address") {
    options->address = value;
    return true;
  }
  if (option == "--sha") {
    options->sha = value;
    return value.size() == 40 || fail(option, value, "40 hexadecimal digits");
  }
  if (option == "--command") {
    if (!read_command(argument, &options->command)) return false;
    options->reply = reply_of(options->command);
    return true;
  }
  if (option == "--order") return read_order(argument, &options->order);
  return fail(option, value, "an option (see --help)");
}

bool read_argument(const Argument& argument, LoadOptions* options) {
  const auto& [option, value] = argument;
  if (option == "--connections") {
    return read_number(value, std::size_t{1}, kMostConnections, &options->connections) ||
           fail(option, value, "a number from 1 to 10000");
  }
  if (option == "--pipeline") {
    return read_number(value, std::size_t{1}, kMostPipelined, &options->pipeline) ||
           fail(option, value, "a number from 1 to 1024");
  }
  if (option == "--keys") {
    return read_number(value, std::size_t{1}, kMostKeys, &options->keys) ||
           fail(option, value, "a number from 1 to 100000000");
  }
  if (option == "--requests") {
    return read_number(value, std::uint64_t{1}, std::uint64_t{1} << 40, &options->requests) ||
           fail(option, value, "a number from 1 to 2^40");
  }
  if (option == "--seconds") {
    return read_number(value, 0.001, 3600.0, &options->seconds) ||
           fail(option, value, "a number from 0.001 to 3600");
  }
  if (option == "--limit") {
    return read_limit(value, &options->limit) || fail(option, value, "BURST,COUNT,PERIOD_S");
  }
  if (option == "--other-limit") {
    return read_limit(value, &options->other_limit.emplace()) ||
           fail(option, value, "BURST,COUNT,PERIOD_S");
  }
  return read_words(argument, options);
}

}  // namespace

std::optional<LoadOptions> parse_options(int count, char** arguments) {
  LoadOptions options;
  for (int i = 1; i < count; ++i) {
    const std::string_view option = arguments[i];
    if (option == "--help") {
      std::fputs(kHelp.data(), stderr);
      return std::nullopt;
    }
    if (option == "--caller-clock") {
      options.caller_clock = true;
    } else if (option == "--on-demand") {
      options.on_demand = true;
    } else if (i + 1 == count) {
      fail(option, "", "an option with a value (see --help)");
      return std::nullopt;
    } else if (!read_argument({option, arguments[++i]}, &options)) {
      return std::nullopt;
    }
  }
  if (options.address.empty()) {
    std::fputs("sluice_load: --address is missing (see --help)\n", stderr);
    return std::nullopt;
  }
  if (options.command == Command::kEvalsha && options.sha.empty()) {
    std::fputs("sluice_load: --command evalsha needs --sha\n", stderr);
    return std::nullopt;
  }
  return options;
}

}  // namespace sluice::bench
