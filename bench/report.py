"""Tools of the benchmarks: pinning to cores, figures with their targets, tables."""

import json
import os
import re
import statistics
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# The measured program runs on one core, the programs that load or watch it on the other.
SERVER_CORE = max(os.sched_getaffinity(0))
LOAD_CORE = min(os.sched_getaffinity(0))


def pinned(command, core):
    return ["taskset", "-c", str(core)] + command


def pin_this_process():
    os.sched_setaffinity(0, {LOAD_CORE})


def cpu_ns(pid):
    """The CPU time of all threads of a process, in nanoseconds, as the scheduler counts it."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
            total += int(file.read().split()[0])
    return total


def ratios(numerators, denominators):
    """Ratios within each round, since the machine's speed drifts, but hardly within one round."""
    return [a / b for a, b in zip(numerators, denominators, strict=True)]


def row(what, values, *, unit="", at_most=None, at_least=None, expected=None):
    """One figure: the median over the rounds, the least and the most, and the target beside it.

    `expected` is an expectation and not a target: it is shown, without "met" or "missed".
    """
    median = statistics.median(values)
    target, met = "", None
    if at_most is not None:
        target, met = f"≤ {at_most:g}", median <= at_most
    elif at_least is not None:
        target, met = f"≥ {at_least:g}", median >= at_least
    elif expected is not None:
        target = f"about {expected:g}"
    return {
        "what": what,
        "unit": unit,
        "median": median,
        "min": min(values),
        "max": max(values),
        "target": target,
        "met": met,
    }


def number(value):
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if value >= 100 else f"{value:.3g}"


def verdict(met):
    return {True: "met", False: "**missed**", None: ""}[met]


def table(rows):
    lines = [
        "| what | median | least | most | target | |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for r in rows:
        unit = f" {r['unit']}" if r["unit"] else ""
        lines.append(
            f"| {r['what']} | {number(r['median'])}{unit} | {number(r['min'])} |"
            f" {number(r['max'])} | {r['target']} | {verdict(r['met'])} |"
        )
    return "\n".join(lines)


def section(title, method, command, tables):
    """`tables` is a list of (caption, rows)."""
    return {"title": title, "method": method, "command": command, "tables": tables}


def fill(text):
    """Paragraphs in lines of 98 columns; a line that begins with "- " begins an item of a list."""
    def filled(item):
        indent = "  " if item.startswith("- ") else ""
        return textwrap.fill(" ".join(item.split()), 98, subsequent_indent=indent)

    return "\n\n".join("\n".join(map(filled, re.split(r"\n(?=- )", paragraph)))
                       for paragraph in text.strip().split("\n\n"))


def render(part):
    lines = [f"## {part['title']}", "", fill(part["method"]), "", f"    {part['command']}", ""]
    for caption, rows in part["tables"]:
        if caption:
            lines += [caption, ""]
        lines += [table(rows), ""]
    return "\n".join(lines)


def finish(part, json_path):
    """Prints the section, and writes it as JSON if `json_path` is given."""
    print(render(part))
    if json_path:
        with open(json_path, "w", encoding="utf-8") as file:
            json.dump(part, file, indent=1, ensure_ascii=False)


def require(*paths):
    for path in paths:
        if not os.access(path, os.R_OK):
            sys.exit(f"{path} is missing; bench/run builds it")


def add_common_arguments(parser, rounds=11):
    parser.add_argument("--rounds", type=int, default=rounds,
                        help=f"alternating rounds ({rounds})")
    parser.add_argument("--quick", action="store_true",
                        help="few and short rounds: tries the benchmark, measures nothing")
    parser.add_argument("--json", metavar="FILE", help="write the section there too")
    parser.add_argument("--tools", type=os.path.abspath, metavar="FOLDER",
                        default=os.path.join(ROOT, "build/bench"),
                        help="where the benchmark programs are (build/bench)")
