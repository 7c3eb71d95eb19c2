"""examples/http_server: statuses and headers, as a client sees them."""

import http.client
import time
import unittest

import harness
from tests.examples import example
from tests.http_headers import judge_test

# A unit returns after an hour, so none does during the test.
LIMIT = "token_bucket 3/3h"


class HttpServer(unittest.TestCase):
    def serve(self, store, *proxies, limit=LIMIT):
        self.port = harness.free_port()
        server = harness.Process(example.program("http_server"), str(self.port), store, limit,
                                 *proxies)
        self.addCleanup(server.stop)
        server.await_listening(("127.0.0.1", self.port))
        return server

    def connect(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port,
                                                timeout=harness.PATIENCE_S)
        self.addCleanup(connection.close)
        return connection

    def get(self, connection=None, forwarded=(), body=None):
        """One request with these lines of X-Forwarded-For. Returns its status and its headers."""
        connection = connection or self.connect()
        connection.putrequest("GET" if body is None else "POST", "/")
        for line in forwarded:
            connection.putheader("X-Forwarded-For", line)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        response.read()
        return response.status, response.headers

    def test_statuses_and_headers(self):
        server = self.serve("memory:")
        connection = self.connect()  # All requests on one connection.
        for remaining in (2, 1, 0):
            status, headers = self.get(connection)
            self.assertEqual(status, 200)
            self.assertEqual(headers["RateLimit-Policy"], '"http";q=3;w=10800')
            name, left, wait = headers["RateLimit"].split(";")
            self.assertEqual((name, left), ('"http"', f"r={remaining}"))
            # The time in which that many return; for none, until the key is fresh.
            self.check_about(wait.removeprefix("t="), 3600 * (remaining or 3))
            self.assertNotIn("Retry-After", headers)
            self.check_form(headers)
        for _ in range(3):
            status, headers = self.get(connection, body=b"a form")
            self.assertEqual(status, 429)
            self.assertEqual(headers["RateLimit-Policy"], '"http";q=3;w=10800')
            self.assertEqual(headers["RateLimit"], '"http";r=0;t=' + headers["Retry-After"])
            self.check_about(headers["Retry-After"], 3600)
            self.assertEqual(headers["Cache-Control"], "no-store")
            self.check_form(headers)
        self.assertEqual(server.stop(), 0)

    def test_a_number_that_is_no_port(self):
        for port in ("65536", "-1", "x"):
            result = harness.run(example.program("http_server"), port, "memory:", LIMIT,
                                 timeout_s=harness.PATIENCE_S)
            self.assertEqual((result.returncode, result.stderr.split()[0]), (2, "usage:"), port)

    def test_a_leaky_bucket_spaces_the_responses(self):
        self.serve("memory:", limit="leaky_bucket 5/1s queue=2")
        connections = [self.connect() for _ in range(3)]
        begin = time.monotonic()
        for connection in connections:
            connection.request("GET", "/")
        responses = [connection.getresponse() for connection in connections]
        self.assertEqual([response.status for response in responses], [200, 200, 200])
        # The third request goes ahead two intervals after the first.
        self.assertGreaterEqual(time.monotonic() - begin, 0.4)

    def test_clients_behind_a_proxy_are_told_apart(self):
        self.serve("memory:", "127.0.0.0/8")
        one = ["203.0.113.7"]
        self.assertEqual([self.get(forwarded=one)[0] for _ in range(4)], [200, 200, 200, 429])
        # Addresses that the client wrote itself are further left, and are not trusted.
        self.assertEqual(self.get(forwarded=["198.51.100.1, 203.0.113.7"])[0], 429)
        self.assertEqual(self.get(forwarded=["198.51.100.1", "203.0.113.7"])[0], 429)
        self.assertEqual(self.get(forwarded=["203.0.113.8"])[0], 200)

    def test_the_header_of_a_stranger_is_not_read(self):
        self.serve("memory:")
        statuses = [self.get(forwarded=[f"203.0.113.{i}"])[0] for i in range(4)]
        self.assertEqual(statuses, [200, 200, 200, 429])

    def test_servers_share_a_limit(self):
        with harness.RedisServer() as redis:
            url = redis.url + "?on_failure=raise&deadline=5s"
            self.serve(url)
            self.assertEqual([self.get()[0] for _ in range(2)], [200, 200])
            self.serve(url)
            self.assertEqual([self.get()[0] for _ in range(2)], [200, 429])

    def test_a_lost_store(self):
        with harness.RedisServer() as redis:
            self.serve(redis.url + "?on_failure=raise")
            redis.stop()
            connection = self.connect()
            self.assertEqual(self.get(connection)[0], 503)
            self.assertEqual(self.get(connection)[0], 503)

    def test_what_is_not_http_ends_its_connection_alone(self):
        self.serve("memory:")
        address = ("127.0.0.1", self.port)
        self.assertEqual(harness.exchange(address, b"\x00\x01 nonsense\r\n\r\n"), b"")
        self.assertEqual(harness.exchange(address, b"GET / HTTP/1.1\r\nA: " + b"b" * 100_000), b"")
        self.assertEqual(self.get()[0], 200)

    def check_form(self, headers):
        """Another program can read the headers that the library made."""
        made = "".join(f"{name}: {value}\n" for name, value in headers.items()
                       if name in ("RateLimit-Policy", "RateLimit", "Retry-After"))
        self.assertEqual(judge_test.judge(made), made.count("\n"))

    def check_about(self, seconds, longest):
        self.assertLessEqual(int(seconds), longest)
        self.assertGreater(int(seconds), longest - harness.PATIENCE_S)
