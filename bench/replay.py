#!/usr/bin/env python3
"""How many log lines per second `sluice replay` decides on one core."""

import argparse
import datetime
import os
import re
import subprocess
import sys
import tempfile
import time
from random import Random

import report

SAMPLE = os.path.join(report.ROOT, "data/access.log")
LIMIT = "token_bucket 10/1s"
KEY = "{ip}"
METHOD = """
`sluice replay --limit '{limit}' --key '{key}'` on one core, with a combined log of {lines:,} lines
({megabytes:.0f} MB, not compressed, in the page cache): the sample of `data/`, repeated, each time
a day later. Within a minute its lines are in no order, so `replay` sorts them. The figure is lines
by elapsed time of the whole process, from start to exit; {rounds} runs after one to warm up.

With a page: one run with `--html` and {limits} limits, of which it also tries {versions} smaller
and larger versions, on a CSV file of {page_lines:,} requests of {keys:,} keys in a week. A few keys
have most of the requests.
"""
PAGE_LIMITS = ("token_bucket 10/1m", "sliding_window 60/1h", "sliding_log 20/5m",
               "fixed_window 500/1d", "leaky_bucket 1/1s queue=10")
PAGE_VERSIONS = 6
PAGE_KEYS = 1_000_000
DAY = "%d/%b/%Y"
WEEK_S = 7 * 86_400


def write_big_log(file, sample, least_lines):
    """Repeats the sample to at least `least_lines` lines, each time a day later. Returns how many.
    The file stays in the page cache."""
    days = sorted(set(re.findall(rb"\[(\d\d/\w{3}/\d{4}):", sample)),
                  key=lambda text: datetime.datetime.strptime(text.decode(), DAY))
    pieces = re.split(rb"\[(" + b"|".join(days) + rb"):", sample)
    sample_lines = sample.count(b"\n")
    times = -(-least_lines // sample_lines)
    first = datetime.datetime.strptime(days[0].decode(), DAY)
    for shift in range(times):
        shifted = [(first + datetime.timedelta(days=shift + i)).strftime(DAY).encode()
                   for i in range(len(days))]
        for i in range(1, len(pieces), 2):
            file.write(pieces[i - 1] + b"[" + shifted[days.index(pieces[i])] + b":")
        file.write(pieces[-1])
    file.flush()
    return times * sample_lines


def write_traffic(file, lines):
    """Writes requests in the order of time. The key with the number n comes n times less often than
    the first."""
    random = Random(1)
    file.write(b"time,key\n")
    for i in range(lines):
        key = int(PAGE_KEYS ** random.random())
        file.write(b"%.3f,%d\n" % (1_700_000_000 + i * WEEK_S / lines, key))
    file.flush()


def page_rows(sluice, lines):
    """Replays generated traffic with --html."""
    limits = [word for limit in PAGE_LIMITS for word in ("--limit", limit)]
    with tempfile.NamedTemporaryFile(suffix=".csv") as log, \
            tempfile.NamedTemporaryFile(suffix=".html") as page:
        write_traffic(log, lines)
        elapsed, _, peak_bytes = run_once(report.pinned(
            [sluice, "replay", *limits, "--html", page.name, log.name], report.SERVER_CORE))
        page_bytes = os.path.getsize(page.name)
    return [
        report.row("with a page: million lines a second", [lines / elapsed / 1e6]),
        report.row("the page", [page_bytes / 1e6], unit="MB", at_most=1),
        report.row("with a page: peak memory", [peak_bytes / 1e6], unit="MB"),
    ]


def run_once(command):
    """Elapsed and CPU seconds of one run, and its peak memory in bytes."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: exit status {process.returncode}")
    return elapsed, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    report.add_common_arguments(parser)
    parser.add_argument("--sluice", type=os.path.abspath,
                        default=os.path.join(report.ROOT, "build/release/sluice"))
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--page-lines", type=int, default=10_000_000)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.lines, options.page_lines = 2, 20_000, 20_000
    report.require(options.sluice)
    report.pin_this_process()
    with open(SAMPLE, "rb") as file:
        sample = file.read()
    with tempfile.NamedTemporaryFile(suffix=".log") as big:
        lines = write_big_log(big, sample, options.lines)
        megabytes = os.path.getsize(big.name) / 1e6
        command = report.pinned([options.sluice, "replay", "--limit", LIMIT, "--key", KEY,
                                 big.name], report.SERVER_CORE)
        runs = [run_once(command) for _ in range(options.rounds + 1)][1:]
    rows = [
        report.row("million lines a second", [lines / elapsed / 1e6 for elapsed, _, _ in runs],
                   at_least=1.5),
        report.row("CPU time a line", [cpu / lines * 1e9 for _, cpu, _ in runs], unit="ns"),
        *page_rows(options.sluice, options.page_lines),
    ]
    method = METHOD.format(limit=LIMIT, key=KEY, lines=lines, megabytes=megabytes,
                           rounds=options.rounds, limits=len(PAGE_LIMITS),
                           versions=PAGE_VERSIONS, page_lines=options.page_lines, keys=PAGE_KEYS)
    report.finish(report.section("Replay", method, "bench/run replay", [["", rows]]),
                  options.json)


if __name__ == "__main__":
    main()
