"""`sluice replay` on realistic files.

After an intended change of a report: SLUICE_WRITE_GOLDEN=1 tests/run tests/system/replay_test.py
writes the expected files again; review their diff.
"""

import gzip
import json
import os
import pty
import re
import select
import subprocess

from harness import (BINARY, PATIENCE_S, SAMPLE, SystemTest, decisions, limit_options,
                     read_terminal, read_text, replay, run, sluice)

FIELDS = ["time_ns", "key", "cost", "limit_expr", "allowed", "limit", "remaining",
          "retry_after_ns", "reset_after_ns", "delay_ns"]
LIMITS = ("token_bucket 10/1m", "sliding_window 20/1m")
CSV = "time,key,cost\n0,a,1\n0.5,a,1\n1,a,1\n2.000000001,a,2\n"


class Sample(SystemTest):
    def test_golden_report(self):
        self.expect_golden("report.txt", replay(LIMITS, SAMPLE))

    def test_golden_json(self):
        self.expect_golden("report.json", replay(LIMITS, SAMPLE, "--json"))

    def test_gz_and_standard_input_are_the_same(self):
        """Also files that are partly packed, and several files that are one input."""
        lines = read_text(SAMPLE).encode().splitlines(keepends=True)
        half, rest = b"".join(lines[:700]), b"".join(lines[700:])
        packed = self.write_file("access.log.gz", gzip.compress(half + rest))
        halves = self.write_file("a.log", half), self.write_file("b.log.gz", gzip.compress(rest))
        expected = replay(LIMITS, SAMPLE, "--decisions", "-")
        self.assertEqual(expected.count("\n"), 2 * 2000)
        for paths, stdin in (((packed,), None), (("-",), half + rest), (halves, None),
                             (("-",), gzip.compress(half) + rest)):
            with self.subTest(paths):
                said = replay(LIMITS, *paths, "--decisions", "-", stdin=stdin, text=False)
                self.assertEqual(said.decode(), expected)


class Formats(SystemTest):
    def test_exact_text_of_a_decision(self):
        path = self.write_file("one.csv", "time,key,cost\n0,a,1\n")
        # The limit stands there as it was given.
        text = replay(["token_bucket  30/60s burst=16"], path, "--decisions", "-")
        self.assertEqual(text, '{"time_ns":0,"key":"a","cost":1,'
                               '"limit_expr":"token_bucket  30/60s burst=16","allowed":true,'
                               '"limit":16,"remaining":15,"retry_after_ns":0,'
                               '"reset_after_ns":2000000000,"delay_ns":0}\n')

    def test_joined_limits_tell_which_part_binds(self):
        path = self.write_file("three.csv", "time,key\n0,a\n0,a\n0,a\n")
        rows = decisions(["token_bucket 9/9s & sliding_log 2/1h", "sliding_log 2/1h"], path)
        joined, alone = rows[::2], rows[1::2]
        self.assertEqual([row["binding"] for row in joined], [1, 1, 1])
        self.assertEqual([row["reset_after_ns"] for row in joined], [3600 * 10**9] * 3)
        self.assertEqual(list(joined[0]), FIELDS + ["binding", "parts"])
        self.assertEqual(list(alone[0]), FIELDS)
        told = [[(part["allowed"], part["limit"], part["remaining"]) for part in row["parts"]]
                for row in joined]
        self.assertEqual(told, [[(True, 9, 8), (True, 2, 1)], [(True, 9, 7), (True, 2, 0)],
                                [(True, 9, 7), (False, 2, 0)]])
        for row in joined:
            self.assertEqual(list(row["parts"][0]), FIELDS[4:])
            binding = row["parts"][row["binding"]]
            self.assertEqual(binding, {name: row[name] for name in FIELDS[4:]})

class BadInput(SystemTest):
    LIMIT = ("--limit", "token_bucket 1/1s")

    def test_full_disk_for_the_decisions(self):
        """Few are written at the end, many also before."""
        path = self.write_file("requests.csv", CSV)
        for log in (path, SAMPLE):
            said = self.refusal("replay", log, *self.LIMIT, "--decisions", "/dev/full", code=1)
            self.assertEqual(said, "sluice replay: the decisions cannot be written to /dev/full: "
                                   "No space left on device\n")

    def test_what_is_said_goes_into_no_file(self):
        """Where a standard descriptor is closed, no file gets its number."""
        source = self.write_file("requests.csv", CSV + "this is no line\n")
        command = f"'{BINARY}' replay '{source}' --limit 'fixed_window 1/1m' --decisions "
        for closed in ("2>&-", ">&-", "<&- >&- 2>&-"):
            path = os.path.join(self.temporary_folder(), "decisions.jsonl")
            run("sh", "-c", f"{command} '{path}' {closed}")
            self.assertEqual([json.loads(line)["key"] for line in read_text(path).splitlines()],
                             ["a"] * 4)

    def test_standard_output_is_no_input(self):
        path = self.write_file("requests.csv", CSV)
        result = run("sh", "-c", '"$0" "$@" >>"$2"', BINARY, "replay", path, *self.LIMIT,
                     "--decisions", "-")
        self.assertEqual((result.returncode, result.stderr),
                         (2, "sluice replay: --decisions: standard output is also read and would "
                             "be lost\n"))
        self.assertEqual(read_text(path), CSV)

    def test_full_disk_for_the_report(self):
        path = self.write_file("requests.csv", CSV)
        page = self.write_file("page.html", "")
        for command in (["replay", path, *self.LIMIT], ["advise", path]):
            result = run("sh", "-c", 'ulimit -f 1; "$0" "$@"', BINARY, *command, "--html", page)
            self.assertIn(f"the page cannot be written to {page}: File too large", result.stderr)
            self.assertEqual((result.returncode, read_text(page)), (1, ""))
        result = run("sh", "-c", '"$0" "$@" >/dev/full', BINARY, "replay", path, *self.LIMIT)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)


class Terminal(SystemTest):
    """With standard output and standard error on a terminal, unless said otherwise."""

    def on_terminal(self, limits, *arguments, feed=lambda stdin, terminal: None, **variables):
        """All that it writes. `feed` writes its input, and can see when something is shown."""
        ours, its = pty.openpty()
        inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        environment = {**inherited, "TERM": "xterm", **variables}
        with subprocess.Popen([BINARY, "replay", *limit_options(limits), *arguments],
                              stdin=subprocess.PIPE, stdout=its, stderr=its,
                              env=environment) as process:
            os.close(its)
            feed(process.stdin, ours)
            process.stdin.close()
            written = read_terminal(ours)
            self.assertEqual(process.wait(), 0, written)
        return written.decode().replace("\r\n", "\n")

    def test_colours_only_on_a_terminal(self):
        plain = replay(LIMITS, SAMPLE, "--plot")
        self.assertNotIn("\x1b", plain)
        coloured = self.on_terminal(LIMITS, SAMPLE, "--plot")
        self.assertIn("\x1b[31m", coloured)
        self.assertEqual(re.sub(r"\x1b\[\d*m", "", coloured), plain)
        for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            self.assertEqual(self.on_terminal(LIMITS, SAMPLE, "--plot", **variables), plain)

    def test_the_bar_shows_the_rate_and_goes_away(self):
        lines = b"".join(b"%d,a\n" % i for i in range(5000))
        chunks = 0

        def feed(stdin, terminal):
            """The program looks at the time every 4,096 lines, and first draws after 500 ms."""
            nonlocal chunks
            stdin.write(b"time,key\n")
            while chunks < PATIENCE_S and not select.select([terminal], [], [], 0.7)[0]:
                stdin.write(lines)
                stdin.flush()
                chunks += 1

        text = self.on_terminal(["fixed_window 1/1m"], NO_COLOR="1", feed=feed)
        shown = re.search(r"\r\x1b\[K([\d,]+) lines  [\d,]+/s", text)
        self.assertIsNotNone(shown, text)
        self.assertEqual(int(shown[1].replace(",", "")) % 4096, 0)
        before_summary = text[:text.index(f"{5000 * chunks:,} requests")]
        self.assertTrue(before_summary.endswith("\r\x1b[K"), text)

    def test_no_bar_without_a_terminal(self):
        lines = "".join(f"{i},a\n" for i in range(5000))
        result = sluice("replay", "--limit", "fixed_window 1/1m", stdin="time,key\n" + lines)
        self.assertEqual((result.returncode, result.stderr), (0, ""))


class Order(SystemTest):
    def test_what_comes_too_late_is_told(self):
        """The first line of the log is at its end, after more lines than can wait."""
        rows = "time,key\n" + "".join(f"{second},a\n" for second in range(1, 120_001)) + "0,a\n"
        result = sluice("replay", "--limit", "fixed_window 1/1m", stdin=rows)
        self.assertRegex(result.stderr,
                         r"^sluice replay: 1 request comes too late, by up to \S+: too many later "
                         r"ones were read before, [^\n]*\n$")


class Plot(SystemTest):
    def test_the_bars_are_where_the_denials_are(self):
        rows = "".join(f"{second},a\n" for second in range(80)) + "40.5,a\n" * 30
        text = replay(["fixed_window 99/1s", "fixed_window 2/1s"], "--plot",
                      stdin="time,key\n" + rows)
        none, plot = text.split("denied per 1s\n")[1:]
        self.assertNotIn("█", none)
        bars = plot.splitlines()[:6]
        self.assertEqual(bars[0].index("█"), bars[0].index("|") + 41)
        self.assertEqual([line.count("█") for line in bars], [1] * 6)

    def test_each_limit_has_one(self):
        text = replay(LIMITS, SAMPLE, "--plot")
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 100)
        self.assertTrue(text.startswith(replay(LIMITS, SAMPLE)))
        self.assertEqual(text.count("denied per"), 2)

    def test_misuse(self):
        nine = [f"fixed_window {count}/1m" for count in range(1, 10)]
        for limits, option, why in (
                (LIMITS, "--json", "--plot: it belongs to the tables, and --json prints none\n"),
                (nine, "--strict", "--plot: a plot shows at most 8 limits")):
            said = self.refusal("replay", SAMPLE, *limit_options(limits), "--plot", option)
            self.assertIn("sluice replay: " + why, said)
