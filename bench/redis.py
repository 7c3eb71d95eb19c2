#!/usr/bin/env python3
"""The Redis store, compared with hiredis and a lean GCRA script on the same redis-server."""

import argparse
import contextlib
import json
import os
import subprocess
import tempfile

import report
from serve import Server, load_script

# Decisions per second ÷ EVALSHAs of the script per second.
AT_LEAST = {"token_bucket, with fallback": 1.7, "token_bucket": 1.7}
FORESEEN = {"fixed_window": 2.3, "sliding_counter": 2.3, "sliding_window": 1.4, "sliding_log": 1.3,
            "a & b": 2.0}
NAMES = {"sliding_log": "sliding_log 1000", "a & b": "token_bucket & fixed_window"}
CLIENT_AT_MOST = 0.45
WAIT_AT_MOST = 1.1
METHOD = """
One redis-server, which writes nothing to disk, runs on one core. On the other run, in turn, our
client and the clients that it is compared with, each over one TCP connection. CPU is that of all
threads of the process. {rounds} rounds after one to warm up; ratios are taken within a round.

- Many callers: 256 asynchronous callers, each of which sends its next request when it has the
  answer to the one before. {keys:,} keys are asked for in random order, in a separate database per
  variant. All have a state, and every answer is an admission, and is checked.
- Theirs: one EVALSHA per decision of a lean GCRA script (`bench/load/gcra.lua`: TIME, one GET, one
  SET), sent by hiredis's asynchronous client with a bare `poll` loop.
- Ours: the store by itself, and "with fallback", as `open_store()` makes it, with failure policy
  `local` and the deny cache.
- One caller: `Limiter::check()` on the store with fallback, compared with `redisCommand()` of
  blocking hiredis, {calls:,} calls per round.
"""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    # Single rounds differ by up to a quarter, and so do the medians of a few.
    report.add_common_arguments(parser, rounds=33)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--decisions", type=int, default=128_000, help="of one variant in a round")
    parser.add_argument("--calls", type=int, default=10_000, help="of one caller in a round")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.keys, options.decisions, options.calls = 2, 1_000, 2_560, 20
    return options


def tables_of(figures):
    gcra, told = figures["gcra"], figures["gcra, caller's clock"]
    variants = [*AT_LEAST, *FORESEEN]
    rates = []
    for variant in variants:
        rates.append(report.row(f"{NAMES.get(variant, variant)}: rate ÷ the script's",
                                report.ratios(gcra, figures[variant]),
                                at_least=AT_LEAST.get(variant), expected=FORESEEN.get(variant)))
    rates.append(report.row("token_bucket: rate ÷ that of the script, told the time by its caller",
                            report.ratios(told, figures["token_bucket"])))
    clients = [
        report.row(f"{NAMES.get(variant, variant)}: client CPU ÷ hiredis's",
                   report.ratios(figures[variant + ", client"], figures["gcra, client"]),
                   at_most=CLIENT_AT_MOST if variant in AT_LEAST else None)
        for variant in variants]
    waits = [
        report.row(f"one caller, {which}: ours ÷ blocking hiredis",
                   report.ratios(figures["one caller, " + which],
                                 figures["one caller, hiredis, " + which]),
                   at_most=WAIT_AT_MOST if which == "median" else None)
        for which in ("median", "p99")]
    absolute = []
    for variant in ("gcra", "gcra, caller's clock", *variants):
        name = NAMES.get(variant, variant)
        absolute += [report.row(f"{name}: {what}", figures[variant + suffix], unit="ns")
                     for what, suffix in (("time", ""), ("server CPU", ", server"),
                                          ("client CPU", ", client"))]
    absolute += [report.row(f"one caller, {who}{which}", figures[f"one caller, {key}{which}"],
                            unit="ns")
                 for who, key in (("ours, ", ""), ("hiredis, ", "hiredis, "))
                 for which in ("median", "p99")]
    return [["Many callers, decisions a second:", rates], ["Many callers, client CPU:", clients],
            ["One caller, the wait for an answer:", waits], ["Per decision:", absolute]]


def main():
    options = parse_arguments()
    program = os.path.join(options.tools, "sluice_redis_rounds")
    report.require(program)
    report.pin_this_process()
    command = ["redis-server", "--bind", "127.0.0.1", "--port", "{port}", "--save", "",
               "--appendonly", "no"]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        server = Server(stack, "redis-server", command, folder)
        arguments = [server.port, server.process.pid, load_script(server.port), options.rounds,
                     options.keys, options.decisions, options.calls]
        output = subprocess.run(
            report.pinned([program, *(str(each) for each in arguments)], report.LOAD_CORE),
            check=True, stdout=subprocess.PIPE, text=True).stdout
    method = METHOD.format(keys=options.keys, rounds=options.rounds, calls=options.calls)
    report.finish(report.section("Redis", method, "bench/run redis",
                                 tables_of(json.loads(output))), options.json)


if __name__ == "__main__":
    main()
