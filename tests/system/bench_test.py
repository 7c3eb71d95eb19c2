"""The benchmarks of the server and of stores on other machines run: all servers start, answer, and
are measured."""

import os
import sys
import unittest

from harness import BINARY, ROOT, SystemTest, run


TOOLS = ("--tools", os.environ["LOAD_TOOLS"])
SERVER = ("--sluice", BINARY)


class Bench(SystemTest):
    def check(self, script, wanted, *arguments):
        """A quick run succeeds and prints these rows."""
        path = os.path.join(ROOT, "bench", script)
        result = run(sys.executable, "-B", path, "--quick", *arguments, timeout_s=300)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        for row in wanted:
            self.assertRegex(result.stdout, rf"(?m)^\| {row} \|")

    def test_over_http(self):
        self.check("serve_http.py", [
            r"GET /auth ÷ nginx's limit_req \|.*\| ≤ 1",
            r"POST /v1/check ÷ nginx's limit_req \|.*\| ≤ 1\.15",
            r"16 checks in one body ÷ one \|.*\| ≤ 2",
            r"a resumed connection, TLS 1\.3 ÷ nginx's \|.*\| ≤ 1\.3"], *SERVER)

    def test_over_resp(self):
        self.check("serve.py", [
            r"pipeline 1: ours ÷ redis-server's PING \|.*\| ≤ 1",
            r"pipeline 64: never seen ÷ PING \|.*\| ≤ 1",
            r"p99 of a client beside the other \|.*"], *SERVER, *TOOLS)

    def test_on_redis(self):
        self.check("redis.py", [
            r"token_bucket: rate ÷ the script's \|.*\| ≥ 1\.7",
            r"token_bucket, with fallback: client CPU ÷ hiredis's \|.*\| ≤ 0\.45",
            r"one caller, median: ours ÷ blocking hiredis \|.*\| ≤ 1\.1"], *TOOLS)

    def test_on_memcached(self):
        self.check("memcached.py", [
            r"round trips of an uncontended decision \|.*\| ≤ 2",
            r"libmemcached, 64 threads: time \|.*"], *TOOLS)


if __name__ == "__main__":
    unittest.main()
