"""CL.THROTTLE on the wire: five integers, exactly."""

import threading
import unittest

from harness import Connection, Server, ServerTest, SystemTest, command

# Seconds in replies are rounded up, so a second may pass between two requests of one test.
LONGEST = 2**63 - 1


class Throttle(ServerTest):
    def throttle(self, *words):
        return self.connect().ask("CL.THROTTLE", *words)

    def expect_error(self, words, *named):
        error = self.throttle(*words)
        self.assertIsInstance(error, Exception, error)
        self.assertTrue(str(error).startswith("ERR "), error)
        for name in named:
            self.assertIn(name, str(error))

    def test_sixteen_then_the_seventeenth(self):
        connection = self.connect()
        connection.send(command("CL.THROTTLE", "user", 15, 30, 60) * 17)
        for taken in range(1, 17):
            self.assertEqual(connection.read(), [0, 16, 16 - taken, -1, 2 * taken])
        self.assertEqual(connection.read(), [1, 16, 0, 2, 32])

    def test_quantity(self):
        self.assertEqual(self.throttle("quantity", 9, 1, 3600, 4), [0, 10, 6, -1, 4 * 3600])
        full = self.throttle("quantity", 9, 1, 3600, 6)
        self.assertEqual(full[:4], [0, 10, 0, -1])
        self.assertIn(full[4], (35999, 36000))
        denied = self.throttle("quantity", 9, 1, 3600, 2)
        self.assertEqual(denied[:3], [1, 10, 0])
        self.assertIn(denied[3], (7199, 7200))

    def test_quantity_zero_is_a_peek(self):
        self.assertEqual(self.throttle("peek", 4, 1, 3600, 0), [0, 5, 5, -1, 0])
        self.throttle("peek", 4, 1, 3600, 2)
        for _ in range(2):
            self.assertEqual(self.throttle("peek", 4, 1, 3600, 0)[:4], [0, 5, 3, -1])

    def test_quantity_above_the_limit_never_passes(self):
        for quantity in (6, LONGEST):
            self.assertEqual(self.throttle("never", 4, 1, 3600, quantity), [1, 5, 5, -1, 0])

    def test_a_negative_quantity_refunds(self):
        self.throttle("back", 4, 1, 3600, 5)
        self.assertEqual(self.throttle("back", 4, 1, 3600, -2)[:3], [0, 5, 2])
        self.assertEqual(self.throttle("back", 4, 1, 3600, -LONGEST - 1)[:3], [0, 5, 5])
        self.assertEqual(self.throttle("back", 4, 1, 3600, -1), [0, 5, 5, -1, 0])

    def test_the_limit_may_change(self):
        self.throttle("change", 9, 1, 10, 10)
        wider = self.throttle("change", 19, 1, 10, 0)
        self.assertEqual(wider[:3], [0, 20, 10])
        narrower = self.throttle("change", 4, 1, 10, 1)
        self.assertEqual(narrower[:3], [1, 5, 0])

    def test_case_of_the_name(self):
        self.assertEqual(self.connect().ask("cl.Throttle", "case", 4, 1, 3600)[:3], [0, 5, 4])

    def test_keys_are_bytes(self):
        connection = self.connect()
        for key in (b"", b"\r\n", b"\x00\xff", b"a b"):
            self.assertEqual(connection.ask("CL.THROTTLE", key, 4, 1, 3600)[:3], [0, 5, 4], key)

    def test_errors(self):
        self.expect_error([], "wrong number of arguments")
        self.expect_error(["key", 1, 1], "wrong number of arguments")
        self.expect_error(["key", 1, 1, 1, 1, 1], "wrong number of arguments")
        for bad in ("x", "", "1.5", " 1", "+", str(2**63), "0x10"):
            self.expect_error(["key", bad, 1, 1], "max_burst")
            self.expect_error(["key", 1, bad, 1], "count")
            self.expect_error(["key", 1, 1, bad], "period")
            self.expect_error(["key", 1, 1, 1, bad], "quantity")
        self.expect_error(["key", -1, 1, 1], "max_burst")
        self.expect_error(["key", 1, 0, 1], "count")
        self.expect_error(["key", 1, 1, 0], "period")
        self.expect_error(["key", LONGEST, 1, LONGEST])

    def test_an_error_changes_nothing(self):
        connection = self.connect()
        connection.ask("CL.THROTTLE", "kept", 4, 1, 3600)
        self.assertIsInstance(connection.ask("CL.THROTTLE", "kept", 4, 0, 3600), Exception)
        self.assertEqual(connection.ask("CL.THROTTLE", "kept", 4, 1, 3600, 0)[:3], [0, 5, 4])

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


if __name__ == "__main__":
    unittest.main()
