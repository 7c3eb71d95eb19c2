"""The benchmarks of the server run: all servers start, answer, and are measured."""

import os
import sys
import unittest

from harness import BINARY, ROOT, SystemTest, run


class ServerBench(SystemTest):
    def check(self, script, wanted, *arguments):
        """A quick run succeeds and prints these rows."""
        path = os.path.join(ROOT, "bench", script)
        result = run(sys.executable, "-B", path, "--quick", "--sluice", BINARY, *arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        for row in wanted:
            self.assertRegex(result.stdout, rf"(?m)^\| {row} \|")

    def test_over_http(self):
        self.check("serve_http.py", [
            r"GET /auth ÷ nginx's limit_req \|.*\| ≤ 1",
            r"POST /v1/check ÷ nginx's limit_req \|.*\| ≤ 1\.15",
            r"16 checks in one body ÷ one \|.*\| ≤ 2",
            r"a resumed connection, TLS 1\.3 ÷ nginx's \|.*\| ≤ 1\.3"])

    def test_over_resp(self):
        self.check("serve.py", [
            r"pipeline 1: ours ÷ redis-server's PING \|.*\| ≤ 1",
            r"pipeline 64: never seen ÷ PING \|.*\| ≤ 1",
            r"p99 of a client beside the other \|.*"], "--tools", os.environ["LOAD_TOOLS"])


if __name__ == "__main__":
    unittest.main()
