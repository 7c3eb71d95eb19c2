"""The addresses of admin: which paths are served where."""

import os
import re
import signal
from http.client import HTTPConnection

from harness import (BINARY, PATIENCE_S, Connection, Process, SystemTest, await_true, free_port,
                     request, run, write_text)

OPERATORS = ("/", "/playground", "/metrics", "/v1/limits", "/v1/top?limit=(other)", "/v1/reset",
             "/v1/refund", "/v1/charge", "/v1/block", "/v1/simulate")
OTHERS = ("/auth?limit=token_bucket+1000/1s", "/auth/token_bucket%201000%2F1s/path", "/v1/check",
          "/v1/peek", "/v1/take", "/v1/reserve", "/v1/commit", "/v1/permits/acquire",
          "/v1/permits/renew", "/v1/permits/release")


class Admin(SystemTest):
    def has(self, port, path):
        """Whether the path is served, at 127.0.0.1."""
        return request(port, "GET", path)[0] != 404

    def status(self, url, *options):
        return run("curl", "-s", "-o", os.devnull, "-w", "%{http_code}", *options, url).stdout

    def assert_serves(self, port, operators, others):
        for path in OPERATORS:
            self.assertEqual(self.has(port, path), operators, path)
        for path in OTHERS:
            self.assertEqual(self.has(port, path), others, path)
        for path in ("/healthz", "/readyz"):
            self.assertEqual(request(port, "GET", path)[0], 200)

    def test_no_operators_at_a_public_address_of_http(self):
        resp, http, local = free_port(), free_port(), free_port()
        path = os.path.join(self.temporary_folder(), "http.sock")
        self.run_serve("--resp", f"127.0.0.1:{resp}", "--http", f"0.0.0.0:{http}",
                       "--http", f"127.0.0.1:{local}", "--http", "unix:" + path, "--insecure")
        self.assert_serves(http, operators=False, others=True)
        self.assert_serves(local, operators=True, others=True)
        self.assertEqual(self.status("http://localhost/metrics", "--unix-socket", path), "200")
        # The playground is also where a person looks first.
        self.assertEqual(request(local, "GET", "/")[2], request(local, "GET", "/playground")[2])

    def test_an_address_of_admin_takes_the_paths_over(self):
        http, admin = free_port(), free_port()
        path = os.path.join(self.temporary_folder(), "admin.sock")
        server = self.run_serve("--resp", f"127.0.0.1:{free_port()}", "--http", f"127.0.0.1:{http}",
                                "--admin", f"127.0.0.1:{admin}", "--admin", "unix:" + path)
        self.assertIn(f"admin HTTP on 127.0.0.1:{admin}, unix:{path}; HTTP on", server.output())
        self.assert_serves(http, operators=False, others=True)
        self.assert_serves(admin, operators=True, others=False)
        self.assertIn(b"at the addresses of admin alone", request(http, "GET", "/metrics")[2])
        unix = ("--unix-socket", path)
        self.assertEqual(self.status("http://localhost/metrics", *unix), "200")
        self.assertEqual(self.status("http://localhost/auth?limit=login", *unix), "404")

    def test_operators_are_served_when_clients_hold_all_connections(self):
        resp, http, admin = free_port(), free_port(), free_port()
        server = self.run_serve("--resp", f"127.0.0.1:{resp}", "--http", f"127.0.0.1:{http}",
                                "--admin", f"127.0.0.1:{admin}", "--max-connections", "1")
        while self.status(f"http://127.0.0.1:{http}/healthz") != "503":
            self.enterContext(Connection(("127.0.0.1", http)))
        for path in ("/healthz", "/metrics"):
            self.assertEqual(self.status(f"http://127.0.0.1:{admin}{path}"), "200", path)
        self.assertEqual(self.status(f"http://127.0.0.1:{http}/healthz"), "503")
        with Connection(("127.0.0.1", resp)) as refused:
            self.assertIsInstance(refused.ask("PING"), Exception)
        text = run("curl", "-s", f"http://127.0.0.1:{admin}/metrics").stdout
        self.assertIn('\nsluice_connections_refused_total{protocol="resp"} 1\n', text)
        self.assertIn("\nsluice_max_connections 1\n", text)
        server.await_output("connections are refused: at most 1 may be open at a time")

    def test_operators_are_served_where_the_system_allows_few_descriptors(self):
        http, admin = free_port(), free_port()
        command = (BINARY, "serve", "--resp", f"127.0.0.1:{free_port()}", "--threads", "2",
                   "--http", f"127.0.0.1:{http}", "--admin", f"127.0.0.1:{admin}",
                   "--max-connections", "500")
        server = self.enterContext(Process("prlimit", "--nofile=200:200", *command))
        server.await_output("serving ")
        self.assertRegex(server.output(), r"^sluice: at most \d+ connections at a time, not 500: "
                                          r"the system allows this process 200 open files .*\n")
        self.enterContext(Connection(("127.0.0.1", admin)))  # It takes no place from a client.
        for _ in range(200):
            self.enterContext(Connection(("127.0.0.1", http)))
        most = re.search(r"at most (\d+)", server.output())[1]

        def metrics():
            return run("curl", "-s", f"http://127.0.0.1:{admin}/metrics").stdout

        await_true("all connections of clients are held",
                   lambda: f'sluice_connections{{protocol="http"}} {most}\n' in metrics())
        self.assertIn(f"\nsluice_max_connections {most}\n", metrics())
        self.assertRegex(metrics(), r'\nsluice_connections\{protocol="admin"\} [1-9]\d*\n')
        self.assertNotIn("connections wait", server.output())
        server.stop()
        # The soft limit alone is raised.
        with Process("prlimit", "--nofile=200:4096", *command) as raised:
            raised.await_output("serving ")
            self.assertNotIn("at most", raised.output())
        refused = run("prlimit", "--nofile=90:90", *command)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("no client could connect: the system allows this process 90 open files",
                      refused.stderr)

    def test_it_comes_and_goes_with_the_file(self):
        http, admin = free_port(), free_port()
        listen = f"listen: {{http: '127.0.0.1:{http}'%s}}\n"
        path = self.write_file("sluice.yaml", listen % "")
        server = self.run_serve("--config", path)
        kept = HTTPConnection("127.0.0.1", http, PATIENCE_S)
        self.addCleanup(kept.close)
        kept.connect()
        kept.auto_open = False  # It is the same connection all the time.

        def assert_serves(operators):
            self.assert_serves(http, operators, others=True)
            kept.request("GET", "/metrics")
            reply = kept.getresponse()
            reply.read()
            self.assertEqual(reply.status, 200 if operators else 404)

        assert_serves(operators=True)
        for extra, operators in ((f", admin: '127.0.0.1:{admin}'", False), ("", True)):
            write_text(path, listen % extra)
            server.signal(signal.SIGHUP)
            server.await_output(f"reloaded: serving {'HTTP' if operators else 'admin'}")
            assert_serves(operators)
        self.assertFalse(self.listens(admin))

    def listens(self, port):
        return self.status(f"http://127.0.0.1:{port}/healthz") != "000"
