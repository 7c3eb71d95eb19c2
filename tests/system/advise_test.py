"""`sluice advise` on the sample log, and on made traffic whose right answer is known."""

import collections
import datetime
import json
import os
import random

from harness import BINARY, ROOT, SAMPLE, SystemTest, decisions, output_of, replay

START = datetime.datetime(2026, 3, 2, tzinfo=datetime.timezone.utc)
BROWSER = "Mozilla/5.0 (X11; Linux x86_64)"
SCRAPER = "203.0.113.9"


def log_line(second, ip, path, agent, status=200):
    time = START + datetime.timedelta(seconds=int(second))
    return (f'{ip} - - [{time:%d/%b/%Y:%H:%M:%S} +0000] "GET {path} HTTP/1.1" {status} 512 "-" '
            f'"{agent}"\n')


def human(random_, ip, hours):
    """Sessions at random times; each has some pages, and each page its assets within seconds."""
    rows = []
    second = random_.expovariate(1 / 1800)
    while second < hours * 3600:
        for _ in range(1 + int(random_.expovariate(1 / 4))):
            rows.append((second, ip, f"/page/{random_.randrange(200)}", BROWSER))
            for asset in range(random_.randint(5, 30)):
                rows.append((second + random_.random() * 3, ip, f"/asset/{asset}.css", BROWSER))
            second += random_.expovariate(1 / 45)
        second += random_.expovariate(1 / 3600)
    return rows


def scraper(random_, ip, hours, per_second):
    """Asks at a steady rate, from a random time on, for half an hour to the end."""
    second = random_.random() * hours * 1800
    end = second + random_.uniform(1800, hours * 3600 - second)
    rows = []
    while second < end:
        status = 404 if random_.random() < 0.2 else 200
        rows.append((second, ip, f"/item/{len(rows)}", "python-requests/2.31", status))
        second += random_.uniform(0.5, 1.5) / per_second
    return rows


def crowd(seed, per_second):
    """A log of sixty people and one scraper, of two hours."""
    hours = 2
    random_ = random.Random(seed)
    rows = []
    for number in range(60):
        rows += human(random_, f"198.51.100.{number}", hours)
    rows += scraper(random_, SCRAPER, hours, per_second)
    rows.sort(key=lambda row: int(row[0]))
    return "".join(log_line(*row) for row in rows)


class Advise(SystemTest):
    def advice(self, *arguments):
        return json.loads(output_of(BINARY, "advise", *arguments, "--json"))

    def denied(self, path, limit):
        """Which keys replay denies under a limit, and how often."""
        keys = collections.Counter()
        for row in decisions([limit], path):
            keys[row["key"]] += not row["allowed"]
        return +keys

    def expect_as_replay(self, path, *arguments):
        """What it says of its suggestions is what replay finds."""
        advice = self.advice(path, *arguments)
        self.assertEqual([each["name"] for each in advice["suggestions"]],
                         ["strict", "balanced", "lenient"])
        limits = [each["limit_expr"] for each in advice["suggestions"]]
        report = json.loads(replay(limits, path, "--json", *arguments))
        for each, said in zip(advice["suggestions"], report["limits"], strict=True):
            self.assertEqual((said["limit_expr"], said["denied"], said["keys_limited"]),
                             (each["limit_expr"], each["denied"], each["keys_limited"]))
        return advice


class Sample(Advise):
    def test_golden_text(self):
        sample = os.path.relpath(SAMPLE, ROOT)
        text = output_of(BINARY, "advise", sample, cwd=ROOT)
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 100)
        self.expect_golden("advice.txt", text)

    def test_suggestions_do_what_they_say(self):
        self.expect_as_replay(SAMPLE)
        self.expect_as_replay(SAMPLE, "--key", "{path}")

    def test_limits_deny_the_share_that_they_say(self):
        """Each limit of the table denies at most its share, the next smaller one denies more."""
        advice = self.advice(SAMPLE)
        self.assertGreater(len(advice["limits"]), 5)
        for row in advice["limits"]:
            numbers = {*row["requests_denied"].values()}
            for limit in row["keys_denied"].values():
                numbers |= {limit, limit - 1}
            limits = [row["limit_expr"].replace("L", str(number)) for number in sorted(numbers)]
            report = json.loads(replay(limits, SAMPLE, "--json"))
            said = dict(zip(sorted(numbers), report["limits"], strict=True))
            for share in ("5%", "1%", "0.1%"):
                limit = row["keys_denied"][share]
                bound = float(share[:-1]) / 100 * advice["keys"]
                self.assertLessEqual(said[limit]["keys_limited"], bound, row)
                self.assertGreater(said[limit - 1]["keys_limited"], bound, row)
                requests = row["requests_denied"][share]
                self.assertLessEqual(said[requests]["denied"],
                                     float(share[:-1]) / 100 * advice["requests"])


class Made(Advise):
    def test_a_scraper_is_caught_and_no_human_is(self):
        for seed, per_second in ((1, 1), (2, 2), (3, 5), (4, 1), (5, 20), (6, 2)):
            with self.subTest(seed=seed, per_second=per_second):
                path = self.write_file(f"crowd{seed}.log", crowd(seed, per_second))
                advice = self.expect_as_replay(path)
                balanced = advice["suggestions"][1]
                keys = self.denied(path, balanced["limit_expr"])
                self.assertEqual(set(keys), {SCRAPER}, balanced)
                first = advice["hit_first"][0]
                self.assertEqual(first["key"], SCRAPER)
                self.assertEqual(first["user_agent"], "python-requests/2.31")
                self.assertAlmostEqual(first["status_4xx"] / first["requests"], 0.2, delta=0.05)
                self.assertGreater(first["denied"], first["requests"] / 4)
