"""HTTP: `sluice serve --http`, asked by curl and over raw sockets."""

import json

from harness import Connection, SystemTest, exchange, output_of


def statuses(replies):
    """The statuses of the responses in these bytes, and nothing of their bodies."""
    return [int(part[:3]) for part in replies.split(b"HTTP/1.1 ")[1:]]


class Http(SystemTest):
    def setUp(self):
        self.server = self.serve_file("limits: {api: token_bucket 100/1s burst=200}\n", http=True)

    def curl(self, *options):
        """(status, text) of a POST to /v1/check."""
        said = output_of("curl", "-sS", "--max-time", "20", "-w", "\n%{http_code}", *options,
                         "-H", "Content-Type: application/json", self.server.url + "/v1/check")
        text, _, status = said.rpartition("\n")
        return int(status), text

    def test_bodies(self):
        """A body with Expect and one in chunks, of more than one read."""
        admitted = [i % 7 < 6 for i in range(1000)]
        checks = [{"limit": "api", "key": "k" * 900, "cost": 0 if is_admitted else 201}
                  for is_admitted in admitted]
        body = self.write_file("body.json", json.dumps({"checks": checks}))
        for header in ("Expect: 100-continue", "Transfer-Encoding: chunked"):
            status, text = self.curl("-H", header, "--data-binary", "@" + body)
            self.assertEqual(status, 200, header)
            results = json.loads(text)["results"]
            self.assertEqual([result["allowed"] for result in results], admitted, header)
        long = self.write_file("long", " " * (1024 * 1024 + 1))
        for expect in ("Expect: 100-continue", "Expect:"):
            self.assertEqual(self.curl("-H", expect, "--data-binary", "@" + long)[0], 413)

    def test_a_pipeline(self):
        """At once, and byte by byte."""
        for slowly in (False, True):
            body = b'{"limit": "sliding_log 5/1h", "key": "%d"}' % slowly
            check = (b"POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
                     b"Content-Type: application/json\r\n\r\n%s" % (len(body), body))
            health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
            replies = exchange(self.server.http, check * 4 + health + check * 2, slowly)
            self.assertEqual(statuses(replies), [200] * 6 + [429])

    def test_a_bad_request_ends_the_connection(self):
        with Connection(self.server.http) as connection:
            connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
                            b"GET /healthz HTTP/1.1\nHost: localhost\n\n"
                            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(statuses(connection.read_all()), [200, 400])
