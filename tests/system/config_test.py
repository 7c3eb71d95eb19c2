"""`sluice check-config`, and `sluice serve` with the file of --config."""

import os
import signal
import unittest

from harness import BINARY, Connection, Process, SystemTest, free_port, sluice


class CheckConfig(SystemTest):
    def test_says_what_a_file_holds(self):
        path = self.write_file("sluice.yaml", "limits: {login: sliding_log 5/10m}\ndrain: 1s\n")
        result = sluice("check-config", path)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, f"{path}: 1 named limit\n")

    def test_says_a_mistake_in_one_line(self):
        for text, place in (("limits: {login: sliding_log 5/10x}\n", "1:33"),
                            ("limits:\n  login: 'sliding_log 5/10m\n", "2:10"),
                            ("drain: 5\n", "1:9"),
                            ("", "1:1")):
            with self.subTest(text):
                path = self.write_file("sluice.yaml", text)
                result = sluice("check-config", path)
                self.assertEqual((result.returncode, result.stdout), (1, ""))
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
                self.assertTrue(result.stderr.startswith(f"sluice: {path}:{place}: "),
                                result.stderr)

    def test_arguments(self):
        self.assertEqual(sluice("check-config").returncode, 2)
        self.assertEqual(sluice("check-config", "a", "b").returncode, 2)
        missing = sluice("check-config", "/nonexistent.yaml")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("/nonexistent.yaml", missing.stderr)


class ServeConfig(SystemTest):
    def serve(self, text, port, *options):
        path = self.write_file("sluice.yaml", text)
        server = Process(BINARY, "serve", "--config", path, *options)
        self.addCleanup(server.stop)
        server.await_listening(("127.0.0.1", port))
        return server

    def test_serves_what_the_file_says(self):
        port = free_port()
        unix = os.path.join(self.temporary_folder(), "resp.sock")
        server = self.serve(f"listen: {{resp: ['127.0.0.1:{port}', 'unix:{unix}']}}\n"
                            "store: memory:?max_bytes=16777216\n"
                            "limits: {login: sliding_log 5/10m}\n", port)
        for address in (("127.0.0.1", port), unix):
            with Connection(address) as connection:
                connection.ask("SLUICE.CHECK", "login", "k")
        with Connection(unix) as connection:
            self.assertEqual(connection.ask("SLUICE.PEEK", "login", "k")[:3], [1, 5, 3])
        self.assertIn("1 named limit, memory:?max_bytes=16777216)", server.output())
        self.assertEqual(server.stop(), 0)

    def test_options_win_over_the_file(self):
        port, others = free_port(), free_port()
        server = self.serve(f"listen: {{resp: '127.0.0.1:{others}'}}\nstore: memory\n"
                            "limits: {login: sliding_log 5/10m}\n", port,
                            "--resp", f"127.0.0.1:{port}", "--store", "memory:?full=allow")
        self.assertIn(f"RESP on 127.0.0.1:{port} (", server.output())
        self.assertIn("memory:?full=allow", server.output())
        with Connection(("127.0.0.1", port)) as connection:
            self.assertEqual(connection.ask("SLUICE.CHECK", "login", "k")[:3], [1, 5, 4])

    def test_named_limits_only(self):
        port = free_port()
        self.serve(f"listen: {{resp: '127.0.0.1:{port}'}}\nexpressions: no\n"
                   "limits: {login: sliding_log 5/10m}\n", port)
        with Connection(("127.0.0.1", port)) as connection:
            self.assertEqual(connection.ask("SLUICE.CHECK", "login", "k")[0], 1)
            for words in (("SLUICE.CHECK", "sliding_log 5/10m", "k"), ("CL.THROTTLE", "k", 1, 1, 1),
                          ("THROTTLE", "k", 1, 1, 1),
                          ("INCREX", "k", "UBOUND", 5, "EX", 60, "ENX")):
                reply = connection.ask(*words)
                self.assertIn("ERR this server answers named limits only", str(reply), words)
            unknown = connection.ask("SLUICE.CHECK", "logn", "k")
            self.assertIn("no limit is named 'logn'", str(unknown))

    def test_drain(self):
        """A peer that reads nothing delays the end by the drain at most."""
        port = free_port()
        server = self.serve(f"listen: {{resp: '127.0.0.1:{port}'}}\ndrain: 0s\n", port)
        with Connection(("127.0.0.1", port)) as connection:
            self.assertEqual(connection.ask("PING"), "PONG")
            server.signal(signal.SIGTERM)
            self.assertEqual(server.wait(), 0)

    def test_refusals(self):
        bad = self.write_file("bad.yaml", "drain: 5\n")
        good = self.write_file("good.yaml", "limits: {login: sliding_log 5/10m}\n")
        public = self.write_file("public.yaml", "listen: {resp: '0.0.0.0:6380'}\n")
        silent = self.write_file("silent.yaml", "listen: {}\n")
        for arguments, named in ((["--config", bad], f"{bad}:1:9: "),
                                 (["--config", "/nonexistent.yaml"], "/nonexistent.yaml: "),
                                 (["--config", good, "--limits", good], "--limits"),
                                 (["--config", public], "--insecure"),
                                 (["--config", silent], "no address")):
            with self.subTest(arguments):
                result = sluice("serve", *arguments)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
                self.assertIn(named, result.stderr)


if __name__ == "__main__":
    unittest.main()
