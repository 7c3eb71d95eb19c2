"""What a client sends reaches no log, metric, list or error in a form that a terminal, or a reader
of lines, could mistake for something else."""

import json
import os
import pty
import subprocess
import urllib.parse

from harness import PATIENCE_S, Connection, SystemTest, exchange, read_terminal

KEYS = (b"\x1b[31mred\x1b]0;title\x07", b"line\r\nforged: yes\n", b'quote"back\\slash',
        b"{limit=\"x\"} 1\n# HELP", b"\x00\x01\x7f\x08", b"invalid \xff\xfe\xc3", b"\xc2\x9b31m C1",
        "\u202eright to left\u2066".encode(), b"\xed\xa0\x80 surrogate")
LIMIT = "fixed_window 1/1h anchor=first"


def is_unsafe(character):
    point = ord(character)
    return (point < 0x20 and character not in "\r\n" or 0x7F <= point < 0xA0
            or point in (0x061C, 0xFEFF) or 0x200B <= point <= 0x200F
            or 0x202A <= point <= 0x202E or 0x2060 <= point <= 0x206F)


class Escaping(SystemTest):
    def setUp(self):
        self.server = self.serve_file(f"""
log: {{format: text, level: info}}
limits: {{login: {LIMIT}, api: {{limit: {LIMIT}, key: '{{header:X-Key}}'}}}}
""", http=True)

    def assert_safe(self, data):
        text = data if isinstance(data, str) else data.decode()  # Raises where it is not UTF-8.
        self.assertEqual([character for character in text if is_unsafe(character)], [], text)

    def exchange(self, head, body=b""):
        """The bytes of the response to a request of HTTP."""
        return exchange(self.server.http, head + b" HTTP/1.1\r\nHost: localhost\r\n"
                        b"Connection: close\r\nContent-Type: application/json\r\n"
                        b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def get(self, path):
        response = self.exchange(b"GET " + path.encode())
        self.assert_safe(response)
        return response.partition(b"\r\n\r\n")[2].decode()

    def send_all(self):
        """Sends each key in each way, twice, so that it is denied. Errors must be safe as well."""
        for key in KEYS * 2:
            with Connection(self.server.address) as connection:
                self.assertEqual(len(connection.ask("SLUICE.CHECK", "login", key)), 6)
                for words in ((key, key), ("SLUICE.CHECK", key, key), ("SLUICE.TOP", key),
                              ("SLUICE.CHECK", b"token_bucket " + key, "k"), ("AUTH", key, key),
                              ("SLUICE.CHECK", "login", "k", key), ("CLIENT", key),
                              ("CLIENT", "SETNAME", key), ("CLIENT", "SETINFO", "LIB-NAME", key),
                              ("HELLO", key), ("HELLO", 3, key), ("CONFIG", key),
                              ("CL.THROTTLE", key, key, key, key), ("INCREX", key, key, 1, 2, 3, 4),
                              ("SLUICE.RELEASE", LIMIT, key, key)):
                    reply = connection.ask(*words)
                    if isinstance(reply, Exception):
                        self.assert_safe(str(reply))
            quoted = urllib.parse.quote(key)
            for query in (f"limit=login&key={quoted}", f"limit={quoted}", f"limit=login&{quoted}=1",
                          f"limit=login&key=%7B{quoted}%7D", f"limit=login&require={quoted}",
                          f"limit=login&headers={quoted}"):
                self.assert_safe(self.exchange(f"GET /auth?{query}".encode()))
            self.assert_safe(self.exchange(f"GET /auth/{quoted}/{quoted}".encode()))
            self.assert_safe(self.exchange(f"GET /{quoted}".encode()))
            body = json.dumps({"limit": "login", "key": key.decode("utf-8", "replace")}).encode()
            self.assert_safe(self.exchange(b"POST /v1/check", body))
            for old, new in ((b"login", b"lo\\u001bg"), (b'"key"', b'"k\\u009b"')):
                self.assert_safe(self.exchange(b"POST /v1/check", body.replace(old, new)))
            self.assert_safe(self.exchange(b"POST /v1/check", b'{"limit": "' + key + b'"}'))

    def test_no_output_has_a_key_as_it_is(self):
        self.send_all()
        with Connection(self.server.address) as connection:
            # Of a bulk string the length is told, so that it is the key's very bytes.
            connection.send(b"SLUICE.TOP login 1000\r\nQUIT\r\n")
            top = connection.read_all()
            for key in KEYS:
                self.assertIn(b"$%d\r\n%s\r\n" % (len(key), key), top)
        with Connection(self.server.address) as connection:
            for words in (("CLIENT", "LIST"), ("CLIENT", "INFO"), ("INFO", "all")):
                self.assert_safe(connection.ask(*words))
            # Connections that were closed a moment ago may still be listed.
            for line in connection.ask("CLIENT", "LIST").rstrip("\n").split("\n"):
                self.assertTrue(line.startswith("id="), line)
        denied = json.loads(self.get("/v1/top?limit=login&n=1000"))["keys"]
        self.assertIn("\x1b[31mred\x1b]0;title\x07", [row["key"] for row in denied])
        self.assertIn("line\r\nforged: yes\n", [row["key"] for row in denied])
        json.loads(self.get("/v1/limits"))
        metrics = self.get("/metrics")
        for word in ("31m", "forged", "quote", "invalid", "surrogate"):
            self.assertNotIn(word, metrics)
            self.assertNotIn(word, self.server.output())
        self.assert_safe(self.server.output())

    def test_redis_cli_on_a_terminal(self):
        self.send_all()
        ours, theirs = pty.openpty()
        words = ("redis-cli", "-p", str(self.server.port), "SLUICE.TOP", "login")
        command = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        shown = read_terminal(ours)
        command.wait(PATIENCE_S)
        self.assertIn(b"\\x1b[31mred", shown)
        self.assert_safe(shown)
