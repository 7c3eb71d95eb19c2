#!/usr/bin/env python3
"""What the library's calls cost in addition to the store's decision."""

import argparse
import json
import os
import subprocess

import report

METHOD = """
One thread on one core, one hot key in memory, the store's precise clock; every request is admitted.
After a warm-up, {rounds} rounds in which the variants take turns, {operations:,} operations each.
The figure is CPU time per operation; "over the store's" is the difference, within each round, to
`Store::decide` of the same request. A permit is acquired and released: two decisions of the store,
and the bookkeeping for its renewal.
"""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    report.add_common_arguments(parser)
    parser.add_argument("--operations", type=int, default=1_000_000)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.operations = 2, 10_000
    return options


def tables_of(figures):
    over = []
    for limit, text in (("bucket", "token bucket"), ("window", "fixed window")):
        for call in ("check", "acquire"):
            differences = [a - b for a, b in zip(figures[f"{limit}_{call}"],
                                                 figures[f"{limit}_decide"], strict=True)]
            over.append(report.row(f"{text}: `{call}` over the store's", differences, unit="ns",
                                   at_most=8))
    over.append(report.row("a permit acquired and released", figures["permit"], unit="ns",
                           at_most=250))
    absolute = [report.row(f"{text}: `Store::decide`", figures[f"{limit}_decide"], unit="ns")
                for limit, text in (("bucket", "token bucket"), ("window", "fixed window"))]
    return [["CPU time per operation:", over + absolute]]


def main():
    options = parse_arguments()
    program = os.path.join(options.tools, "sluice_library_rounds")
    report.require(program)
    report.pin_this_process()
    command = [program, str(options.rounds), str(options.operations)]
    output = subprocess.run(report.pinned(command, report.SERVER_CORE), check=True,
                            capture_output=True, text=True).stdout
    method = METHOD.format(rounds=options.rounds, operations=options.operations)
    report.finish(report.section("The library's calls", method, "bench/run library",
                                 tables_of(json.loads(output))), options.json)


if __name__ == "__main__":
    main()
