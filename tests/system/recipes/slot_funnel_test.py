"""Recipe 7: N slot keys with an expiry; the first that is free is taken."""

import unittest

from recipe import Connection, RecipeTest, RedisCluster

SLOTS = 3
LEASE_S = 60


class Attempt:
    """The recipe, in the two steps that others can come between: look at all slots, take one."""

    def __init__(self, redis, owner):
        self.redis = redis
        self.owner = owner

    def look(self):
        slots = self.redis.ask("MGET", *(f"funnel:{i}" for i in range(SLOTS)))
        self.free = [i for i, owner in enumerate(slots) if owner is None]
        return self

    def take(self):
        """Whether the owner may go ahead."""
        if not self.free:
            return False
        self.redis.ask("SET", f"funnel:{self.free[0]}", self.owner, "EX", LEASE_S)
        return True


class SlotFunnel(RecipeTest):
    def test_all_who_look_at_once_go_ahead(self):
        attempts = [Attempt(self.redis, owner).look() for owner in range(10)]
        self.assertEqual(sum(attempt.take() for attempt in attempts), 10)

    def test_work_that_outlasts_its_lease_runs_beside_others(self):
        running = sum(Attempt(self.redis, owner).look().take() for owner in range(10))
        self.assertEqual(running, SLOTS)
        self.let_pass(LEASE_S * 1000)
        running += sum(Attempt(self.redis, owner).look().take() for owner in range(10, 20))
        self.assertEqual(running, 2 * SLOTS)

    def test_slots_cross_slots(self):
        with RedisCluster(1) as cluster, Connection(cluster.nodes[0].address) as connection:
            reply = connection.ask("MGET", *(f"funnel:{i}" for i in range(SLOTS)))
            self.assertRegex(str(reply), "^CROSSSLOT")


if __name__ == "__main__":
    unittest.main()
