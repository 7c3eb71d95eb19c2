"""Recipe 1: a counter for each sub-window in Memcached; get them all, add up, increment one."""


from harness import MemcachedServer, open_socket
from recipes.recipe import FULL_HOUR_MS, RecipeTest, check

LIMIT = 5
WINDOW_S = 10
SUB_WINDOWS = 10


class Memcached:
    """The commands that the recipe needs."""

    def __init__(self, address):
        self._socket = open_socket(address)
        self._lines = self._socket.makefile("rb")

    def close(self):
        self._lines.close()
        self._socket.close()

    def ask(self, line):
        """Returns the lines of the reply, up to the last one."""
        self._socket.sendall(line.encode() + b"\r\n")
        lines = [self._lines.readline().decode().rstrip()]
        while lines[-1].startswith("VALUE"):
            lines += [self._lines.readline().decode().rstrip() for _ in range(2)]
        return lines

    def get_multi(self, keys):
        lines = self.ask("get " + " ".join(keys))
        return [int(value) for value in lines[1::2]]

    def increment(self, key, expiry_s):
        """Adds 1, or starts at 1; by the meta protocol, since the classic `incr` cannot start a
        counter."""
        return self.ask(f"ma {key} N{expiry_s} J1 D1")


class Attempt:
    """The recipe, in the two steps between which others can act: add up, then increment."""

    def __init__(self, memcached, now_ms, window_s=WINDOW_S, caller="caller"):
        self.memcached = memcached
        self.window_s = window_s
        precision_ms = window_s * 1000 // SUB_WINDOWS
        newest = now_ms // precision_ms
        self.keys = [f"resource:{caller}:{newest - i}" for i in range(SUB_WINDOWS)]

    def look(self):
        self.sum = sum(self.memcached.get_multi(self.keys))
        return self

    def count(self):
        if self.sum >= LIMIT:
            return False
        self.memcached.increment(self.keys[0], self.window_s)
        return True


class MemcachedWindow(RecipeTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.memcached_server = cls.enterClassContext(MemcachedServer())
        # Both keep their states on the same server.
        cls.store = cls.memcached_server.url + "?deadline=5s"

    def setUp(self):
        super().setUp()
        self.memcached = Memcached(self.memcached_server.address)
        self.addCleanup(self.memcached.close)
        self.memcached.ask("flush_all")

    def admits(self, instants_ms, **options):
        return sum(Attempt(self.memcached, ms, **options).look().count() for ms in instants_ms)

    def test_callers_at_once(self):
        """Ten callers add up before the first has incremented."""
        attempts = [Attempt(self.memcached, FULL_HOUR_MS).look() for _ in range(10)]
        self.assertEqual(sum(attempt.count() for attempt in attempts), 10)

        callers = self.sluice_connections(10)
        self.assertEqual(sum(check(caller, "sliding_window 5/1h") for caller in callers), LIMIT)

    def test_twice_the_limit_within_the_window(self):
        """Ten sub-windows of 1 s: requests at the end of the first are forgotten after 9 s."""
        load = [FULL_HOUR_MS + 999] * LIMIT + [FULL_HOUR_MS + 10_000] * LIMIT
        self.assertEqual(self.admits(load), 2 * LIMIT)

        self.assertEqual(self.sluice_admits("sliding_window 5/10s precision=1s", load), LIMIT)

    def test_more_than_thirty_days_is_a_date(self):
        """An expiry of 31 days is a date in 1970: each counter expires at once, and there is no
        limit."""
        load = [FULL_HOUR_MS] * 100
        self.assertEqual(self.admits(load, window_s=31 * 86_400), 100)

        self.assertEqual(self.sluice_admits("sliding_window 5/31d", load), LIMIT)

    def test_long_keys_have_no_limit(self):
        """A key of more than 250 bytes is an error, which is mistaken for a missing counter."""
        caller = "c" * 300
        self.assertRegex(self.memcached.ask(f"get {caller}")[0], "^CLIENT_ERROR")
        self.assertEqual(self.admits([FULL_HOUR_MS] * 100, caller=caller), 100)

        connection = self.sluice_connections(1)[0]
        admitted = sum(check(connection, "sliding_window 5/1h", caller) for _ in range(100))
        self.assertEqual(admitted, LIMIT)

    def test_the_classic_increment_has_no_beginning(self):
        self.assertEqual(self.memcached.ask("incr resource:caller:0 1"), ["NOT_FOUND"])
