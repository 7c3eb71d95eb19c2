"""Recipe 3: a sorted set of the instants of requests, in MULTI or in one Lua script."""


from harness import PATIENCE_S
from recipes.recipe import FULL_HOUR_MS, RecipeTest, check

LIMIT = 5
WINDOW_MS = 600_000

SCRIPT = """
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, ARGV[1] - ARGV[2])
local allowed = redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[3])
if allowed then redis.call('ZADD', KEYS[1], ARGV[1], ARGV[1]) end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return allowed and 1 or 0
"""


def allow_multi(redis, user, now_ms):
    """The recipe in a transaction."""
    redis.ask("MULTI")
    redis.ask("ZREMRANGEBYSCORE", user, 0, now_ms - WINDOW_MS)
    redis.ask("ZCARD", user)
    redis.ask("ZADD", user, now_ms, now_ms)
    redis.ask("EXPIRE", user, WINDOW_MS // 1000)
    return redis.ask("EXEC")[1] < LIMIT


def allow_script(redis, user, now_ms):
    """The recipe in Lua, which does not record denied requests; its window is in milliseconds."""
    return redis.ask("EVAL", SCRIPT, 1, user, now_ms, WINDOW_MS, LIMIT) == 1


class SortedSetLog(RecipeTest):
    def admits(self, allow, instants_ms):
        return sum(allow(self.redis, "caller", ms) for ms in instants_ms)

    def test_a_caller_that_keeps_asking_is_locked_out(self):
        """The transaction records denied requests too."""
        every_ten_seconds = [FULL_HOUR_MS + ms for ms in range(0, 6 * WINDOW_MS, 10_000)]
        self.assertEqual(self.admits(allow_multi, every_ten_seconds), LIMIT)

        # Six windows, each with its whole limit.
        self.assertEqual(self.sluice_admits("sliding_log 5/10m", every_ten_seconds), 6 * LIMIT)

    def test_requests_of_one_millisecond_are_one(self):
        """The instant is the name of the member, and a set has each name once."""
        at_once = [FULL_HOUR_MS] * 50
        for allow in (allow_multi, allow_script):
            self.redis.ask("FLUSHDB")
            self.assertEqual(self.admits(allow, at_once), 50)

        self.assertEqual(self.sluice_admits("sliding_log 5/10m", at_once), LIMIT)

    def test_a_caller_whose_clock_is_ahead_empties_the_log(self):
        callers_ms = [FULL_HOUR_MS + ms for ms in range(LIMIT)]
        ahead_ms = [ms + WINDOW_MS for ms in callers_ms]
        self.assertEqual(self.admits(allow_script, callers_ms + ahead_ms), 2 * LIMIT)

        # Both ask at the same time; only the store's clock is used.
        one, other = self.sluice_connections(2)
        admitted = sum(check(caller, "sliding_log 5/10m") for caller in [one, other] * LIMIT)
        self.assertEqual(admitted, LIMIT)

    def test_seconds_for_milliseconds(self):
        """EXPIRE takes seconds, but the window is in milliseconds: the key stays a thousand times
        longer than the ten minutes for which it is needed."""
        allow_script(self.redis, "caller", FULL_HOUR_MS)
        self.assertAlmostEqual(self.redis.ask("TTL", "caller"), WINDOW_MS, delta=PATIENCE_S)

        decision = self.sluice_decisions("sliding_log 5/10m", [(FULL_HOUR_MS, 1)])[0]
        self.assertEqual(decision["reset_after_ns"], WINDOW_MS * 1_000_000)
