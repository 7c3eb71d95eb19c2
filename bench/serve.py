#!/usr/bin/env python3
"""Server CPU per CL.THROTTLE, compared with redis-server and a constant-reply server.

The server runs on one core, the load generator on the other: 50 connections, random keys, every
reply checked. The servers take turns in each round; each figure is the median of the rounds'
ratios.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import report

CONSTANT_REPLY = "0,1001,1000,-1,3600"
SCRIPT = os.path.join(report.ROOT, "bench/load/gcra.lua")
PIPELINES = (1, 16, 64)
# Burst, count, period. No state of the first becomes fresh during the measurement; one of the
# second does within 1 ms, and of the last within 250 ms.
LIVE = "1000,1,3600"
SOON_FRESH = "10,1000,1"
SOON_FRESH_TOO = "20,500,1"
FRESH_IN_250_MS = "1000000,4,1"


@dataclasses.dataclass(frozen=True)
class Variant:
    """What a server is asked: the load's arguments, and the requests of a round by pipeline."""

    name: str
    server: str
    arguments: tuple
    requests: dict
    # How many requests are made before those that are measured, as a multiple of these.
    lead_in: int = 0
    target: dict = None  # The most that its cost may be, divided by PING's.


# About a third of a second for each server.
EVALSHA_REQUESTS = {1: 30_000, 16: 50_000, 64: 50_000}
OUR_REQUESTS = {1: 60_000, 16: 750_000, 64: 1_500_000}
CHANGING_REQUESTS = {16: 750_000, 64: 1_500_000}
PING = Variant("redis PING", "redis", ("--command", "ping"),
               {1: 80_000, 16: 800_000, 64: 1_300_000})
EVALSHA = Variant("redis EVALSHA", "redis", ("--command", "evalsha"), EVALSHA_REQUESTS)
TIMED_EVALSHA = Variant("redis EVALSHA, caller's clock", "redis",
                        ("--command", "evalsha", "--caller-clock"), EVALSHA_REQUESTS)
OURS = Variant("sluice CL.THROTTLE", "sluice", ("--command", "throttle", "--limit", LIVE),
               OUR_REQUESTS, target={1: 1.0, 16: 1.0, 64: 0.85})
CONSTANT = Variant("constant reply", "constant", ("--command", "throttle"), OUR_REQUESTS)
# Each has a server of its own, so that its keys are the only ones.
CHANGING = (
    Variant("returning", "returning", ("--command", "throttle", "--limit", SOON_FRESH),
            CHANGING_REQUESTS, target={16: 0.85, 64: 0.75}),
    Variant("returning, two sets of numbers", "two sets",
            ("--command", "throttle", "--limit", SOON_FRESH, "--other-limit", SOON_FRESH_TOO),
            CHANGING_REQUESTS, target={16: 0.95, 64: 0.85}),
    Variant("never seen", "never seen",
            ("--command", "throttle", "--limit", FRESH_IN_250_MS, "--order", "new"),
            CHANGING_REQUESTS, lead_in=4, target={16: 1.0, 64: 1.0}),
    Variant("by Zipf's law, a tenth never seen", "zipf",
            ("--command", "throttle", "--limit", FRESH_IN_250_MS, "--order", "zipf"),
            CHANGING_REQUESTS),
    Variant("returning, by SLUICE.CHECK", "check", ("--command", "check", "--limit", SOON_FRESH),
            CHANGING_REQUESTS),
)
EVALSHA_AT_LEAST = {1: 2.3, 16: 14, 64: 35}
# The scheduler accounts a thread's time when it goes to sleep: wait until it has.
SETTLE_SECONDS = 0.01

INFO = b"*2\r\n$4\r\nINFO\r\n$6\r\nsluice\r\n"
CROWD_ROUNDS = 5
CROWD_SECONDS = 1.0
CROWDED_AT_MOST_MS = 5


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
    """A running server, with "{port}" in its command; its output goes to a file in `folder`."""

    def __init__(self, stack, name, command, folder):
        self.name = name
        self.port = free_port()
        self.sha = None
        command = [word.format(port=self.port) for word in command]
        with open(os.path.join(folder, name.replace(" ", "_") + ".log"), "wb") as log:
            self.process = stack.enter_context(
                running(command, report.SERVER_CORE, cwd=folder, stdout=log, stderr=log))
        if not ask(self.port, b"*1\r\n$4\r\nPING\r\n"):
            sys.exit(f"{name} does not answer")


class Load:
    """A connected load generator that makes one run per call of run()."""

    def __init__(self, stack, tools, server, arguments):
        self.server = server
        command = [os.path.join(tools, "sluice_load"), "--on-demand",
                   "--address", f"127.0.0.1:{server.port}", *arguments]
        self.process = stack.enter_context(
            running(command, report.LOAD_CORE, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    text=True))
        self.read_line()

    def read_line(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the load on {self.server.name} was broken off")
        return line

    def start(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def finish(self):
        return json.loads(self.read_line())

    def run(self):
        """The server's CPU time per request, in nanoseconds."""
        time.sleep(SETTLE_SECONDS)
        before = report.cpu_ns(self.server.process.pid)
        self.start()
        requests = self.finish()["requests"]
        time.sleep(SETTLE_SECONDS)
        return (report.cpu_ns(self.server.process.pid) - before) / requests

    def p99_ms(self):
        self.start()
        return self.finish()["p99_us"] / 1000


def start_sluice(options, stack, name, folder, store="memory:"):
    return Server(stack, name, [options.sluice, "serve", "--threads", "1", "--store", store,
                                "--resp", "127.0.0.1:{port}"], folder)


def load_of(stack, options, variant, server, pipeline):
    """The load of a variant, and, if it needs one, the load that leads in."""
    def load(requests):
        arguments = [*variant.arguments, "--keys", str(options.keys), "--pipeline", str(pipeline),
                     "--requests", str(requests)]
        if "evalsha" in variant.arguments:
            arguments += ["--sha", server.sha]
        return Load(stack, options.tools, server, arguments)

    requests = variant.requests[pipeline] // (50 if options.quick else 1)
    return load(requests), load(variant.lead_in * requests) if variant.lead_in else None


def measure(options, servers, variants, pipeline):
    """Nanoseconds per request of each variant by its name, a list over the rounds."""
    figures = {variant.name: [] for variant in variants}
    with contextlib.ExitStack() as stack:
        loads = {variant.name: load_of(stack, options, variant, servers[variant.server], pipeline)
                 for variant in variants}
        for round_number in range(options.rounds + 1):
            for name, (load, lead_in) in loads.items():
                if lead_in is not None:
                    lead_in.run()
                ns = load.run()
                if round_number > 0:  # The first round warms up.
                    figures[name].append(ns)
    return figures


def fill(options, servers):
    """Gives both limiters a state for every key, so that no round starts with an empty table."""
    for variant in (EVALSHA, OURS):
        with contextlib.ExitStack() as stack:
            in_order = dataclasses.replace(
                variant, arguments=(*variant.arguments, "--order", "in-order"),
                requests={64: options.keys})
            load_of(stack, options, in_order, servers[variant.server], 64)[0].run()


def rows_of(pipeline, figures):
    ours = figures[OURS.name]
    ping = figures[PING.name]
    at = f"pipeline {pipeline}: "
    rows = [
        report.row(at + "ours ÷ redis-server's PING", report.ratios(ours, ping),
                   at_most=OURS.target[pipeline]),
        report.row(at + "GCRA script by EVALSHA ÷ ours",
                   report.ratios(figures[EVALSHA.name], ours),
                   at_least=EVALSHA_AT_LEAST[pipeline]),
        report.row(at + "the same, told the time by its caller ÷ ours",
                   report.ratios(figures[TIMED_EVALSHA.name], ours)),
        report.row(at + "ours ÷ constant-reply server",
                   report.ratios(ours, figures[CONSTANT.name])),
    ]
    for variant in CHANGING:
        if variant.name in figures:
            rows.append(report.row(at + variant.name + " ÷ PING",
                                   report.ratios(figures[variant.name], ping),
                                   at_most=variant.target and variant.target[pipeline]))
    absolute = [report.row(at + name, ns, unit="ns") for name, ns in figures.items()]
    return rows, absolute


def fill_up(options, server):
    """Gives keys a state that stays until the store has evicted some of them."""
    with contextlib.ExitStack() as stack:
        load = Load(stack, options.tools, server,
                    ["--command", "throttle", "--limit", LIVE, "--order", "new", "--pipeline", "64",
                     "--requests", "1000000"])
        while not re.search(rb"evicted_keys:[1-9]", ask(server.port, INFO)):
            load.run()


def crowd_rows(options, server):
    """How long a client waits while another one sends ever-new limits to the same thread."""
    fill_up(options, server)
    seconds = CROWD_SECONDS / (10 if options.quick else 1)
    alone, crowded = [], []
    with contextlib.ExitStack() as stack:
        client = Load(stack, options.tools, server,
                      ["--command", "check", "--connections", "1", "--seconds", str(seconds)])
        crowd = Load(stack, options.tools, server,
                     ["--command", "new-limit", "--limit", "1,1000,1", "--connections", "1",
                      "--pipeline", "512", "--seconds", str(1.2 * seconds)])
        client.run()
        for _ in range(CROWD_ROUNDS):
            alone.append(client.p99_ms())
            crowd.start()
            time.sleep(0.1 * seconds)
            crowded.append(client.p99_ms())
            crowd.finish()
    return [
        report.row("p99 of a client, alone", alone, unit="ms"),
        report.row("p99 of a client beside the other", crowded, unit="ms",
                   at_most=max(CROWDED_AT_MOST_MS, 2 * statistics.median(alone))),
    ]


METHOD = """
Each server runs alone on one core, the load generator on the other, with 50 connections over TCP.
Keys are drawn at random from {keys:,}, and every reply is read and checked. The figure is the
server's CPU time per request (of all its threads, `/proc/<pid>/task/*/schedstat`). The servers take
turns, {rounds} rounds after one to warm up; ratios are taken within each round.

- Ours: CL.THROTTLE of keys whose state is not fresh. Before the first round all keys are given one.
- Returning: the state from the key's last visit has become fresh. With two sets of numbers, one key
  in two has other numbers than the rest, in the same pipelines.
- Never seen: every request is for another key, whose state becomes fresh after 250 ms; each
  measurement follows on four times as many such requests.
- By Zipf's law: nine of ten keys are drawn with a probability of 1/rank, and one was never seen.
- GCRA script (`bench/load/gcra.lua`): does the work of CL.THROTTLE, and is lean: TIME, one GET, one
  SET. The variant to which the caller passes the time is shown beside it. redis-server writes
  nothing to disk.
- Constant-reply server (`bench/load/constant_server.cc`): splits the same CL.THROTTLE requests into
  commands and replies to each with five fixed integers, without a decision.

Waiting: a server with one thread, whose store of {full_mib:,} MiB is full. One client sends
SLUICE.CHECK after SLUICE.CHECK, while another sends 512 at a time, each with a limit that was never
sent before.
"""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    report.add_common_arguments(parser)
    parser.add_argument("--sluice", type=os.path.abspath,
                        default=os.path.join(report.ROOT, "build/release/sluice"))
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.set_defaults(full_bytes=1 << 30)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.keys, options.full_bytes = 2, 10_000, 1 << 20
    return options


def start_servers(options, stack, folder):
    servers = {
        "redis": Server(stack, "redis", ["redis-server", "--bind", "127.0.0.1", "--port", "{port}",
                                         "--save", "", "--appendonly", "no"], folder),
        "constant": Server(stack, "constant",
                           [os.path.join(options.tools, "sluice_constant_server"),
                            "127.0.0.1:{port}", CONSTANT_REPLY], folder),
    }
    for variant in (OURS, *CHANGING):
        servers[variant.server] = start_sluice(options, stack, variant.server, folder)
    servers["redis"].sha = load_script(servers["redis"].port)
    return servers


def main():
    options = parse_arguments()
    report.require(options.sluice, os.path.join(options.tools, "sluice_constant_server"),
                   os.path.join(options.tools, "sluice_load"))
    report.pin_this_process()
    ratio_rows, absolute_rows = [], []
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.ExitStack() as stack:
            servers = start_servers(options, stack, folder)
            fill(options, servers)
            for pipeline in PIPELINES:
                variants = (PING, EVALSHA, TIMED_EVALSHA, OURS, CONSTANT)
                if pipeline > 1:
                    variants += CHANGING
                rows, absolute = rows_of(pipeline, measure(options, servers, variants, pipeline))
                ratio_rows += rows
                absolute_rows += absolute
        with contextlib.ExitStack() as stack:
            full = start_sluice(options, stack, "full", folder,
                                f"memory:?max_bytes={options.full_bytes}")
            waiting_rows = crowd_rows(options, full)
    method = METHOD.format(keys=options.keys, rounds=options.rounds,
                           full_mib=options.full_bytes >> 20)
    report.finish(report.section("The server", method, "bench/run serve", [
        ["Ratios of server CPU per request:", ratio_rows],
        ["Waiting, while another client sends ever-new limits:", waiting_rows],
        ["Server CPU per request:", absolute_rows],
    ]), options.json)


if __name__ == "__main__":
    main()
