"""Each command of `sluice serve`, sent by redis-cli and over a raw socket."""

import os
import unittest

from harness import ROOT, ServerTest, command, read_text, run

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

    def expect(self, words, *lines):
        self.assertEqual(self.cli(*words).split("\n"), list(lines), words)

    def test_connection_commands(self):
        self.expect(["PING"], "PONG")
        self.expect(["PING", "hello"], "hello")
        self.expect(["ECHO", "a b"], "a b")
        self.expect(["SELECT", "0"], "OK")
        self.expect(["CLIENT", "SETNAME", "me"], "OK")
        self.expect(["CLIENT", "SETINFO", "LIB-NAME", "test"], "OK")
        self.expect(["CLIENT", "GETNAME"], "")
        self.assertGreater(int(self.cli("CLIENT", "ID")), 0)
        self.expect(["QUIT"], "OK")

    def test_pipe(self):
        """All commands that `redis-cli --pipe` sends at once get replies, in its protocol."""
        result = run("redis-cli", "-p", str(self.server.port), "--pipe", text=False,
                     stdin=command("CL.THROTTLE", "piped", 99, 1, 3600) * 100)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"errors: 0, replies: 100", result.stdout)
        left = self.cli("CL.THROTTLE", "piped", "99", "1", "3600", "0").split("\n")
        self.assertEqual(left[:3], ["0", "100", "0"])

    def test_hello(self):
        for words in (["HELLO"], ["HELLO", "2"], ["HELLO", "3"]):
            answer = self.cli(*words)
            self.assertIn("server", answer)
            self.assertIn("sluice", answer)
            self.assertIn("version", answer)
        self.assertIn("NOPROTO", self.cli("HELLO", "4"))

    def test_info_and_command(self):
        self.assertIn("sluice", self.cli("INFO").lower())
        self.assertNotIn("ERR", self.cli("COMMAND"))
        self.assertNotIn("ERR", self.cli("COMMAND", "DOCS"))

    def test_throttle(self):
        self.expect(["CL.THROTTLE", "cli", "15", "30", "60"], "0", "16", "15", "-1", "2")
        self.expect(["-3", "CL.THROTTLE", "cli3", "15", "30", "60"], "0", "16", "15", "-1", "2")

    def test_check(self):
        words = ["SLUICE.CHECK", "token_bucket 2/1s burst=10", "cli"]
        self.expect(words, "1", "10", "9", "0", "500", "0")
        self.expect(["SLUICE.CHECK", "fixed_window 5/1h anchor=first", "cli", "6"],
                    "0", "5", "5", "-1", "0", "0")
        self.expect(["SLUICE.CHECK", "leaky_bucket 1/1h queue=3", "cli"],
                    "1", "4", "3", "0", "3600000", "0")

    def test_resp3_check(self):
        self.expect(["-3", "SLUICE.CHECK", "sliding_log 5/1h", "cli3"],
                    "1", "5", "4", "0", "3600000", "0")


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

    def test_peek_charges_nothing(self):
        connection = self.connect()
        words = ("sliding_log 5/1h", "peek")
        for _ in range(3):
            self.assertEqual(connection.ask("SLUICE.PEEK", *words), [1, 5, 5, 0, 0, 0])
        connection.ask("SLUICE.CHECK", *words, 2)
        self.assertEqual(connection.ask("SLUICE.PEEK", *words)[:4], [1, 5, 3, 0])

    def test_reset_forgets(self):
        connection = self.connect()
        words = ("sliding_log 5/1h", "reset")
        connection.ask("SLUICE.CHECK", *words, 5)
        self.assertNotIsInstance(connection.ask("SLUICE.RESET", *words), Exception)
        self.assertEqual(connection.ask("SLUICE.PEEK", *words), [1, 5, 5, 0, 0, 0])

    def test_cost(self):
        connection = self.connect()
        words = ("sliding_log 5/1h", "cost")
        self.assertEqual(connection.ask("SLUICE.CHECK", *words, 3)[:3], [1, 5, 2])
        self.assertEqual(connection.ask("SLUICE.CHECK", *words, 3)[:3], [0, 5, 2])
        self.assertEqual(connection.ask("SLUICE.CHECK", *words, 6)[3], -1)
        self.assertEqual(connection.ask("SLUICE.CHECK", *words, 0)[:3], [1, 5, 2])

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

    def test_commands_of_other_limiters(self):
        connection = self.connect()
        self.assertEqual(connection.ask("RL.THROTTLE", "other", 4, 1, 3600),
                         [0, 5, 4, -1, 3600])
        self.assertEqual(connection.ask("THROTTLE", "other", 5, 1, 3600)[:3], [1, 5, 3])
        words = ("INCREX", "other", "UBOUND", "+5", "EX", 3600, "ENX", "BYINT", 3)
        self.assertEqual(connection.ask(*words), [3, 3])
        self.assertEqual(connection.ask(*words), [3, 0])
        self.assertEqual(connection.ask(*words, "SATURATE"), [5, 2])
        self.assertEqual(connection.ask("DEL", "other", "never-seen"), 1)
        self.assertEqual(connection.ask("DEL", "other"), 0)

    def test_units(self):
        connection = self.connect()
        words = ("sliding_log 5/1h", "units")
        self.assertEqual(connection.ask("SLUICE.TAKE", *words, 9)[6], 5)
        self.assertEqual(connection.ask("SLUICE.REFUND", *words, 2)[:3], [1, 5, 2])
        self.assertEqual(connection.ask("SLUICE.CHARGE", *words, 4)[:3], [1, 5, 0])
        self.assertEqual(connection.ask("SLUICE.BLOCK", *words, 60000)[:3], [1, 5, 0])
        self.assertEqual(connection.ask("SLUICE.CHECK", *words)[0], 0)

    def test_leaky_bucket_delays(self):
        connection = self.connect()
        words = ("leaky_bucket 1/1h queue=4", "delay")
        self.assertEqual(connection.ask("SLUICE.CHECK", *words)[5], 0)
        self.assertAlmostEqual(connection.ask("SLUICE.CHECK", *words)[5], 3600000, delta=20000)

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
        self.assertEqual(connection.ask("PING"), "PONG")

    def test_error_points_at_the_character(self):
        error = str(self.connect().ask("SLUICE.CHECK", "sliding_log 5/10parsecs", "k"))
        self.assertIn("10parsecs", error)

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


if __name__ == "__main__":
    unittest.main()
