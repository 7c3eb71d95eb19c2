"""examples/sms_code: a code is charged to the number, the address and all clients, or to none."""

import os
import time
import unittest

import harness
from tests.examples import example

ENVIRONMENT = dict(os.environ, SMS_PEPPER="a pepper for tests alone")
NUMBER = "+49 170 1234567"
SENT = "sent to +491701234567"


def ask(url, *requests):
    return example.run("sms_code", url, lines=requests, env=ENVIRONMENT)


class SmsCode(unittest.TestCase):
    def setUp(self):
        self.redis = self.enterContext(harness.RedisServer())
        self.url = self.redis.url + "?on_failure=raise&deadline=5s"

    def test_who_is_told_to_wait_has_lost_nothing(self):
        begin = time.monotonic()
        # One code for the number; the others are denied, and not charged to the address: it has 9
        # left.
        answers = ask(self.url, *[f"{NUMBER} 203.0.113.7"] * 30)
        self.assertEqual(answers[0], SENT)
        for answer in answers[1:]:
            self.assertRegex(answer, r"^wait (60|[345]\d) s$")
        answers = ask(self.url, *[f"+1 555 01000{i:02} 203.0.113.7" for i in range(30)])
        self.assertEqual([answer.split()[0] for answer in answers], ["sent"] * 9 + ["wait"] * 21)
        self.assertRegex(answers[-1], r"^wait 3[56]\d\d s$")
        # They were not charged to their numbers either: from another address these get a code at
        # once. Of the 100 for all clients 10 are used; denied ones are not charged.
        answers = ask(self.url, *[f"+1 555 01000{i:02} 2001:db8:{i}::1" for i in range(9, 30)])
        self.assertEqual([answer.split()[0] for answer in answers], ["sent"] * 21)
        answers = ask(self.url, *[f"+1 555 02000{i:02} 2001:db8:0:{i}::1" for i in range(75)])
        sent = sum(answer.startswith("sent") for answer in answers)
        self.assertGreaterEqual(sent, 69)
        self.assertLessEqual(sent, 69 + (time.monotonic() - begin) / 3.6)
        self.assertRegex(answers[-1], r"^wait [1-4] s$")

    def test_one_number_has_one_key_which_does_not_show_it(self):
        answers = ask(self.url, f"{NUMBER} 203.0.113.7", "+49-170-123 45 67 203.0.113.8",
                      "(49) 170/1234567 ::ffff:203.0.113.9")
        self.assertEqual(answers[0], SENT)
        self.assertEqual([answer.split()[0] for answer in answers[1:]], ["wait", "wait"])
        keys = self.redis.ask("KEYS", "*")
        self.assertEqual(len(keys), 3, keys)
        self.assertNotIn("1234567", "".join(keys))

    def test_what_is_no_request(self):
        fault = "not a telephone number and an address"
        self.assertEqual(ask("memory:", "", "x 203.0.113.7", "+49170 203.0.113.7", NUMBER + " "),
                         [fault] * 4)

    def test_a_short_pepper_is_refused(self):
        done = harness.run(example.program("sms_code"), "memory:",
                           env=dict(os.environ, SMS_PEPPER="salt"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("pepper", done.stderr)
