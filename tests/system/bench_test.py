"""The benchmark of HTTP runs: all servers start, answer, and are measured."""

import os
import sys
import unittest

from harness import BINARY, ROOT, SystemTest, run


class HttpBench(SystemTest):
    def test_quick(self):
        script = os.path.join(ROOT, "bench", "http.py")
        result = run(sys.executable, "-B", script, "--quick", "--sluice", BINARY)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        for row in ("GET /auth ÷ nginx's limit_req", "16 checks in one body ÷ one",
                    "a resumed connection, TLS 1.3 ÷ nginx's"):
            self.assertIn(f"| {row} |", result.stdout)


if __name__ == "__main__":
    unittest.main()
