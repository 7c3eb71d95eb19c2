"""The log of `sluice serve` on standard error: one line for each event of operation. Also what INFO
says of the store."""

import contextlib
import json
import os
import re
import signal
import time

from harness import (BINARY, ROOT, Connection, Process, RedisServer, Server, SystemTest, await_true,
                     command, free_port, read_text, replace_text, sluice)

ROW = re.compile(r"^\| `(\w+)` \| (info|warning|error) \|.*\|([^|]*)\|$", re.MULTILINE)
USUAL = {"time", "level", "event", "message"}
# On a busy machine a decision may be slow: that is an event as well.
FILE = "log: {format: json, slow: no}\n"
PASSWORD = "open-sesame"


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

    def await_event(self, server, name):
        await_true(name, lambda: self.events(server.output()).count(name) == 1)

    @staticmethod
    def message(server, name):
        """Of the last event with this name."""
        events = map(json.loads, server.output().splitlines())
        return [event["message"] for event in events if event["event"] == name][-1]

    def test_each_event_is_a_line_of_json(self):
        folder = self.temporary_folder()
        file = os.path.join(folder, "sluice.yaml")

        def write(limit):
            replace_text(file, f"{FILE}limits: {{a: {limit}, b: fixed_window 5/1m}}\n"
                               f"snapshot: {{file: {folder}/snapshot}}\n")

        write("token_bucket 300000000/1s")
        with Server("--config", file, "--threads", "1") as server:
            self.await_event(server, "serving")
            self.assertIn("(1 thread, 2 named limits, memory:)", self.message(server, "serving"))
            self.assertEqual(self.message(server, "limit_rounded"),
                             "the limit a: 'token_bucket 300000000/1s' admits 250000000/1s: the "
                             "time after which a unit returns is rounded up to 4ns")
            write("nonsense")
            self.await_event(server, "not_reloaded")
            write("fixed_window 5/1m")
            self.await_event(server, "reloaded")
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
            self.assertIn("the former one stays", self.message(server, "snapshot_failed"))

    def test_a_reload_warns_by_its_own_settings(self):
        file = self.write_file("sluice.yaml", "log: {format: json, level: error}\n")
        with Server("--config", file) as server:
            replace_text(file, FILE + "limits: {a: token_bucket 300000000/1s}\n")
            self.await_event(server, "limit_rounded")
            self.assertEqual(self.events(server.output()), ["reloaded", "limit_rounded"])

    def test_the_store_is_lost_and_back(self):
        with RedisServer() as redis:
            url = redis.url + "?deadline=5s"  # Else there may be an event of late answers, too.
            server = self.serve_file(FILE, "--store", url)
            connection = self.enterContext(Connection(server.address))
            await_true("up", lambda: "store_state:up\r\n" in connection.ask("INFO", "sluice"))
            connection.ask("SLUICE.CHECK", "fixed_window 1000/1d", "a")
            self.assertRegex(connection.ask("INFO", "sluice"),
                             r"\r\nround_trip_p50_usec:[1-9]\d*\r\n"
                             r"round_trip_p99_usec:[1-9]\d*\r\n")

            def await_last(name):
                await_true(name, lambda: self.events(server.output())[-1] == name)

            redis.signal(signal.SIGKILL)
            redis.wait()
            connection.ask("SLUICE.CHECK", "fixed_window 1000/1d", "a")
            await_last("store_lost")
            await_true("down", lambda: "store_state:down\r\n" in connection.ask("INFO", "sluice"))
            self.assertIn(f"the store {url} is lost: ", self.message(server, "store_lost"))
            with RedisServer(port=redis.port):
                await_last("store_back")
                self.assertIn(f"the store {url} is back", self.message(server, "store_back"))
                once = ["store_lost", "store_back"]
                # Twice, if the store was slow to connect at the start.
                self.assertIn(self.events(server.output()),
                              (["serving"] + once, ["serving"] + 2 * once))

    def test_slow_decisions_have_lines_but_not_each(self):
        with RedisServer() as redis:
            server = self.serve_file("log: {format: json, slow: 1us}\n"
                                     "limits: {a: fixed_window 5/1m}\n", "--store", redis.url)
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
        store = "memory:?max_bytes=1048576"
        server = self.serve_file(FILE, "--store", store)
        with Connection(server.address) as connection:
            # Keys that deny nobody are evicted. Those that deny leave no room.
            for limit in ("token_bucket 2/1h", "token_bucket 1/1h"):
                for i in range(0, 60_000, 1000):
                    connection.send(b"".join(command("SLUICE.CHECK", limit, key)
                                             for key in range(i, i + 1000)))
                    for _ in range(1000):
                        connection.read()
            self.assertRegex(connection.ask("INFO", "sluice"),
                             r"\r\nevicted_keys:[1-9]\d*\r\nwithout_room:[1-9]\d*\r\n")
        self.await_event(server, "store_full")
        self.assertIn(f"the store {store} is full: ", self.message(server, "store_full"))
        server.signal(signal.SIGUSR1)
        self.await_event(server, "no_snapshot_file")
        self.assertEqual(self.events(server.output()),
                         ["serving", "store_full", "no_snapshot_file"])

    def test_why_a_store_does_not_answer_at_the_start(self):
        port = free_port()
        server = self.enterContext(Server(
            "--store", f"redis://bob:{PASSWORD}@127.0.0.1:{port}/1"))
        server.await_output(f"sluice: the store redis://bob:***@127.0.0.1:{port}/1 is lost: "
                            f"cannot connect to 127.0.0.1:{port}: Connection refused")
        self.assertNotIn(PASSWORD, server.output())

    def test_a_url_that_is_meant_for_others_is_named(self):
        with RedisServer() as redis:
            for scheme, path, word in (("redis+cluster", "", "is no node of a cluster"),
                                       ("redis+sentinel", "/it", "is no sentinel"),
                                       ("rediss", "", "speaks without TLS")):
                url = f"{scheme}://127.0.0.1:{redis.port}{path}"

                def is_named():
                    with Server("--store", url) as server:
                        server.await_output(" is lost: ")
                        said = server.output()
                    if "completed the handshake" in said:  # Too slow. It names another in a minute.
                        return False
                    self.assertIn(word, said)
                    return True

                await_true(word, is_named)

    def test_which_deadline_a_late_store_needs(self):
        with RedisServer() as redis:
            server = self.enterContext(Server("--store", redis.url + "?deadline=20ms"))
            connection = self.enterContext(Connection(server.address))
            line = re.compile("answers later than the deadline of 20ms: after up to "
                              r"(?:(\d+)s)?(?:(\d+)ms)?; deadline=(?:(\d+)s)?(?:(\d+)ms)? "
                              "would be enough\n")

            def told():
                redis.signal(signal.SIGSTOP)
                connection.send(command("SLUICE.CHECK", "fixed_window 1000/1d", "a"))
                time.sleep(0.12)
                redis.signal(signal.SIGCONT)
                connection.read()
                return line.search(server.output())

            numbers = [int(number) for number in await_true("the line", told).groups(default=0)]
            late_ms, enough_ms = (1000 * numbers[i] + numbers[i + 1] for i in (0, 2))
            self.assertGreaterEqual(late_ms, 30)
            self.assertGreaterEqual(enough_ms, 2 * late_ms - 1)

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

    def serve_into(self, writer):
        """A server that logs into this pipe, and its address."""
        address = ("127.0.0.1", free_port())
        server = self.enterContext(Process(BINARY, "serve", "--resp", f"127.0.0.1:{address[1]}",
                                           stderr=writer))
        os.close(writer)
        return server, address

    def expect_reply(self, server, address):
        with Connection(address) as connection:
            server.signal(signal.SIGUSR1)  # The server has a line for it.
            self.assertEqual(connection.ask("PING"), "PONG")

    def test_a_reader_that_is_gone_does_not_end_the_server(self):
        reader, writer = os.pipe()
        server, address = self.serve_into(writer)
        self.assertIn(b"serving ", os.read(reader, 4096))
        os.close(reader)
        self.expect_reply(server, address)
        self.assertEqual(server.stop(), 0)

    def test_a_reader_that_reads_nothing_does_not_hold_the_server_up(self):
        """At its end the server waits for the log for some time. A signal that asks for a reload or
        a snapshot does not change the exit status then."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        os.set_blocking(writer, True)
        server, address = self.serve_into(writer)
        server.await_listening(address)
        self.expect_reply(server, address)
        server.signal(signal.SIGTERM)
        while server.running():
            server.signal(signal.SIGHUP)
            server.signal(signal.SIGUSR1)
            time.sleep(0.01)
        self.assertEqual(server.wait(), 0)

    def test_the_options_win_over_the_file(self):
        file = self.write_file("sluice.yaml", "log: {format: json, level: error}\n")
        with Server("--config", file, "--log-format", "text", "--log-level", "info") as server:
            server.await_output("sluice: serving ")
        with Server("--config", file, http=True) as server:
            server.signal(signal.SIGTERM)
            server.wait()
            self.assertEqual(server.output(), "")
