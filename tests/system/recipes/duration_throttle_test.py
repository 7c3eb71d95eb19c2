"""Recipe 8: a hash of start, end and count; the first request opens the window. Beside it,
throttle()."""

import time

from recipes.recipe import FULL_HOUR_MS, MILLISECOND_NS, SECOND_MS, SECOND_NS, RecipeTest, check

# ARGV: the exact time in seconds, the same in whole seconds, the window in seconds, the limit.
SCRIPT = """
local function open_window()
  redis.call('HMSET', KEYS[1], 'start', ARGV[2], 'end', ARGV[2] + ARGV[3], 'count', 1)
  redis.call('EXPIRE', KEYS[1], ARGV[3] * 2)
  return {1, ARGV[2] + ARGV[3], ARGV[4] - 1}
end
if redis.call('EXISTS', KEYS[1]) == 0 then return open_window() end
local opened, ends = unpack(redis.call('HMGET', KEYS[1], 'start', 'end'))
if ARGV[1] >= opened and ARGV[1] <= ends then
  local count = redis.call('HINCRBY', KEYS[1], 'count', 1)
  return {count <= tonumber(ARGV[4]) and 1 or 0, tonumber(ends), ARGV[4] - count}
end
return open_window()
"""

LIMIT = 5
POLL_MS = 750


def tries():
    """Up to five tries, each without an open window of 1 s: the machine may stall for a moment, but
    hardly each time."""
    yield
    for _ in range(4):
        time.sleep(1)
        yield


def acquire(redis, now_ms, every_s):
    """The recipe. Returns (allowed, the end of the window in seconds, remaining)."""
    exact = f"{now_ms // 1000}.{now_ms % 1000:03}"
    reply = redis.ask("EVAL", SCRIPT, 1, "throttle", exact, now_ms // 1000, every_s, LIMIT)
    return reply[0] == 1, reply[1], reply[2]


class DurationThrottle(RecipeTest):
    def admits(self, instants_ms, every_s):
        return sum(acquire(self.redis, ms, every_s)[0] for ms in instants_ms)

    def run_throttle(self, processes, count, window_ms, prefix=""):
        """Many callers of these processes at once, none of which waits. Returns those that run, and
        those that are refused."""
        for i in range(count):
            processes[i % len(processes)].throttle(f"{prefix}{i}", LIMIT, window_ms)
        return self.hear_many(count)

    def test_denied_attempts_count(self):
        load = [FULL_HOUR_MS] * 100
        self.assertEqual(self.admits(load, 10), LIMIT)
        self.assertEqual(acquire(self.redis, FULL_HOUR_MS, 10)[2], LIMIT - 101)

        limit = "fixed_window 5/10s anchor=first"
        last = self.sluice_decisions(limit, [(ms, 1) for ms in load])[-1]
        self.assertEqual((last["allowed"], last["remaining"]), (False, 0))

        runs, refused = self.run_throttle([self.callers()], 101, 10 * SECOND_MS)
        self.assertEqual((len(runs), len(refused)), (LIMIT, 96))
        self.assertEqual({event.remaining for event in refused}, {0})

    def test_whole_seconds_cut_the_window_short(self):
        """A window of 1 s that opens late in a second ends with that second."""
        opened_ms = FULL_HOUR_MS + 950
        load = [opened_ms] * LIMIT + [opened_ms + 100] * LIMIT
        self.assertEqual(self.admits(load, 1), 2 * LIMIT)

        self.assertEqual(self.sluice_admits("fixed_window 5/1s anchor=first", load), LIMIT)

        callers = self.callers()
        for _ in tries():
            time.sleep((1.95 - time.time() % 1) % 1)
            began_ns = time.monotonic_ns()
            admitted = len(self.run_throttle([callers], LIMIT, SECOND_MS)[0])
            time.sleep(0.1)
            runs, refused = self.run_throttle([callers], LIMIT, SECOND_MS, "later-")
            admitted += len(runs)
            if all(event.at_ns - began_ns < SECOND_NS for event in runs + refused):
                break
        self.assertEqual(admitted, LIMIT)

    def test_bounds_compared_as_strings(self):
        """With a clock that counts from the machine's start: the string "100.000" is less than
        "95"."""
        load = [95_000] * LIMIT + [100_000] * LIMIT
        self.assertEqual(self.admits(load, 10), 2 * LIMIT)

        self.assertEqual(self.sluice_admits("fixed_window 5/10s anchor=first", load), LIMIT)

    def test_two_clocks_reset_each_others_window(self):
        """Two callers whose clocks differ by 11 s, in turns: there is no limit any more."""
        load = [FULL_HOUR_MS, FULL_HOUR_MS + 11_000] * 50
        self.assertEqual(self.admits(load, 10), 100)

        # Both ask at the same time; only the store's clock is used.
        one, other = self.sluice_connections(2)
        limit = "fixed_window 5/1h anchor=first"
        self.assertEqual(sum(check(caller, limit) for caller in [one, other] * 50), LIMIT)

        processes = [self.callers(), self.callers()]
        self.assertEqual(len(self.run_throttle(processes, 100, 3_600_000)[0]), LIMIT)

    def test_polling_is_late(self):
        """The window is used up at once; a caller waits for the next one from 10 ms on."""
        self.assertEqual(self.admits([FULL_HOUR_MS] * LIMIT, 1), LIMIT)
        polls_ms = range(FULL_HOUR_MS + 10, FULL_HOUR_MS + 3 * SECOND_MS, POLL_MS)
        admitted_ms = next(ms for ms in polls_ms if acquire(self.redis, ms, 1)[0])
        self.assertEqual(admitted_ms - (FULL_HOUR_MS + SECOND_MS), 510)

        callers = self.callers()
        most_ns = 100 * MILLISECOND_NS
        for _ in tries():
            began_ns = time.monotonic_ns()
            self.assertEqual(len(self.run_throttle([callers], LIMIT, SECOND_MS)[0]), LIMIT)
            callers.throttle("waiter", LIMIT, SECOND_MS, 3 * SECOND_MS)
            late_ns = self.hear("waiter", "runs").at_ns - (began_ns + SECOND_NS)
            if late_ns < most_ns:
                break
        self.assertLess(late_ns, most_ns)
