"""`sluice playground`: its page in Chromium, and its decisions, which are those of `replay`."""

import random
import re
import signal

from harness import BINARY, Process, decisions, free_port, new_token, post, sluice
from page import PageTest

LIMITS = ["token_bucket 3/1s burst=7", "leaky_bucket 2/1s queue=3", "fixed_window 5/2s",
          "sliding_window 5/2s", "sliding_counter 5/2s", "sliding_log 5/2s",
          "token_bucket 3/1s & fixed_window 20/10s", "concurrency 3 lease=1s"]


def milliseconds(wait_ns):
    """A wait as /v1/simulate writes it: rounded up, and null for one that never ends."""
    return None if wait_ns == -1 else -(-wait_ns // 1_000_000)


class Playground(PageTest):
    def setUp(self):
        self.process = self.enterContext(Process(BINARY, "playground"))
        self.addCleanup(self.stop)
        self.process.await_output("/playground\n")
        self.address = re.fullmatch(r"the playground: (http://127\.0\.0\.1:\d+/playground)\n",
                                    self.process.output())[1]

    def stop(self):
        self.process.signal(signal.SIGINT)  # As Ctrl-C does.
        self.assertEqual(self.process.wait(), 0)

    def test_it_ends_with_its_terminal(self):
        for command, status in (([], -signal.SIGHUP), (["nohup"], 0)):
            with self.subTest(command), Process(*command, BINARY, "playground") as process:
                process.await_output("the playground: ")
                process.signal(signal.SIGHUP)
                if command:
                    process.signal(signal.SIGTERM)
                self.assertEqual(process.wait(), status)

    def simulate(self, body):
        status, _, reply = post(int(self.address.split(":")[2][:-11]), "/v1/simulate", body)
        return status, reply

    def test_its_decisions_are_those_of_replay(self):
        chance = random.Random(7)
        times = sorted(chance.randrange(60_000) for _ in range(500))
        costs = [chance.choice((1, 1, 1, 2, 4)) for _ in times]
        for limit in LIMITS:
            # A permit is one unit.
            of_limit = [1] * len(times) if limit.startswith("concurrency") else costs
            status, answer = self.simulate({
                "limits": [limit], "key": "k",
                "arrivals": [{"at_ms": time, "cost": cost}
                             for time, cost in zip(times, of_limit)]})
            self.assertEqual(status, 200, answer)
            path = self.write_file("requests.csv", "time,key,cost\n" + "".join(
                f"{time / 1000:.3f},k,{cost}\n" for time, cost in zip(times, of_limit)))
            wanted = decisions([limit], path, "--format", "csv", "--key", "{key}")
            self.assertEqual(len(wanted), len(times))
            ours = answer["limits"][0]
            self.assertEqual(ours["allowed"], [row["allowed"] for row in wanted], limit)
            self.assertEqual(ours["remaining"], [row["remaining"] for row in wanted], limit)
            self.assertEqual(ours["retry_after_ms"],
                             [milliseconds(row["retry_after_ns"]) for row in wanted], limit)
            self.assertEqual(ours["reset_after_ms"],
                             [milliseconds(row["reset_after_ns"]) for row in wanted], limit)
            self.assertEqual(ours["delay_ms"],
                             [milliseconds(row["delay_ns"]) for row in wanted], limit)
            self.assertIn(True, ours["allowed"])
            self.assertIn(False, ours["allowed"])

    def test_a_port_that_is_taken_is_an_error(self):
        port = self.address.split(":")[2].split("/")[0]
        result = sluice("playground", "--port", port)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("127.0.0.1:" + port, result.stderr)

    def test_the_page_asks_for_a_token_where_there_are_users(self):
        port = free_port()
        token, line = new_token("operator")
        path = self.write_file("sluice.yaml",
                               f"listen: {{resp: [127.0.0.1:{free_port()}], "
                               f"admin: [127.0.0.1:{port}]}}\nusers:\n{line}\n")
        with Process(BINARY, "serve", "--config", path) as server:
            server.await_listening(("127.0.0.1", port))
            self.expect_in_chromium("playground_token", f"http://127.0.0.1:{port}/playground",
                                    token)

    def test_the_page_in_chromium(self):
        self.expect_in_chromium("playground", self.address)
