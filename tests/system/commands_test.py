"""The commands of `sluice serve`: the table in README.md, redis-cli, many clients and limits."""

import os
import threading

from harness import (ROOT, Connection, Process, Server, ServerTest, command, output_of,
                     read_text)


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
    def test_replies(self):
        for words, reply in (
                (["PING"], "PONG"), (["ECHO", "a b"], "a b"), (["SELECT", "0"], "OK"),
                (["CL.THROTTLE", "cli", "15", "30", "60"], "0\n16\n15\n-1\n2"),
                (["-3", "CL.THROTTLE", "cli3", "15", "30", "60"], "0\n16\n15\n-1\n2"),
                (["SLUICE.CHECK", "token_bucket 2/1s burst=10", "cli"], "1\n10\n9\n0\n500\n0"),
                (["SLUICE.CHECK", "fixed_window 5/1h anchor=first", "cli", "6"],
                 "0\n5\n5\n-1\n0\n0"),
                (["-3", "SLUICE.CHECK", "sliding_log 5/1h", "cli3"],
                 "1\n5\n4\n0\n3600000\n0")):
            said = output_of("redis-cli", "-p", str(self.server.port), *words)
            self.assertEqual(said.rstrip("\n"), reply, words)

    def test_pipe(self):
        """All commands that `redis-cli --pipe` sends at once get replies, in its protocol."""
        said = output_of("redis-cli", "-p", str(self.server.port), "--pipe", text=False,
                         stdin=command("CL.THROTTLE", "piped", 99, 1, 3600) * 100)
        self.assertIn(b"errors: 0, replies: 100", said)
        left = self.connect().ask("CL.THROTTLE", "piped", 99, 1, 3600, 0)
        self.assertEqual(left[:3], [0, 100, 0])

    def test_stat(self):
        """`redis-cli --stat` finds the fields of INFO that it prints."""
        with Process("stdbuf", "-oL", "redis-cli", "-p", str(self.server.port), "--stat", "-i",
                     "0.1") as stat:
            stat.await_output("\n", 3)
            line = stat.output().splitlines()[2]
        self.assertRegex(line, r"^\d+ +[1-9][\d.]*M +[1-9]\d* +0 +[1-9]\d* \(\+0\) +[1-9]\d* ")


class Clients(ServerTest):
    def test_every_algorithm(self):
        connection = self.connect()
        for expression in ("fixed_window 5/1h", "sliding_log 5/1h", "sliding_window 5/1h",
                           "sliding_counter 5/1h", "token_bucket 1/1h burst=5",
                           "gcra 1/1h burst=5", "leaky_bucket 1/1h queue=4",
                           "sliding_log 9/1h & sliding_log 5/1m"):
            for remaining in range(4, -1, -1):
                reply = connection.ask("SLUICE.CHECK", expression, "every" + expression)
                self.assertEqual((len(reply), reply[:4]), (6, [1, 5, remaining, 0]), expression)
            denied = connection.ask("SLUICE.CHECK", expression, "every" + expression)
            self.assertEqual(denied[:3], [0, 5, 0], expression)
            self.assertGreater(denied[3], 0, expression)

    def test_a_pipeline_keeps_its_order(self):
        connection = self.connect()
        connection.send(b"".join(
            command("ECHO", i) + command("CL.THROTTLE", "order", 4999, 1, 3600) +
            command("SLUICE.PEEK", "sliding_log 5/1h", i) for i in range(1000)))
        for i in range(1000):
            self.assertEqual(connection.read(), str(i))
            self.assertEqual(connection.read()[2], 4999 - i)
            self.assertEqual(connection.read()[:3], [1, 5, 5])

    def test_two_at_once_admit_exactly_the_limit(self):
        server = self.enterContext(Server("--threads", "2"))
        admitted = [0, 0]
        start = threading.Barrier(2)

        def take(index):
            with Connection(server.address) as connection:
                start.wait()
                for _ in range(100):
                    connection.send(command("CL.THROTTLE", "race", 999, 1, 3600) * 20)
                    admitted[index] += sum(connection.read()[0] == 0 for _ in range(20))

        threads = [threading.Thread(target=take, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sum(admitted), 1000)

    def test_names_belong_to_connections(self):
        first, second = self.connect(), self.connect()
        self.assertEqual(first.ask("CLIENT", "SETNAME", "first"), "OK")
        self.assertEqual(first.ask("CLIENT", "GETNAME"), "first")
        self.assertFalse(second.ask("CLIENT", "GETNAME"))
        self.assertNotEqual(first.ask("CLIENT", "ID"), second.ask("CLIENT", "ID"))

    def test_clients_are_listed_with_their_addresses(self):
        connection = self.connect()
        port = connection.socket.getsockname()[1]
        self.assertIn(f" addr=127.0.0.1:{port} ", connection.ask("CLIENT", "LIST"))

    def test_many_expressions(self):
        """A client that never repeats its numbers neither fills the server nor disturbs others."""
        connection = self.connect()
        connection.ask("CL.THROTTLE", "steady", 9, 1, 3600)
        for start in range(1, 20_000, 100):
            numbers = range(start, start + 100)
            for admitted, commands in (
                    (0, [command("CL.THROTTLE", "many", 10**6 + n, 1, 60) for n in numbers]),
                    (1, [command("SLUICE.CHECK", f"fixed_window {n}/1h", "k") for n in numbers])):
                connection.send(b"".join(commands))
                for sent in commands:
                    reply = connection.read()
                    self.assertIsInstance(reply, list, (sent, reply))
                    self.assertEqual(reply[0], admitted, sent)
        other = self.connect()
        self.assertEqual(other.ask("SLUICE.CHECK", "fixed_window 7/1h", "new")[:3], [1, 7, 6])
        self.assertEqual(other.ask("CL.THROTTLE", "new", 6, 1, 3600)[:3], [0, 7, 6])
        self.assertEqual(connection.ask("CL.THROTTLE", "steady", 9, 1, 3600, 0)[:3], [0, 10, 9])
        self.assertLess(self.server.resident_kib(), 300 * 1024)
