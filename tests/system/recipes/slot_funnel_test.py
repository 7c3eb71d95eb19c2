"""Recipe 7: N slot keys with an expiry; the first that is free is taken. Beside it, funnel()."""

import time

from harness import RedisCluster
from recipes.recipe import MILLISECOND_NS, PATIENTLY, SECOND_MS, SECOND_NS, RecipeTest

SLOTS = 3
LEASE_S = 60
POLL_MS = 250


class Attempt:
    """The recipe, in the two steps between which others can act: read all slots, take one."""

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


def attempt(redis, owner):
    return Attempt(redis, owner).look().take()


class SlotFunnel(RecipeTest):
    def run_funnel(self, processes, count, lease_ms=LEASE_S * SECOND_MS, prefix=""):
        """Many callers of these processes at once, none of which waits. Returns how many run."""
        for i in range(count):
            processes[i % len(processes)].funnel(f"{prefix}{i}", SLOTS, lease_ms)
        return len(self.hear_many(count)[0])

    def test_all_simultaneous_callers_pass(self):
        attempts = [Attempt(self.redis, owner).look() for owner in range(10)]
        self.assertEqual(sum(attempt.take() for attempt in attempts), 10)

        self.assertEqual(self.run_funnel([self.callers(), self.callers()], 10), SLOTS)

    def test_work_that_outlasts_its_lease_runs_beside_others(self):
        """Sluice renews leases: work of one and a quarter leases still runs alone."""
        running = sum(attempt(self.redis, owner) for owner in range(10))
        self.assertEqual(running, SLOTS)
        self.let_pass(LEASE_S * SECOND_MS)
        running += sum(attempt(self.redis, owner) for owner in range(10, 20))
        self.assertEqual(running, 2 * SLOTS)

        lease_ms = 4 * SECOND_MS
        running = self.run_funnel([self.callers()], 10, lease_ms)
        time.sleep(1.25 * lease_ms / SECOND_MS)
        running += self.run_funnel([self.callers()], 10, lease_ms, "later-")
        self.assertEqual(running, SLOTS)

    def test_a_crash_keeps_a_slot_as_long_as_the_longest_work(self):
        """The recipe's lease must be that of the longest work. Sluice's lease is renewed, so it
        is only the time after which a crashed holder loses its permit."""
        self.assertEqual(sum(attempt(self.redis, owner) for owner in range(SLOTS)), SLOTS)
        self.let_pass((LEASE_S - 10) * SECOND_MS)
        self.assertFalse(attempt(self.redis, "waiter"))

        lease_ms = 1 * SECOND_MS
        crashing, other = self.callers(), self.callers()
        self.assertEqual(self.run_funnel([crashing], SLOTS, lease_ms), SLOTS)
        crashing.kill()
        killed_ns = time.monotonic_ns()
        other.funnel("waiter", SLOTS, lease_ms, 10 * SECOND_MS)
        waited_ns = self.hear("waiter", "runs").at_ns - killed_ns
        self.assertLess(waited_ns, 5 * SECOND_NS)

    def test_polling_is_late_and_out_of_order(self):
        """All slots are taken. One caller waits from 0 ms on, another from 950 ms; at 1010 ms a
        slot is released."""
        began_ms = {"first": 0, "second": 950}
        released_ms = 1010
        for owner in range(SLOTS):
            attempt(self.redis, owner)
        served = []
        for now_ms in range(0, 3 * SECOND_MS, 10):
            if now_ms == released_ms:
                self.redis.ask("DEL", "funnel:0")
            for owner, since_ms in began_ms.items():
                polls = now_ms >= since_ms and (now_ms - since_ms) % POLL_MS == 0
                if polls and attempt(self.redis, owner):
                    served.append((owner, now_ms - released_ms))
        self.assertEqual(served, [("second", 190)])

        holder, waiters = self.callers(), self.callers()
        holder.funnel("holder", 1, LEASE_S * SECOND_MS)
        self.hear("holder", "runs")
        for caller, until_ms in (("first", began_ms["second"]), ("second", released_ms)):
            waiters.funnel(caller, 1, LEASE_S * SECOND_MS, 10 * SECOND_MS)
            time.sleep((until_ms - began_ms[caller]) / SECOND_MS)
            waiters.await_asleep()  # Else the next one may come before it.
        late_ns = [self.hand_over(holder, "holder", "first")]
        waiters.funnel("third", 1, LEASE_S * SECOND_MS, 10 * SECOND_MS)
        waiters.await_asleep()
        late_ns += [self.hand_over(waiters, "first", "second"),
                    self.hand_over(waiters, "second", "third")]
        # The machine may have stalled for a moment, but hardly each time.
        self.assertLess(min(late_ns), 100 * MILLISECOND_NS)

    def hand_over(self, callers, holder, waiter):
        """Stops the holder, which is one of these callers; the waiter must be next. Returns how
        much later it runs."""
        callers.stop(holder)
        done, runs = self.hear_all((holder, "done"), (waiter, "runs"))
        return runs.at_ns - done.at_ns

    def test_slots_cross_slots(self):
        with RedisCluster() as cluster:
            reply = cluster.ask("MGET", *(f"funnel:{i}" for i in range(SLOTS)))
            self.assertRegex(str(reply), "^CROSSSLOT")

            callers = self.callers(cluster.url + PATIENTLY)
            self.assertEqual(self.run_funnel([callers], 10), SLOTS)
            callers.end()
