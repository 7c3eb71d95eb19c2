"""What the recipes share: a real redis-server for the recipe, and Sluice beside it.

A recipe is written as people publish it, with two differences: the caller's clock is an argument,
and a step that others can come between is a step of its own. So each flaw shows every time, in the
order of steps that the test writes down, and no test waits for a window to end.

The tests take from here whatever they share with those in the folder above.
"""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from fleet import MemcachedServer, RedisCluster  # noqa: E402, F401
from harness import Connection, RedisServer, Server, SystemTest  # noqa: E402
from harness import command, open_socket, sluice  # noqa: E402, F401

# Where Sluice keeps its state; {port} is that of the redis-server which runs the recipe.
STORE = "redis://127.0.0.1:{port}/1"

# A full hour, in milliseconds since the epoch.
FULL_HOUR_MS = 1_700_006_400_000


class RecipeTest(SystemTest):
    """Each test begins with an empty database and a connection to it, `self.redis`."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.redis_server = RedisServer()
        cls.addClassCleanup(cls.redis_server.stop)
        cls.store = STORE.format(port=cls.redis_server.port)

    def setUp(self):
        self.redis = self.connect(self.redis_server)
        self.redis.ask("FLUSHDB")

    def connect(self, server):
        connection = Connection(server.address)
        self.addCleanup(connection.close)
        return connection

    def let_pass(self, milliseconds):
        """Has every key of the recipe expire so much sooner, as if so much time had passed."""
        for key in self.redis.ask("KEYS", "*"):
            left_ms = self.redis.ask("PTTL", key)
            if 0 <= left_ms <= milliseconds:
                self.redis.ask("DEL", key)
            elif left_ms > milliseconds:
                self.redis.ask("PEXPIRE", key, left_ms - milliseconds)

    def sluice_connections(self, count):
        """Connections to one `sluice serve`, which reads the store's clock and nobody else's."""
        server = Server("--store", self.store)
        self.addCleanup(server.stop)
        return [self.connect(server) for _ in range(count)]

    def sluice_decisions(self, limit, load):
        """`sluice replay` of a load: (instant in ms, cost) of one caller. Its decisions."""
        rows = "".join(f"{ms // 1000}.{ms % 1000:03},caller,{cost}\n" for ms, cost in load)
        result = sluice("replay", "--limit", limit, "--store", self.store, "--format", "csv",
                        "--decisions", "-", "-", stdin="time,key,cost\n" + rows)
        self.assertEqual(result.returncode, 0, result.stderr)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def sluice_admits(self, limit, instants_ms):
        """How many requests of cost 1 `sluice replay` admits."""
        decisions = self.sluice_decisions(limit, [(ms, 1) for ms in instants_ms])
        return sum(decision["allowed"] for decision in decisions)


def check(connection, limit, key="caller", cost=1):
    """SLUICE.CHECK: whether the caller may go ahead."""
    reply = connection.ask("SLUICE.CHECK", limit, key, cost)
    if isinstance(reply, Exception):
        raise reply
    return reply[0] == 1
