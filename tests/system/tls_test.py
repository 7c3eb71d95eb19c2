"""TLS and client certificates: redis-cli, openssl s_client, curl and clients from npm."""

import os
import re
import tempfile
import time

from certificates import NAMES, Certificates
from harness import PATIENCE_S, SystemTest, free_port, npm_install, open_socket, run

CLIENTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients")


class TlsTest(SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="sluice-tls-")
        cls.addClassCleanup(folder.cleanup)
        cls.made = Certificates(folder.name)

    def serve(self, client_ca=False):
        """`sluice serve` with RESP and HTTP on free ports."""
        self.port, self.http_port = free_port(), free_port()
        return self.run_serve("--resp", f"127.0.0.1:{self.port}", "--http",
                              f"127.0.0.1:{self.http_port}", *self.made.options(client_ca))

    def redis_cli(self, *arguments, client=None):
        options = ["--tls", "--cacert", self.made.pem("ca"), "-p", str(self.port)]
        if client:
            options += ["--cert", self.made.pem(client), "--key", self.made.key(client)]
        return run("redis-cli", *options, *arguments)

    def s_client(self, *arguments):
        """What openssl s_client says when it has sent PING and QUIT."""
        result = run("openssl", "s_client", "-connect", f"127.0.0.1:{self.port}", "-CAfile",
                     self.made.pem("ca"), "-ign_eof", *arguments,
                     stdin="PING\r\nQUIT\r\n", timeout_s=PATIENCE_S)
        return result.stdout + result.stderr


class Tls(TlsTest):
    def test_redis_cli(self):
        server = self.serve()
        server.await_output(f"RESP on 127.0.0.1:{self.port} with TLS")
        self.assertEqual(self.redis_cli("PING").stdout, "PONG\n")
        self.assertEqual(self.redis_cli("CL.THROTTLE", "k", "15", "30", "60").stdout.split(),
                         ["0", "16", "15", "-1", "2"])

    def test_versions(self):
        self.serve()
        for option, version in (("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")):
            said = self.s_client(option)
            self.assertIn("+PONG", said)
            self.assertIn(f"New, {version}, ", said)
        old = self.s_client("-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0")
        self.assertNotIn("+PONG", old)
        self.assertIn("alert protocol version", old)

    def test_sessions_are_resumed(self):
        self.serve()
        kept = os.path.join(self.temporary_folder(), "session")
        for option in ("-tls1_2", "-tls1_3"):
            self.assertIn("\nNew, ", self.s_client(option, "-sess_out", kept))
            self.assertIn("\nReused, ", self.s_client(option, "-sess_in", kept))

    def test_plain_clients_are_refused(self):
        server = self.serve()
        plain = run("redis-cli", "-p", str(self.port), "PING")
        self.assertNotIn("PONG", plain.stdout)
        with open_socket(("127.0.0.1", self.port)) as peer:
            peer.sendall(b"\x1b[31mSECRET\r\n" * 100)
        self.assertEqual(self.redis_cli("PING").stdout, "PONG\n")
        self.assertNotIn("SECRET", server.output())

    def test_clients_from_npm(self):
        npm_install()
        self.serve(client_ca=True)
        for name in ("redis", "ioredis"):
            result = run("node", os.path.join(CLIENTS, "clients.mjs"), name, str(self.port),
                         self.made.pem("ca"), self.made.pem("gateway"), self.made.key("gateway"))
            self.assertEqual((result.returncode, result.stdout), (0, f"{name}: ok\n"),
                             result.stderr)


class ClientCertificates(TlsTest):
    def test_those_of_the_authority_alone_are_served(self):
        server = self.serve(client_ca=True)
        self.assertEqual(self.redis_cli("PING", client="gateway").stdout, "PONG\n")
        self.assertNotIn("PONG", self.redis_cli("PING").stdout)
        server.await_output("sluice: a client at 127.0.0.1 and the server do not agree on TLS: "
                            "peer did not return a certificate\n")
        self.assertNotIn("PONG", self.redis_cli("PING", client="stranger").stdout)
        self.assertIn("alert certificate required", self.s_client("-tls1_3"))
        curl = ("curl", "-s", "--cacert", self.made.pem("ca"),
                f"https://localhost:{self.http_port}/metrics")
        self.assertEqual(run(*curl).returncode, 56)
        metrics = run(*curl, "--cert", self.made.pem("gateway"), "--key",
                      self.made.key("gateway")).stdout
        self.assertIn('sluice_tls_handshake_failures_total{protocol="resp"} 3\n', metrics)
        said = self.s_client("-tls1_2")
        self.assertIn("alert handshake failure", said)
        self.assertIn("Acceptable client certificate CA names\n", said)  # Clients choose by them.


class Refusals(TlsTest):
    def test_files(self):
        self.assertIn("--tls-client-ca", self.refusal("serve", "--resp", f"0.0.0.0:{free_port()}",
                                                      *self.made.options()))
        for options, named in ((["--tls-cert", "/nonexistent"], "/nonexistent"),
                               (["--tls-cert", self.made.pem("server")], "the key in"),
                               (["--tls-key", self.made.key("server")], "--tls-cert"),
                               (["--tls-client-ca", self.made.pem("ca")], "--tls-cert")):
            self.assertIn(named, self.refusal("serve", "--resp", f"127.0.0.1:{free_port()}",
                                              *options))


class CertificateDates(TlsTest):
    def ends(self):
        """Of each address, in how many days its certificate ends by the metric."""
        text = self.made.fetch(f"https://127.0.0.1:{self.http_port}/metrics")
        rows = re.findall(r'^sluice_certificate_not_after_seconds\{protocol="(\w+)",'
                          r'listener="(\S+)"\} (\S+)$', text, re.M)
        return {(protocol, listener): round((float(value) - time.time()) / 86400)
                for protocol, listener, value in rows}

    def test_one_that_ends_soon_is_told_of(self):
        self.made.make("server", "-addext", NAMES, signed=True, days=3)
        server = self.serve()
        addresses = {"http": f"127.0.0.1:{self.http_port}", "resp": f"127.0.0.1:{self.port}"}
        for address in addresses.values():
            server.await_output(f"the certificate that is shown on {address} ends within 3 days\n")
        self.assertEqual(self.ends(), {row: 3 for row in addresses.items()})
        # Another one takes its place: the metric follows, and the log is silent.
        self.made.make("server", "-addext", NAMES, signed=True)
        server.await_output("reloaded: ")
        self.assertEqual(self.ends(), {row: 30 for row in addresses.items()})
        self.assertEqual(server.output().count("the certificate "), 2, server.output())
        # So does one that ends sooner, of which a reload warns at once.
        self.made.make("server", "-addext", NAMES, signed=True, days=2)
        for address in addresses.values():
            server.await_output(f"the certificate that is shown on {address} ends within 2 days\n")
