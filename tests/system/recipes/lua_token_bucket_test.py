"""Recipe 5: a token bucket in Lua that adds floor(elapsed / interval) tokens."""


from harness import command
from recipes.recipe import FULL_HOUR_MS, RecipeTest, check

SCRIPT = """
local burst, interval = tonumber(ARGV[1]), tonumber(ARGV[2])
local now, wanted = tonumber(ARGV[3]), tonumber(ARGV[4])
local bucket = redis.call('HMGET', KEYS[1], 'last_time', 'current_token')
local last_time, current_token = bucket[1], tonumber(bucket[2])
if current_token == nil then
  last_time, current_token = now, burst
else
  local added = math.floor((now - last_time) / interval)
  if added > 0 then
    last_time = last_time + added * interval
    current_token = math.min(current_token + added, burst)
  end
end
local allowed = current_token >= wanted
if allowed then current_token = current_token - wanted end
redis.call('HMSET', KEYS[1], 'last_time', last_time, 'current_token', current_token)
redis.call('PEXPIRE', KEYS[1], math.ceil(burst * interval))
return allowed and 1 or 0
"""


def request(user, burst, interval_ms, now_ms, wanted=1):
    """The recipe as one command; the interval is 1000 ms divided by the tokens per second."""
    return command("EVAL", SCRIPT, 1, user, burst, interval_ms, now_ms, wanted)


class LuaTokenBucket(RecipeTest):
    def replies(self, requests):
        """The replies to many requests, which are sent in batches."""
        batch = 500
        replies = []
        for start in range(0, len(requests), batch):
            self.redis.send(b"".join(requests[start:start + batch]))
            replies += [self.redis.read() for _ in requests[start:start + batch]]
        return replies

    def minted(self, interval_ms, seconds):
        """How many tokens return to an emptied bucket that is asked each millisecond."""
        burst = 10**6
        requests = [request("caller", burst, interval_ms, FULL_HOUR_MS, burst)]
        requests += [request("caller", burst, interval_ms, FULL_HOUR_MS + ms, burst)
                     for ms in range(1, 1000 * seconds + 1)]
        self.assertEqual(sum(self.replies(requests)), 1)
        return int(self.redis.ask("HGET", "caller", "current_token"))

    def sluice_mints(self, rate, seconds):
        burst = 10**6
        load = [(FULL_HOUR_MS, burst)]
        load += [(FULL_HOUR_MS + ms, burst) for ms in range(1, 1000 * seconds + 1)]
        decisions = self.sluice_decisions(f"token_bucket {rate}/1s burst={burst}", load)
        self.assertEqual(sum(decision["allowed"] for decision in decisions), 1)
        return decisions[-1]["remaining"]

    def test_an_interval_in_whole_milliseconds_is_another_rate(self):
        """300 per second become one every 3 ms, which is 333 per second."""
        self.assertEqual(self.minted(1000 // 300, 3), 1000)
        self.assertEqual(self.sluice_mints(300, 3), 899)  # Each is less than 1 ns late.

    def test_a_float_interval_drifts(self):
        """A double cannot hold an instant exactly; the error accumulates with each correction."""
        rate, seconds = 1992, 10
        self.assertEqual(self.minted(1000 / rate, seconds), rate * seconds + 2)
        self.assertEqual(self.sluice_mints(rate, seconds), rate * seconds - 1)

    def test_a_caller_whose_clock_is_ahead_mints_tokens(self):
        """Callers whose clocks are right are then denied until their clocks have caught up."""
        burst, interval_ms, ahead_ms = 10, 1000, 60_000
        mine = [request("caller", burst, interval_ms, FULL_HOUR_MS)] * burst
        theirs = [request("caller", burst, interval_ms, FULL_HOUR_MS + ahead_ms)] * burst
        self.assertEqual(sum(self.replies(mine + theirs)), 2 * burst)
        later = [request("caller", burst, interval_ms, FULL_HOUR_MS + ms)
                 for ms in range(0, ahead_ms, 1000)]
        self.assertEqual(sum(self.replies(later)), 0)

        # Both ask at the same time; only the store's clock is used.
        one, other = self.sluice_connections(2)
        limit = f"token_bucket {burst}/1h"
        self.assertEqual(sum(check(caller, limit) for caller in [one, other] * burst), burst)
