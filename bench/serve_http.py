#!/usr/bin/env python3
"""Server CPU per HTTP request, compared with nginx's limit_req and HAProxy's stick table.

The server runs on one core, wrk on the other: 50 connections, random keys. The servers take turns
in each round; each figure is the median of the rounds' ratios.
"""

import argparse
import contextlib
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import time

import report
import serve

FOLDER = os.path.join(report.ROOT, "bench/http")
CONNECTIONS = 50
SMALL_FILE = b"small"
# What wrk sends (bench/http/keys.lua): the kind of request, and how many checks a body has.
VARIANTS = {
    "sluice GET /auth": ("auth", 1),
    "sluice POST /v1/check": ("check", 1),
    "sluice POST /v1/check, 16 checks": ("check", 16),
    "nginx limit_req": ("small", 1),
    "haproxy stick table": ("small", 1),
}
SECONDS = 1
TLS_VERSIONS = {"TLS 1.3": ssl.TLSVersion.TLSv1_3, "TLS 1.2": ssl.TLSVersion.TLSv1_2}
TLS_CONNECTIONS = 300
TLS_PATHS = {"sluice": "/healthz", "nginx": "/small"}
SLUICE_FILE = """listen:
  http:
    - 127.0.0.1:HTTP_PORT
    - {address: "127.0.0.1:TLS_PORT", tls: {cert: cert.pem, key: key.pem}}
limits:
  api: token_bucket 1000/1s burst=1000000
"""


class Servers:
    """The three servers, with the ports at which they answer."""

    def __init__(self, stack, options, folder):
        self.folder = folder
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost",
                        "-keyout", "key.pem", "-out", "cert.pem"],
                       cwd=folder, check=True, capture_output=True)
        with open(os.path.join(folder, "small"), "wb") as file:
            file.write(SMALL_FILE)
        os.mkdir(os.path.join(folder, "temp"))
        self.ports, self.tls_ports, self.pids = {}, {}, {}
        texts = {"sluice.yaml": SLUICE_FILE}
        for name in ("nginx.conf", "haproxy.cfg"):
            with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
                texts[name] = file.read()
        self.start(stack, "sluice", texts, "sluice.yaml",
                   [options.sluice, "serve", "--threads", "1", "--config"])
        self.start(stack, "nginx", texts, "nginx.conf",
                   ["nginx", "-p", folder, "-e", "stderr", "-c"])
        self.start(stack, "haproxy", texts, "haproxy.cfg", ["haproxy", "-f"])

    def start(self, stack, name, texts, file_name, command):
        self.ports[name], self.tls_ports[name] = serve.free_port(), serve.free_port()
        path = os.path.join(self.folder, file_name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(texts[file_name].replace("HTTP_PORT", str(self.ports[name]))
                       .replace("TLS_PORT", str(self.tls_ports[name])))
        with open(path + ".log", "wb") as log:
            process = stack.enter_context(
                serve.running(command + [path], report.SERVER_CORE, cwd=self.folder, stdout=log,
                              stderr=log))
        self.pids[name] = process.pid
        if not serve.ask(self.ports[name], b"GET /small HTTP/1.0\r\n\r\n"):
            sys.exit(f"{name} does not answer")


def await_settled():
    """The scheduler accounts a thread's time when it goes to sleep: waits until it has."""
    time.sleep(serve.SETTLE_SECONDS)


def run_wrk(servers, variant, options):
    """The server's CPU time per request, in nanoseconds."""
    server = variant.split()[0]
    kind, checks = VARIANTS[variant]
    command = ["wrk", "-t", "1", "-c", str(CONNECTIONS), "-d", f"{options.seconds}s",
               "-s", os.path.join(FOLDER, "keys.lua"), f"http://127.0.0.1:{servers.ports[server]}",
               "--", kind, str(options.keys), str(checks)]
    for _ in range(3):
        await_settled()
        before = report.cpu_ns(servers.pids[server])
        done = subprocess.run(report.pinned(command, report.LOAD_CORE), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        await_settled()
        cpu_ns = report.cpu_ns(servers.pids[server]) - before
        counts = re.search(r"requests (\d+) failed (\d+)", done.stdout)
        if not counts or counts[1] != "0":  # Else wrk had no processor for all of its time.
            break
    if done.returncode != 0 or not counts or counts[2] != "0" or counts[1] == "0":
        sys.exit(f"wrk failed with {variant}:\n{done.stdout}")
    return cpu_ns / int(counts[1])


class TlsClient:
    """Connections that resume the session of a first one."""

    def __init__(self, port, path, version):
        self.port = port
        self.request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode("ascii")
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE
        self.context.minimum_version = self.context.maximum_version = version
        self.session = None
        self.session = self.connect()

    def connect(self):
        """One connection with one request; the session, as it may be resumed."""
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        # With TLS 1.2 the request would otherwise wait until the server has acknowledged the end
        # of the handshake, which takes its kernel 40 ms.
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.context.wrap_socket(plain, session=self.session) as secure:
            secure.sendall(self.request)
            if not secure.recv(4096).startswith(b"HTTP/1.1 200"):
                sys.exit(f"the server on port {self.port} does not answer over TLS")
            if self.session and not secure.session_reused:
                sys.exit(f"the server on port {self.port} has not resumed a session")
            return secure.session


def run_tls(servers, server, version, options):
    """The server's CPU time per resumed connection, in nanoseconds."""
    pid = servers.pids[server]
    client = TlsClient(servers.tls_ports[server], TLS_PATHS[server], TLS_VERSIONS[version])
    await_settled()
    before = report.cpu_ns(pid)
    for _ in range(options.tls_connections):
        client.connect()
    await_settled()
    return (report.cpu_ns(pid) - before) / options.tls_connections


def measure(servers, options):
    """Nanoseconds of each variant, and of each server and version of TLS: lists over the rounds."""
    resumed = [(server, version) for server in TLS_PATHS for version in TLS_VERSIONS]
    figures = {name: [] for name in [*VARIANTS, *resumed]}
    for round_number in range(-options.warm_up_rounds, options.rounds):
        taken = {variant: run_wrk(servers, variant, options) for variant in VARIANTS}
        taken |= {name: run_tls(servers, *name, options) for name in resumed}
        if round_number >= 0:
            for name, ns in taken.items():
                figures[name].append(ns)
    return figures


def rows_of(figures):
    auth, check, checks = (figures[name] for name in list(VARIANTS)[:3])
    nginx, haproxy = figures["nginx limit_req"], figures["haproxy stick table"]
    rows = [
        report.row("GET /auth ÷ nginx's limit_req", report.ratios(auth, nginx), at_most=1.0),
        report.row("POST /v1/check ÷ nginx's limit_req", report.ratios(check, nginx),
                   at_most=1.15),
        report.row("16 checks in one body ÷ one", report.ratios(checks, check), at_most=2),
        report.row("GET /auth ÷ HAProxy's stick table", report.ratios(auth, haproxy)),
    ]
    rows += [report.row(f"a resumed connection, {version} ÷ nginx's",
                        report.ratios(figures["sluice", version], figures["nginx", version]),
                        at_most=1.3) for version in TLS_VERSIONS]
    absolute = [report.row(variant, figures[variant], unit="ns") for variant in VARIANTS]
    absolute += [report.row(f"{server}, a resumed connection, {version}",
                            figures[server, version], unit="ns")
                 for version in TLS_VERSIONS for server in TLS_PATHS]
    return rows, absolute


METHOD = """
Each server runs alone on one core, wrk on the other, with {connections} connections that stay open,
{seconds} s in each round. Keys are drawn at random from {keys:,}; no request is denied. nginx
serves a file of {size} bytes behind limit_req (`bench/http/nginx.conf`); HAProxy answers by itself
and counts requests in a stick table (`bench/http/haproxy.cfg`). Over TLS, {tls} connections in each
round resume a session; each has one request, and all have the same key (ECDSA, P-256).

The figure is the server's CPU time per request or connection (of all its threads,
`/proc/<pid>/task/*/schedstat`). The servers take turns, {rounds} rounds after one to warm up;
ratios are taken within each round.
"""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    report.add_common_arguments(parser)
    parser.add_argument("--sluice", type=os.path.abspath,
                        default=os.path.join(report.ROOT, "build/release/sluice"))
    parser.add_argument("--keys", type=int, default=20_000)
    options = parser.parse_args()
    options.seconds, options.tls_connections, options.warm_up_rounds = SECONDS, TLS_CONNECTIONS, 1
    if options.quick:
        options.rounds, options.keys, options.tls_connections, options.warm_up_rounds = 1, 100, 5, 0
    return options


def main():
    options = parse_arguments()
    report.require(options.sluice)
    report.pin_this_process()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        figures = measure(Servers(stack, options, folder), options)
    rows, absolute = rows_of(figures)
    method = METHOD.format(connections=CONNECTIONS, seconds=options.seconds, keys=options.keys,
                           size=len(SMALL_FILE), tls=options.tls_connections,
                           rounds=options.rounds)
    report.finish(report.section("The server over HTTP", method, "bench/run http", [
        ["Ratios of server CPU:", rows],
        ["Server CPU per request or connection:", absolute],
    ]), options.json)


if __name__ == "__main__":
    main()
