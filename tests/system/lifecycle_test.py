"""How `sluice serve` starts, what it refuses to start with, and how it stops."""

import contextlib
import os
import shlex
import signal
import socket
import time

from harness import (PATIENCE_S, Connection, Server, SystemTest, await_true, command, exchange,
                     free_port, read_text, sluice, taken_address)


class Refusals(SystemTest):
    def test_arguments(self):
        for words, *named in (
                *((f"serve --resp {address}:{free_port()}", address, "--insecure")
                  for address in ("0.0.0.0", "[::]", "192.0.2.1")),
                (f"serve --admin 0.0.0.0:{free_port()}", "refusing to serve on 0.0.0.0"),
                *((f"serve --resp {address}", address) for address in (
                    "nonsense", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536", "unix:", ":1")),
                ("serve --limts x", "(did you mean '--limits'?)",
                 "(sluice serve --help says more)"),
                ("serve --stroe=memory:", "(did you mean '--store'?)"),
                ("serve --store memroy:", "(did you mean 'memory'?)"),
                ("repaly access.log", "(did you mean 'replay'?)"),
                ("help repaly", "was not expected: repaly (did you mean 'replay'?)"),
                # In their order.
                ("serve --b --a c", "were not expected: --b --a c (sluice serve"),
                ("b a", "were not expected: b a (sluice --help"),
                # Not the password.
                ("serve --stor redis://:hunter2@h", "--stor redis://*** (did you mean '--store'?)"),
                ("serve --threads redis://:hunter2@h", "redis://*** (sluice serve"),
                *((f"serve --threads {count}", "threads") for count in ("0", "-1", "x", "100000")),
                *((f"serve {option} /nonexistent/a.yaml", "/nonexistent/a.yaml: ")
                  for option in ("--config", "--limits")),
                ("serve --config a.yaml --limits a.yaml", "--config excludes --limits"),
                *((f"serve {option} ''", option) for option in (
                    "--config", "--limits", "--resp", "--http", "--store", "--snapshot",
                    "--tls-cert", "--threads")),
                *((f"{words} ''", words.split()[1], "it is empty") for words in (
                    "replay --key", "replay --decisions", "replay --html",
                    "advise --key", "advise --html")),
                ("serve --nonsense", "--nonsense"), ("nonsense", "nonsense")):
            with self.subTest(words):
                said = self.refusal(*shlex.split(words))
                for name in named:
                    self.assertIn(name, said)
        nothing = sluice()
        self.assertNotEqual(nothing.returncode, 0)
        self.assertTrue(nothing.stderr or nothing.stdout)

    def test_help_as_a_subcommand(self):
        for name in ("", "replay", "serve", "token"):
            words = [name] if name else []
            result = sluice("help", *words)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(result.stdout, sluice(*words, "--help").stdout)

    def test_a_port_in_use(self):
        with taken_address() as address:
            self.assertIn(f"cannot listen on {address}: Address already in use",
                          self.refusal("serve", "--resp", address, code=1))


class Listening(SystemTest):
    def test_unix_socket(self):
        """The next server replaces that of one that was killed; one that ends removes its own."""
        path = os.path.join(self.temporary_folder(), "sluice.sock")
        with Server(unix=path) as killed:
            killed.signal(signal.SIGKILL)
            killed.wait()
        self.assertTrue(os.path.exists(path))
        with Server(unix=path) as server:
            with Connection(path) as connection:
                self.assertEqual(connection.ask("CL.THROTTLE", "unix", 15, 30, 60)[2], 15)
            self.assertEqual(server.stop(), 0)
        self.assertFalse(os.path.exists(path), "the socket's file is left behind")

    def test_a_file_in_place_of_the_socket_is_kept(self):
        path = self.write_file("precious", "kept")
        self.assertNotEqual(sluice("serve", "--resp", f"unix:{path}").returncode, 0)
        self.assertEqual(read_text(path), "kept")

    def test_named_limits(self):
        text = 'limits: {login: "sliding_log 5/10m", api.v1: "token_bucket 1/1h burst=3"}\n'
        path = self.write_file("limits.yaml", text)
        with Server("--limits", path) as server, Connection(server.address) as connection:
            self.assertEqual(connection.ask("SLUICE.CHECK", "login", "k")[:3], [1, 5, 4])
            self.assertEqual(connection.ask("SLUICE.CHECK", "api.v1", "k", 3)[:3], [1, 3, 0])


class Stopping(SystemTest):
    def test_signals_end_it_with_0(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.serve_file("drain: 500ms\n")
            with Connection(server.address) as connection:
                self.assertEqual(connection.ask("PING"), "PONG")
                server.signal(number)
                self.assertEqual(server.wait(), 0, server.output())

    def test_clients_are_told_and_closed_after_their_replies(self):
        readyz = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        draining = b'{"status":"draining"}'
        with self.serve_file("drain: 30s\n", http=True) as server, \
                Connection(server.address) as idle, Connection(server.http) as kept:
            self.assertEqual(idle.ask("PING"), "PONG")
            kept.send(readyz)
            self.assertNotIn(b"close", kept.socket.recv(4096))
            server.signal(signal.SIGTERM)
            start = time.monotonic()
            reply = await_true("it says so", lambda: (
                b" 503 " in (got := exchange(server.http, readyz)) and got))
            kept.send(readyz)
            for answer in (reply, kept.read_all()):
                self.assertTrue(answer.endswith(draining), answer)
                self.assertIn(b"\r\nConnection: close\r\n", answer)
            self.assertTrue(server.running())
            self.assertEqual(idle.ask("PING"), "PONG")
            self.assertEqual(idle.read_all(), b"")
            self.assertEqual(server.wait(), 0, server.output())
            self.assertLess(time.monotonic() - start, PATIENCE_S)

    def test_silent_clients_are_waited_for_half_of_the_time(self):
        with self.serve_file("drain: 1s\n") as server, Connection(server.address) as idle:
            self.assertEqual(idle.ask("PING"), "PONG")
            start = time.monotonic()
            server.signal(signal.SIGTERM)
            self.assertEqual(idle.read_all(), b"")
            self.assertGreater(time.monotonic() - start, 0.4)
            self.assertEqual(server.wait(), 0, server.output())
            self.assertLess(time.monotonic() - start, 5)

    def test_a_client_that_connected_before_the_signal_gets_replies(self):
        path = os.path.join(self.temporary_folder(), "sluice.sock")
        for unix in (None, path):
            with self.subTest(unix), \
                    self.serve_file("drain: 30s\n", "--threads", "2", unix=unix) as server:
                server.signal(signal.SIGSTOP)
                waiting = [Connection(server.address) for _ in range(300)]
                for connection in waiting:
                    connection.send(command("PING"))
                    connection.socket.shutdown(socket.SHUT_WR)  # It is not waited for.
                server.signal(signal.SIGTERM)
                server.signal(signal.SIGCONT)
                for connection in waiting:
                    self.assertEqual(connection.read_all(), b"+PONG\r\n")
                    connection.close()
                self.assertEqual(server.wait(), 0, server.output())

    def test_in_the_middle_of_a_pipeline(self):
        """Every command that was read is answered; the last reply is whole; the exit code is 0."""
        total = 50000
        with Server() as server, Connection(server.address) as connection:
            for _ in range(6):
                connection.send(command("CL.THROTTLE", "stop", total, 1, 3600) * (total // 10))
            self.assertEqual(connection.read()[0], 0)
            server.signal(signal.SIGTERM)
            answered = connection.read_all()
            self.assertEqual(server.wait(), 0, server.output())
        replies = answered.split(b"*5\r\n")
        self.assertEqual(replies[0], b"")
        self.assertGreater(len(replies), 1, "the connection was reset")
        for index, reply in enumerate(replies[1:], 1):
            numbers = reply.split(b"\r\n")
            self.assertEqual(numbers[:3], [b":0", b":%d" % (total + 1), b":%d" % (total - index)])
            self.assertEqual((len(numbers), numbers[-1]), (6, b""))

    def test_a_peer_that_reads_late(self):
        """Others are served meanwhile. When the server ends, it gets whole replies, and few."""
        most = 64 * 1024 * 1024
        flood = command("ECHO", "x" * 60_000)
        reply = b"$60000\r\n" + b"x" * 60_000 + b"\r\n"
        with self.serve_file("drain: 5s\n", "--threads", "1") as server, \
                Connection(server.address) as late:
            late.socket.settimeout(1)
            sent = 0
            with contextlib.suppress(TimeoutError):
                while sent < most:
                    sent += late.socket.send(flood[sent % len(flood):])
            self.assertLess(sent, most, "the server reads without end")
            self.assertLess(server.resident_kib(), 200 * 1024)
            with Connection(server.address) as other:
                self.assertEqual(other.ask("PING"), "PONG")
            late.socket.settimeout(PATIENCE_S)
            server.signal(signal.SIGTERM)
            received = late.socket.makefile("rb").read()  # A reset would be an error.
            count = len(received) // len(reply)
            self.assertGreater(count, 0)
            self.assertTrue(received == count * reply, f"{len(received)} bytes")
            self.assertEqual(server.wait(), 0, server.output())

    def test_what_arrived_before_the_signal_is_answered(self):
        with self.serve_file("drain: 5s\n") as server, Connection(server.address) as connection:
            self.assertEqual(connection.ask("PING"), "PONG")
            server.signal(signal.SIGSTOP)
            connection.send(command("CL.THROTTLE", "before", 99, 1, 3600) * 50)
            server.signal(signal.SIGTERM)
            server.signal(signal.SIGCONT)
            answered = connection.read_all()
            self.assertEqual(server.wait(), 0, server.output())
        # The server may see the signal before or after it reads the socket: all or nothing of one
        # read.
        self.assertIn(answered.count(b"*5\r\n"), (0, 50))
