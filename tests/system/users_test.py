"""Users of `sluice serve`: tokens and certificates over RESP and HTTP."""

import os
import time

from certificates import Certificates
from harness import (BINARY, Connection, SystemTest, free_port, metrics, new_token, read_text,
                     request, run, sluice, write_text)


class Token(SystemTest):
    def test_has_256_random_bits_of_its_own(self):
        first, line = new_token("gateway")
        self.assertRegex(first, r"^[\w-]{43}$")
        self.assertRegex(line, r'^ - \{name: "gateway", token: "sha256:[0-9a-f]{64}", '
                               r'roles: \[check\]\}$')
        self.assertNotIn(first, line)
        self.assertNotEqual(first, new_token("gateway")[0])

    def test_is_not_lost_unnoticed(self):
        for arguments in ("token", "--help", "--version", "serve --help"):
            result = run("sh", "-c", f"'{BINARY}' {arguments} > /dev/full")
            self.assertEqual((result.returncode, result.stderr),
                             (1, "sluice: standard output cannot be written\n"), arguments)

    def test_is_for_a_name_that_the_file_may_have(self):
        for name in ("my gateway", "", "x" * 65, "a, roles: [admin]"):
            result = sluice("token", "--name", name)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn("a user's name has 1 to 64 characters", result.stderr)
        path = self.write_file("sluice.yaml", f"users:\n{new_token('null')[1]}\n")
        self.assertEqual(sluice("check-config", path).stderr, "")


class Users(SystemTest):
    def setUp(self):
        folder = self.temporary_folder()
        made = Certificates(folder)
        self.made = made
        self.token, self.line = new_token("gateway")
        self.admin, admin_line = new_token("operator")
        self.plain, self.tls, self.http = free_port(), free_port(), free_port()
        self.path = os.path.join(folder, "sluice.yaml")
        write_text(self.path, f"listen:\n  resp: [0.0.0.0:{self.plain}, "
                   f"{{address: 127.0.0.1:{self.tls}, tls: "
                   "{cert: server.pem, key: server.key, client_ca: ca.pem}}]\n"
                   f"  http: [127.0.0.1:{self.http}]\nusers:\n {self.line}\n"
                   f" {admin_line.replace('check', 'check, admin, metrics')}\n"
                   "  - {certificate: CN=gateway, roles: [check]}\n"
                   "limits: {login: sliding_log 5/10m}\n")
        self.server = self.run_serve("--config", self.path)

    def redis_cli(self, *arguments):
        return run("redis-cli", "-p", str(self.plain), "--no-auth-warning", *arguments).stdout

    def test_redis_cli(self):
        gateway = ("--user", "gateway", "-a", self.token)
        for words, said in (
                (("PING",), "NOAUTH"),
                (("AUTH", "gateway", "wrong"), "WRONGPASS"),
                ((*gateway, "PING"), "PONG\n"),
                (("-a", self.token, "PING"), "PONG\n"),
                (("-3", *gateway, "SLUICE.CHECK", "login", "k"), "1\n5\n4\n"),
                ((*gateway, "SLUICE.RESET", "login", "k"), "NOPERM"),
                (("--user", "operator", "-a", self.admin, "SLUICE.RESET", "login", "k"), "OK\n")):
            self.assertIn(said, self.redis_cli(*words), words)

    def test_a_certificate_in_the_place_of_a_token(self):
        options = ["-p", str(self.tls), "--tls", "--cacert", self.made.pem("ca"), "--cert",
                   self.made.pem("gateway"), "--key", self.made.key("gateway")]
        self.assertEqual(run("redis-cli", *options, "PING").stdout, "PONG\n")
        self.assertIn("NOPERM", run("redis-cli", *options, "SLUICE.LIMITS").stdout)
        # That of another program, of the same authority, is that of no user.
        options[6:] = [self.made.pem("server"), "--key", self.made.key("server")]
        self.assertIn("NOAUTH", run("redis-cli", *options, "PING").stdout)

    def status(self, path, headers):
        return request(self.http, "GET", path, headers)[0]

    def test_http(self):
        def known_as(token):
            return {"Authorization": "Bearer " + token}

        def asked_by(proxy):
            return {"X-Sluice-Token": proxy}

        for path, headers, status in (
                ("/v1/limits", {}, 401),
                ("/v1/limits", known_as(self.token), 403),
                ("/v1/limits", known_as(self.admin), 200),
                ("/metrics", known_as("wrong"), 401),
                # A proxy has a header of its own. The token of its client is not read.
                ("/auth?limit=login", known_as(self.token), 500),
                ("/auth?limit=login", asked_by(self.token), 204),
                ("/auth?limit=login", asked_by(self.token) | known_as("theirs"), 204),
                ("/auth/login/path", asked_by("wrong"), 500),
                ("/healthz", {}, 200), ("/readyz", {}, 200), ("/nothing", {}, 404)):
            self.assertEqual(self.status(path, headers), status, (path, headers))

    def test_clients_are_waited_for_ten_seconds(self):
        """One of RESP until it says who it is, and sends the rest of a command; one of HTTP until
        it sends a right token. What they ask before does not count."""
        resp, http = ("127.0.0.1", self.plain), ("127.0.0.1", self.http)
        check = b"GET /auth?limit=login HTTP/1.1\r\nHost: localhost\r\nX-Sluice-Token: "
        begun = time.monotonic()
        silent, busy, known, half = (self.enterContext(Connection(resp)) for _ in range(4))
        web_busy, web_known = (self.enterContext(Connection(http)) for _ in range(2))
        for connection in (known, half):
            self.assertEqual(connection.ask("AUTH", "gateway", self.token), "OK")
        web_known.send(check + self.token.encode() + b"\r\n\r\n")
        half.send(b"*1\r\n$4\r\nPI")
        while time.monotonic() < begun + 8:
            self.assertIn("NOAUTH", str(busy.ask("PING")))
            web_busy.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertIn(b" 200 OK\r\n", web_busy.socket.recv(4096))
            time.sleep(0.2)
        for connection in (silent, busy, web_busy):
            self.assertEqual(connection.read_all(), b"")
            self.assertIn(int(time.monotonic() - begun), range(8, 18))
        # Each thread of the server looks once a second, not all at the same time.
        self.assertIn("the rest of the command has not come in time", str(half.read()))
        self.assertEqual(half.read_all(), b"")
        self.assertEqual(known.ask("PING"), "PONG")
        web_known.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        self.assertRegex(web_known.read_all(), rb"(?s)^HTTP/1.1 204 .*HTTP/1.1 200 ")
        told = metrics(self.http, {"Authorization": "Bearer " + self.admin})
        for name, count in (
                ('login_timeouts_total{protocol="http"}', 1),
                ('login_timeouts_total{protocol="resp"}', 2),
                ('connections_timed_out_total{protocol="resp",reason="request"}', 1)):
            self.assertEqual(told["sluice_" + name], count, name)

    def test_a_token_is_changed_while_the_server_runs(self):
        with Connection(("127.0.0.1", self.plain)) as connection:
            self.assertEqual(connection.ask("AUTH", "gateway", self.token), "OK")
            self.assertEqual(connection.ask("PING"), "PONG")
            token, line = new_token("gateway")
            text = read_text(self.path)
            write_text(self.path, text.replace(self.line, line))
            self.server.await_output("reloaded: ")
            self.assertRegex(self.server.output(),
                             r"limits are the same; the users have changed \(\d+ users\)")
            self.assertIn("NOAUTH", str(connection.ask("PING")))
            self.assertEqual(connection.ask("AUTH", "gateway", token), "OK")
            self.assertEqual(connection.ask("PING"), "PONG")
        for each, status in ((self.token, 500), (token, 204)):
            self.assertEqual(self.status("/auth?limit=login", {"X-Sluice-Token": each}), status)

    def test_nothing_of_a_client_is_written(self):
        before = self.server.output()
        with Connection(("127.0.0.1", self.plain)) as connection:
            for text in (b"\x1b[31mred", b"line\r\nforged"):
                connection.ask("AUTH", text, text)
                connection.ask(text, text)
            for _ in range(20):
                try:
                    connection.ask("AUTH", "gateway", "wrong")
                except ConnectionError:
                    break
            else:
                self.fail("wrong tokens are not limited")
        self.assertEqual(self.redis_cli("-a", self.token, "PING"), "PONG\n")
        self.assertEqual(self.server.output(), before)
