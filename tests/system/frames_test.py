"""Malformed and oversized frames: the same bytes as redis-server answers, where it answers."""


from harness import RedisServer, ServerTest, command, exchange

KIB = 1024
AFTER = command("ECHO", "after")

# What one client sends.
LINES = (
    "ECHO", "PING a b", "pInG; eCHO x; select 0", "QUIT; PING", "TIME x", "DEL", "DEL nosuch",
    "SELECT", "SELECT abc", "SELECT 99", "COMMAND NOSUCH", "COMMAND INFO nosuch", "CONFIG GET save",
    "CONFIG GET nosuch ''", "AUTH secret", "AUTH default any", "AUTH bob any", "HELLO 4",
    "HELLO abc", "HELLO 3 AUTH default", "HELLO 3 AUTH bob x",
    "HELLO 2 SETNAME 'a b'; CLIENT GETNAME", "CLIENT", "CLIENT NOSUCH", "CLIENT|ID",
    "CLIENT SETNAME", "CLIENT SETNAME 'a b'", "CLIENT GETNAME a", "CLIENT GETNAME",
    "CLIENT SETNAME me; CLIENT GETNAME; CLIENT SETNAME ''; CLIENT GETNAME",
    "CLIENT SETNAME me; RESET; CLIENT GETNAME", "CLIENT LIST TYPE replica",
    "CLIENT LIST TYPE slave", "CLIENT LIST TYPE MASTER", "CLIENT LIST TYPE pubsub",
    "CLIENT LIST TYPE nosuch", "CLIENT LIST nosuch", "CLIENT LIST TYPE",
    "CLIENT LIST TYPE normal x",
    "EXEC", "DISCARD", "WATCH a b; UNWATCH", "MULTI; EXEC", "MULTI; MULTI; EXEC",
    "MULTI; WATCH a; UNWATCH; EXEC", "MULTI; ; *0; ECHO 'a b'; EXEC", "MULTI; PING; QUIT; PING",
    "MULTI; PING; DISCARD; EXEC", "MULTI; PING; RESET; EXEC", "MULTI; SELECT 99; PING; EXEC",
    "MULTI; NOSUCH; PING; EXEC; EXEC", "MULTI; ECHO; PING; EXEC", "MULTI; CLIENT NOSUCH; EXEC",
    "MULTI; CLIENT SETNAME; EXEC", "MULTI; PING; *1; x")
# Neither counts nor lengths.
NO_NUMBERS = (b"x", b"", b" 1", b"+1", b"01", b"1x", b"-", b"-01", b"2147483648", b"9" * 20)
UNBALANCED = (b"\"abc\r\n", b"'abc\n", b"\"abc\"d\n", b"'a'b\n", b"\"\\\n", b"a'\n")
# Frames that redis-server refuses or ignores; Sluice answers each with the same bytes.
FRAMES = {
    **{f"count {number}": b"*%s\r\n" % number for number in NO_NUMBERS},
    **{f"bulk length {number}": b"*1\r\n$%s\r\n" % number for number in NO_NUMBERS},
    **{f"quotes {line}": b"ECHO " + line for line in UNBALANCED},
    "bulk length is negative": b"*1\r\n$-1\r\n",
    "bulk length is huge": b"*1\r\n$536870913\r\n",
    "no dollar": b"*1\r\n:5\r\n",
    "nothing where a bulk should be": b"*1\r\n\r\n",
    "an array where a bulk should be": b"*2\r\n$1\r\na\r\n*1\r\n",
    "inline where a bulk should be": b"*2\r\n$4\r\nECHO\r\nhello\r\n",
    "the ends of lines and bulks are not looked at": b"*1\rx$4\r\nPINGxxPING\r\n",
    "nothing is carried out after an error": b"*x\r\nPING\r\n",
    "empty arrays and lines are nothing": b"*0\r\n*-1\r\n*-5\r\n\r\n  \t\r\n\n",
    "blanks between words": b"  ECHO\t a \nECHO a  b\r\n",
    "an empty bulk is an unknown command": b"*1\r\n$0\r\n\r\n",
    "unknown command": command("NOSUCH"),
    "unknown command with arguments": command("NOSUCH", "a", "b c"),
    "unknown command, long": command("N" * 200, "a" * 200, "b" * 200),
    "unknown command with line breaks": command("NO\r\nSUCH", "a\r\nb"),
    "quotes and escapes": b'ECHO "a\\x41\\x4g\\n\\t\\r\\a\\b\\\\\\"\\q" \r\n'
                          b"ECHO 'a\\'b\\n'\r\nECHO \"\"\nECHO ''\nECHO x\"y z\"\n",
    "half a frame at the end": command("PING") + b"*1\r\n$4\r\nPI",
    "an empty echo": command("ECHO", ""),
    **{lines: lines.replace("; ", "\r\n").encode() + b"\r\n" for lines in LINES},
}


class AgainstRedis(ServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.redis = cls.enterClassContext(RedisServer())

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

    def test_noise(self):
        """Bytes of no protocol end the connection or are unknown commands; others are untouched."""
        steady = self.connect()
        for seed in range(64):
            noise = bytes((seed * 31 + i * i * 7) % 256 for i in range(3000))
            exchange(self.server.address, noise)
            self.assertEqual(steady.ask("PING"), "PONG")
