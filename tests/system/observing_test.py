"""What `sluice serve` says of its store: at the start, and when it is lost, back, late or full."""

import signal
import socket
import threading
import time
import unittest

from harness import (Connection, RedisServer, Server, SystemTest, await_true, free_port,
                     open_socket)

PASSWORD = "open-sesame"


class LateServer:
    """Another address of a server, whose replies come `delay_s` late there. Serves one connection
    after the other; its thread ends with the program."""

    def __init__(self, server, delay_s):
        self._server = server
        self._delay_s = delay_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            client, _ = self._listener.accept()
            with client, open_socket(self._server.address) as server:
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()
                try:
                    while data := server.recv(65536):
                        time.sleep(self._delay_s)
                        client.sendall(data)
                except OSError:
                    pass

    @staticmethod
    def _forward(client, server):
        try:
            while data := client.recv(65536):
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Observing(SystemTest):
    def serve(self, *arguments):
        return self.enterContext(Server(*arguments))

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

    def test_it_warns_of_a_limit_whose_rate_is_rounded(self):
        limits = self.write_file("limits.yaml", "limits:\n  a: token_bucket 5/1s\n  b: "
                                 "token_bucket 300000000/1s\n")
        server = self.serve("--limits", limits, "--threads", "1")
        self.await_line(server, "(1 thread, 2 named limits, memory:)")
        self.assertEqual([line for line in self.lines(server) if " admits " in line],
                         ["sluice: the limit b: 'token_bucket 300000000/1s' admits 250000000/1s: "
                          "the time after which a unit returns is rounded up to 4ns"])

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
            url = redis.url + "?deadline=5s"  # Else there may be a line about late answers, too.
            server = self.serve("--store", url)
            connection = Connection(server.address)
            self.addCleanup(connection.close)
            check = ("SLUICE.CHECK", "fixed_window 1000/1d", "a")
            await_true("an answer", lambda: connection.ask(*check)[0] == 1)
            redis.signal(signal.SIGKILL)
            redis.wait()
            connection.ask(*check)
            self.await_line(server, f"sluice: the store {url} is lost: ")
            with RedisServer(port=redis.port):
                self.await_line(server, f"sluice: the store {url} is back")
                self.assertEqual(len(self.lines(server)), 3, server.output())

    def test_it_says_which_deadline_a_late_store_needs(self):
        with RedisServer() as redis:
            late = LateServer(redis, 0.03)
            server = self.serve("--store", late.url + "?deadline=20ms")
            with Connection(server.address) as connection:
                for i in range(30):
                    connection.ask("SLUICE.CHECK", "fixed_window 1000/1d", i)
                    time.sleep(0.02)
            self.await_line(server, "answers later than the deadline of 20ms: after up to ")
            line = next(line for line in self.lines(server) if "answers later" in line)
            self.assertRegex(line, r"after up to (3\d|\d{2,})ms; deadline=(6\d|\d{2,})ms would be "
                                   r"enough$")

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

    def test_info_says_how_the_store_is(self):
        with RedisServer() as redis:
            server = self.serve("--store", redis.url + "?deadline=5s")
            connection = self.enterContext(Connection(server.address))
            await_true("up", lambda: "store_state:up\r\n" in connection.ask("INFO", "sluice"))
            connection.ask("SLUICE.CHECK", "fixed_window 1000/1d", "a")
            told = connection.ask("INFO", "sluice")
            self.assertRegex(told, r"\r\nround_trip_p50_usec:[1-9]\d*\r\n"
                                   r"round_trip_p99_usec:[1-9]\d*\r\n")
            redis.stop()
            await_true("down", lambda: "store_state:down\r\n" in connection.ask("INFO", "sluice"))

    def test_info_says_what_a_full_store_has_done(self):
        server = self.serve("--store", "memory:?max_bytes=1048576")
        with Connection(server.address) as connection:
            self.assertIn("\r\nstore_state:up\r\nround_trip_p50_usec:0\r\nround_trip_p99_usec:0\r\n"
                          "evicted_keys:0\r\nwithout_room:0\r\n", connection.ask("INFO", "sluice"))
            for limit in ("token_bucket 2/1h", "token_bucket 1/1h"):
                for _ in range(60):
                    connection.send(b"".join(b"SLUICE.CHECK '%s' %d\r\n" % (limit.encode(), i)
                                             for i in range(1000 * _, 1000 * _ + 1000)))
                    for _ in range(1000):
                        connection.read()
            told = connection.ask("INFO", "sluice")
        self.assertRegex(told, r"\r\nevicted_keys:[1-9]\d*\r\nwithout_room:[1-9]\d*\r\n")


if __name__ == "__main__":
    unittest.main()
