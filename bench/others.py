#!/usr/bin/env python3
"""The memory store against what one writes in Go and in Java with their well-known limiters."""

import argparse
import contextlib
import os
import subprocess
import sys

import report
from serve import running

GUAVA = "/usr/share/java/guava.jar"
SOURCES = os.path.join(report.ROOT, "bench/others")
METHOD = """
Each program holds a limiter for each of {keys:,} keys of 16 to 24 bytes and, when its turn comes,
asks for every key once, one thread on one core, the clock read for each decision: ours one by one
and in batches of 32; Go's `golang.org/x/time/rate` in 64 maps, each behind a mutex; Guava's
`RateLimiter.tryAcquire` in a `ConcurrentHashMap`. All from Debian's packages. The programs take
turns, {rounds} rounds after one to warm up; each figure is the median of the rounds' ratios.
"""


def build(folder):
    """Compiles the Go and the Java program into `folder`: the commands that run them."""
    os.makedirs(folder, exist_ok=True)
    go_environment = dict(os.environ, GO111MODULE="off", GOPATH="/usr/share/gocode", GOFLAGS="",
                          GOCACHE=os.path.join(folder, "go-cache"))
    golang = os.path.join(folder, "golang")
    subprocess.run(["go", "build", "-o", golang, os.path.join(SOURCES, "golang.go")],
                   check=True, env=go_environment)
    subprocess.run(["javac", "-cp", GUAVA, "-Xlint:-options", "-d", folder,
                    os.path.join(SOURCES, "GuavaRounds.java")], check=True)
    return {
        "Go x/time/rate": [golang],
        "Guava RateLimiter": ["java", "-Xms2g", "-Xmx4g", "-cp", f"{GUAVA}:{folder}",
                              "GuavaRounds"],
    }


def read_line(name, process):
    line = process.stdout.readline()
    if not line:
        sys.exit(f"the benchmark of {name} was broken off")
    return line


def measure(options, commands):
    """Nanoseconds per decision of each program: a list over the rounds of the figures printed."""
    figures = {name: [] for name in commands}
    with contextlib.ExitStack() as stack:
        processes = {}
        for name, command in commands.items():
            processes[name] = stack.enter_context(
                running(command + [str(options.keys)], report.SERVER_CORE,
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        for name, process in processes.items():
            read_line(name, process)
        for round_number in range(options.rounds + 1):
            for name, process in processes.items():
                process.stdin.write("\n")
                process.stdin.flush()
                values = [float(word) for word in read_line(name, process).split()]
                if round_number > 0:  # The first round warms up.
                    figures[name].append(values)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    report.add_common_arguments(parser)
    parser.add_argument("--keys", type=int, default=1_000_000)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.keys = 2, 10_000
    rounds_program = os.path.join(options.tools, "sluice_memory_rounds")
    report.require(rounds_program, GUAVA)
    commands = {"ours": [rounds_program], **build(os.path.join(options.tools, "others"))}
    report.pin_this_process()
    figures = measure(options, commands)
    one = [values[0] for values in figures["ours"]]
    batch = [values[1] for values in figures["ours"]]
    ratios = []
    absolute = [report.row("ours, one by one", one, unit="ns"),
                report.row("ours, in batches of 32", batch, unit="ns")]
    for name in list(commands)[1:]:
        theirs = [values[0] for values in figures[name]]
        ratios.append(report.row(f"{name} ÷ ours, one by one", report.ratios(theirs, one),
                                 expected=6))
        ratios.append(report.row(f"{name} ÷ ours, in batches of 32",
                                 report.ratios(theirs, batch)))
        absolute.append(report.row(name, theirs, unit="ns"))
    method = METHOD.format(keys=options.keys, rounds=options.rounds)
    report.finish(report.section("Other languages", method, "bench/run others", [
        ["Ratios:", ratios], ["Time per decision:", absolute]]), options.json)


if __name__ == "__main__":
    main()
