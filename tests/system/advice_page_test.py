"""The page of `sluice advise --html`: its data are those of --json; Chromium draws it."""

import json
import os

from harness import BINARY, SAMPLE, output_of, sluice
from page import HOSTILE, PageTest, data_of


class AdvicePage(PageTest):
    def advise(self, *arguments):
        """Runs it with both outputs. Returns the page's path, and the advice as JSON."""
        page = os.path.join(self.temporary_folder(), "advice.html")
        return page, json.loads(output_of(BINARY, "advise", *arguments, "--html", page, "--json"))

    def expect_advice_in_chromium(self, page, advice):
        self.expect_in_chromium("advice", page, self.write_file("advice.json", json.dumps(advice)))

    def test_the_page_has_the_advice(self):
        page, advice = self.advise(SAMPLE)
        self.assertEqual(data_of(page), advice)

    def test_to_standard_output(self):
        result = sluice("advise", SAMPLE, "--html", "-")
        self.assertTrue(result.stdout.startswith("<!doctype html>"))
        self.assertEqual(result.stderr, sluice("advise", SAMPLE).stdout)

    def test_in_chromium(self):
        self.expect_advice_in_chromium(*self.advise(SAMPLE))

    def test_hostile_keys_in_chromium(self):
        lines = "".join(json.dumps({"time": 1700000000 + i * 30, "key": key, "user_agent": key,
                                    "path": key}) + "\n"
                        for i, key in enumerate(HOSTILE * 20))
        self.expect_advice_in_chromium(*self.advise(self.write_file("log.jsonl", lines)))

    def test_an_empty_log_in_chromium(self):
        self.expect_advice_in_chromium(*self.advise(self.write_file("log", "")))
