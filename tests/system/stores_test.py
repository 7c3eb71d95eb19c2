"""Stores on servers, end to end: `replay` decides as in memory, `serve` shares limits."""

import json
import os
import re
import signal
import subprocess

from harness import (BINARY, ROOT, SAMPLE, Connection, MemcachedServer, RedisServer, Server,
                     SystemTest, await_true, read_text, replay)

LIMITS = ("token_bucket 10/1m", "leaky_bucket 1/1s queue=5", "fixed_window 20/1m",
          "fixed_window 20/1m anchor=first", "sliding_log 20/1m", "sliding_window 60/1m",
          "sliding_counter 20/1m", "token_bucket 10/1m burst=20 & sliding_log 60/10m")
LIMIT = "fixed_window 5/1d anchor=first"
# Long enough for a busy machine.
PATIENT = "?deadline=5s&on_failure=raise"


class StoreOnServers:
    """The tests for each of them. `self.store_server` is the server."""

    def serve(self, options):
        server = self.enterContext(Server("--store", self.store_server.url + options))
        return self.enterContext(Connection(server.address))

    def setUp(self):
        self.store_server = self.enterContext(self.start())

    def decisions(self, store):
        return replay(LIMITS, SAMPLE, "--store", store, "--decisions", "-")

    def test_replay_decides_as_in_memory(self):
        in_memory = self.decisions("memory:")
        self.assertEqual(in_memory.count("\n"), 2000 * len(LIMITS))
        self.assertIn('"allowed":false', in_memory)
        # Compared as one text, so that a difference does not print pages.
        self.assertTrue(self.decisions(self.store_server.url) == in_memory, "the decisions differ")

    def test_two_servers_share_a_limit(self):
        one, other = self.serve(PATIENT), self.serve(PATIENT)
        for limit in (LIMIT, LIMIT + " & token_bucket 5/10d"):
            remaining = [server.ask("SLUICE.CHECK", limit, "a")[2] for server in (one, other) * 2]
            self.assertEqual(remaining, [4, 3, 2, 1])
            self.assertEqual(one.ask("SLUICE.CHECK", limit, "a", 2)[0], 0)
            self.assertEqual(other.ask("SLUICE.PEEK", limit, "a")[2], 1)
            other.ask("SLUICE.RESET", limit, "a")
            self.assertEqual(other.ask("SLUICE.CHECK", limit, "a")[2], 4)

    def test_a_server_answers_though_its_store_is_lost(self):
        connection = self.serve("")
        await_true("an answer", lambda: connection.ask("SLUICE.CHECK", LIMIT, "a", 0)[0] == 1)
        self.store_server.signal(signal.SIGKILL)
        self.store_server.wait()
        allowed = [connection.ask("SLUICE.CHECK", LIMIT, "b")[0] for _ in range(10)]
        self.assertEqual(allowed, [1] * 5 + [0] * 5)


class Redis(StoreOnServers, SystemTest):
    start = RedisServer

    def items(self):
        """How many keys it has."""
        return self.store_server.ask("DBSIZE")

    def test_replay_decides_as_in_memory(self):
        super().test_replay_decides_as_in_memory()
        self.assertEqual(self.items(), 0)

    def test_the_rights_in_the_documentation_are_enough(self):
        page = read_text(os.path.join(ROOT, "docs", "redis.md"))
        rule = re.search("^ACL SETUSER app on >password .*", page, re.MULTILINE)[0]
        self.assertEqual(self.store_server.ask(*rule.split()), "OK")
        url = self.store_server.url.replace("//", "//app:password@") + "/1" + PATIENT
        server = self.enterContext(Server("--store", url))
        permits, bucket = "concurrency 2 lease=1m", "token_bucket 5/1h & sliding_log 9/1h"
        with Connection(server.address) as connection:
            permit = connection.ask("SLUICE.ACQUIRE", permits, "k")[1]
            for words in (("SLUICE.RENEW", permits, "k", permit),
                          ("SLUICE.RELEASE", permits, "k", permit),
                          ("SLUICE.CHECK", bucket, "k"), ("SLUICE.TAKE", bucket, "k", 2),
                          ("SLUICE.CHARGE", bucket, "k", 1), ("SLUICE.REFUND", bucket, "k", 1),
                          ("SLUICE.BLOCK", bucket, "k", 1000), ("SLUICE.RESET", bucket, "k"),
                          ("SLUICE.CHECKALL", 2, bucket, "k", 1, "fixed_window 5/1h", "k", 1),
                          ("CL.THROTTLE", "k", 15, 30, 60), ("DEL", "k"),
                          ("INCREX", "k", "UBOUND", 5, "EX", 60, "ENX"), ("TIME",)):
                self.assertNotIsInstance(connection.ask(*words), Exception, words)
        further = re.search(r"`replay` needs\s+`(.*?)`", page)[1]
        self.store_server.ask("ACL", "SETUSER", "app", *further.split())
        replay([bucket], SAMPLE, "--store", url.split("?")[0])
        self.assertEqual(self.store_server.ask("ACL", "LOG"), [])
        for right in re.findall(r"\+(\w+)", further):
            self.assertIn(f"cmdstat_{right}:", self.store_server.ask("INFO", "commandstats"))

    def test_a_charge_that_the_store_did_not_get_is_made_when_it_is_back(self):
        connection = self.serve("?on_failure=local")
        self.assertEqual(connection.ask("SLUICE.CHECK", LIMIT, "a", 0)[0], 1)
        self.store_server.stop()
        self.assertRegex(str(connection.ask("SLUICE.CHARGE", LIMIT, "a", 2)), "^UNAVAILABLE")
        self.enterContext(RedisServer(port=self.store_server.port))
        # A peek writes nothing to Redis, but its answer tells the server that the store is back.
        await_true("the charge",
                   lambda: connection.ask("SLUICE.PEEK", LIMIT, "b") and self.items() == 1)
        self.assertEqual(connection.ask("SLUICE.PEEK", LIMIT, "a")[2], 3)

    def test_replay_writes_what_it_decided_before_the_store_was_lost(self):
        """It decides the first half of these requests once it has read all, and the others at the
        end of its input."""
        half = 50_000
        path = os.path.join(self.temporary_folder(), "decisions")
        with subprocess.Popen([BINARY, "replay", "--limit", "fixed_window 1/1d", "--store",
                               self.store_server.url, "--decisions", path],
                              stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
            program.stdin.write("time,key\n" + "".join(f"0,{i}\n" for i in range(2 * half)))
            program.stdin.flush()
            await_true("half of the keys", lambda: self.items() >= half)
            # Redis may send this answer before that to the last decisions, which it executed in
            # the same turn of its loop. Both are sent before it answers once more.
            self.items()
            self.store_server.signal(signal.SIGKILL)
            self.store_server.wait()
            program.stdin.close()
            self.assertEqual(program.wait(60), 1)
            self.assertIn(self.store_server.url.replace("redis://", ""), program.stderr.read())
        keys = [json.loads(line)["key"] for line in read_text(path).splitlines()]
        self.assertEqual(keys, [str(i) for i in range(half)])


class Memcached(StoreOnServers, SystemTest):
    start = MemcachedServer
