"""Checks docs/configuration.md against the program: the table lists the members that the program
knows, and the examples are what it accepts and says."""

import os
import re

from harness import BINARY, ROOT, SystemTest, output_of, read_text, sluice

PAGE = os.path.join("docs", "configuration.md")
ROW = re.compile(r"^\| `([\w.\[\]]+)` \|", re.MULTILINE)
KNOWN = re.compile(r"there can be (.*)\n")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# How a file reaches the members of a map: a file in which NAME is unknown, by the map's name.
MAPS = {"": "NAME: x\n", "listen": "listen: {NAME: x}\n",
        "log": "log: {NAME: x}\n", "snapshot": "snapshot: {NAME: x}\n", "tls": "tls: {NAME: x}\n",
        "users[]": "users: [{NAME: x}]\n",
        "limits.NAME": "limits: {a: {NAME: x}}\n",
        "limits.NAME.overrides[]":
            "limits: {a: {limit: fixed_window 5/1m, overrides: [{NAME: x}]}}\n"}


class Configuration(SystemTest):
    def setUp(self):
        self.page = read_text(os.path.join(ROOT, PAGE))

    def known_members(self):
        """Every member that the program knows, as the page calls it."""
        for prefix, text in MAPS.items():
            path = self.write_file("members.yaml", text.replace("NAME", "unknown-member"))
            result = sluice("check-config", path)
            self.assertEqual(result.returncode, 1, result.stdout)
            for name in KNOWN.search(result.stderr)[1].split(", "):
                yield f"{prefix}.{name}" if prefix else name

    def test_the_table_lists_the_members_that_there_are(self):
        self.assertEqual(sorted(ROW.findall(self.page)), sorted(self.known_members()))

    def test_the_examples_are_accepted(self):
        examples = [text for kind, text in FENCE.findall(self.page) if kind == "yaml"]
        self.assertTrue(examples)
        for text in examples:
            text = text.replace("/run/sluice", self.temporary_folder())
            output_of(BINARY, "check-config", self.write_file("sluice.yaml", text))

    def test_a_mistake_is_said_as_the_page_shows(self):
        kinds = FENCE.findall(self.page)
        file = next(text for kind, text in kinds if kind == "yaml")
        path = self.write_file("sluice.yaml", file.replace("5/10m", "5/10x"))
        result = sluice("check-config", "sluice.yaml", cwd=os.path.dirname(path))
        self.assertEqual(result.stderr, next(text for kind, text in kinds if kind == "text"))
