"""Restarts of `sluice serve --snapshot`: what is kept, when, and what is refused."""

import os
import resource
import signal

from harness import Connection, SystemTest, await_true, free_port, metrics


class Restart(SystemTest):
    def setUp(self):
        self.path = os.path.join(self.temporary_folder(), "snapshot")

    def serve(self, *arguments, limits="{}", **options):
        return self.serve_file(f"drain: 0s\nlimits: {limits}\n", "--snapshot", self.path,
                               *arguments, **options)

    def serve_refusal(self, *arguments):
        return self.refusal("serve", "--resp", f"127.0.0.1:{free_port()}", *arguments)

    def test_a_server_that_is_stopped_goes_on(self):
        limits = "{login: sliding_log 5/1h}"
        with self.serve(limits=limits) as server, Connection(server.address) as connection:
            server.await_output("there is no snapshot yet")
            self.assertEqual(connection.ask("SLUICE.CHECK", "login", "k", 3)[:3], [1, 5, 2])
            self.assertEqual(connection.ask("CL.THROTTLE", "k", 14, 15, 3600)[:3], [0, 15, 14])
            self.assertEqual(connection.ask("SLUICE.CHECK", "fixed_window 9/52w", "k")[:3],
                             [1, 9, 8])
            permit = connection.ask("SLUICE.ACQUIRE", "concurrency 1 lease=1h", "k")
            server.signal(signal.SIGTERM)
            self.assertEqual(server.wait(), 0, server.output())
            self.assertIn("wrote 4 keys to " + self.path, server.output())
        with self.serve(limits=limits) as server, Connection(server.address) as connection:
            server.await_output("loaded 4 keys from " + self.path)
            self.assertRegex(server.output(), r", written 20[0-9T:.-]+Z, [0-9a-z]+ ago")
            self.assertEqual(connection.ask("SLUICE.CHECK", "login", "k", 3)[:3], [0, 5, 2])
            self.assertEqual(connection.ask("CL.THROTTLE", "k", 14, 15, 3600)[:3], [0, 15, 13])
            self.assertEqual(connection.ask("SLUICE.PEEK", "fixed_window 9/52w", "k")[:3],
                             [1, 9, 8])
            again = connection.ask("SLUICE.ACQUIRE", "concurrency 1 lease=1h", "k")
            self.assertEqual((permit[0], again[0]), (1, 0), (permit, again))

    def test_a_server_that_is_killed_has_its_last_snapshot(self):
        with self.serve() as server, Connection(server.address) as connection:
            connection.ask("CL.THROTTLE", "k", 14, 15, 3600)
            server.signal(signal.SIGUSR1)
            server.await_output("wrote 1 key to " + self.path)
            connection.ask("CL.THROTTLE", "k", 14, 15, 3600)
            server.signal(signal.SIGKILL)
            server.wait()
        with self.serve() as server, Connection(server.address) as connection:
            self.assertEqual(connection.ask("CL.THROTTLE", "k", 14, 15, 3600)[2], 13)

    def test_a_file_that_may_not_grow_does_not_end_the_server(self):
        with self.serve() as server, Connection(server.address) as connection:
            for i in range(300):
                connection.ask("CL.THROTTLE", i, 14, 15, 3600)
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (4096, 4096))
            server.signal(signal.SIGUSR1)
            server.await_output("no snapshot was written, and there is no former one: ")
            self.assertIn("File too large", server.output())
            self.assertEqual(connection.ask("PING"), "PONG")
            self.assertEqual(server.stop(), 1)  # The last one was not written.

    def test_it_is_written_from_time_to_time_and_counted(self):
        in_the_way = self.path + ".new"
        os.makedirs(os.path.join(in_the_way, "a file"))
        with self.serve("--snapshot-every", "1s", http=True) as server:
            def count(outcome):
                return metrics(server.http[1])[f'sluice_snapshots_total{{outcome="{outcome}"}}']

            await_true("a failure", lambda: count("failed") > 0)
            self.assertEqual(count("succeeded"), 0)
            os.rename(in_the_way, self.path + ".away")
            await_true("a snapshot", lambda: count("succeeded") > 0)
            self.assertTrue(os.path.exists(self.path))

    def test_a_damaged_snapshot_is_refused(self):
        with self.serve() as server:
            self.assertEqual(server.stop(), 0)
        os.truncate(self.path, os.path.getsize(self.path) - 1)
        said = self.serve_refusal("--snapshot", self.path)
        self.assertIn(f"cannot load {self.path}: it is damaged: ", said)
        self.assertIn("move the file away", said)

    def test_what_cannot_be_kept_is_refused(self):
        self.assertIn("--snapshot-every must be a duration from 1s to 1d",
                      self.serve_refusal("--snapshot", self.path, "--snapshot-every", "1ms"))
        self.assertIn("--snapshot-every: no file is named",
                      self.serve_refusal("--snapshot-every", "5m"))
        self.assertIn("No such file or directory",
                      self.serve_refusal("--snapshot", "/nonexistent/snapshot"))
        self.assertIn("snapshot: only a store memory: has one",
                      self.serve_refusal("--snapshot", self.path, "--store", "redis://127.0.0.1:1"))
        with self.serve():
            self.assertIn("another process keeps its snapshot in " + self.path,
                          self.serve_refusal("--snapshot", self.path))
