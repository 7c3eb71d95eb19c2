#!/usr/bin/env python3
"""How many log lines per second `sluice replay` decides on one core."""

import argparse
import glob
import gzip
import os
import subprocess
import sys
import tempfile
import time

import report

LIMIT = "token_bucket 10/1s"
KEY = "{ip}"
METHOD = """
`sluice replay --limit '{limit}' --key '{key}'` on one core, with a combined log of {lines:,} lines
({megabytes:.0f} MB, not compressed, in the page cache): the sample of `data/`, repeated. The figure
is lines by elapsed time of the whole process, from start to exit; {rounds} runs after one to warm
up.
"""


def find_sample():
    for pattern in ("*.log", "*.log.gz", "*access*"):
        found = sorted(glob.glob(os.path.join(report.ROOT, "data", pattern)))
        if found:
            return found[0]
    sys.exit("there is no access log in data/; name one with --log")


def read_log(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        text = file.read()
    return text if text.endswith(b"\n") else text + b"\n"


def write_big_log(file, sample, least_lines):
    """Repeats the sample to at least `least_lines` lines. Returns how many. The file stays in the
    page cache."""
    sample_lines = sample.count(b"\n")
    times = -(-least_lines // sample_lines)
    for _ in range(times):
        file.write(sample)
    file.flush()
    return times * sample_lines


def run_once(command):
    """Elapsed and CPU seconds of one run."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: exit status {process.returncode}")
    return elapsed, usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    report.add_common_arguments(parser)
    parser.add_argument("--sluice", default=os.path.join(report.ROOT, "build/release/sluice"))
    parser.add_argument("--log", help="the access log to repeat (the one in data/)")
    parser.add_argument("--lines", type=int, default=1_000_000)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.lines = 2, 20_000
    report.require(options.sluice)
    report.pin_this_process()
    sample = read_log(options.log or find_sample())
    with tempfile.NamedTemporaryFile(suffix=".log") as big:
        lines = write_big_log(big, sample, options.lines)
        megabytes = os.path.getsize(big.name) / 1e6
        command = report.pinned([options.sluice, "replay", "--limit", LIMIT, "--key", KEY,
                                 big.name], report.SERVER_CORE)
        runs = [run_once(command) for _ in range(options.rounds + 1)][1:]
    rows = [
        report.row("million lines a second", [lines / elapsed / 1e6 for elapsed, _ in runs],
                   at_least=1.5),
        report.row("CPU time a line", [cpu / lines * 1e9 for _, cpu in runs], unit="ns"),
    ]
    method = METHOD.format(limit=LIMIT, key=KEY, lines=lines, megabytes=megabytes,
                           rounds=options.rounds)
    report.finish(report.section("Replay", method, "bench/run replay", [["", rows]]),
                  options.json)


if __name__ == "__main__":
    main()
