"""What `sluice serve` says of its store: at the start, and when it is lost, back, late or full."""

import signal
import unittest

from fleet import await_true
from harness import Connection, RedisServer, Server, SystemTest, free_port

PASSWORD = "open-sesame"


class Observing(SystemTest):
    def serve(self, *arguments):
        server = Server(*arguments)
        self.addCleanup(server.stop)
        return server

    def await_line(self, server, pattern):
        await_true(pattern, lambda: any(pattern in line for line in self.lines(server)))

    @staticmethod
    def lines(server):
        return server.output().splitlines()

    def test_it_says_how_many_limits_it_serves(self):
        limits = self.write_file("limits.yaml", "limits:\n  a: sliding_log 5/1m\n  b: "
                                 "fixed_window 5/1m\n")
        server = self.serve("--limits", limits, "--threads", "1")
        self.await_line(server, "(1 thread, 2 named limits, memory:)")
        self.assertEqual(len(self.lines(server)), 1)

    def test_it_says_why_a_store_does_not_answer_at_the_start(self):
        port = free_port()
        server = self.serve("--store", f"redis://bob:{PASSWORD}@127.0.0.1:{port}/1")
        self.await_line(server, f"sluice: the store redis://bob:***@127.0.0.1:{port}/1 is lost: "
                                f"cannot connect to 127.0.0.1:{port}: Connection refused")
        self.assertNotIn(PASSWORD, server.output())

    def test_it_names_a_url_that_is_meant_for_others(self):
        with RedisServer() as redis:
            for scheme, path, word in (("redis+cluster", "", "is no node of a cluster"),
                                       ("redis+sentinel", "/it", "is no sentinel"),
                                       ("rediss", "", "speaks without TLS")):
                url = f"{scheme}://127.0.0.1:{redis.port}{path}"
                self.await_line(self.serve("--store", url), word)

    def test_it_says_when_the_store_is_lost_and_back(self):
        with RedisServer() as redis:
            server = self.serve("--store", redis.url)
            connection = Connection(server.address)
            self.addCleanup(connection.close)
            check = ("SLUICE.CHECK", "fixed_window 1000/1d", "a")
            await_true("an answer", lambda: connection.ask(*check)[0] == 1)
            redis.signal(signal.SIGKILL)
            redis.wait()
            connection.ask(*check)
            self.await_line(server, f"sluice: the store {redis.url} is lost: ")
            with RedisServer(port=redis.port):
                self.await_line(server, f"sluice: the store {redis.url} is back")
                self.assertEqual(len(self.lines(server)), 3, server.output())

    def test_it_says_when_the_store_is_full(self):
        server = self.serve("--store", "memory:?max_bytes=1048576")
        with Connection(server.address) as connection:
            for i in range(60_000):
                connection.send(b"SLUICE.CHECK 'token_bucket 2/1h' %d\r\n" % i)
                if i % 1000 == 999:
                    for _ in range(1000):
                        connection.read()
        self.await_line(server, "sluice: the store memory:?max_bytes=1048576 is full: ")
        self.assertEqual(len(self.lines(server)), 2, server.output())


if __name__ == "__main__":
    unittest.main()
