"""The servers that other tests start: each starts, answers and does what it is for."""

import signal
import unittest

from fleet import MemcachedServer, RedisCluster, RedisSentinel, ask, await_true
from harness import exchange


class Fleets(unittest.TestCase):
    def test_a_cluster_sends_callers_on(self):
        with RedisCluster() as cluster:
            replies = [ask(node, "SET", "k", "v") for node in cluster.nodes]
            self.assertEqual(replies.count("OK"), 1)
            self.assertEqual(sum(str(reply).startswith("MOVED ") for reply in replies), 2)

    def test_sentinels_name_the_primary_and_replace_it(self):
        with RedisSentinel() as fleet:
            self.assertEqual(fleet.named_primary(), fleet.primary.port)
            fleet.primary.signal(signal.SIGKILL)
            await_true("another primary", lambda: fleet.named_primary() == fleet.replica.port)

    def test_memcached_answers(self):
        with MemcachedServer() as server:
            self.assertEqual(exchange(server.address, b"ms k 1\r\nv\r\nmg k v\r\n"),
                             b"HD\r\nVA 1\r\nv\r\n")


if __name__ == "__main__":
    unittest.main()
