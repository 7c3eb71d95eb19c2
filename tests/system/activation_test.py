"""Sockets that the service manager passes to `sluice serve`: what is served on them, what is
refused, and that a restart loses no request. The test plays the service manager."""

import json
import os
import signal
import socket
import subprocess
import time

from harness import (BINARY, PATIENCE_S, Connection, Process, SystemTest, command, exchange,
                     free_port, write_text)

CALLER = os.environ.get("RESTART_CALLER", "")
# How often the server is restarted under load; what is asked meanwhile.
RESTARTS = int(os.environ.get("SLUICE_RESTARTS", "20"))
CONNECTIONS_EACH = 25
PER_SECOND_EACH = 2_500
BETWEEN_S = 0.2
KEYS = 10
MOST_EACH = 1_200


class Manager:
    """Holds listening sockets, and passes them to the servers that it starts."""

    def __init__(self, *addresses):
        self.sockets = []
        for address in addresses:
            listening = socket.socket(
                socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
            self.sockets.append(listening)
            listening.bind(address)
            listening.listen(1000)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for listening in self.sockets:
            listening.close()

    def start(self, *arguments, environment=None):
        """A `sluice serve` that gets the sockets from descriptor 3 on."""
        first, count = 3, len(self.sockets)
        # Out of the way first: a socket may have a number that another one is to get.
        spare = [os.dup(listening.fileno()) for listening in self.sockets]
        while min(spare) < first + count:
            spare = [os.dup(number) for number in spare]

        def pass_sockets():
            for index, number in enumerate(spare):
                os.dup2(number, first + index)
            os.environ["LISTEN_PID"] = str(os.getpid())
            os.environ["LISTEN_FDS"] = str(count)
            os.environ["LISTEN_FDNAMES"] = ":".join(["sluice.socket"] * count)
            os.environ.update(environment or {})

        try:
            return Process(BINARY, "serve", *arguments, preexec_fn=pass_sockets,
                           pass_fds=range(first, first + count))
        finally:
            for number in spare:
                os.close(number)


class Caller:
    """Asks in the background: see restart_caller.cc."""

    def __init__(self, protocol, address):
        self._process = subprocess.Popen(
            (CALLER, protocol, str(address), str(CONNECTIONS_EACH), str(PER_SECOND_EACH), "api",
             str(KEYS)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def finish(self):
        """What happened."""
        output, _ = self._process.communicate(timeout=2 * PATIENCE_S)
        return json.loads(output)


class Activation(SystemTest):
    def manager(self, *addresses):
        manager = Manager(*addresses)
        self.addCleanup(manager.__exit__)
        return manager

    def start(self, manager, *arguments, **options):
        return self.enterContext(manager.start(*arguments, **options))

    def unix_path(self):
        return os.path.join(self.temporary_folder(), "resp.sock")

    def test_is_served_on_them(self):
        """Each at the address where it is configured; other addresses are opened as always."""
        path = self.unix_path()
        resp, http, own = (("127.0.0.1", free_port()) for _ in range(3))
        manager = self.manager(http, path, resp)
        server = self.start(manager, "--resp", f"127.0.0.1:{resp[1]}", "--resp", f"unix:{path}",
                            "--resp", f"127.0.0.1:{own[1]}", "--http", f"127.0.0.1:{http[1]}")
        for address in (resp, path):
            with Connection(address) as connection:
                self.assertEqual(connection.ask("PING"), "PONG")
        server.await_listening(own)
        get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        self.assertIn(b" 200 OK", exchange(http, get))
        self.assertEqual(server.stop(), 0)
        self.assertTrue(os.path.exists(path), "it belongs to the service manager")

    def test_clients_that_have_connected_are_left_to_the_next_process(self):
        path, port = self.unix_path(), free_port()
        for address, option in ((path, f"unix:{path}"), (("127.0.0.1", port), f"127.0.0.1:{port}")):
            manager = self.manager(address)
            server = self.start(manager, "--resp", option)
            server.await_output("serving")
            server.signal(signal.SIGSTOP)
            waiting = [Connection(address) for _ in range(100)]
            for connection in waiting:
                connection.send(command("PING"))
            server.signal(signal.SIGTERM)
            server.signal(signal.SIGCONT)
            self.assertEqual(server.wait(), 0, server.output())
            waiting.append(Connection(address))
            waiting[-1].send(command("PING"))
            self.start(manager, "--resp", option)
            for connection in waiting:
                self.assertEqual(connection.read(), "PONG")
                connection.close()

    def test_silent_clients_delay_the_next_process_little(self):
        port = free_port()
        manager = self.manager(("127.0.0.1", port))
        config = self.write_file("sluice.yaml", "drain: 50s\n")
        server = self.start(manager, "--resp", f"127.0.0.1:{port}", "--config", config)
        with Connection(("127.0.0.1", port)) as idle:
            self.assertEqual(idle.ask("PING"), "PONG")
            start = time.monotonic()
            server.signal(signal.SIGTERM)
            self.assertEqual(server.wait(), 0, server.output())
            self.assertLess(time.monotonic() - start, PATIENCE_S, "drain is 50s")

    def refusal(self, server):
        self.assertEqual(server.wait(), 2)
        said = server.output()
        self.assertEqual(said.count("\n"), 1, said)
        return said

    def test_what_is_refused(self):
        port = free_port()
        manager = self.manager(("127.0.0.1", port))
        other = free_port()
        self.assertIn(f"has passed a socket for 127.0.0.1:{port}, where nothing is to be served",
                      self.refusal(self.start(manager, "--resp", f"127.0.0.1:{other}")))
        self.assertIn("LISTEN_FDS must be a number",
                      self.refusal(self.start(manager, environment={"LISTEN_FDS": "x"})))
        self.assertIn("descriptor 4, which is no stream socket that listens",
                      self.refusal(self.start(manager, "--resp", f"127.0.0.1:{port}",
                                              environment={"LISTEN_FDS": "2"})))
        with socket.socket() as connected, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            for wrong in (connected, datagrams):
                confused = Manager()
                confused.sockets = [wrong]
                self.assertIn("descriptor 3, which is no stream socket that listens",
                              self.refusal(self.start(confused)))

    def test_those_of_another_process_are_left_alone(self):
        port, other = free_port(), free_port()
        manager = self.manager(("127.0.0.1", port))
        server = self.start(manager, "--resp", f"127.0.0.1:{other}",
                            environment={"LISTEN_PID": "1"})
        server.await_listening(("127.0.0.1", other))
        self.assertEqual(server.stop(), 0)

    def test_a_reload_keeps_them(self):
        resp, http = free_port(), free_port()
        listen = f"listen: {{resp: 127.0.0.1:{resp}, http: 127.0.0.1:{http}}}\n"
        config = self.write_file("sluice.yaml", listen)
        manager = self.manager(("127.0.0.1", resp))
        server = self.start(manager, "--config", config)
        server.await_listening(("127.0.0.1", http))
        server.await_output("serving")
        write_text(config, f"listen: {{http: 127.0.0.1:{http}}}\n")
        server.signal(signal.SIGHUP)
        server.await_output(f"not reloaded, all stays as it was: the service manager has passed a "
                            f"socket for 127.0.0.1:{resp}, where nothing is to be served")
        write_text(config, f"listen: {{resp: 127.0.0.1:{resp}}}\n")
        server.signal(signal.SIGHUP)
        server.await_output("sluice: reloaded")
        with Connection(("127.0.0.1", resp)) as connection:
            self.assertEqual(connection.ask("PING"), "PONG")


class Restarts(SystemTest):
    def test_no_request_fails_and_no_key_exceeds_its_limit(self):
        resp, http = free_port(), free_port()
        folder = self.temporary_folder()
        config = self.write_file("sluice.yaml", f"""
listen: {{resp: 127.0.0.1:{resp}, http: 127.0.0.1:{http}}}
snapshot: {{file: {folder}/snapshot}}
limits: {{api: sliding_log {MOST_EACH}/1d}}
""")
        with Manager(("127.0.0.1", resp), ("127.0.0.1", http)) as manager:
            server = manager.start("--config", config)
            self.addCleanup(lambda: server.stop())  # The last one.
            callers = [Caller("resp", resp), Caller("http", http)]
            try:
                for _ in range(RESTARTS):
                    server.await_output("serving")
                    time.sleep(BETWEEN_S)
                    self.assertEqual(server.stop(), 0)
                    server = manager.start("--config", config)
                server.await_output("serving")
                time.sleep(BETWEEN_S)
            finally:
                outcomes = [caller.finish() for caller in callers]
            with Connection(("127.0.0.1", resp)) as connection:
                left = {key: connection.ask("SLUICE.PEEK", "api", key)[2]
                        for key in outcomes[0]["allowed"]}
        print(f"{RESTARTS} restarts:", *outcomes, sep="\n")
        for outcome in outcomes:
            self.assertEqual(outcome["failed"], 0)
            # Each connection is closed by each restart, but a caller may have been without a core.
            self.assertGreaterEqual(outcome["opened"], CONNECTIONS_EACH * RESTARTS / 2)
        again = sum(outcome["sent_again"] for outcome in outcomes)
        allowed = {key: sum(outcome["allowed"][key] for outcome in outcomes)
                   for key in outcomes[0]["allowed"]}
        for key, count in allowed.items():
            self.assertLessEqual(count, MOST_EACH - left[key], key)
        # A reply that was lost may have allowed a unit, and been asked for once more.
        used = KEYS * MOST_EACH - sum(left.values())
        self.assertGreater(used, 0)
        self.assertGreaterEqual(sum(allowed.values()) + again, used, allowed)
