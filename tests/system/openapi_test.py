"""docs/openapi.yaml is what the server does: each route is described, and each request that it
describes is answered as it says; so is each with a member too few or too many."""

import os
import re

from harness import ROOT, SystemTest, npm_install, read_text, run

FOLDER = os.path.join(ROOT, "tests", "system", "openapi")
ROUTES = os.path.join(ROOT, "src", "protocols", "http", "routes.cc")
ROUTE = re.compile(r'^ {4}\{(?:\.path = )?"(/[^"]*)", (?:\.method = )?"(\w*)", ', re.MULTILINE)
LIMITS = """limits:
  login: token_bucket 1000/1s
  api: fixed_window 1000/1h
  jobs: concurrency 1000
"""


class OpenApi(SystemTest):
    def test_description(self):
        npm_install()
        routes = [f"{method or '*'} {path}" for path, method in ROUTE.findall(read_text(ROUTES))]
        self.assertIn("POST /v1/check", routes)
        server = self.serve_file(LIMITS, http=True)
        result = run("node", "check.mjs", os.path.join(ROOT, "docs", "openapi.yaml"),
                     self.write_file("routes", "\n".join(routes)), server.url, cwd=FOLDER)
        self.assertEqual((result.stdout, result.stderr, result.returncode), ("", "", 0))
