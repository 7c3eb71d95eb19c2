"""Another program parses every header that the tests of http_headers() make: the npm package
structured-headers. The tests of examples/http_server ask it too."""

import os
import re
import tempfile
import unittest

import harness

FOLDER = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = [path for path in os.environ.get("HEADER_TESTS", "").split(":") if path]


def judge(text):
    """Judges "Name: value" lines, with an empty line after each response. Returns the number of
    headers, or raises AssertionError."""
    harness.npm_install()
    said = harness.output_of("node", os.path.join(FOLDER, "judge.mjs"), stdin=text)
    return int(re.fullmatch(r"(\d+) headers\n", said)[1])


class Judge(unittest.TestCase):
    def test_every_header_that_the_tests_make(self):
        self.assertEqual(len(PROGRAMS), 2, "HEADER_TESTS names the programs")
        for program in PROGRAMS:
            with self.subTest(program), tempfile.NamedTemporaryFile("r") as made:
                harness.output_of(program, "--gtest_filter=HttpHeaders.*",
                                  env=os.environ | {"MADE_HEADERS": made.name})
                self.assertGreater(judge(made.read()), 50)

    def test_it_says_what_is_wrong(self):
        good = 'RateLimit-Policy: "a";q=5;w=60\nRateLimit: "a";r=5;t=60\n'
        self.assertEqual(judge(good), 2)
        for wrong in ('RateLimit-Policy: a;q=5;w=60\n',
                      'RateLimit-Policy: "a";w=60\n',
                      'RateLimit-Policy: "a";q=1000000000000000\n',
                      'RateLimit-Policy: "a";q=5.0\n',
                      'RateLimit-Policy: "\u00e4";q=5\n',
                      'RateLimit-Policy: "a"b";q=5\n',
                      'RateLimit: "a";r=5\n',
                      good.replace("r=5", "r=6"),
                      good.replace(";t=60", ""),
                      'Retry-After: soon\n',
                      'Retry-After: -1\n',
                      'X-RateLimit-Reset: 1.5\n'):
            with self.subTest(wrong), self.assertRaises(AssertionError):
                judge(wrong)
