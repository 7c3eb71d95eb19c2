"""Recipe 6: a token bucket that keeps the instant at which the next ticket is free."""

import unittest

from recipe import FULL_HOUR_MS, Connection, RecipeTest, RedisCluster

SECOND_US = 1_000_000
SECOND_MS = 1000

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
    """The recipe at one permit a second: the microseconds to wait. Numbers are passed as KEYS."""
    return redis.ask("EVAL", SCRIPT, 5, "limiter", permits, SECOND_US, now_ms * 1000, patience_us)


def acquire(redis, permits, now_ms):
    return reserve(redis, permits, now_ms)


def try_acquire(redis, permits, now_ms, patience_us):
    return reserve(redis, permits, now_ms, patience_us)


class Reservation(RecipeTest):
    LIMIT = "token_bucket 1/1s borrow=yes"

    def test_a_debt_of_more_than_ten_seconds_is_forgotten(self):
        self.assertEqual(acquire(self.redis, 20, FULL_HOUR_MS), 0)
        later_ms = FULL_HOUR_MS + 9 * SECOND_MS
        self.let_pass(9 * SECOND_MS)
        self.assertEqual(try_acquire(self.redis, 1, later_ms, 0), 11 * SECOND_US)
        later_ms += 1 * SECOND_MS
        self.let_pass(1 * SECOND_MS)
        self.assertEqual(try_acquire(self.redis, 1, later_ms, 0), 0)

        load = [(FULL_HOUR_MS, 20)] + [(FULL_HOUR_MS + s * SECOND_MS, 1) for s in range(9, 22)]
        decisions = self.sluice_decisions(self.LIMIT, load)
        self.assertEqual([decision["allowed"] for decision in decisions],
                         [True] + [False] * 10 + [True] * 3)
        self.assertEqual(decisions[1]["retry_after_ns"], 10 * 10**9)

    def test_one_number_for_yes_and_no(self):
        """The wait of who has reserved, and of who was refused: the caller cannot tell."""
        acquire(self.redis, 5, FULL_HOUR_MS)
        refused = try_acquire(self.redis, 1, FULL_HOUR_MS, SECOND_US)
        reserved = acquire(self.redis, 1, FULL_HOUR_MS)
        self.assertEqual((refused, reserved), (5 * SECOND_US, 5 * SECOND_US))

        load = [(FULL_HOUR_MS, 5), (FULL_HOUR_MS, 1)]
        for decision in self.sluice_decisions(self.LIMIT, load):
            self.assertEqual(decision["allowed"], decision["retry_after_ns"] == 0)

    def test_numbers_as_keys_cross_slots(self):
        with RedisCluster(1) as cluster, Connection(cluster.nodes[0].address) as connection:
            reply = acquire(connection, 1, FULL_HOUR_MS)
            self.assertRegex(str(reply), "^CROSSSLOT")


if __name__ == "__main__":
    unittest.main()
