"""Recipe 6: a token bucket that keeps the instant at which the next ticket is free. Beside it,
acquire()."""

import time

from harness import RedisCluster, await_true
from recipes.recipe import (FULL_HOUR_MS, MILLISECOND_NS, PATIENTLY, SECOND_MS, SECOND_NS,
                            RecipeTest)

SECOND_US = 1_000_000

SCRIPT = """
local permits, interval, now = tonumber(KEYS[2]), tonumber(KEYS[3]), tonumber(KEYS[4])
local patience = tonumber(KEYS[5])
local next_free = math.max(now, tonumber(redis.call('GET', KEYS[1]) or 0))
local wait = next_free - now
if patience >= 0 and wait > patience then return wait end
redis.call('SET', KEYS[1], string.format('%.0f', next_free + permits * interval), 'EX', 10)
return wait
"""


def reserve(redis, permits, now_ms, patience_us=-1):
    """The recipe at one permit per second. Returns the wait in microseconds. Numbers are KEYS."""
    return redis.ask("EVAL", SCRIPT, 5, "limiter", permits, SECOND_US, now_ms * 1000, patience_us)


def acquire(redis, permits, now_ms):
    return reserve(redis, permits, now_ms)


def try_acquire(redis, permits, now_ms, patience_us):
    return reserve(redis, permits, now_ms, patience_us)


class Reservation(RecipeTest):
    LIMIT = "token_bucket 1/1s borrow=yes"

    def owe_19_s(self, callers):
        """Takes 20 permits. Returns the monotonic instants before and after that."""
        began_ns = time.monotonic_ns()
        callers.acquire("early", 20, 0, self.LIMIT)
        return began_ns, self.hear("early", "runs").at_ns

    def check_retry_after(self, full_s, owed, patience_ms=0):
        """Expects the wait that was due when the debt was made, at `owed`, less the time since."""
        asked_ns = time.monotonic_ns()
        left_s = self.retry_after_s(patience_ms)
        earliest_ns, latest_ns = owed
        # The store uses its own clock.
        self.assertLess(left_s, full_s - (asked_ns - latest_ns) / SECOND_NS + 0.1)
        self.assertGreater(left_s, full_s - (time.monotonic_ns() - earliest_ns) / SECOND_NS - 0.1)

    def retry_after_s(self, patience_ms=0):
        """The retry_after for a caller with this patience, of 5 s at most, in a new process. It is
        refused at once."""
        asked_ns = time.monotonic_ns()
        self.callers().acquire("late", 1, patience_ms, self.LIMIT)
        refused = self.hear("late", "refused")
        self.assertLess(refused.at_ns - asked_ns, 5 * SECOND_NS)
        return refused.retry_after_ns / SECOND_NS

    def test_a_debt_of_more_than_ten_seconds_is_forgotten(self):
        self.assertEqual(acquire(self.redis, 20, FULL_HOUR_MS), 0)
        later_ms = FULL_HOUR_MS + 5 * SECOND_MS
        self.let_pass(5 * SECOND_MS)
        self.assertEqual(try_acquire(self.redis, 1, later_ms, 0), 15 * SECOND_US)
        later_ms += 5 * SECOND_MS
        self.let_pass(5 * SECOND_MS)
        self.assertEqual(try_acquire(self.redis, 1, later_ms, 0), 0)

        load = [(FULL_HOUR_MS, 20)] + [(FULL_HOUR_MS + s * SECOND_MS, 1) for s in range(5, 22)]
        decisions = self.sluice_decisions(self.LIMIT, load)
        self.assertEqual([decision["allowed"] for decision in decisions],
                         [True] + [False] * 14 + [True] * 3)
        self.assertEqual(decisions[1]["retry_after_ns"], 14 * 10**9)

    def test_acquire_keeps_a_debt_until_it_is_paid(self):
        """The same load, by the store's clock: 20 permits, then one with a patience of 5 s. The
        debt of 19 s stays until it is paid."""
        owed = self.owe_19_s(self.callers())
        state = self.connect(self.redis_server)
        state.ask("SELECT", 1)
        self.let_pass(12 * SECOND_MS, state)
        # Only the expiry was moved, so nothing has been paid.
        self.check_retry_after(19 - 5, owed, 5 * SECOND_MS)

    def test_giving_up_leaves_the_debt(self):
        """After 20 permits a caller reserves 5 and does not wait for them. The recipe cannot return
        them; Sluice's acquire() does so when it is cancelled."""
        acquire(self.redis, 20, FULL_HOUR_MS)
        self.assertEqual(acquire(self.redis, 5, FULL_HOUR_MS), 20 * SECOND_US)
        self.assertEqual(try_acquire(self.redis, 1, FULL_HOUR_MS, 0), 25 * SECOND_US)

        callers = self.callers()
        owed = self.owe_19_s(callers)
        callers.acquire("impatient", 5, 60 * SECOND_MS, self.LIMIT)
        await_true("5 more reserved", lambda: self.retry_after_s() > 19)
        callers.stop("impatient")
        self.hear("impatient", "refused")
        self.check_retry_after(19, owed)

    def test_one_number_for_yes_and_no(self):
        """The same wait for a reservation and for a refusal: the caller cannot distinguish them."""
        acquire(self.redis, 5, FULL_HOUR_MS)
        refused = try_acquire(self.redis, 1, FULL_HOUR_MS, SECOND_US)
        reserved = acquire(self.redis, 1, FULL_HOUR_MS)
        self.assertEqual((refused, reserved), (5 * SECOND_US, 5 * SECOND_US))

        load = [(FULL_HOUR_MS, 5), (FULL_HOUR_MS, 1)]
        for decision in self.sluice_decisions(self.LIMIT, load):
            self.assertEqual(decision["allowed"], decision["retry_after_ns"] == 0)

    def test_acquire_waits_or_refuses(self):
        """Three permits, then 20 that are due 2 s later: their caller runs after the wait. Another,
        whose patience is shorter than the 20 s to come, is refused at once."""
        callers = self.callers()
        began_ns = time.monotonic_ns()
        callers.acquire("early", 3, 0, self.LIMIT)
        self.hear("early", "runs")
        callers.acquire("patient", 20, 5 * SECOND_MS, self.LIMIT)
        waited_ns = self.hear("patient", "runs").at_ns - began_ns
        self.assertGreater(waited_ns, 1 * SECOND_NS)
        self.assertLess(waited_ns, 10 * SECOND_NS)
        callers.acquire("hasty", 1, 100, self.LIMIT)
        hasty = self.hear("hasty", "refused")
        self.assertGreater(hasty.retry_after_ns, 100 * MILLISECOND_NS)

    def test_numbers_as_keys_cross_slots(self):
        with RedisCluster() as cluster:
            reply = acquire(cluster, 1, FULL_HOUR_MS)
            self.assertRegex(str(reply), "^CROSSSLOT")

            callers = self.callers(cluster.url + PATIENTLY)
            callers.acquire("early", 20, 0, self.LIMIT)
            self.hear("early", "runs")
            callers.acquire("late", 1, 5 * SECOND_MS, self.LIMIT)
            self.hear("late", "refused")
            callers.end()
