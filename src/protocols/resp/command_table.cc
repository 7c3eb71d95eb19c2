#include <array>
#include <span>
#include <string_view>

#include "protocols/resp/command_functions.h"
#include "protocols/resp/commands.h"

namespace sluice::resp {
namespace {

// The texts of most rows.
constexpr std::string_view kSix = "allowed, limit, remaining, retry_after, reset_after, delay (ms)";
constexpr std::string_view kAsCheck = "as SLUICE.CHECK";
constexpr std::string_view kFive = "limited, limit, remaining, retry_after, reset_after (s)";
constexpr std::string_view kNothing = "OK";
constexpr unsigned kTakes = kWrites | kFast;
constexpr KeyArguments kFirst{1, 1, 1};
constexpr KeyArguments kSecond{2, 2, 1};
constexpr KeyArguments kNone;

template <Operation kOperation, Form kForm>
void of_units(CommandContext& context, Arguments arguments) {
  run_of_units(context, arguments, kOperation, kForm);
}
template <Operation kOperation>
void of_permit(CommandContext& context, Arguments arguments) {
  run_of_permit(context, arguments, kOperation);
}

constexpr std::array kCommands = std::to_array<Command>({
    {"CL.THROTTLE", "key max_burst count period [quantity]", -5, kTakes, kFirst, "limits",
     run_cl_throttle, "Takes from a token bucket, or denies, as redis-cell does", kFive},
    {"SLUICE.CHECK", "limit key [cost]", -3, kTakes, kSecond, "limits",
     of_units<Operation::kTake, Form::kCheck>, "Takes cost units, or denies", kSix},
    {"SLUICE.CHECKALL",
     "n limit key cost [limit key cost ...]",
     -5,
     kTakes,
     {3, -2, 3},
     "limits",
     run_sluice_checkall,
     "Takes from n limits, or from none",
     "which part binds, and all and each part as SLUICE.CHECK"},
    {"SLUICE.PEEK", "limit key", 3, kReads | kFast, kSecond, "limits", run_sluice_peek,
     "Says what is left, and takes nothing", kAsCheck},
    {"SLUICE.TAKE", "limit key [n]", -3, kTakes, kSecond, "limits",
     of_units<Operation::kTakeUpTo, Form::kTaken>, "Takes n units, or as many as there are",
     "as SLUICE.CHECK, and taken"},
    {"SLUICE.CHARGE", "limit key n", 4, kTakes | kAdmin, kSecond, "limits",
     of_units<Operation::kCharge, Form::kCheck>, "Takes n units, even if they are not there",
     kAsCheck},
    {"SLUICE.REFUND", "limit key n", 4, kTakes | kAdmin, kSecond, "limits",
     of_units<Operation::kRefund, Form::kCheck>, "Gives n units back", kAsCheck},
    {"SLUICE.BLOCK", "limit key ms", 4, kTakes | kAdmin, kSecond, "limits", run_sluice_block,
     "Denies the key for so long", kAsCheck},
    {"SLUICE.RESET", "limit key", 3, kTakes | kAdmin, kSecond, "limits", run_sluice_reset,
     "Forgets the key; the limit cl is that of CL.THROTTLE", kNothing},
    {"SLUICE.ACQUIRE", "limit key", 3, kTakes, kSecond, "limits", run_sluice_acquire,
     "Takes a permit of a concurrency limit, or denies",
     "1, permit, lease (ms); or 0, nil, retry_after (ms)"},
    {"SLUICE.RENEW", "limit key permit", 4, kTakes, kSecond, "limits", of_permit<Operation::kRenew>,
     "Extends the permit to a whole lease from now", "1; 0 if it has expired"},
    {"SLUICE.RELEASE", "limit key permit", 4, kTakes, kSecond, "limits",
     of_permit<Operation::kRelease>, "Gives the permit back", "1; 0 if it has expired"},
    {"SLUICE.LIMITS", "", 1, kReads | kAdmin, kNone, "limits", run_sluice_limits,
     "Lists the named limits",
     "name, expression, allowed, denied of each, and of all other limits"},
    {"SLUICE.TOP", "limit [n]", -2, kReads | kAdmin, kNone, "limits", run_sluice_top,
     "Lists the keys that a named limit has denied most, at most n",
     "key, denied, and by how many that may be too many, of each"},
    {"RL.THROTTLE", "key max_burst count period [quantity]", -5, kTakes, kFirst, "limits",
     run_cl_throttle, "Another name of CL.THROTTLE", kFive},
    {"THROTTLE", "key max_burst count period [quantity]", -5, kTakes, kFirst, "limits",
     run_throttle, "The same with a capacity of max_burst, as throttlecrab does",
     "allowed, limit, remaining, reset_after, retry_after (s)"},
    {"INCREX", "key [BYINT n] UBOUND limit EX s|PX ms ENX [SATURATE]", -6, kTakes, kFirst, "limits",
     run_increx, "Counts up to a bound in a period, as the limiter of Redis 8.8",
     "count, counted now"},
    {"DEL",
     "key [key ...]",
     -2,
     kWrites | kAdmin,
     {1, -1, 1},
     "limits",
     run_del,
     "Forgets keys of CL.THROTTLE, THROTTLE and INCREX",
     "how many had a state"},
    {"MULTI", "", 1, kFast | kImmediate, kNone, "transactions", run_multi,
     "Queues the commands that follow, at most 1,000 and 128 KiB", kNothing},
    {"EXEC", "", 1, kImmediate, kNone, "transactions", run_exec,
     "Runs the queued commands in order", "their replies"},
    {"DISCARD", "", 1, kFast | kImmediate, kNone, "transactions", run_discard,
     "Forgets the queued commands", kNothing},
    {"WATCH",
     "key [key ...]",
     -2,
     kFast | kImmediate,
     {1, -1, 1},
     "transactions",
     run_watch,
     "Does nothing",
     kNothing},
    {"UNWATCH", "", 1, kFast, kNone, "transactions", run_unwatch, "Does nothing", kNothing},
    {"PING", "[text]", -1, kFast, kNone, "connection", run_ping, "Answers", "PONG, or the text"},
    {"ECHO", "text", 2, kFast, kNone, "connection", run_echo, "Answers", "the text"},
    {"HELLO", "[2|3 [AUTH user password] [SETNAME name]]", -1, kFast | kNoAuth, kNone, "connection",
     run_hello, "Chooses RESP2 or RESP3", "what the server is"},
    {"AUTH", "[user] password", -2, kFast | kNoAuth, kNone, "connection", run_auth,
     "Says who the client is; without users, AUTH default takes any password", kNothing},
    {"SELECT", "index", 2, kFast, kNone, "connection", run_select, "There is one database, 0",
     kNothing},
    {"CLIENT", "GETNAME|HELP|ID|INFO|LIST|SETINFO|SETNAME ...", -2, 0, kNone, "connection",
     run_subcommand, "Names the connection, or says what is known of connections", "as in Redis"},
    {"CLIENT|GETNAME", "", 2, kFast, kNone, "connection", run_client_getname,
     "Replies the connection's name", ""},
    {"CLIENT|HELP", "", 2, 0, kNone, "connection", run_help, "Lists the subcommands", ""},
    {"CLIENT|ID", "", 2, kFast, kNone, "connection", run_client_id,
     "Replies the connection's number", ""},
    {"CLIENT|INFO", "", 2, 0, kNone, "connection", run_client_info, "Describes the connection", ""},
    {"CLIENT|LIST", "[TYPE normal|master|replica|pubsub]", -2, kAdmin, kNone, "connection",
     run_client_list, "Describes the connections, at most 1,000", ""},
    {"CLIENT|SETINFO", "LIB-NAME|LIB-VER text", 4, kFast, kNone, "connection", run_client_setinfo,
     "Says which library the client uses", ""},
    {"CLIENT|SETNAME", "name", 3, kFast, kNone, "connection", run_client_setname,
     "Names the connection", ""},
    {"QUIT", "", -1, kFast | kImmediate | kNoAuth, kNone, "connection", run_quit,
     "Closes the connection", kNothing},
    {"RESET", "", 1, kFast | kImmediate | kNoAuth, kNone, "connection", run_reset,
     "Makes the connection as if it were new", "RESET"},
    {"COMMAND", "[COUNT|DOCS|HELP|INFO ...]", -1, 0, kNone, "server", run_command_list,
     "Describes the commands", "as in Redis"},
    {"COMMAND|COUNT", "", 2, 0, kNone, "server", run_command_count, "Counts the commands", ""},
    {"COMMAND|DOCS", "[name ...]", -2, 0, kNone, "server", run_command_docs,
     "Documents all commands, or these", ""},
    {"COMMAND|HELP", "", 2, 0, kNone, "server", run_help, "Lists the subcommands", ""},
    {"COMMAND|INFO", "[name ...]", -2, 0, kNone, "server", run_command_info,
     "Describes all commands, or these", ""},
    {"CONFIG", "GET|HELP ...", -2, 0, kNone, "server", run_subcommand,
     "Says what clients ask for at their start", "as in Redis"},
    {"CONFIG|GET", "pattern [pattern ...]", -3, 0, kNone, "server", run_config_get,
     "Replies the parameters that match", ""},
    {"CONFIG|HELP", "", 2, 0, kNone, "server", run_help, "Lists the subcommands", ""},
    {"DBSIZE", "", 1, kReads, kNone, "server", run_dbsize,
     "Counts the keys that have a state, in a store in memory", "a number"},
    {"INFO", "[section ...]", -1, 0, kNone, "server", run_info, "Describes the server",
     "a text of sections"},
    {"TIME", "", 1, kFast, kNone, "server", run_time, "Tells the store's time",
     "seconds, microseconds"},
});

static_assert(kCommands.size() <= CommandCounters::kMaxRows);
static_assert(kCommands[kThrottleRow].runner == run_cl_throttle);

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

}  // namespace sluice::resp
