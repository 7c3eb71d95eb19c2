"""Recipe 9: the first request sets a key with the period's expiry, later ones increment it."""


from recipes.recipe import FULL_HOUR_MS, RecipeTest, check

LIMIT = 5
PERIOD_S = 60


class Attempt:
    """The recipe, in the two steps between which others can act: read, then count."""

    def __init__(self, redis):
        self.redis = redis

    def look(self):
        self.seen = self.redis.ask("GET", "caller")
        return self

    def count(self):
        if self.seen is None:
            self.redis.ask("SET", "caller", 1, "EX", PERIOD_S)
            return True
        if int(self.seen) >= LIMIT:
            return False
        self.redis.ask("INCR", "caller")
        return True


def allow(redis):
    return Attempt(redis).look().count()


class KeyWithTtl(RecipeTest):
    def admits(self, count):
        return sum(allow(self.redis) for _ in range(count))

    def test_callers_at_once(self):
        """Ten callers read before the first has counted: each of them is the first."""
        attempts = [Attempt(self.redis).look() for _ in range(10)]
        self.assertEqual(sum(attempt.count() for attempt in attempts), 10)
        self.assertEqual(self.redis.ask("GET", "caller"), "1")

        callers = self.sluice_connections(10)
        limit = "fixed_window 5/1h anchor=first"
        self.assertEqual(sum(check(caller, limit) for caller in callers), LIMIT)

    def test_a_key_that_never_expires(self):
        """The key expires between the steps; INCR creates a key without an expiry, and the
        caller is locked out for ever."""
        self.admits(1)
        slow = Attempt(self.redis).look()
        self.let_pass(PERIOD_S * 1000)
        self.assertTrue(slow.count())
        self.assertEqual(self.redis.ask("TTL", "caller"), -1)
        self.assertEqual(self.admits(10), LIMIT - 1)
        self.let_pass(365 * 24 * 3_600_000)
        self.assertEqual(self.admits(10), 0)

        a_year_ms = 365 * 24 * 3_600_000
        load = [FULL_HOUR_MS] * 10 + [FULL_HOUR_MS + a_year_ms] * 10
        self.assertEqual(self.sluice_admits("fixed_window 5/1m anchor=first", load), 2 * LIMIT)

    def test_almost_twice_the_limit_around_a_boundary(self):
        """Fixed windows work that way, Sluice's too; its sliding limits do not."""
        admitted = self.admits(1)
        self.let_pass(50_000)
        admitted += self.admits(10)
        self.let_pass(10_000)
        self.assertEqual(admitted + self.admits(10), 2 * LIMIT)

        load = [FULL_HOUR_MS] + [FULL_HOUR_MS + 50_000] * 10 + [FULL_HOUR_MS + 60_000] * 10
        self.assertEqual(self.sluice_admits("fixed_window 5/1m anchor=first", load), 2 * LIMIT)
        self.assertEqual(self.sluice_admits("sliding_log 5/1m", load), LIMIT + 1)
