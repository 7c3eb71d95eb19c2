"""Benchmarks run: all servers start, answer, and are measured, and docs/benchmarks.md has the
figures and targets that they print."""

import os
import re
import sys

from harness import BINARY, ROOT, SystemTest, output_of, read_text


TOOLS = ("--tools", os.environ["LOAD_TOOLS"])
SERVER = ("--sluice", BINARY)
PAGE = read_text(os.path.join(ROOT, "docs", "benchmarks.md"))
# Its target depends on another figure.
COMPUTED = "p99 of a client beside the other"


def figures(text):
    """The name and the target of each row of the tables."""
    rows = re.findall(r"(?m)^\| (.*?) \|.*?\|.*?\|.*?\| (.*?) \|.*\|$", text)
    return [(name, target if name != COMPUTED else "") for name, target in rows]


class Bench(SystemTest):
    def check(self, part, script, *arguments):
        """A quick run succeeds, and prints the rows of the section."""
        path = os.path.join(ROOT, "bench", script)
        printed = output_of(sys.executable, "-B", path, "--quick", *arguments, timeout_s=300)
        section, = (text for text in PAGE.split("\n## ") if f"\n    bench/run {part}\n" in text)
        self.assertIn(("what", "target"), figures(section))
        self.assertEqual(figures(section), figures(printed))

    def test_the_readme_counts_the_targets(self):
        met, missed = PAGE.count("| met |\n"), PAGE.count("| **missed** |\n")
        self.assertIn(f"of {met + missed} targets there, {missed} are missed",
                      read_text(os.path.join(ROOT, "README.md")))

    def test_each_part(self):
        for part, script, arguments in (
                ("http", "serve_http.py", SERVER), ("serve", "serve.py", SERVER + TOOLS),
                ("replay", "replay.py", SERVER), ("redis", "redis.py", TOOLS),
                ("memcached", "memcached.py", TOOLS)):
            with self.subTest(part):
                self.check(part, script, *arguments)
