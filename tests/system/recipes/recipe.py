"""Tools of the recipe tests: a real redis-server for the recipe, and Sluice beside it.

A recipe is written as it is usually published, with two differences: the caller's clock is an
argument, and steps between which other callers can act are separate functions. So each flaw shows
every time, in the order of steps that the test chooses, and no test waits for a window to end.

Sluice's acquire(), funnel() and throttle() have no such arguments: they run in separate processes,
by the store's clock. Tests of them wait for a second or two.
"""

import glob
import os
import queue
import subprocess
import threading
from dataclasses import dataclass

from harness import (PATIENCE_S, Connection, RedisServer, Server, SystemTest, await_true, decisions,
                     read_text)

# The store of Sluice; {port} is that of the redis-server which runs the recipe.
STORE = "redis://127.0.0.1:{port}/1"
# A long deadline, so that a busy machine does not make decisions without the store.
PATIENTLY = "?deadline=5s"

# A full hour, in milliseconds since the epoch.
FULL_HOUR_MS = 1_700_006_400_000

SECOND_MS = 1000
SECOND_NS = 1_000_000_000
MILLISECOND_NS = 1_000_000


@dataclass
class Event:
    """What a caller did, and when, by the monotonic clock."""

    caller: str
    what: str  # runs, done or refused
    at_ns: int
    retry_after_ns: int = 0
    remaining: int = 0


class Callers:
    """A process whose callers use Sluice's library (see caller_main.cc). Their events are put into
    `events`, which several processes may share."""

    def __init__(self, url, events):
        self._process = subprocess.Popen(
            [os.environ["RECIPE_CALLER"], url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, bufsize=1)
        self._reader = threading.Thread(target=self._read, args=(events,))
        self._reader.start()

    def _read(self, events):
        for line in self._process.stdout:
            caller, what, *numbers = line.split()
            events.put(Event(caller, what, *map(int, numbers)))

    def acquire(self, caller, cost, patience_ms, limit):
        self._tell("acquire", caller, cost, patience_ms, limit)

    def funnel(self, caller, runs, lease_ms, patience_ms=0):
        self._tell("funnel", caller, runs, lease_ms, patience_ms)

    def throttle(self, caller, runs, window_ms, patience_ms=0):
        self._tell("throttle", caller, runs, window_ms, patience_ms)

    def stop(self, caller):
        """Cancels its acquire(), or ends its funnel's work."""
        self._tell("stop", caller)

    def _tell(self, *words):
        self._process.stdin.write(" ".join(map(str, words)) + "\n")

    def await_asleep(self):
        """Returns once its threads sleep: it has read what it was told, and its requests are on
        their way or wait."""
        states = f"/proc/{self._process.pid}/task/*/status"
        await_true("threads that sleep", lambda: all(
            "\nState:\tS" in read_text(state) for state in glob.glob(states)))

    def kill(self):
        """Kills the process, as in a crash."""
        self._process.kill()

    def end(self):
        if self._process.stdin.closed:
            return
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        self._reader.join()
        self._process.stdout.close()


class RecipeTest(SystemTest):
    """Each test begins with an empty server, a connection to it, `self.redis`, and no `events`."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.redis_server = cls.enterClassContext(RedisServer())
        cls.store = STORE.format(port=cls.redis_server.port) + PATIENTLY

    def setUp(self):
        self.redis = self.connect(self.redis_server)
        self.redis.ask("FLUSHALL")
        self.events = queue.Queue()

    def connect(self, server):
        return self.enterContext(Connection(server.address))

    def let_pass(self, milliseconds, redis=None):
        """Makes every key of the recipe expire earlier, as if time had passed; or every key of
        another connection's database."""
        redis = redis or self.redis
        for key in redis.ask("KEYS", "*"):
            left_ms = redis.ask("PTTL", key)
            if 0 <= left_ms <= milliseconds:
                redis.ask("DEL", key)
            elif left_ms > milliseconds:
                redis.ask("PEXPIRE", key, left_ms - milliseconds)

    def callers(self, url=None):
        """A process of callers, by default on the store of the test."""
        callers = Callers(url or self.store, self.events)
        self.addCleanup(callers.end)
        return callers

    def hear(self, caller, what):
        """Reads the next event, which must be this one."""
        return self.hear_all((caller, what))[0]

    def hear_all(self, *expected):
        """Reads the next events, which must be these (caller, what) in any order, since two
        processes write them. Returns them in the given order."""
        events = [self.events.get(timeout=PATIENCE_S) for _ in expected]
        heard = {(event.caller, event.what): event for event in events}
        self.assertEqual(set(heard), set(expected))
        return [heard[event] for event in expected]

    def hear_many(self, count):
        """Reads the next events. Returns two lists: those that run, and those that are refused."""
        events = [self.events.get(timeout=PATIENCE_S) for _ in range(count)]
        runs, refused = ([event for event in events if event.what == what]
                         for what in ("runs", "refused"))
        self.assertEqual(len(runs) + len(refused), count)
        return runs, refused

    def sluice_connections(self, count):
        """Connections to one `sluice serve`, which uses only the store's clock."""
        server = self.enterContext(Server("--store", self.store))
        return [self.connect(server) for _ in range(count)]

    def sluice_decisions(self, limit, load):
        """`sluice replay` of a load: (instant in ms, cost) of one caller. Its decisions."""
        rows = "".join(f"{ms // 1000}.{ms % 1000:03},caller,{cost}\n" for ms, cost in load)
        return decisions([limit], "--store", self.store, "--format", "csv", "-",
                         stdin="time,key,cost\n" + rows)

    def sluice_admits(self, limit, instants_ms):
        """How many requests of cost 1 `sluice replay` admits."""
        made = self.sluice_decisions(limit, [(ms, 1) for ms in instants_ms])
        return sum(decision["allowed"] for decision in made)


def check(connection, limit, key="caller", cost=1):
    """SLUICE.CHECK: whether the caller may go ahead."""
    reply = connection.ask("SLUICE.CHECK", limit, key, cost)
    if isinstance(reply, Exception):
        raise reply
    return reply[0] == 1
