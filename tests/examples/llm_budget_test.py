"""examples/llm_budget: reserve, settle and cancel. A token returns after an hour, so none does
during the test."""

import unittest

import harness
from tests.examples import example

BUDGET = "token_bucket 1000/1000h"


class LlmBudget(unittest.TestCase):
    def test_commit_cancel_and_debt(self):
        calls = {
            "acme 800 300": "200 used 300, 700 left",
            "acme 701 1": "429 retry after 3600 s",
            "acme 700 fails": "502 the model does not answer",
            "acme 700 900": "200 used 900, 0 left",
            "acme 1 1": f"429 retry after {201 * 3600} s",
            "other 10 10": "200 used 10, 990 left",
            "other 1001 1": "413 more than the whole budget",
            "acme -1 1": "400 not a call",
            "acme 1 many": "400 not a call",
        }
        self.check("memory:", calls)

    def test_programs_share_the_budget(self):
        with harness.RedisServer() as redis:
            url = redis.url + "?on_failure=raise&deadline=5s"
            self.check(url, {"acme 900 400": "200 used 400, 600 left"})
            self.check(url, {
                "acme 601 1": "429 retry after 3600 s",
                "acme 600 fails": "502 the model does not answer",
                "acme 600 600": "200 used 600, 0 left",
            })

    def check(self, url, calls):
        """Checks the answer to each call; a wait may be shorter by a few seconds."""
        answers = example.run("llm_budget", url, BUDGET, lines=calls)
        self.assertEqual(len(answers), len(calls))
        for answer, promised in zip(answers, calls.values()):
            words, promised_words = answer.split(), promised.split()
            if promised_words[0] == "429":
                wait_s, longest_s = int(words.pop(-2)), int(promised_words.pop(-2))
                self.assertLessEqual(wait_s, longest_s)
                self.assertGreater(wait_s, longest_s - harness.PATIENCE_S)
            self.assertEqual(words, promised_words)

    def test_a_wrong_limit_is_named(self):
        done = harness.run(example.program("llm_budget"), "memory:", "token_bucket none")
        self.assertEqual(done.returncode, 1)
        self.assertIn("token_bucket none", done.stderr)
