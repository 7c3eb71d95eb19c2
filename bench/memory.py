#!/usr/bin/env python3
"""The memory store in process, compared with the bound and with a map of the standard library."""

import argparse
import json
import os
import subprocess

import report

METHOD = """
Google Benchmark, one thread, on one core. Keys have 16 to 24 bytes and are visited in an order
unrelated to their places in a table; each decision starts after the one before has ended. The
figure is CPU time per decision. The variants take turns, {rounds} rounds after one to warm up;
ratios are taken within each round.

- Bound: the hash of the key (XXH3, 128 bits) and the load of one 64-byte line from a table as large
  as the store's ({pages}).
- Given instant: the caller passes the time. Precise clock: the store reads its clock.
- Live, as in every row that does not say otherwise: the key has a state that is not fresh.
- Fresh at each visit: the key has a state from its last visit, which has become fresh since.
- Never seen: states become fresh after {few:,} decisions, so that the store always has that many
  live keys, and is asked for others.
- By Zipf's law: nine of ten keys are drawn from {few:,}, with a probability of 1/rank, and one was
  never seen.
- Bytes per key: the growth of the process while the store took {many:,} keys, without the keys
  themselves, and the most on the way.
- A minute after: nine of ten keys become fresh within a second, and the others are asked for during
  a minute of the store's time, 100,000 times a second, in batches of 32.
"""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    report.add_common_arguments(parser)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--many-keys", type=int, default=10_000_000)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.keys, options.many_keys = 2, 10_000, 100_000
    return options


def tables_of(options, figures):
    few, many = f"{options.keys:,} keys: ", f"{options.many_keys:,} keys: "
    bound = figures["bound"]

    def ratio(numerator, denominator):
        return report.ratios(figures[numerator], figures[denominator])

    ratios = [
        report.row(few + "one decision, given instant ÷ bound", ratio("one", "bound"),
                   at_most=1.5),
        report.row(few + "one decision, precise clock ÷ bound", ratio("one_clock", "bound"),
                   at_most=2),
        report.row(few + "in batches of 32 ÷ bound", ratio("batch", "bound"), at_most=0.7),
        report.row(few + "in batches of 32, fresh at each visit ÷ live",
                   ratio("returning", "batch"), at_most=1.3),
        report.row(few + "in batches of 32, each key never seen before ÷ live",
                   ratio("never_seen", "batch"), at_most=3),
        report.row(few + "in batches of 32, by Zipf's law, a tenth never seen ÷ live",
                   ratio("zipf", "batch")),
        report.row("one hot key, given instant", figures["hot"], unit="ns", at_most=12),
        report.row(many + "bytes a key", [figures["bytes_per_key_many"]], unit="B", at_most=32),
        report.row(f"the most bytes a key from {options.many_keys // 10:,} to"
                   f" {options.many_keys:,} keys", [figures["most_bytes_per_key"]], unit="B",
                   at_most=32),
        report.row(few + "bytes a key", [figures["bytes_per_key"]], unit="B"),
        report.row(few + "memory a minute after 90 % of them became fresh ÷ before",
                   [figures["memory_left"]], at_most=0.25),
        report.row(f"one decision at {options.many_keys:,} ÷ at {options.keys:,} keys",
                   ratio("one_many", "one"), at_most=1.6),
        report.row(few + "unordered_map with 64 mutexes ÷ one decision",
                   ratio("unordered_map", "one"), expected=8),
        report.row(few + "unordered_map with 64 mutexes ÷ in batches of 32",
                   ratio("unordered_map", "batch")),
    ]
    names = [("bound", "bound"), ("one", "one decision, given instant"),
             ("one_clock", "one decision, precise clock"), ("batch", "in batches of 32")]
    absolute = [report.row(few + text, figures[name], unit="ns") for name, text in names]
    absolute += [report.row(few + text, figures[name], unit="ns") for name, text in [
        ("returning", "in batches of 32, fresh at each visit"),
        ("never_seen", "in batches of 32, each key never seen before"),
        ("zipf", "in batches of 32, by Zipf's law, a tenth never seen"),
        ("unordered_map", "unordered_map with 64 mutexes")]]
    absolute += [report.row(many + text, figures[name + "_many"], unit="ns")
                 for name, text in names]
    assert len(bound) == options.rounds
    return [["Ratios, and the bounds in absolute terms:", ratios],
            ["CPU time per decision:", absolute]]


def main():
    options = parse_arguments()
    program = os.path.join(options.tools, "sluice_memory_bench")
    report.require(program)
    report.pin_this_process()
    command = [program, str(options.rounds), str(options.keys), str(options.many_keys)]
    output = subprocess.run(report.pinned(command, report.SERVER_CORE), check=True,
                            capture_output=True, text=True).stdout
    figures = json.loads(output)
    pages = "both in huge pages" if figures["huge_share"] > 0.5 else "both in ordinary 4 KiB pages"
    method = METHOD.format(rounds=options.rounds, few=options.keys, many=options.many_keys,
                           pages=pages)
    report.finish(report.section("The memory store, in process", method, "bench/run memory",
                                 tables_of(options, figures)), options.json)


if __name__ == "__main__":
    main()
