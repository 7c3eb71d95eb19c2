"""`sluice serve` takes a changed file while it runs: no decision is lost, none is wrong."""

import contextlib
import os
import shutil
import signal
import ssl
import threading
import time

from certificates import Certificates
from harness import (BINARY, NOBODY, PATIENCE_S, Connection, MemcachedServer, Process, RedisServer,
                     Server, SystemTest, await_true, command, free_port, metrics, open_socket,
                     post, read_text, replace_text, run, taken_address, write_text)

LIMITS = "limits: {{api: token_bucket {}/24h, login: sliding_log 5/1h}}\n"


class Reload(SystemTest):
    def setUp(self):
        self.port = free_port()
        self.folder = self.temporary_folder()
        self.path = os.path.join(self.folder, "sluice.yaml")

    def write(self, text, path=None):
        replace_text(path or self.path, text)

    def serve(self, text, *options):
        """A server with this file."""
        self.write(text)
        return self.run_serve("--config", self.path, *options)

    def start(self, text, *options):
        return self.serve(self.listen() + text, *options)

    def listen(self, *others):
        addresses = ", ".join(f"'{address}'" for address in (f"127.0.0.1:{self.port}", *others))
        return f"listen: {{resp: [{addresses}]}}\ndrain: 0s\n"

    def connect(self):
        return self.enterContext(Connection(("127.0.0.1", self.port)))

    def expect_reloads(self, server, number, limit):
        """The server has taken so many changes, and `api` has this limit now."""
        server.await_output("reloaded: ", number)
        self.assertEqual(self.connect().ask("SLUICE.PEEK", "api", "k")[1], limit)

    def start_as_nobody(self, mode):
        """A server for which the permissions of files count: its folder has these."""
        binary = shutil.copy(BINARY, self.folder)
        self.write(self.listen() + LIMITS.format(10))
        os.chmod(self.folder, mode)
        self.addCleanup(os.chmod, self.folder, 0o700)
        server = self.enterContext(Process(binary, "serve", "--config", self.path, **NOBODY))
        server.await_output("serving ")
        return server

    def test_on_sighup_with_states_and_counts(self):
        server = self.start(LIMITS.format(10))
        connection = self.connect()
        for _ in range(4):
            connection.ask("SLUICE.CHECK", "login", "k")
        self.assertEqual(connection.ask("SLUICE.CHECK", "api", "k", 10)[:3], [1, 10, 0])
        text = ("limits: {login: sliding_log 7/1h, api: token_bucket 20/24h burst=40,"
                " more: {limit: fixed_window 3/1h, overrides: [{key: x, deny: yes}]}}\n")
        self.write(self.listen() + text)
        server.signal(signal.SIGHUP)
        # A late server may take the same change twice: for the signal, and because it watches.
        server.await_output(", 3 named limits, ")
        server.await_output("; limits: 1 added (more), 2 changed (login, api)\n")
        self.assertEqual(connection.ask("SLUICE.PEEK", "login", "k")[:3], [1, 7, 3])
        # The bucket is as full as its time says: a whole day's units are owed, at twice the rate.
        self.assertEqual(connection.ask("SLUICE.PEEK", "api", "k")[1:3], [40, 20])
        self.assertEqual(connection.ask("SLUICE.CHECK", "more", "x")[0], 0)
        counts = {row[0]: row[2:] for row in connection.ask("SLUICE.LIMITS")}
        self.assertEqual(counts, {"login": [4, 0], "api": [1, 0], "more": [0, 1],
                                  "(other)": [0, 0]})
        # Another algorithm, and one limit gone: fresh, and unknown. The connection has stayed open.
        self.write(self.listen() + "limits: {login: fixed_window 6/1h}\n")
        server.signal(signal.SIGHUP)
        server.await_output(", 1 named limit, ")
        server.await_output("; limits: 1 changed with fresh keys (login), 2 removed (api, more)\n")
        self.assertEqual(connection.ask("SLUICE.CHECK", "login", "k")[:3], [1, 6, 5])
        self.assertIn("no limit is named", str(connection.ask("SLUICE.PEEK", "more", "k")))

    def test_on_a_change_of_the_file(self):
        server = self.start(LIMITS.format(10))
        self.write(self.listen() + LIMITS.format(11))
        self.expect_reloads(server, 1, 11)
        write_text(self.path, self.listen() + LIMITS.format(12))  # In place.
        self.expect_reloads(server, 2, 12)
        # The same bytes again are no change.
        self.write(self.listen() + LIMITS.format(12))
        self.write("", os.path.join(self.folder, "neighbour.yaml"))
        self.write(self.listen() + LIMITS.format(13))
        server.await_output("reloaded: ", 3)
        self.assertEqual(server.output().count("reloaded: "), 3, server.output())

    def test_a_reservation_is_settled_by_the_present_limit(self):
        for store in ("memory:", self.enterContext(RedisServer()).url + "?deadline=5s",
                      self.enterContext(MemcachedServer()).url + "?deadline=5s"):
            with self.subTest(store):
                self.setUp()  # With another port and another file.
                self.expect_settled(f"store: '{store}'\n")

    def expect_settled(self, store):
        http = free_port()
        text = (f"listen: {{resp: '127.0.0.1:{self.port}', http: '127.0.0.1:{http}'}}\n"
                f"{store}limits: {{api: {{limit: %s}}}}\n")
        server = self.serve(text % "token_bucket 10/1h")
        connection = self.connect()

        def commit(reserved, cost):
            reservation = {"reservation": reserved["reservation"], "cost": cost}
            status, _, reply = post(http, "/v1/commit", reservation)
            return status, reply

        kept, lost, again = (post(http, "/v1/reserve", {"limit": "api", "key": "k"})[2]
                             for _ in range(3))
        # Three units were taken that come back in 18 minutes. The five that are charged now come
        # back in 5 ms, and not in half an hour, as by the former limit.
        self.write(text % "token_bucket 1000/1s")
        server.await_output("reloaded: ", 1)
        status, decision = commit(kept, 6)
        self.assertEqual((status, decision["limit"]), (200, 1000))
        self.assertLessEqual(decision["reset_after_ms"], 1_080_005)
        # One of another kind begins fresh, and the former state does not replace its own: that of
        # an override of the key, and then of the whole limit.
        for reloads, (reserved, limit) in enumerate((
                (lost, "token_bucket 1000/1s, overrides: [{key: k, limit: fixed_window 10/24h}]"),
                (again, "sliding_log 10/24h")), 2):
            self.write(text % limit)
            server.await_output("reloaded: ", reloads)
            self.assertEqual(connection.ask("SLUICE.CHECK", "api", "k", 10)[:3], [1, 10, 0])
            status, problem = commit(reserved, 0)
            self.assertEqual(status, 404)
            self.assertIn("another kind", problem["detail"])
            self.assertEqual(connection.ask("SLUICE.CHECK", "api", "k")[:3], [0, 10, 0])

    def test_in_a_folder_that_cannot_be_watched(self):
        """One that the server may not list. It warns, once, and takes a change on SIGHUP."""
        server = self.start_as_nobody(0o311)
        for number in (1, 2):
            self.write(self.listen() + LIMITS.format(10 + number))
            server.signal(signal.SIGHUP)
            self.expect_reloads(server, number, 10 + number)
        warning = ("some changes of files are noticed on SIGHUP only: "
                   f"cannot watch the folder {self.folder}: Permission denied\n")
        self.assertEqual(server.output().count("SIGHUP only"), 1, server.output())
        self.assertIn(warning, server.output())

    def test_a_file_that_is_made_readable_later(self):
        server = self.start_as_nobody(0o755)
        write_text(self.path + ".new", self.listen() + LIMITS.format(11))
        os.chmod(self.path + ".new", 0)
        os.rename(self.path + ".new", self.path)
        server.await_output("not reloaded, all stays as it was: ")
        os.chmod(self.path, 0o644)
        self.expect_reloads(server, 1, 11)

    @staticmethod
    def lead(path, target):
        """Replaces a link, or makes it."""
        os.symlink(target, path + ".new")
        os.rename(path + ".new", path)

    def test_a_config_map(self):
        """As Kubernetes mounts it: the file leads to ..data, which is replaced."""
        def release(number):
            folder = os.path.join(self.folder, f"..{number}")
            os.mkdir(folder)
            write_text(os.path.join(folder, "sluice.yaml"), self.listen() + LIMITS.format(number))
            self.lead(os.path.join(self.folder, "..data"), f"..{number}")

        release(10)
        os.symlink(os.path.join("..data", "sluice.yaml"), self.path)
        server = self.run_serve("--config", self.path)
        for number in (11, 12):
            release(number)
            self.expect_reloads(server, number - 10, number)

    def test_links_that_lead_to_the_file(self):
        """A link to a link, as certbot keeps one to the present certificate, and a link to a
        folder, as of the present release: any of them may be replaced."""
        for number in (10, 11, 12, 13):
            os.makedirs(os.path.join(self.folder, "archive", str(number)))
            self.write(self.listen() + LIMITS.format(number),
                       os.path.join(self.folder, "archive", str(number), "sluice.yaml"))

        os.mkdir(os.path.join(self.folder, "live"))
        live = os.path.join(self.folder, "live", "sluice.yaml")
        present = os.path.join(self.folder, "present")
        self.lead(live, "../archive/10/sluice.yaml")
        self.lead(self.path, "live/sluice.yaml")
        server = self.run_serve("--config", self.path)
        self.lead(present, "archive/12")
        for number, (path, target) in enumerate((
                (live, "../archive/11/sluice.yaml"), (self.path, "present/sluice.yaml"),
                (present, os.path.join(self.folder, "archive", "13"))), 1):
            self.lead(path, target)
            self.expect_reloads(server, number, 10 + number)

    def test_a_folder_that_is_made_anew(self):
        folder = os.path.join(self.folder, "a", "b")
        self.path = os.path.join(folder, "sluice.yaml")
        os.makedirs(folder)
        server = self.start(LIMITS.format(10))
        for number, removed in enumerate((folder, os.path.dirname(folder)), 11):
            shutil.rmtree(removed)
            os.makedirs(folder)
            server.await_output("not reloaded", number - 10)  # The file is not there yet.
            self.write(self.listen() + LIMITS.format(number))
            self.expect_reloads(server, number - 10, number)

    def test_a_file_that_is_gone_for_a_while(self):
        server = self.start(LIMITS.format(10))
        connection = self.connect()
        aside = self.path + ".aside"
        gone = (f"not reloaded, all stays as it was: {self.path}: the file cannot be read: "
                "No such file or directory\n")
        for number, remove in enumerate((os.unlink, lambda path: os.rename(path, aside)), 1):
            remove(self.path)
            server.await_output(gone, number)
            self.assertEqual(connection.ask("SLUICE.PEEK", "api", "k")[1], 10)
            self.write(self.listen() + LIMITS.format(10))  # The same bytes as before.
            server.await_output("reloaded: serving ", number)

    def test_a_file_that_is_removed_before_it_is_written_anew(self):
        server = self.start(LIMITS.format(10))
        for number in range(1, 11):
            refused = server.output().count("not reloaded")
            removed = time.monotonic()
            os.unlink(self.path)
            time.sleep(0.3)
            self.write(self.listen() + LIMITS.format(10 + number))
            took = time.monotonic() - removed
            server.await_output("reloaded: serving ", number)
            if took < 0.9:  # Else the server may take the file for gone: the machine is too busy.
                self.assertEqual(server.output().count("not reloaded"), refused, server.output())
                return
        self.fail("the machine is too busy")

    def test_a_bad_file_keeps_the_old(self):
        server = self.start(LIMITS.format(10))
        connection = self.connect()
        connection.ask("SLUICE.CHECK", "api", "k")
        with taken_address() as used:
            mistakes = (("limits: {api: nonsense 1/1s}\n", ":1:15: "),
                        ("", ":1:1: the file is empty"),
                        (self.listen("0.0.0.0:1") + LIMITS.format(11), "--insecure"),
                        (self.listen() + "store: memory:?full=allow\n",
                         "the store cannot be changed"),
                        (self.listen(used) + LIMITS.format(11), f"cannot listen on {used}"))
            for number, (text, why) in enumerate(mistakes, 1):
                self.write(text)
                server.await_output("not reloaded, all stays as it was: ", number)
                line = server.output().splitlines()[-1]
                self.assertIn(why, line)
                self.assertEqual(connection.ask("SLUICE.PEEK", "api", "k")[1:3], [10, 9])
        self.assertNotIn("sluice: reloaded", server.output())
        os.unlink(self.path)
        server.signal(signal.SIGHUP)
        server.await_output("not reloaded, all stays as it was: ", 6)
        self.assertEqual(self.connect().ask("SLUICE.PEEK", "api", "k")[1:3], [10, 9])

    def test_listeners(self):
        """New ones open, removed ones close, the others and all connections stay."""
        unix = os.path.join(self.folder, "resp.sock")
        other = free_port()
        server = self.start(LIMITS.format(10))
        before = self.connect()
        self.write(self.listen(f"127.0.0.1:{other}", f"unix:{unix}") + LIMITS.format(10))
        server.await_output("reloaded: ", 1)
        for address in (("127.0.0.1", other), unix):
            with Connection(address) as connection:
                self.assertEqual(connection.ask("SLUICE.CHECK", "login", "k")[0], 1)
        kept = self.enterContext(Connection(unix))
        self.assertEqual(kept.ask("PING"), "PONG")
        self.write(self.listen() + LIMITS.format(10))
        server.await_output("reloaded: ", 2)
        for address in (("127.0.0.1", other), unix):
            self.assertRaises(OSError, open_socket, address)
        self.assertFalse(os.path.exists(unix))
        for connection in (before, kept, self.connect()):
            self.assertEqual(connection.ask("SLUICE.PEEK", "login", "k")[2], 3)
        self.assertEqual(server.stop(), 0)

    def test_an_address_that_serves_something_else(self):
        """Another protocol or TLS at the same address, or its port at all addresses: what has been
        connected goes on, and what connects then is served so."""
        Certificates(self.folder)
        tcp, unix = f"127.0.0.1:{self.port}", os.path.join(self.folder, "sluice.sock")
        secure = "{cert: server.pem, key: server.key}"
        listens = (f"resp: ['{tcp}', 'unix:{unix}']",
                   f"resp: ['{tcp}'], http: ['unix:{unix}']",
                   f"http: ['0.0.0.0:{self.port}'], resp: ['unix:{unix}']",
                   f"http: ['{tcp}'], resp: [{{address: 'unix:{unix}', tls: {secure}}}]",
                   f"resp: ['{tcp}', 'unix:{unix}']")
        server = self.serve(f"listen: {{{listens[0]}}}\n", "--insecure")
        first = [Connection(address) for address in (("127.0.0.1", self.port), unix)]
        for number, listen in enumerate(listens[1:], 1):
            self.write(f"listen: {{{listen}}}\n" + LIMITS.format(number))
            server.await_output("reloaded: ", number)
            for connection in first:
                self.assertEqual(connection.ask("PING"), "PONG")
            for name, address in ((tcp, ("127.0.0.1", self.port)), (f"unix:{unix}", unix)):
                with Connection(address) as connection:
                    connection.send(b"PING\r\n\r\n")
                    try:
                        reply = connection.socket.recv(64)
                    except ConnectionResetError:
                        reply = b""
                is_http = listen.startswith("http") if name == tcp else "http: ['unix" in listen
                is_secure = name != tcp and "tls" in listen
                wanted = b"" if is_secure else b"HTTP/1.1 4" if is_http else b"+PONG"
                self.assertTrue(reply.startswith(wanted), (listen, name, reply))
                self.assertFalse(is_secure and reply.startswith(b"+PONG"), listen)
        for connection in first:
            connection.close()

    def test_unix_sockets_that_move_and_swap(self):
        places = [os.path.join(self.folder, name) for name in "abc"]
        a, b, c = places
        for number, (resp, http) in enumerate(((a, b), (b, a), (c, a), (a, c))):
            self.write(f"listen: {{resp: 'unix:{resp}', http: 'unix:{http}'}}\n" +
                       LIMITS.format(10 + number))
            if number == 0:
                server = self.run_serve("--config", self.path)
            else:
                server.await_output("reloaded: ", number)
            for place in places:
                self.assertEqual(os.path.exists(place), place in (resp, http), (number, place))
            with Connection(resp) as connection:
                self.assertEqual(connection.ask("SLUICE.PEEK", "api", "k")[1], 10 + number)
            with Connection(http) as connection:
                connection.send(b"PING\r\n\r\n")
                self.assertTrue(connection.socket.recv(64).startswith(b"HTTP/1.1 4"))

    def test_an_edit_while_the_server_starts(self):
        """It reads its certificate from a pipe first, and so waits once it has read the file."""
        made = Certificates(self.folder)
        pipe = os.path.join(self.folder, "pipe")
        os.mkfifo(pipe)
        self.write(f"tls: {{cert: {pipe}, key: {made.key('server')}}}\n" + self.listen() +
                   LIMITS.format(10))
        server = self.enterContext(Process(BINARY, "serve", "--config", self.path))
        with open(pipe, "w", encoding="ascii") as certificate:  # The server has opened it, too.
            self.write(self.listen() + LIMITS.format(11))
            certificate.write(read_text(made.pem("server")))
            os.rename(made.pem("server"), pipe)
        self.expect_reloads(server, 1, 11)

    def test_the_files_of_a_former_listener_may_be_gone(self):
        made = Certificates(self.folder)
        secure = f"{{address: 127.0.0.1:{free_port()}, tls: {{cert: server.pem, key: server.key}}}}"
        listen = f"listen: {{resp: ['127.0.0.1:{self.port}', {secure}]}}\n"
        server = self.serve(listen)
        os.unlink(made.pem("server"))
        self.write(listen + LIMITS.format(10))
        server.await_output(f"the certificate file {made.pem('server')} cannot be used", 1)
        self.write(self.listen() + LIMITS.format(10))
        server.await_output("reloaded: serving ", 1)

    def certificate(self, port=None):
        """That which the server shows, in DER."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        address = ("127.0.0.1", port or self.port)
        with context.wrap_socket(open_socket(address)) as connection:
            return connection.getpeercert(binary_form=True)

    def test_a_refused_reload_keeps_the_certificates(self):
        """The new files can be used, but one of the addresses cannot."""
        made = Certificates(self.folder)
        http = f"127.0.0.1:{free_port()}"

        def listen(*addresses):
            return (f"tls: {{cert: server.pem, key: server.key}}\n"
                    f"listen: {{resp: 127.0.0.1:{self.port}, http: [{', '.join(addresses)}]}}\n")

        server = self.serve(listen(http))
        first = self.certificate()
        with taken_address() as taken:
            self.write(listen(http, taken))
            refusal = "not reloaded, all stays as it was: cannot listen on "
            server.await_output(refusal, 1)
            made.make("server", signed=True)
            server.await_output(refusal, 2)
            self.assertEqual(self.certificate(), first)
        self.write(listen(http) + LIMITS.format(10))
        server.await_output("reloaded: serving ", 1)
        self.assertEqual(self.certificate(), made.der("server"))

    def test_on_a_change_of_a_certificate(self):
        """With and without a file of the server. While only the key is the new one, the old two are
        served on."""
        made = Certificates(self.folder)
        for options in (("--config", self.path), made.options()):
            with self.subTest(options):
                self.write("tls: {cert: server.pem, key: server.key}\n")
                with self.run_serve("--resp", f"127.0.0.1:{self.port}", *options) as server:
                    first = self.certificate()
                    made.make("next", signed=True)
                    os.rename(made.key("next"), made.key("server"))
                    server.await_output("not reloaded, all stays as it was: ", 1)
                    self.assertEqual(self.certificate(), first)
                    os.rename(made.pem("next"), made.pem("server"))
                    server.await_output("reloaded: ", 1)
                    self.assertEqual(self.certificate(), made.der("server"))
                    self.assertNotEqual(self.certificate(), first)

    def test_a_certificate_that_appears_after_the_file_that_names_it(self):
        """The file is refused, and taken once the certificate is there."""
        made = Certificates(self.folder)
        text = self.listen() + "tls: {cert: NAME.pem, key: NAME.key}\n"
        server = self.serve(text.replace("NAME", "server"))
        first = self.certificate()
        self.write(text.replace("NAME", "next"))
        server.await_output("not reloaded, all stays as it was: ", 1)
        self.assertIn(f"the certificate file {made.pem('next')} cannot be used", server.output())
        self.assertEqual(self.certificate(), first)
        made.make("next", signed=True)
        server.await_output("reloaded: serving ", 1)
        self.assertEqual(self.certificate(), made.der("next"))

    def test_certificates_from_pipes(self):
        """At the start the server reads each once, however many addresses show the certificate."""
        made = Certificates(self.folder)
        pipes = [os.path.join(self.folder, name) for name in ("cert", "key", "authorities")]
        ports = [free_port(), free_port()]
        for pipe in pipes:
            os.mkfifo(pipe)
        addresses = (word for port in ports for word in ("--resp", f"127.0.0.1:{port}"))
        server = self.enterContext(Process(BINARY, "serve", "--tls-cert", pipes[0], "--tls-key",
                                           pipes[1], "--tls-client-ca", pipes[2], *addresses))
        for pipe, source in zip(pipes, (made.pem("server"), made.key("server"), made.pem("ca"))):
            write_text(pipe, read_text(source))
        server.await_output("serving ", 1)
        for port in ports:
            self.assertEqual(self.certificate(port), made.der("server"))

    @staticmethod
    @contextlib.contextmanager
    def reading(pipe):
        """Goes on once the pipe has a reader, which waits for text until the end of the block."""
        writers = []

        def has_reader():
            with contextlib.suppress(OSError):
                writers.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            return bool(writers)

        await_true("it reads", has_reader)
        yield
        os.close(*writers)

    def test_pipes_do_not_keep_the_server(self):
        """It serves on, though nothing is ever written to them."""
        made = Certificates(self.folder)
        server = self.start(f"tls: {{cert: {made.pem('server')}, key: {made.key('server')}}}\n")
        for number, path in enumerate((made.key("server"), self.path), 1):
            os.rename(path, path + ".kept")
            os.mkfifo(path)
            server.signal(signal.SIGHUP)
            server.await_output("is no regular file", number)
            os.rename(path + ".kept", path)
            server.await_output("reloaded: serving ", number)

    def test_the_file_of_the_server_from_a_pipe(self):
        """Only the start reads it."""
        os.mkfifo(self.path)
        with Process(BINARY, "serve", "--config", self.path) as server:
            write_text(self.path, self.listen() + LIMITS.format(10))
            server.await_output("serving ", 1)
            server.signal(signal.SIGHUP)
            server.await_output(f"{self.path} is no regular file, and only at the start", 1)
            self.assertEqual(self.connect().ask("SLUICE.PEEK", "api", "k")[1], 10)

    def test_signals_end_the_start(self):
        """Also that of the first process of a container, for which the system ignores signals whose
        action is the default one."""
        contain = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")
        is_allowed = run(*contain, "true").returncode == 0
        pipe = os.path.join(self.folder, "pipe")
        os.mkfifo(pipe)
        for number in (signal.SIGTERM, signal.SIGINT):
            with Process(BINARY, "serve", "--tls-cert", pipe) as server, self.reading(pipe):
                server.signal(number)
                self.assertEqual(server.wait(), -number)
            if not is_allowed:
                continue
            with Process(*contain, BINARY, "serve", "--tls-cert", pipe) as outside, \
                    self.reading(pipe):
                first = read_text(f"/proc/{outside.pid}/task/{outside.pid}/children")
                os.kill(int(first), number)
                self.assertEqual(outside.wait(), 128 + number)

    def test_without_a_file_of_the_server(self):
        """SIGHUP has the certificates read again, if there are any, and ends nothing."""
        made = Certificates(self.folder)
        for options in ((), made.options()):
            with Server(*options) as server:
                for count in (1, 2):
                    server.signal(signal.SIGHUP)
                    server.await_output("reloaded: serving ", count)
                if options:
                    os.unlink(made.pem("server"))
                    server.signal(signal.SIGHUP)
                    server.await_output("not reloaded, all stays as it was: ", 1)
                self.assertEqual(server.stop(), 0)

    def test_reloads_are_in_the_metrics(self):
        port = free_port()
        listen = f"listen: {{http: '127.0.0.1:{port}'}}\n"
        server = self.serve(listen)

        def of_reloads():
            return {name.removeprefix("sluice_"): value for name, value in metrics(port).items()
                    if "reload" in name}

        first = of_reloads()
        self.assertEqual(list(first.values())[:2], [0, 0])
        self.assertLess(abs(first["last_reload_time_seconds"] - time.time()), PATIENCE_S)
        self.write("limits: nonsense\n")
        server.await_output("not reloaded", 1)
        failed = of_reloads()
        self.assertEqual(failed, {**first, 'reloads_total{outcome="failed"}': 1,
                                  "last_reload_succeeded": 0})
        self.write(listen + LIMITS.format(10))
        server.await_output("reloaded: ", 1)
        last = of_reloads()
        self.assertEqual(last['reloads_total{outcome="succeeded"}'], 1)
        self.assertGreater(last["last_reload_time_seconds"], first["last_reload_time_seconds"])

    @contextlib.contextmanager
    def load(self, ask):
        """Four clients, each of which repeats `ask(connection)` until the context ends. Yields a
        list that has the sum of what it returned for each of them then."""
        admitted, errors = [], []
        done = threading.Event()

        def run():
            count = 0
            try:
                with Connection(("127.0.0.1", self.port)) as connection:
                    while not done.is_set():
                        count += ask(connection)
            except (OSError, AssertionError) as error:
                errors.append(error)
            admitted.append(count)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            yield admitted
        finally:
            done.set()
            for thread in threads:
                thread.join(PATIENCE_S)
        self.assertEqual(errors, [])

    def reload(self, server, number, limits):
        self.write(f"{self.listen()}limits: {limits}\n")
        server.signal(signal.SIGHUP)
        server.await_output("reloaded: ", number)

    def test_under_load_one_key_is_counted_exactly(self):
        """While the limit goes up and down, every request is answered once, and the key has exactly
        the units that were admitted."""
        server = self.start("limits: {api: fixed_window 1000000/24h}\n", "--threads", "2")
        batch = command("SLUICE.CHECK", "api", "k") * 20

        def ask(connection):
            connection.send(batch)
            for _ in range(20):
                reply = connection.read()
                if not (isinstance(reply, list) and reply[0] == 1 and
                        1000000 <= reply[1] < 1000100):
                    raise AssertionError(reply)
            return 20

        with self.load(ask) as admitted:
            for number in range(1, 41):
                self.reload(server, number,
                            f"{{api: fixed_window {1000000 + number % 3}/24h, x{number}: "
                            "{limit: token_bucket 1/1s, overrides: [{key: a, unlimited: yes}]}}")
        total = sum(admitted)
        self.assertGreater(total, 0)
        connection = self.connect()
        limit, remaining = connection.ask("SLUICE.PEEK", "api", "k")[1:3]
        self.assertEqual(limit - remaining, total)
        counts = {row[0]: row[2:] for row in connection.ask("SLUICE.LIMITS")}
        self.assertEqual(counts["api"], [total, 0])

    def test_under_load_no_key_gets_more_than_its_limit(self):
        server = self.start("limits: {api: fixed_window 500/24h}\n", "--threads", "2")
        with self.load(lambda asking: asking.ask("SLUICE.CHECK", "api", "k")[0]) as admitted:
            for number in range(1, 21):
                more = "" if number % 2 else ", overrides: [{key: other, deny: yes}]"
                self.reload(server, number,
                            f"{{api: {{limit: fixed_window {500 - number % 2}/24h{more}}}}}")
            connection = self.connect()
            await_true("500 are used", lambda: connection.ask(
                "SLUICE.PEEK", "api", "k")[1:3] == [500, 0])
        self.assertEqual(sum(admitted), 500)
