"""The addresses of admin: which paths are served where."""

import os
import re
import signal
from http.client import HTTPConnection

from harness import (BINARY, PATIENCE_S, Connection, Process, SystemTest, await_true, free_port,
                     metrics, open_socket, request, run, write_text)

OPERATORS = ("/", "/playground", "/metrics", "/v1/limits", "/v1/top?limit=(other)", "/v1/reset",
             "/v1/refund", "/v1/charge", "/v1/block", "/v1/simulate")
OTHERS = ("/auth?limit=token_bucket+1000/1s", "/auth/token_bucket%201000%2F1s/path", "/v1/check",
          "/v1/peek", "/v1/take", "/v1/reserve", "/v1/commit", "/v1/permits/acquire",
          "/v1/permits/renew", "/v1/permits/release")


class Admin(SystemTest):
    def has(self, port, path):
        """Whether the path is served, at 127.0.0.1."""
        return request(port, "GET", path)[0] != 404

    def status(self, socket, path):
        """At a Unix socket."""
        return run("curl", "-s", "-o", os.devnull, "-w", "%{http_code}", "--unix-socket", socket,
                   "http://localhost" + path).stdout

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
        self.assertEqual(self.status(path, "/metrics"), "200")
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
        self.assertEqual(self.status(path, "/metrics"), "200")
        self.assertEqual(self.status(path, "/auth?limit=login"), "404")

    def test_operators_are_served_when_clients_hold_all_connections(self):
        """As many as the system allows, which is less than the options do."""
        resp, http, admin = free_port(), free_port(), free_port()
        command = (BINARY, "serve", "--resp", f"127.0.0.1:{resp}", "--threads", "2",
                   "--http", f"127.0.0.1:{http}", "--admin", f"127.0.0.1:{admin}",
                   "--max-connections", "500")
        server = self.enterContext(Process("prlimit", "--nofile=200:200", *command))
        server.await_output("serving ")
        self.assertRegex(server.output(), r"^sluice: at most \d+ connections at a time, not 500: "
                                          r"the system allows this process 200 open files .*\n")
        self.enterContext(Connection(("127.0.0.1", admin)))  # It takes no place from a client.
        for _ in range(200):
            self.enterContext(Connection(("127.0.0.1", http)))
        most = int(re.search(r"at most (\d+)", server.output())[1])

        await_true("all connections of clients are held", lambda: metrics(admin)[
            'sluice_connections{protocol="http"}'] == most)
        self.assertEqual(request(http, "GET", "/healthz")[0], 503)
        with Connection(("127.0.0.1", resp)) as refused:
            self.assertIsInstance(refused.ask("PING"), Exception)
        server.await_output(f"connections are refused: at most {most} may be open at a time")
        self.assertEqual(request(admin, "GET", "/healthz")[0], 200)
        told = metrics(admin)
        self.assertEqual(told["sluice_max_connections"], most)
        self.assertEqual(told['sluice_connections_refused_total{protocol="resp"}'], 1)
        self.assertGreater(told['sluice_connections{protocol="admin"}'], 0)
        self.assertNotIn("connections wait", server.output())
        server.stop()
        # The soft limit alone is raised.
        with Process("prlimit", "--nofile=200:4096", *command) as raised:
            raised.await_output("serving ")
            self.assertNotIn("at most", raised.output())
            self.assertEqual(metrics(admin)["sluice_max_connections"], 500)
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
        self.assertRaises(OSError, open_socket, ("127.0.0.1", admin))
