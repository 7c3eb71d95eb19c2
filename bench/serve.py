#!/usr/bin/env python3
"""Server CPU per CL.THROTTLE, compared with redis-server and a constant-reply server.

The server runs on one core, the load generator on the other: 50 connections, random keys, every
reply checked. The servers take turns in each round; each figure is the median of the rounds'
ratios.
"""

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time

import report

LIMIT = (1000, 1, 3600)  # burst, count, period: no state becomes fresh during the measurement
CONSTANT_REPLY = "0,1001,1000,-1,3600"
SCRIPT = os.path.join(report.ROOT, "bench/load/gcra.lua")
PIPELINES = (1, 16, 64)
VARIANTS = ("redis PING", "redis EVALSHA", "redis EVALSHA, caller's clock", "sluice CL.THROTTLE",
            "constant reply")
# Requests per round, about half a second for each server.
REQUESTS = {
    "redis PING": {1: 60_000, 16: 800_000, 64: 2_000_000},
    "redis EVALSHA": {1: 50_000, 16: 100_000, 64: 100_000},
    "redis EVALSHA, caller's clock": {1: 50_000, 16: 100_000, 64: 100_000},
    "sluice CL.THROTTLE": {1: 60_000, 16: 1_000_000, 64: 3_000_000},
    "constant reply": {1: 60_000, 16: 1_000_000, 64: 3_000_000},
}
PING_AT_MOST = {1: 1.0, 16: 1.0, 64: 0.85}
EVALSHA_AT_LEAST = {1: 2.3, 16: 14, 64: 35}
# The scheduler accounts a thread's time when it goes to sleep: wait until it has.
SETTLE_SECONDS = 0.01


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port, command, timeout_seconds=5.0):
    """Sends raw bytes and returns the first bytes of the reply; waits for a server that is
    starting."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
                connection.sendall(command)
                return connection.recv(4096)
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"the server on port {port} does not answer: {error}")
            time.sleep(0.02)


def load_script(port):
    with open(SCRIPT, "rb") as file:
        script = file.read()
    reply = ask(port, b"*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%d\r\n%s\r\n" % (len(script), script))
    if not reply.startswith(b"$40\r\n"):
        sys.exit(f"redis-server did not load {SCRIPT}: {reply!r}")
    return reply[5:45].decode("ascii")


@contextlib.contextmanager
def running(command, core, **streams):
    """Runs a pinned process, and stops it by its process id at the end of the block."""
    # taskset replaces itself with the program, so the process id is the program's.
    process = subprocess.Popen(report.pinned(command, core), **streams)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Server:
    """A running server; its output goes to a file in `folder`."""

    def __init__(self, stack, name, command, port, folder):
        self.name = name
        self.port = port
        with open(os.path.join(folder, name.replace(" ", "_") + ".log"), "wb") as log:
            self.process = stack.enter_context(
                running(command, report.SERVER_CORE, cwd=folder, stdout=log, stderr=log))
        if not ask(port, b"*1\r\n$4\r\nPING\r\n"):
            sys.exit(f"{name} does not answer")


class Load:
    """A connected load generator that makes one run per call of run()."""

    def __init__(self, stack, tools, server, arguments, requests):
        self.server = server
        self.requests = requests
        command = [os.path.join(tools, "sluice_load"), "--on-demand",
                   "--address", f"127.0.0.1:{server.port}",
                   "--limit", ",".join(str(n) for n in LIMIT), "--requests", str(requests)]
        self.process = stack.enter_context(
            running(command + arguments, report.LOAD_CORE, stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, text=True))
        self.read_line()

    def read_line(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the load on {self.server.name} was broken off")
        return line

    def run(self):
        """The server's CPU time per request, in nanoseconds."""
        time.sleep(SETTLE_SECONDS)
        before = report.cpu_ns(self.server.process.pid)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.read_line()
        time.sleep(SETTLE_SECONDS)
        return (report.cpu_ns(self.server.process.pid) - before) / self.requests


def arguments_of(variant, sha, floor_command):
    return {
        "redis PING": ["--command", "ping"],
        "redis EVALSHA": ["--command", "evalsha", "--sha", sha],
        "redis EVALSHA, caller's clock": ["--command", "evalsha", "--sha", sha, "--caller-clock"],
        "sluice CL.THROTTLE": ["--command", "throttle"],
        "constant reply": ["--command", floor_command, "--reply", "five"],
    }[variant]


def measure(options, servers, sha, pipeline):
    """Nanoseconds per request of each variant, a list over the rounds."""
    figures = {variant: [] for variant in VARIANTS}
    with contextlib.ExitStack() as stack:
        loads = {}
        for variant in VARIANTS:
            requests = REQUESTS[variant][pipeline] // (50 if options.quick else 1)
            arguments = arguments_of(variant, sha, options.floor) + [
                "--pipeline", str(pipeline), "--keys", str(options.keys)]
            loads[variant] = Load(stack, options.tools, servers[variant], arguments, requests)
        for round_number in range(options.rounds + 1):
            for variant in VARIANTS:
                ns = loads[variant].run()
                if round_number > 0:  # The first round warms up.
                    figures[variant].append(ns)
    return figures


def fill(options, servers, sha):
    """Gives both limiters a state for every key, so that no round starts with an empty table."""
    for variant in ("redis EVALSHA", "sluice CL.THROTTLE"):
        arguments = arguments_of(variant, sha, options.floor) + [
            "--pipeline", "64", "--keys", str(options.keys), "--in-order"]
        with contextlib.ExitStack() as stack:
            Load(stack, options.tools, servers[variant], arguments, options.keys).run()


def rows_of(pipeline, figures):
    ours = figures["sluice CL.THROTTLE"]
    at = f"pipeline {pipeline}: "
    rows = [
        report.row(at + "ours ÷ redis-server's PING", report.ratios(ours, figures["redis PING"]),
                   at_most=PING_AT_MOST[pipeline]),
        report.row(at + "GCRA script by EVALSHA ÷ ours",
                   report.ratios(figures["redis EVALSHA"], ours),
                   at_least=EVALSHA_AT_LEAST[pipeline]),
        report.row(at + "the same, told the time by its caller ÷ ours",
                   report.ratios(figures["redis EVALSHA, caller's clock"], ours)),
        report.row(at + "ours ÷ constant-reply server",
                   report.ratios(ours, figures["constant reply"])),
    ]
    absolute = [report.row(at + variant, figures[variant], unit="ns") for variant in VARIANTS]
    return rows, absolute


METHOD = """
Each server runs alone on one core, the load generator on the other, with 50 connections over TCP.
Keys are drawn at random from {keys:,}, and every reply is read and checked. redis-server writes
nothing to disk. The GCRA script (`bench/load/gcra.lua`) is lean: TIME, one GET, one SET. It does
the work of CL.THROTTLE, so it is the one compared; the variant to which the caller passes the time
is shown beside it. The constant-reply server (`bench/load/constant_server.cc`) splits the same
{floor} requests into commands and replies to each with five fixed integers, without a decision. All
keys have a state before the first round. The servers take turns, {rounds} rounds after one to warm
up. The figure is the server's CPU time per request (of all its threads,
`/proc/<pid>/task/*/schedstat`); ratios are taken within each round.
"""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    report.add_common_arguments(parser)
    parser.add_argument("--sluice", default=os.path.join(report.ROOT, "build/release/sluice"))
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--floor", choices=("throttle", "ping"), default="throttle",
                        help="what the constant-reply server is asked (throttle)")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.keys = 2, 10_000
    return options


def main():
    options = parse_arguments()
    constant = os.path.join(options.tools, "sluice_constant_server")
    report.require(options.sluice, constant, os.path.join(options.tools, "sluice_load"))
    report.pin_this_process()
    ports = [free_port() for _ in range(3)]
    commands = {
        "redis-server": ["redis-server", "--bind", "127.0.0.1", "--port", str(ports[0]),
                         "--save", "", "--appendonly", "no"],
        "sluice serve": [options.sluice, "serve", "--threads", "1",
                         "--resp", f"127.0.0.1:{ports[1]}"],
        "constant server": [constant, f"127.0.0.1:{ports[2]}", CONSTANT_REPLY],
    }
    ratio_rows, absolute_rows = [], []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        redis, ours, floor = (Server(stack, name, command, port, folder)
                              for (name, command), port in zip(commands.items(), ports))
        servers = {"redis PING": redis, "redis EVALSHA": redis,
                   "redis EVALSHA, caller's clock": redis, "sluice CL.THROTTLE": ours,
                   "constant reply": floor}
        sha = load_script(redis.port)
        fill(options, servers, sha)
        for pipeline in PIPELINES:
            rows, absolute = rows_of(pipeline, measure(options, servers, sha, pipeline))
            ratio_rows += rows
            absolute_rows += absolute
    method = METHOD.format(keys=options.keys, rounds=options.rounds,
                           floor="CL.THROTTLE" if options.floor == "throttle" else "PING")
    report.finish(report.section("The server", method, "bench/run serve", [
        ["Ratios of server CPU per request:", ratio_rows],
        ["Server CPU per request:", absolute_rows],
    ]), options.json)


if __name__ == "__main__":
    main()
