"""The unit packaging/systemd/sluice.service: its command line, what it tells systemd, and what it
may do."""

import contextlib
import os
import re
import signal
import socket
import time

from harness import (BINARY, PATIENCE_S, ROOT, Connection, Process, SystemTest, free_port,
                     read_text, run, sluice, unit_command, unit_settings, write_text)

UNIT = os.path.join(ROOT, "packaging", "systemd", "sluice.service")
MOST_EXPOSURE = 2.0


class Service(SystemTest):
    def serve(self, options, notify, **variables):
        """Runs the unit's command line, as systemd does."""
        folder = self.temporary_folder()
        os.mkdir(os.path.join(folder, "sluice"))
        program, *arguments = unit_command(unit_settings(UNIT), folder,
                                           {"SLUICE_OPTIONS": options, **variables})
        self.assertEqual(program, "sluice")
        os.environ["NOTIFY_SOCKET"] = notify
        self.addCleanup(os.environ.pop, "NOTIFY_SOCKET", None)
        server = self.enterContext(Process(BINARY, *arguments))
        return server, os.path.join(folder, "sluice", "snapshot")

    @contextlib.contextmanager
    def manager(self, path):
        """The socket at which the service manager listens."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind("\0" + path[1:] if path.startswith("@") else path)
            manager.settimeout(PATIENCE_S)
            yield manager

    def test_is_ready_when_it_listens_and_says_that_it_stops(self):
        paths = (os.path.join(self.temporary_folder(), "notify"), f"@sluice-test-{os.getpid()}")
        for path in paths:
            with self.subTest(path), self.manager(path) as manager:
                port = free_port()
                server, snapshot = self.serve(f"--resp 127.0.0.1:{port}", path)
                self.assertEqual(manager.recv(100), b"READY=1")
                with Connection(("127.0.0.1", port)) as connection:
                    self.assertEqual(connection.ask("PING"), "PONG")
                self.assertEqual(server.stop(), 0)
                self.assertEqual(manager.recv(100), b"STOPPING=1")
                self.assertTrue(os.path.exists(snapshot))

    def test_tells_of_a_reload(self):
        path = os.path.join(self.temporary_folder(), "notify")
        port = free_port()
        config = self.write_file("sluice.yaml", "limits: {}\n")
        with self.manager(path) as manager:
            server, _ = self.serve(f"--config {config} --resp 127.0.0.1:{port}", path)
            self.assertEqual(manager.recv(100), b"READY=1")
            before = time.monotonic()
            for text in ("limits: {}\n", "limits: []\n"):  # The second one is a mistake.
                write_text(config, text)
                server.signal(signal.SIGHUP)
                reloading, instant = manager.recv(100).decode().split("\nMONOTONIC_USEC=")
                self.assertEqual(reloading, "RELOADING=1")
                self.assertLessEqual(before * 1e6 - 1, int(instant))
                self.assertLessEqual(int(instant), time.monotonic() * 1e6)
                self.assertEqual(manager.recv(100), b"READY=1")

    def test_another_store_or_a_snapshot_of_the_file(self):
        """As docs/restart.md says, without the unit's own snapshot. That the service manager is
        gone is no error."""
        own = os.path.join(self.temporary_folder(), "snapshot")
        for text, is_refused in (("store: redis://127.0.0.1:1\n", True),
                                 (f"snapshot: {{file: {own}}}\n", False)):
            with self.subTest(text):
                config = self.write_file("sluice.yaml", text)
                options = f"--config {config} --resp 127.0.0.1:{free_port()}"
                server, snapshot = self.serve(options, "/nonexistent/notify", SLUICE_SNAPSHOT="")
                server.await_output("serving ")
                self.assertEqual(server.stop(), 0)
                self.assertFalse(os.path.exists(snapshot))
                server, snapshot = self.serve(options, "/nonexistent/notify")
                if is_refused:
                    server.await_output("snapshot: only a store memory: has one")
                    self.assertEqual(server.wait(), 2)
                else:
                    server.await_output("serving ")
                    self.assertEqual(server.stop(), 0)
                    self.assertTrue(os.path.exists(snapshot))
        self.assertTrue(os.path.exists(own))

    def test_its_sockets_are_where_it_serves(self):
        text = read_text(UNIT.replace(".service", ".socket"))
        addresses = re.findall(r"^ListenStream=(.*)$", text, re.MULTILINE)
        self.assertEqual(len(addresses), 1)
        self.assertRegex(sluice("serve", "--help").stdout,
                         rf"--resp ADDRESS:PORT\|unix:PATH=\[{re.escape(addresses[0])}\]")

    def test_a_start_that_failed_is_tried_again(self):
        """The reason may pass by itself: a file is not there yet, another process has the lock."""
        settings = unit_settings(UNIT)
        folder = self.temporary_folder()
        with Process(BINARY, "serve", "--snapshot", os.path.join(folder, "none", "s")) as server:
            self.assertNotIn(str(server.wait()),
                             settings.get("RestartPreventExitStatus", "").split())
        self.assertEqual([settings.get(name) for name in (
            "Restart", "RestartSec", "StartLimitIntervalSec")], ["on-failure", "1s", "0"])

    def test_may_do_little(self):
        result = run("systemd-analyze", "security", "--offline=true", "--no-pager", UNIT)
        exposure = re.search(r"Overall exposure level for sluice\.service: ([\d.]+)", result.stdout)
        self.assertIsNotNone(exposure, result.stdout + result.stderr)
        self.assertLessEqual(float(exposure[1]), MOST_EXPOSURE, result.stdout)
