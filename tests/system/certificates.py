"""Certificates for tests of TLS, made by the openssl program."""

import os
import ssl

from harness import output_of, read_text

NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


class Certificates:
    """PEM files in `folder`: ca, and server, gateway and stranger with their keys. The authority
    has signed server and gateway; stranger has signed itself."""

    def __init__(self, folder):
        self.folder = folder
        self.make("ca", "-addext", "basicConstraints=critical,CA:TRUE")
        self.make("server", "-addext", NAMES, signed=True)
        self.make("gateway", signed=True)
        self.make("stranger")

    def pem(self, name):
        return os.path.join(self.folder, name + ".pem")

    def key(self, name):
        return os.path.join(self.folder, name + ".key")

    def options(self, client_ca=False):
        """Of a server that shows `server`, and asks clients for a certificate of the authority."""
        files = ("--tls-cert", self.pem("server"), "--tls-key", self.key("server"))
        return files + (("--tls-client-ca", self.pem("ca")) if client_ca else ())

    def der(self, name):
        """The certificate as a server shows it."""
        return ssl.PEM_cert_to_DER_cert(read_text(self.pem(name)))

    def make(self, name, *options, signed=False, days=30):
        """Makes a certificate, or replaces it. The server warns of one of less than 14 days."""
        if signed:
            options += ("-addext", "basicConstraints=critical,CA:FALSE", "-CA", self.pem("ca"),
                        "-CAkey", self.key("ca"))
        output_of("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                  "ec_paramgen_curve:P-256", "-nodes", "-days", str(days), "-subj",
                  f"/CN={name}", "-keyout", self.key(name), "-out", self.pem(name), *options)

    def fetch(self, url):
        """The text at a URL of a server that shows a certificate of this authority."""
        return output_of("curl", "-sS", "--max-time", "20", "--cacert", self.pem("ca"), url)
