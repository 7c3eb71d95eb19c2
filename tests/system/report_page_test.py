"""The page of `sluice replay --html`: its numbers are those of --json and --decisions, also in
Chromium, where pages/report.mjs uses it."""

import collections
import json
import os

from harness import SAMPLE, read_text, replay, write_text
from page import DATA, HOSTILE, PageTest, data_of

LIMITS = ("token_bucket 4/1m", "fixed_window 4/1m", "token_bucket 30/1m")
# Keys that are cut to the same text.
TWINS = ["x" * 80 + "a"] * 7 + ["x" * 80 + "b"] * 11
MAX_BYTES = 1_000_000
MOST_LISTED = 10


class ReportPage(PageTest):
    def replay(self, limits, *arguments):
        """Runs a replay with all outputs. Returns the paths of the page, the summary as JSON and
        the decisions."""
        folder = self.temporary_folder()
        page, summary, decisions = (os.path.join(folder, name) for name in
                                    ("report.html", "summary.json", "decisions.jsonl"))
        write_text(summary, replay(limits, *arguments, "--html", page, "--json", "--decisions",
                                   decisions))
        return page, summary, decisions

    def sample(self):
        return self.replay(LIMITS, SAMPLE)

    def test_the_page_has_the_numbers_of_the_summary(self):
        page, summary, _ = self.sample()
        data = data_of(page)
        wanted = json.loads(read_text(summary))
        for limit, shown in zip(wanted["limits"], data["report"]["limits"]):
            shown["most_denied"] = shown["most_denied"][:len(limit["most_denied"])]
        self.assertEqual(data["report"], wanted)
        self.assertEqual(sum(data["timeline"]["requests"]), wanted["requests"])
        for limit, column in zip(wanted["limits"], data["timeline"]["denied"], strict=True):
            self.assertEqual(sum(column), limit["denied"])
        self.assertTrue(data["command"].startswith("sluice replay "), data["command"])
        for word in (SAMPLE, *LIMITS):
            self.assertIn(word, data["command"])

    def test_the_keys_that_only_one_limit_denies_are_those_of_the_decisions(self):
        page, _, decisions = self.sample()
        denied = {limit: collections.Counter() for limit in LIMITS}
        requests = collections.Counter()
        for line in read_text(decisions).splitlines():
            row = json.loads(line)
            requests[row["key"]] += row["limit_expr"] == LIMITS[0]
            if not row["allowed"]:
                denied[row["limit_expr"]][row["key"]] += 1
        listed = 0
        for difference in data_of(page)["differences"]:
            never, by = (denied[LIMITS[difference[name]]] for name in ("admits", "denies"))
            only = sorted((-count, key) for key, count in by.items() if key not in never)
            self.assertEqual(difference["keys"], len(only))
            self.assertEqual(difference["most_denied"],
                             [{"key": key, "denied": -count, "requests": requests[key]}
                              for count, key in only[:MOST_LISTED]])
            listed += len(difference["most_denied"])
        self.assertGreater(listed, 0)

    def test_the_timelines_of_keys_are_those_of_the_decisions(self):
        page, _, decisions = self.sample()
        data = data_of(page)
        rows = {}
        for line in read_text(decisions).splitlines():
            row = json.loads(line)
            rows.setdefault(row["key"], []).append(row)
        self.assertGreater(len(data["keys"]), 50)
        for key in data["keys"]:
            steps = {}
            for row in rows[key["key"]]:
                limit = LIMITS.index(row["limit_expr"])
                step = steps.setdefault((limit, row["time_ns"] // data["step_ns"]), [0, 0, 2**63])
                step[0] += 1
                step[1] += not row["allowed"]
                step[2] = min(step[2], row["remaining"])
            shown = {(limit, step): [key["requests"][i], key["denied"][limit][i],
                                     key["level"][limit][i]]
                     for limit in range(len(LIMITS)) for i, step in enumerate(key["steps"])}
            self.assertEqual(shown, steps)

    def test_the_sweep_is_what_a_replay_of_each_limit_says(self):
        page, _, _ = self.sample()
        data = data_of(page)
        points = [point for sweep in data["sweep"] for point in sweep["points"]]
        self.assertEqual(len(points), 6 * len(LIMITS))
        limits = sorted({point["limit_expr"] for point in points})
        keys = {limit["limit_expr"]: limit["keys_limited"]
                for limit in json.loads(replay(limits, SAMPLE, "--json"))["limits"]}
        for point in points:
            self.assertEqual(point["keys_limited"], keys[point["limit_expr"]], point)

    def test_in_chromium(self):
        self.expect_in_chromium("report", *self.sample())

    def test_part_timelines_in_chromium(self):
        """As of a log with more keys than the bound of all timelines lets a page have whole."""
        text = read_text(self.sample()[0])
        found = DATA.search(text)
        data = json.loads(found[1])
        key = data["keys"][data["timelines"][0][0]]
        half = len(key["steps"]) // 2
        self.assertGreater(half, 0)
        key["steps"], key["requests"] = key["steps"][half:], key["requests"][half:]
        for name in ("denied", "level"):
            key[name] = [column[half:] for column in key[name]]
        packed = json.dumps(data).replace("<", "\\u003c")
        page = self.write_file("part.html", text[:found.start(1)] + packed + text[found.end(1):])
        self.expect_in_chromium("part_timelines", page)

    def test_hostile_keys_in_chromium(self):
        lines = "".join(json.dumps({"time": 1700000000.05 + i % 7, "key": key}) + "\n"
                        for i, key in enumerate(HOSTILE * 20 + TWINS))
        page, _, _ = self.replay(["fixed_window 5/1h", "fixed_window 2/1h"],
                                 self.write_file("log.jsonl", lines))
        self.expect_in_chromium("hostile_keys", page)

    def test_a_page_of_many_lines_is_small(self):
        """Thousands of busy keys in each step of a day, under five limits."""
        lines = "".join(f"{1700000000 + i * 86400 / 200_000:.3f},{i * i % 7919 % 500}\n"
                        for i in range(200_000))
        limits = [f"token_bucket {n}/1m" for n in (1, 2, 3)] + ["sliding_log 9/5m",
                                                                "fixed_window 20/1h"]
        page, summary, _ = self.replay(limits, self.write_file("log.csv", "time,key\n" + lines))
        self.assertLessEqual(os.path.getsize(page), MAX_BYTES)
        data = data_of(page)
        requests = {key["key"]: sum(key["requests"]) for key in data["keys"]}
        for limit in json.loads(read_text(summary))["limits"]:
            for key in limit["most_denied"]:
                self.assertEqual(requests[key["key"]], key["requests"])

    def test_an_empty_log_in_chromium(self):
        page, _, _ = self.replay(["fixed_window 5/1h"], self.write_file("log", ""))
        self.expect_in_chromium("empty_report", page)
