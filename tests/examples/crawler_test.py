"""examples/crawler: its log shows how fast it was; the limits have no burst."""

import signal
import time
import unittest

import harness
from tests.examples import example

SITE = "http://site.example/"


class Crawler(example.Program):
    def __init__(self, store, limit, addresses):
        self.begin = time.time()
        super().__init__("crawler", store, limit, lines=addresses)

    def fetched(self):
        """(instant, address) of each page fetched so far."""
        return [(float(words[0]), words[1]) for words in self.log() if len(words) == 2]

    def end(self):
        """Its last line, once it has ended successfully."""
        code = self.wait()
        assert code == 0, f"ended with {code}: {self.log()}"
        return " ".join(self.log()[-1])


def addresses(site, count):
    return [f"{site}{i}" for i in range(count)]


class CrawlerTest(unittest.TestCase):
    def check_rate(self, instants, begin, spacing_s):
        """The first fetch is after `begin`, and each further one at least a spacing after the
        last; a thread may be late, but never early."""
        for number, instant in enumerate(sorted(instants)):
            self.assertGreaterEqual(instant, begin + number * spacing_s, f"fetch {number}")

    def test_threads_keep_to_the_quota_and_fetch_each_page_once(self):
        with Crawler("memory:", "token_bucket 20/1s burst=1", addresses(SITE, 20)) as crawler:
            self.assertEqual(crawler.end(), "20 fetched, 0 left")
            fetched = crawler.fetched()
        self.assertEqual(sorted(address for _, address in fetched), sorted(addresses(SITE, 20)))
        self.check_rate([instant for instant, _ in fetched], crawler.begin, 0.05)

    def test_each_site_has_the_quota_to_itself(self):
        sites = ["http://a.example/", "http://b.example/"]
        mixed = [address for pair in zip(*[addresses(site, 2) for site in sites])
                 for address in pair]
        with Crawler("memory:", "token_bucket 1/3s burst=1", mixed) as crawler:
            crawler.end()
            fetched = crawler.fetched()
        for site in sites:
            instants = [instant for instant, address in fetched if address.startswith(site)]
            self.assertEqual(len(instants), 2)
            self.check_rate(instants, crawler.begin, 3)
        # The first fetch of each site was before the second of either was due.
        begin = min(instant for instant, _ in fetched)
        self.assertGreaterEqual(sum(instant < begin + 3 for instant, _ in fetched), 2)

    def test_crawlers_share_the_quota(self):
        with harness.RedisServer() as redis:
            url = redis.url + "?on_failure=raise&deadline=5s"
            limit = "token_bucket 20/1s burst=1"
            with (Crawler(url, limit, addresses(SITE, 15)) as one,
                  Crawler(url, limit, addresses(SITE + "b", 15)) as other):
                one.end()
                other.end()
                instants = [instant for instant, _ in one.fetched() + other.fetched()]
        self.assertEqual(len(instants), 30)
        self.check_rate(instants, one.begin, 0.05)

    def test_sigint_gives_the_reserved_turns_back(self):
        with harness.RedisServer() as redis:
            url = redis.url + "?on_failure=raise&deadline=5s"
            limit = "token_bucket 1/2s burst=1"
            with Crawler(url, limit, addresses(SITE, 100)) as crawler:
                # Four threads: one has fetched, and all wait, the last one for 8 s.
                harness.await_true("the first page", crawler.fetched)
                harness.await_true("four waits", lambda: self.reserved_ms(redis) > 7000)
                asked = time.time()
                crawler.signal(signal.SIGINT)
                self.assertRegex(crawler.end(), r"^\d fetched, 9\d left$")
            # The reservations were returned: the next fetch is due 2 s after the last one, not 10
            # s.
            with Crawler(url, limit, [SITE]) as crawler:
                self.assertEqual(crawler.end(), "1 fetched, 0 left")
                self.assertLess(crawler.fetched()[0][0], asked + 6)

    def reserved_ms(self, redis):
        """How far ahead units are reserved: the lifetime of their key."""
        return max((redis.ask("PTTL", key) for key in redis.ask("KEYS", "*")), default=0)
