"""Each command of `sluice serve`, sent by redis-cli and over a raw socket."""

import os
import shlex

from harness import ROOT, Process, ServerTest, command, read_text, run

CHECK_FIELDS = 6


class Table(ServerTest):
    def test_readme(self):
        """README.md has one row for each command, with the words of the program."""
        docs = self.connect().ask("COMMAND", "DOCS")
        rows = []
        for name, fields in zip(docs[::2], docs[1::2]):
            fields = dict(zip(fields[::2], fields[1::2]))
            usage = f"{name.upper()} {fields['syntax']}".strip().replace("|", "\\|")
            rows.append(f"| `{usage}` | {fields['summary']} | {fields['reply']} |")
        text = read_text(os.path.join(ROOT, "README.md"))
        head = "| command | what it does | reply |\n|---|---|---|\n"
        self.assertEqual(text.count(head), 1)
        written = text.partition(head)[2].partition("\n\n")[0].splitlines()
        self.assertEqual(written, rows, "the rows should be:\n" + "\n".join(rows))


class RedisCli(ServerTest):
    def cli(self, *words):
        result = run("redis-cli", "-p", str(self.server.port), *words)
        self.assertEqual(result.stderr, "")
        return result.stdout.rstrip("\n")

    def test_replies(self):
        for words, reply in (
                (["PING"], "PONG"), (["PING", "hello"], "hello"), (["ECHO", "a b"], "a b"),
                (["SELECT", "0"], "OK"), (["CLIENT", "SETNAME", "me"], "OK"),
                (["CLIENT", "SETINFO", "LIB-NAME", "test"], "OK"), (["CLIENT", "GETNAME"], ""),
                (["QUIT"], "OK"),
                (["CL.THROTTLE", "cli", "15", "30", "60"], "0\n16\n15\n-1\n2"),
                (["-3", "CL.THROTTLE", "cli3", "15", "30", "60"], "0\n16\n15\n-1\n2"),
                (["SLUICE.CHECK", "token_bucket 2/1s burst=10", "cli"], "1\n10\n9\n0\n500\n0"),
                (["SLUICE.CHECK", "fixed_window 5/1h anchor=first", "cli", "6"],
                 "0\n5\n5\n-1\n0\n0"),
                (["SLUICE.CHECK", "leaky_bucket 1/1h queue=3", "cli"],
                 "1\n4\n3\n0\n3600000\n0"),
                (["-3", "SLUICE.CHECK", "sliding_log 5/1h", "cli3"],
                 "1\n5\n4\n0\n3600000\n0")):
            self.assertEqual(self.cli(*words), reply, words)
        for words, part in ((["CLIENT", "ID"], "^[1-9]"), (["INFO"], "[Ss]luice"),
                            (["COMMAND"], "^((?!ERR).)*$"),
                            (["COMMAND", "DOCS"], "^((?!ERR).)*$"),
                            (["HELLO"], "server.*sluice.*version"),
                            (["HELLO", "2"], "server.*sluice.*version"),
                            (["HELLO", "3"], "server.*sluice.*version"),
                            (["HELLO", "4"], "NOPROTO")):
            self.assertRegex(self.cli(*words), f"(?s){part}", words)

    def test_pipe(self):
        """All commands that `redis-cli --pipe` sends at once get replies, in its protocol."""
        result = run("redis-cli", "-p", str(self.server.port), "--pipe", text=False,
                     stdin=command("CL.THROTTLE", "piped", 99, 1, 3600) * 100)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"errors: 0, replies: 100", result.stdout)
        left = self.cli("CL.THROTTLE", "piped", "99", "1", "3600", "0").split("\n")
        self.assertEqual(left[:3], ["0", "100", "0"])

    def test_stat(self):
        """`redis-cli --stat` finds the fields of INFO that it prints."""
        with Process("stdbuf", "-oL", "redis-cli", "-p", str(self.server.port), "--stat", "-i",
                     "0.1") as stat:
            stat.await_output("\n", 3)
            line = stat.output().splitlines()[2]
        self.assertRegex(line, r"^\d+ +[1-9][\d.]*M +[1-9]\d* +0 +[1-9]\d* \(\+0\) +[1-9]\d* ")


class Sluice(ServerTest):
    def test_check_every_algorithm(self):
        connection = self.connect()
        for expression, limit in (("fixed_window 5/1h", 5), ("sliding_log 5/1h", 5),
                                  ("sliding_window 5/1h", 5), ("sliding_counter 5/1h", 5),
                                  ("token_bucket 1/1h burst=5", 5), ("gcra 1/1h burst=5", 5),
                                  ("leaky_bucket 1/1h queue=4", 5),
                                  ("sliding_log 9/1h & sliding_log 5/1m", 5)):
            for taken in range(1, limit + 1):
                reply = connection.ask("SLUICE.CHECK", expression, "every" + expression)
                self.assertEqual(len(reply), CHECK_FIELDS, expression)
                self.assertEqual(reply[:4], [1, limit, limit - taken, 0], expression)
            denied = connection.ask("SLUICE.CHECK", expression, "every" + expression)
            self.assertEqual(denied[:3], [0, limit, 0], expression)
            self.assertGreater(denied[3], 0, expression)

    def test_replies(self):
        connection = self.connect()
        for words, begin in (
                *[("SLUICE.PEEK 'sliding_log 5/1h' peek", [1, 5, 5, 0, 0, 0])] * 3,
                ("SLUICE.CHECK 'sliding_log 5/1h' peek 2", [1, 5, 3]),
                ("SLUICE.PEEK 'sliding_log 5/1h' peek", [1, 5, 3, 0]),
                ("SLUICE.CHECK 'sliding_log 5/1h' reset 5", [1, 5, 0]),
                ("SLUICE.RESET 'sliding_log 5/1h' reset", "OK"),
                ("SLUICE.PEEK 'sliding_log 5/1h' reset", [1, 5, 5, 0, 0, 0]),
                ("SLUICE.CHECK 'sliding_log 5/1h' cost 3", [1, 5, 2]),
                ("SLUICE.CHECK 'sliding_log 5/1h' cost 3", [0, 5, 2]),
                ("SLUICE.CHECK 'sliding_log 5/1h' cost 6", [0, 5, 2, -1]),
                ("SLUICE.CHECK 'sliding_log 5/1h' cost 0", [1, 5, 2]),
                ("SLUICE.TAKE 'sliding_log 5/1h' units", [1, 5, 4, 0, None, 0, 1]),
                ("SLUICE.TAKE 'sliding_log 5/1h' units 9", [1, 5, 0, None, None, None, 4]),
                ("SLUICE.TAKE 'sliding_log 5/1h' units 9", [0, 5, 0, None, None, None, 0]),
                ("SLUICE.REFUND 'sliding_log 5/1h' units 2", [1, 5, 2]),
                ("SLUICE.CHARGE 'sliding_log 5/1h' units 4", [1, 5, 0]),
                ("SLUICE.CHECK 'sliding_log 5/1h' units", [0]),
                ("SLUICE.BLOCK 'sliding_log 5/1h' block 60000", [1, 5, 0]),
                ("SLUICE.CHECK 'sliding_log 5/1h' block", [0, 5, 0]),
                ("SLUICE.RESET 'sliding_log 5/1h' block", "OK"),
                ("SLUICE.CHECK 'sliding_log 5/1h' block", [1, 5, 4]),
                ("SLUICE.BLOCK 'sliding_log 5/1h' block 60000", [1, 5, 0]),
                ("SLUICE.CHECK 'leaky_bucket 1/1h queue=4' delay", [1, 5, 4, 0, None, 0]),
                ("CL.THROTTLE rl 4 1 3600 2", [0, 5, 3, -1]),
                ("RL.THROTTLE rl 4 1 3600", [0, 5, 2, -1]),
                ("RL.THROTTLE other 4 1 3600", [0, 5, 4, -1, 3600]),
                ("THROTTLE other 5 1 3600", [1, 5, 3]),
                ("INCREX other UBOUND +5 EX 3600 ENX BYINT 3", [3, 3]),
                ("INCREX other UBOUND +5 EX 3600 ENX BYINT 3", [3, 0]),
                ("INCREX other UBOUND +5 EX 3600 ENX BYINT 3 SATURATE", [5, 2]),
                ("DEL other never-seen", 1), ("DEL other", 0)):
            reply = connection.ask(*shlex.split(words))
            if isinstance(begin, list):
                reply = [None if wanted is None else value for value, wanted in zip(reply, begin)]
            self.assertEqual(reply, begin, words)
        blocked = connection.ask("SLUICE.CHECK", "sliding_log 5/1h", "block")
        self.assertAlmostEqual(blocked[3], 60_000, delta=20_000)
        delayed = connection.ask("SLUICE.CHECK", "leaky_bucket 1/1h queue=4", "delay")
        self.assertAlmostEqual(delayed[5], 3600000, delta=20000)

    def test_check_all(self):
        connection = self.connect()
        words = ("SLUICE.CHECKALL", 2, "sliding_log 9/1h", "all", 2, "sliding_log 3/1h", "all", 1)
        binding, whole, *parts = connection.ask(*words)
        self.assertEqual((binding, whole[:4]), (1, [1, 3, 2, 0]))
        self.assertEqual([part[:4] for part in parts], [[1, 9, 7, 0], [1, 3, 2, 0]])
        for _ in range(2):
            self.assertEqual(connection.ask(*words)[1][0], 1)
        binding, whole, *parts = connection.ask(*words)
        self.assertEqual((binding, whole[:3]), (1, [0, 3, 0]))
        self.assertEqual([part[:3] for part in parts], [[1, 9, 3], [0, 3, 0]])

    def test_errors(self):
        connection = self.connect()
        for words in (["SLUICE.CHECK"], ["SLUICE.CHECK", "sliding_log 5/1h"],
                      ["SLUICE.CHECK", "sliding_log 5/1h", "k", "1", "1"], ["SLUICE.PEEK"],
                      ["SLUICE.CHECK", "sliding_log 5/1h", "k", "x"],
                      ["SLUICE.CHECK", "sliding_log 5/1h", "k", "-1"],
                      ["SLUICE.CHECK", "sliding_log 5/0s", "k"], ["SLUICE.CHECK", "nonsense", "k"],
                      ["SLUICE.CHECK", "", "k"], ["SLUICE.RESET", "unnamed", "k"]):
            error = connection.ask(*words)
            self.assertIsInstance(error, Exception, words)
            self.assertRegex(str(error), r"^ERR \S", words)
        self.assertIn("10parsecs", str(connection.ask("SLUICE.CHECK", "sliding_log 5/10parsecs",
                                                      "k")))
        self.assertEqual(connection.ask("PING"), "PONG")

    def test_inline(self):
        connection = self.connect()
        connection.send(b"PING\r\nping\n  ECHO  'a b'  \r\nECHO \"\\x41\\n\"\r\n\r\n")
        self.assertEqual([connection.read() for _ in range(4)], ["PONG", "PONG", "a b", "A\n"])
        connection.send(b"CL.THROTTLE inline 15 30 60\r\n")
        self.assertEqual(connection.read(), [0, 16, 15, -1, 2])
        connection.send(b"SLUICE.CHECK 'sliding_log 5/1h' inline\r\n")
        self.assertEqual(connection.read()[:4], [1, 5, 4, 0])

    def test_hello_changes_the_protocol(self):
        connection = self.connect()
        self.assertIsInstance(connection.ask("HELLO", 2), list)
        hello = connection.ask("HELLO", 3)
        self.assertIsInstance(hello, dict)
        self.assertEqual((hello["server"], hello["proto"]), ("sluice", 3))
        self.assertEqual(connection.ask("CLIENT", "GETNAME"), None)

    def test_clients_are_listed_with_their_addresses(self):
        connection = self.connect()
        port = connection.socket.getsockname()[1]
        self.assertIn(f" addr=127.0.0.1:{port} ", connection.ask("CLIENT", "LIST"))

    def test_names_belong_to_connections(self):
        first, second = self.connect(), self.connect()
        self.assertEqual(first.ask("CLIENT", "SETNAME", "first"), "OK")
        self.assertEqual(first.ask("CLIENT", "GETNAME"), "first")
        self.assertFalse(second.ask("CLIENT", "GETNAME"))
        self.assertNotEqual(first.ask("CLIENT", "ID"), second.ask("CLIENT", "ID"))

    def test_pipeline_keeps_order(self):
        connection = self.connect()
        connection.send(b"".join(
            command("ECHO", i) + command("CL.THROTTLE", "order", 4999, 1, 3600) +
            command("SLUICE.PEEK", "sliding_log 5/1h", i) for i in range(1000)))
        for i in range(1000):
            self.assertEqual(connection.read(), str(i))
            self.assertEqual(connection.read()[2], 4999 - i)
            self.assertEqual(connection.read()[:3], [1, 5, 5])
