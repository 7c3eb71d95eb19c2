"""CL.THROTTLE on the wire: five integers, exactly."""

import threading

from harness import Connection, Server, ServerTest, SystemTest, command

LONGEST = 2**63 - 1
# What the numbers of a command are, if they are these.
NAMES = ("max_burst", "count", "period", "quantity")
NO_NUMBERS = ("x", "", "1.5", " 1", "+", str(2**63), "0x10")


class Throttle(ServerTest):
    def test_replies(self):
        """Each reply begins with these values; time may have passed since the last command."""
        connection = self.connect()
        for words, begin in (
                # A quantity.
                (("quantity", 9, 1, 3600, 4), [0, 10, 6, -1, 4 * 3600]),
                (("quantity", 9, 1, 3600, 6), [0, 10, 0, -1, range(35_940, 36_001)]),
                (("quantity", 9, 1, 3600, 2), [1, 10, 0, range(7140, 7201)]),
                # Zero is a peek.
                (("peek", 4, 1, 3600, 0), [0, 5, 5, -1, 0]),
                (("peek", 4, 1, 3600, 2), [0, 5, 3]),
                *[(("peek", 4, 1, 3600, 0), [0, 5, 3, -1])] * 2,
                # More than the limit never passes.
                (("never", 4, 1, 3600, 6), [1, 5, 5, -1, 0]),
                (("never", 4, 1, 3600, LONGEST), [1, 5, 5, -1, 0]),
                # Less than zero is a refund.
                (("back", 4, 1, 3600, 5), [0, 5, 0]),
                (("back", 4, 1, 3600, -2), [0, 5, 2]),
                (("back", 4, 1, 3600, -LONGEST - 1), [0, 5, 5]),
                (("back", 4, 1, 3600, -1), [0, 5, 5, -1, 0]),
                # The limit may change.
                (("change", 9, 1, 10, 10), [0, 10, 0]), (("change", 19, 1, 10, 0), [0, 20, 10]),
                (("change", 4, 1, 10, 1), [1, 5, 0]),
                # Keys are bytes.
                *(((key, 4, 1, 3600), [0, 5, 4]) for key in (b"", b"\r\n", b"\x00\xff", b"a b"))):
            reply = connection.ask("CL.THROTTLE", *words)
            for value, wanted in zip(reply, begin):
                self.assertIn(value, wanted if isinstance(wanted, range) else [wanted], words)
        self.assertEqual(connection.ask("cl.Throttle", "case", 4, 1, 3600)[:3], [0, 5, 4])

    def test_a_pipeline(self):
        connection = self.connect()
        connection.send(command("CL.THROTTLE", "pipeline", 15, 30, 60) * 17)
        for taken in range(1, 17):
            self.assertEqual(connection.read(), [0, 16, 16 - taken, -1, 2 * taken])
        self.assertEqual(connection.read(), [1, 16, 0, 2, 32])

    def test_errors(self):
        """An error names what is wrong, and changes nothing."""
        connection = self.connect()
        connection.ask("CL.THROTTLE", "key", 4, 1, 3600)
        wrong = [(["key", *[1] * place, bad, *[1] * (2 - place)], name)
                 for place, name in enumerate(NAMES) for bad in NO_NUMBERS]
        for words, named in (
                *wrong, ([], "wrong number of arguments"),
                (["key", 1, 1], "wrong number of arguments"),
                (["key", 1, 1, 1, 1, 1], "wrong number of arguments"),
                (["key", -1, 1, 1], "max_burst"), (["key", 1, 0, 1], "count"),
                (["key", 1, 1, 0], "period"), (["key", LONGEST, 1, LONGEST], ""),
                (["key", 4, 0, 3600], "count")):
            error = connection.ask("CL.THROTTLE", *words)
            self.assertIsInstance(error, Exception, words)
            self.assertRegex(str(error), f"^ERR .*{named}", words)
        self.assertEqual(connection.ask("CL.THROTTLE", "key", 4, 1, 3600, 0)[:3], [0, 5, 4])

    def test_many_expressions(self):
        """A client that never repeats its numbers neither fills the server nor disturbs others."""
        connection = self.connect()
        connection.ask("CL.THROTTLE", "steady", 9, 1, 3600)
        total, batch = 20000, 100
        for start in range(1, total, batch):
            connection.send(b"".join(command("CL.THROTTLE", "many", 10**6 + start + i, 1, 60)
                                     for i in range(batch)))
            for i in range(batch):
                reply = connection.read()
                self.assertIsInstance(reply, list, f"CL.THROTTLE {start + i}: {reply}")
                self.assertEqual(reply[0], 0)
            connection.send(b"".join(command("SLUICE.CHECK", f"fixed_window {start + i}/1h", "k")
                                     for i in range(batch)))
            for i in range(batch):
                reply = connection.read()
                self.assertIsInstance(reply, list, f"SLUICE.CHECK {start + i}: {reply}")
        other = self.connect()
        self.assertEqual(other.ask("SLUICE.CHECK", "fixed_window 7/1h", "new")[:3], [1, 7, 6])
        self.assertEqual(other.ask("CL.THROTTLE", "new", 6, 1, 3600)[:3], [0, 7, 6])
        self.assertEqual(connection.ask("CL.THROTTLE", "steady", 9, 1, 3600, 0)[:3], [0, 10, 9])
        self.assertLess(self.server.resident_kib(), 300 * 1024)


class Race(SystemTest):
    def test_two_connections_on_one_key(self):
        """Admissions through two connections at once are exactly the limit."""
        limit, each = 1000, 2000
        with Server("--threads", "2") as server:
            admitted = [0, 0]
            start = threading.Barrier(2)

            def take(index):
                with Connection(server.address) as connection:
                    start.wait()
                    for _ in range(each // 20):
                        connection.send(command("CL.THROTTLE", "race", limit - 1, 1, 3600) * 20)
                        admitted[index] += sum(connection.read()[0] == 0 for _ in range(20))

            threads = [threading.Thread(target=take, args=(index,)) for index in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(sum(admitted), limit)
