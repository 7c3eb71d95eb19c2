"""Tests of the servers that other tests start: each starts, answers and does its job. Also of what
every program beside a test needs: a port, and output that can be read."""

import signal
import unittest

from fleet import MemcachedServer, RedisCluster, RedisSentinel, ask
from harness import FIRST_PORT, PORTS, Process, await_true, exchange, free_port, take_port


class Programs(unittest.TestCase):
    def test_each_port_is_another(self):
        ports = [free_port() for _ in range(500)]
        self.assertEqual(len(set(ports)), len(ports))
        self.assertFalse(any(map(take_port, ports)), "another test would get the same")
        self.assertGreaterEqual(min(ports), FIRST_PORT)
        self.assertLess(max(ports), FIRST_PORT + PORTS)

    def test_output_that_is_read_while_it_is_written_stays_whole(self):
        writes = "i=0; while [ $i -lt 40000 ]; do echo $i; i=$((i + 1)); done"
        with Process("sh", "-c", writes) as program:
            while program.running():
                program.output()
            self.assertTrue(program.output().split() == [str(i) for i in range(40000)])


class Fleets(unittest.TestCase):
    def test_a_cluster_redirects_callers(self):
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
