"""The log of `sluice serve` on standard error: one line for each event of operation."""

import json
import os
import re
import signal
import subprocess
import unittest

from harness import (BINARY, PATIENCE_S, ROOT, Connection, RedisServer, Server, SystemTest,
                     await_true, free_port, open_socket, read_text, sluice, write_text)

ROW = re.compile(r"^\| `(\w+)` \| (info|warning|error) \|.*\|([^|]*)\|$", re.MULTILINE)
USUAL = {"time", "level", "event", "message"}


def listens(port):
    try:
        open_socket(("127.0.0.1", port)).close()
        return True
    except OSError:
        return False


class LogTest(SystemTest):
    def documented(self):
        """{event: (its level, the names of its members)} in docs/observing.md."""
        rows = ROW.findall(read_text(os.path.join(ROOT, "docs", "observing.md")))
        return {event: (level, set(re.findall(r"`(\w+)`", members)))
                for event, level, members in rows}

    def events(self, output):
        """The names of the events in this output, each of which is as the page says."""
        events = [json.loads(line) for line in output.splitlines()]
        documented = self.documented()
        for event in events:
            level, members = documented[event["event"]]
            self.assertEqual((event["level"], event.keys() - USUAL), (level, members), event)
            self.assertRegex(event["time"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        return [event["event"] for event in events]

    def await_event(self, server, name, count=1):
        await_true(name, lambda: self.events(server.output()).count(name) == count)

    def test_each_event_is_a_line_of_json(self):
        folder = self.temporary_folder()
        file = os.path.join(folder, "sluice.yaml")

        def write(limit):
            write_text(file, f"log: {{format: json}}\nlimits: {{a: {limit}}}\n"
                             f"snapshot: {{file: {folder}/snapshot}}\n")

        write("token_bucket 300000000/1s")
        with Server("--config", file) as server:
            self.await_event(server, "serving")
            write("nonsense")
            self.await_event(server, "not_reloaded")
            write("fixed_window 5/1m")
            self.await_event(server, "reloaded")
            with Connection(server.address) as connection:
                for i in range(2000):
                    connection.ask("SLUICE.CHECK", "a", i)
            server.signal(signal.SIGTERM)
            self.assertEqual(server.wait(), 0)
            self.assertEqual(self.events(server.output()),
                             ["limit_rounded", "no_snapshot", "serving", "not_reloaded", "reloaded",
                              "stopping", "snapshot_written", "stopped"])
        with Server("--config", file) as server:
            self.await_event(server, "snapshot_loaded")
            os.mkdir(os.path.join(folder, "snapshot.new"))
            os.mkdir(os.path.join(folder, "snapshot.new", "full"))
            server.signal(signal.SIGUSR1)
            self.await_event(server, "snapshot_failed")

    def test_the_store_is_lost_and_back(self):
        with RedisServer() as redis:
            server = self.enterContext(Server("--store", redis.url, "--log-format", "json"))
            self.await_event(server, "serving")
            redis.signal(signal.SIGKILL)
            redis.wait()
            self.await_event(server, "store_lost")
            with RedisServer(port=redis.port):
                self.await_event(server, "store_back")

    def test_slow_decisions_have_lines_but_not_each(self):
        file = self.write_file("sluice.yaml", "log: {format: json, slow: 1us}\n"
                               "limits: {a: fixed_window 5/1m}\n")
        with RedisServer() as redis, Server("--config", file, "--store", redis.url) as server:
            self.await_event(server, "serving")
            with Connection(server.address) as connection:
                for _ in range(100):
                    connection.ask("SLUICE.CHECK", "a", "secret\x1bkey")
                    connection.ask("SLUICE.CHECK", "fixed_window 5/1h", "secret\x1bkey")
            await_true("slow_decisions", lambda: self.events(server.output()).count(
                "slow_decisions") >= 10)
            lines = [json.loads(line) for line in server.output().splitlines()]
            slow = [line for line in lines if line["event"] == "slow_decisions"]
            self.assertLess(len(slow), 50)
            self.assertEqual([line["limits"] for line in slow[:2]], ["a", "(other)"])
            self.assertEqual({line["store"] for line in slow}, {redis.url})
            self.assertGreater(min(line["seconds"] for line in slow), 1e-6)
            self.assertNotIn("secret", server.output())

    def test_a_full_store(self):
        with Server("--store", "memory:?max_bytes=1048576", "--log-format", "json") as server:
            with Connection(server.address) as connection:
                for i in range(0, 60_000, 1000):
                    connection.send(b"".join(b"SLUICE.CHECK 'token_bucket 2/1h' %d\r\n" % key
                                             for key in range(i, i + 1000)))
                    for _ in range(1000):
                        connection.read()
            self.await_event(server, "store_full")
            server.signal(signal.SIGUSR1)
            self.await_event(server, "no_snapshot_file")

    def test_the_level_leaves_out_what_is_below(self):
        with Server("--log-level", "warning") as server:
            server.signal(signal.SIGUSR1)
            server.await_output("there is no snapshot to write")
            server.signal(signal.SIGTERM)
            server.wait()
            self.assertEqual(len(server.output().splitlines()), 1, server.output())

    def test_a_server_that_cannot_start_says_so_in_the_same_form(self):
        file = self.write_file("sluice.yaml", "drain: \"5\\e[2Jx\"\n")
        result = sluice("serve", "--config", file, "--log-format", "json")
        self.assertEqual((result.returncode, self.events(result.stderr)), (2, ["not_started"]))
        with Server() as first:
            result = sluice("serve", "--resp", f"127.0.0.1:{first.port}", "--log-format", "json")
        self.assertEqual((result.returncode, self.events(result.stderr)), (1, ["not_started"]))

    def test_a_reader_that_is_gone_does_not_end_the_server(self):
        reader, writer = os.pipe()
        port = free_port()
        process = subprocess.Popen([BINARY, "serve", "--resp", f"127.0.0.1:{port}"], stderr=writer)
        self.addCleanup(process.kill)
        os.close(writer)
        self.assertIn(b"serving ", os.read(reader, 4096))
        os.close(reader)
        with Connection(("127.0.0.1", port)) as connection:
            process.send_signal(signal.SIGUSR1)  # The server has a line for it.
            self.assertEqual(connection.ask("PING"), "PONG")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(PATIENCE_S), 0)

    def test_a_reader_that_reads_nothing_does_not_hold_the_server_up(self):
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        full = os.fdopen(os.dup(writer), "wb", buffering=0)
        os.set_blocking(writer, False)
        while full.write(b"x" * 4096):
            pass
        full.close()
        os.set_blocking(writer, True)
        port = free_port()
        process = subprocess.Popen([BINARY, "serve", "--resp", f"127.0.0.1:{port}"], stderr=writer)
        self.addCleanup(process.kill)
        os.close(writer)
        await_true("it listens", lambda: listens(port))
        process.send_signal(signal.SIGUSR1)  # The server has a line for it.
        with Connection(("127.0.0.1", port)) as connection:
            self.assertEqual(connection.ask("PING"), "PONG")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(PATIENCE_S), 0)

    def test_the_options_win_over_the_file(self):
        file = self.write_file("sluice.yaml", "log: {format: json, level: error}\n")
        with Server("--config", file, "--log-format", "text", "--log-level", "info") as server:
            server.await_output("sluice: serving ")
        port = free_port()
        with Server("--config", file, "--http", f"127.0.0.1:{port}") as server:
            server.signal(signal.SIGTERM)
            server.wait()
            self.assertEqual(server.output(), "")


if __name__ == "__main__":
    unittest.main()
