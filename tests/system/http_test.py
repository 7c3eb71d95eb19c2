"""HTTP: `sluice serve --http`, asked by curl and over raw sockets."""

import json

from harness import Connection, SystemTest, exchange, run

LIMITS = """limits:
  login: sliding_log 5/10m
  api: token_bucket 100/1s burst=200
  jobs: concurrency 1 lease=30s
"""


def post(path, body, *headers):
    """The bytes of a POST."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json",
             f"Content-Length: {len(body)}", *headers, "", body]
    return "\r\n".join(lines).encode()


def statuses(replies):
    """The statuses of the responses in these bytes, and nothing of their bodies."""
    return [int(part[:3]) for part in replies.split(b"HTTP/1.1 ")[1:]]


class HttpTest(SystemTest):
    def setUp(self):
        self.server = self.serve_file(LIMITS, http=True)
        self.address, self.url = self.server.http, self.server.url

    def curl(self, path, *options, body=None):
        """(status, headers in small letters, body) of a request that curl makes."""
        words = ["curl", "-sS", "-i", "--max-time", "20", self.url + path, *options]
        if body is not None:
            words += ["-H", "Content-Type: application/json", "-d",
                      body if isinstance(body, str) else json.dumps(body)]
        result = run(*words)
        self.assertEqual(result.returncode, 0, result.stderr)
        head, _, text = result.stdout.partition("\n\n")
        while head.startswith("HTTP/1.1 100"):
            head, _, text = text.partition("\n\n")
        lines = head.splitlines()
        headers = dict(line.split(": ", 1) for line in lines[1:])
        return int(lines[0].split()[1]), {k.lower(): v for k, v in headers.items()}, text

    def ask(self, path, body, status=200):
        got, _, text = self.curl(path, body=body)
        self.assertEqual(got, status, text)
        return json.loads(text) if text else None


class Requests(HttpTest):
    def test_decisions(self):
        bob = {"limit": "login", "key": "203.0.113.7"}
        decision = self.ask("/v1/check", bob)
        self.assertEqual(decision, {"allowed": True, "limit": 5, "remaining": 4,
                                    "retry_after_ms": 0, "reset_after_ms": 600000, "delay_ms": 0,
                                    "source": "store"})
        self.assertEqual(self.ask("/v1/take", bob | {"cost": 9})["taken"], 4)
        status, headers, text = self.curl("/v1/check", body=bob)
        self.assertEqual(status, 429)
        self.assertFalse(json.loads(text)["allowed"])
        self.assertIn(int(headers["retry-after"]), range(540, 601))
        self.assertEqual(headers["cache-control"], "no-store")
        self.assertRegex(headers["ratelimit"], '^"login";r=0;t=(5[4-9][0-9]|600)$')
        self.assertEqual(self.ask("/v1/refund", bob | {"cost": 2})["remaining"], 2)
        self.assertEqual(self.ask("/v1/charge", bob | {"cost": 1})["remaining"], 1)
        self.assertEqual(self.ask("/v1/peek", bob)["remaining"], 1)
        self.assertEqual(self.ask("/v1/block", bob | {"duration_ms": 60000})["remaining"], 0)
        self.assertIsNone(self.ask("/v1/reset", bob, 204))
        self.assertEqual(self.ask("/v1/peek", bob)["remaining"], 5)

    def test_expressions(self):
        self.assertEqual(self.ask("/v1/check", {"limit": "leaky_bucket 10/1s queue=50", "key": "a",
                                                "cost": 3})["remaining"], 48)
        problem = self.ask("/v1/check", {"limit": "leaky_bucket 10/1s queu=50", "key": "a"}, 400)
        self.assertEqual(problem["offset"], 19)
        self.assertEqual(self.ask("/v1/check", {"limit": "logn", "key": "a"}, 404)["status"], 404)

    def test_many_checks(self):
        checks = [{"limit": "login", "key": f"key-{i}", "cost": i % 7} for i in range(1000)]
        results = self.ask("/v1/check", {"checks": checks})["results"]
        self.assertEqual([result["allowed"] for result in results],
                         [i % 7 < 6 for i in range(1000)])
        answer = self.ask("/v1/check", {"checks": checks[1:17], "all": True}, 429)
        self.assertEqual((len(answer["parts"]), answer["binding"]), (16, 5))

    def test_reservations_and_permits(self):
        bob = {"limit": "login", "key": "reserve"}
        held = self.ask("/v1/reserve", bob | {"cost": 3})
        commit = {"reservation": held["reservation"], "cost": 1}
        self.assertEqual(self.ask("/v1/commit", commit)["remaining"], 4)
        self.ask("/v1/commit", commit, 409)
        job = {"limit": "jobs", "key": "gpu"}
        granted = self.ask("/v1/permits/acquire", job)
        self.assertEqual(granted["lease_ms"], 30_000)
        self.assertGreater(self.ask("/v1/permits/acquire", job, 429)["retry_after_ms"], 10_000)
        held = job | {"permit": granted["permit"]}
        for path in ("/v1/permits/renew", "/v1/permits/release"):
            self.assertEqual(self.ask(path, held), granted)
        for path in ("/v1/permits/renew", "/v1/permits/release"):
            self.ask(path, held, 410)
            problem = self.ask(path, job | {"permit": "x"}, 400)
            self.assertIn("is no permit", problem["detail"])

    def test_auth(self):
        for path in ("/auth?limit=login&key={ip}", "/auth?limit=login&key=%7Bip%7D"):
            status, headers, text = self.curl(path, "-g", "-H", "X-Forwarded-For: 203.0.113.8",
                                              "-H", "X-Forwarded-Uri: /shop?x=1")
            self.assertEqual((status, text), (204, ""))
            self.assertTrue(headers["ratelimit-policy"].startswith('"login";q=5;w=600'))
        peek = self.ask("/v1/peek", {"limit": "login", "key": "203.0.113.8"})
        self.assertEqual(peek["remaining"], 3)
        status, _, text = self.curl("/auth?limit=login&cost=6&deny_status=403")
        self.assertEqual((status, json.loads(text)["violated-policies"]), (403, ["login"]))
        self.assertEqual(self.curl("/auth/login/some/path", "-X", "PUT")[0], 200)

    def test_health(self):
        self.assertEqual(self.curl("/healthz")[0], 200)
        self.assertEqual(self.curl("/readyz")[0], 200)
        status, headers, _ = self.curl("/readyz", "-I")
        self.assertEqual((status, headers["content-length"]), (200, "18"))
        self.assertEqual(self.curl("/v1/limits", "-X", "POST")[1]["allow"], "GET, HEAD")

    def test_bodies(self):
        """A body with Expect and one in chunks, of more than one read."""
        checks = [{"limit": "api", "key": "k" * 900} for _ in range(1000)]
        body = self.write_file("body.json", json.dumps({"checks": checks}))
        for header in ("Expect: 100-continue", "Transfer-Encoding: chunked"):
            status, _, text = self.curl("/v1/check", "-H", "Content-Type: application/json", "-H",
                                        header, "--data-binary", "@" + body)
            self.assertEqual((status, len(json.loads(text)["results"])), (200, 1000), header)
        long = self.write_file("long", " " * (1024 * 1024 + 1))
        for expect in ("Expect: 100-continue", "Expect:"):
            self.assertEqual(self.curl("/v1/check", "-H", expect, "--data-binary", "@" + long)[0],
                             413)


class Connections(HttpTest):
    def test_pipeline(self):
        for slowly in (False, True):
            one = post("/v1/check", json.dumps({"limit": "login", "key": f"slowly {slowly}"}))
            replies = exchange(self.address, one * 3 + b"GET /healthz HTTP/1.1\r\nHost: localhost"
                               b"\r\n\r\n" + one * 3, slowly)
            self.assertEqual(statuses(replies), [200] * 3 + [200] + [200, 200, 429])

    def test_a_bad_request_ends_the_connection(self):
        with Connection(self.address) as connection:
            connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
                            b"GET /healthz HTTP/1.1\nHost: localhost\n\n"
                            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(statuses(connection.read_all()), [200, 400])
