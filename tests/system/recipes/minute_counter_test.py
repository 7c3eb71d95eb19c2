"""Recipe 2: a counter named after the minute, `MULTI; INCR; EXPIRE 59; EXEC`."""


from recipes.recipe import FULL_HOUR_MS, RecipeTest

LIMIT = 5
MINUTE_MS = 60_000


def allow(redis, user, now_ms):
    """The recipe: at most LIMIT requests a minute."""
    key = f"{user}:{now_ms // MINUTE_MS % 60}"
    redis.ask("MULTI")
    redis.ask("INCR", key)
    redis.ask("EXPIRE", key, 59)
    count, _ = redis.ask("EXEC")
    return count <= LIMIT


class MinuteCounter(RecipeTest):
    def admits(self, instants_ms):
        return sum(allow(self.redis, "caller", ms) for ms in instants_ms)

    def test_the_counter_is_gone_before_its_minute(self):
        """The counter lives for 59 s, the window for 60 s: twice the limit within one minute."""
        early = [FULL_HOUR_MS] * LIMIT
        late = [FULL_HOUR_MS + 59_500] * LIMIT
        admitted = self.admits(early)
        self.let_pass(59_500)
        self.assertEqual(admitted + self.admits(late), 2 * LIMIT)

        self.assertEqual(self.sluice_admits("fixed_window 5/1m", early + late), LIMIT)

    def test_denied_requests_count_and_keep_the_counter(self):
        self.admits([FULL_HOUR_MS] * 50)
        key = "caller:0"
        self.assertEqual(self.redis.ask("GET", key), "50")
        self.let_pass(58_000)
        self.admits([FULL_HOUR_MS + 58_000])
        # The window ends in 2 s, but its counter stays for another minute.
        self.assertGreater(self.redis.ask("PTTL", key), 30_000)

        load = [(FULL_HOUR_MS, 1)] * 50 + [(FULL_HOUR_MS + 58_000, 1)]
        last = self.sluice_decisions("fixed_window 5/1m", load)[-1]
        self.assertEqual((last["allowed"], last["remaining"]), (False, 0))
        self.assertEqual(last["reset_after_ns"], 2_000_000_000)

    def test_twice_the_limit_around_a_boundary(self):
        """Fixed windows work that way, Sluice's too; its sliding limits do not."""
        boundary = FULL_HOUR_MS + MINUTE_MS
        burst = [boundary - 1] * LIMIT + [boundary] * LIMIT
        self.assertEqual(self.admits(burst), 2 * LIMIT)

        self.assertEqual(self.sluice_admits("fixed_window 5/1m", burst), 2 * LIMIT)
        self.assertEqual(self.sluice_admits("sliding_log 5/1m", burst), LIMIT)
        self.assertEqual(self.sluice_admits("sliding_window 5/1m", burst), LIMIT)
