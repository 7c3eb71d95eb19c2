#!/usr/bin/env python3
"""The Memcached store, compared with the usual sliding window on libmemcached."""

import argparse
import contextlib
import json
import os
import subprocess
import tempfile

import report
from serve import Server

RATE_AT_LEAST = {"threads": 3, "callers": 12}
COMMANDS_AT_MOST = 2
LIMIT = 1000
METHOD = """
One memcached with one thread runs on one core (`-R 200 -o temporary_ttl=86410`, as
docs/memcached.md recommends). On the other run, in turn, our client and the clients that it is
compared with. The limit is `sliding_window 1000/1h precision=6m`. {keys:,} keys are asked for in
random order, each with units in all ten sub-windows of its window; every answer is an admission,
and is checked. Ratios are of decisions per second. CPU is that of all threads of the process.
{rounds} rounds after one to warm up; ratios are taken within a round.

- Theirs: 64 threads with one libmemcached each, which gets the window's ten counters, adds them up,
  and increments the newest: two round trips, and not exact under concurrency.
- Ours, which is exact, over one connection: 64 threads that call `Limiter::check()` and wait for
  each answer; 64 threads that each ask for 16 keys at once, as a server does; and 1,024 callers
  that do not wait for each other. No other process writes these keys, as if one process served
  them, or a balancer sent each key to the same process.
- For comparison, 64 threads that decide nothing and only wait for each other
  (`pthread_barrier_wait`); each pass of a thread counts as a decision. That is about the maximum
  for threads that sleep once per decision.
- Round trips: the commands that the server counts per decision of a single caller.
"""
NAMES = {"threads": "64 threads, one by one", "batches": "64 threads, 16 at once",
         "callers": "1,024 callers that do not wait"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    report.add_common_arguments(parser)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--decisions", type=int, default=512_000, help="of one variant in a round")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.keys, options.decisions = 2, 1_000, 1_600
    # Two variants share their keys; every request must be admitted.
    units = 10 + 2 * options.decisions * (options.rounds + 1) / options.keys
    if units > LIMIT:
        parser.error(f"each key would be asked for {units:.0f} units, and has {LIMIT}: more keys, "
                     "or fewer rounds or decisions")
    return options


def tables_of(figures):
    theirs = figures["libmemcached"]
    rates = [report.row(f"{name}: rate ÷ libmemcached's", report.ratios(theirs, figures[variant]),
                        at_least=RATE_AT_LEAST.get(variant))
             for variant, name in NAMES.items()]
    rates.append(report.row("64 threads that only wait for each other: rate ÷ libmemcached's",
                            report.ratios(theirs, figures["waiting"])))
    rates.append(report.row("round trips of an uncontended decision", figures["commands"],
                            at_most=COMMANDS_AT_MOST))
    absolute = [report.row(f"{name}: {what}", figures[variant + suffix], unit="ns")
                for variant, name in [("libmemcached", "libmemcached, 64 threads"), *NAMES.items()]
                for what, suffix in (("time", ""), ("server CPU", ", server"),
                                     ("client CPU", ", client"))]
    return [["Decisions a second:", rates], ["Per decision:", absolute]]


def main():
    options = parse_arguments()
    program = os.path.join(options.tools, "sluice_memcached_rounds")
    report.require(program)
    report.pin_this_process()
    # memcached started by root needs another user.
    command = ["memcached", "-l", "127.0.0.1", "-p", "{port}", "-t", "1", "-m", "1024",
               "-R", "200", "-o", "temporary_ttl=86410", "-u", "nobody"]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        server = Server(stack, "memcached", command, folder)
        arguments = [server.port, server.process.pid, options.rounds, options.keys,
                     options.decisions]
        output = subprocess.run(
            report.pinned([program, *(str(each) for each in arguments)], report.LOAD_CORE),
            check=True, stdout=subprocess.PIPE, text=True).stdout
    method = METHOD.format(keys=options.keys, rounds=options.rounds)
    report.finish(report.section("Memcached", method, "bench/run memcached",
                                 tables_of(json.loads(output))), options.json)


if __name__ == "__main__":
    main()
