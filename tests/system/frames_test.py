"""Malformed and oversized frames: the same bytes as redis-server answers, where it answers."""


from harness import RedisServer, ServerTest, command, exchange

KIB = 1024
AFTER = command("ECHO", "after")

# Frames that redis-server refuses or ignores; Sluice answers each with the same bytes.
FRAMES = {
    "count is a word": b"*abc\r\n",
    "count is empty": b"*\r\n",
    "count is huge": b"*2147483648\r\n",
    "count is beyond 64 bits": b"*99999999999999999999\r\n",
    "count has a sign": b"*+1\r\n",
    "no dollar": b"*1\r\n:5\r\n",
    "inline where a bulk should be": b"*2\r\n$4\r\nECHO\r\nhello\r\n",
    "bulk length is a word": b"*1\r\n$abc\r\n",
    "bulk length is negative": b"*1\r\n$-1\r\n",
    "bulk length is empty": b"*1\r\n$\r\n",
    "bulk length is huge": b"*1\r\n$536870913\r\n",
    "empty arrays and lines are nothing": b"*0\r\n*-1\r\n*-5\r\n\r\n\n",
    "an empty bulk is an unknown command": b"*1\r\n$0\r\n\r\n",
    "unknown command": command("NOSUCH"),
    "unknown command with arguments": command("NOSUCH", "a", "b c"),
    "unknown command, long": command("N" * 200, "a" * 200, "b" * 200),
    "unknown command with line breaks": command("NO\r\nSUCH", "a\r\nb"),
    "unbalanced quotes": b"ECHO \"abc\r\n",
    "unbalanced single quotes": b"ECHO 'abc\r\n",
    "text behind a closing quote": b"ECHO \"abc\"def\r\n",
    "quotes and escapes": b"ECHO \"a\\x41\\n\\t\\\"\\\\\" \r\nECHO 'it\\'s'\r\n",
    "too few arguments": command("ECHO"),
    "too many arguments": command("PING", "a", "b"),
    "too few arguments for SELECT": command("SELECT"),
    "a database that is no number": command("SELECT", "abc"),
    "a database out of range": command("SELECT", "99"),
    "HELLO with an unknown protocol": command("HELLO", "4"),
    "HELLO with a word": command("HELLO", "abc"),
    "CLIENT without a subcommand": command("CLIENT"),
    "CLIENT with an unknown subcommand": command("CLIENT", "NOSUCH"),
    "CLIENT SETNAME with a space": command("CLIENT", "SETNAME", "a b"),
    "CLIENT GETNAME with an argument": command("CLIENT", "GETNAME", "a"),
    "no name": command("CLIENT", "GETNAME"),
    "QUIT": command("QUIT") + command("PING"),
    "half a frame at the end": command("PING") + b"*1\r\n$4\r\nPI",
    "case": command("pInG") + command("eCHO", "x") + command("select", "0"),
    "an empty echo": command("ECHO", ""),
}


class AgainstRedis(ServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.redis = RedisServer()
        cls.addClassCleanup(cls.redis.stop)

    def test_same_bytes(self):
        """At once, one after the other, and after good commands."""
        ours, its = self.server.address, self.redis.address
        for name, frame in FRAMES.items():
            with self.subTest(name):
                expected = exchange(its, frame + AFTER)
                self.assertTrue(expected.endswith(b"\r\n"), expected)
                self.assertEqual(exchange(ours, frame + AFTER), expected)
                self.assertEqual(exchange(ours, frame + AFTER, slowly=True), expected)
                batch = command("PING") * 10 + frame + AFTER
                self.assertEqual(exchange(ours, batch), exchange(its, batch))

    def test_lines_without_end(self):
        for start in (b"P", b"*1", b"*1\r\n$1"):
            with self.subTest(start):
                endless = start + b"1" * (70 * KIB)
                expected = exchange(self.redis.address, endless)
                self.assertRegex(expected, b"^-ERR Protocol error: too big ")
                self.assertEqual(exchange(self.server.address, endless), expected)


class Bounds(ServerTest):
    def test_bounds(self):
        for frame, reply in (
                (command("NOSUCH", *["a"] * 63) + AFTER,
                 rb"^-ERR unknown command [^\r\n]*\r\n\$5\r\nafter\r\n$"),
                (command("NOSUCH", *["a"] * 64) + AFTER,
                 rb"^-ERR Protocol error: too many arguments, at most 64\r\n$"),
                (command("ECHO", "x" * 60 * KIB), rb"^\$61440\r\nx{61440}\r\n$"),
                (command("ECHO", "x" * 65 * KIB), rb"^-ERR [^\r\n]*\r\n$"),
                (command("ECHO", *["x" * 30 * KIB] * 3), rb"^-ERR [^\r\n]*\r\n$")):
            self.assertRegex(exchange(self.server.address, frame), reply)

    def test_noise(self):
        """Bytes of no protocol end the connection or are unknown commands; others are untouched."""
        steady = self.connect()
        for seed in range(64):
            noise = bytes((seed * 31 + i * i * 7) % 256 for i in range(3000))
            exchange(self.server.address, noise)
            self.assertEqual(steady.ask("PING"), "PONG")
