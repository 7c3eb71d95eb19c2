"""Sluice behind proxies, by the files of docs/proxies.md: nginx, Caddy and HAProxy run, and Sluice
is sent the requests that Traefik and Envoy are documented to send."""

import http.server
import json
import os
import re
import signal
import socket
import threading
import time

from harness import (ROOT, Process, SystemTest, await_true, free_port, new_token, post, read_text,
                     request, write_text)

PAGE = os.path.join(ROOT, "docs", "proxies.md")
# A file of the page: a fence whose first line is a comment with its name.
FILE = re.compile(r"^```\w*\n((?:#|--) (\S+\.\w+|Caddyfile)\n.*?)^```$", re.DOTALL | re.MULTILINE)
PORT = re.compile(r"(?<=[:\s])(8000|8009|8080|3000)\b")
LIMIT = 20  # The limit `api` of the page's file for Sluice.
# What the limit's key is made of, where a test asks what Sluice is told of a request.
TOLD = """limits:
  api:
    limit: sliding_log 20/1h
    key: '{ip} {method} {host} {path} {query:q}{header:Cookie}'
"""


def files_of_page():
    return {name: text for text, name in FILE.findall(read_text(PAGE))}


def refusing(text):
    """The file with the line that refuses in the place of the one that lets through."""
    text, found = re.subn(r"^(\s*)(.*# lets through)$", r"\1# \2", text, flags=re.MULTILINE)
    assert found == 1, text
    text, found = re.subn(r"^(\s*)# (.*# refuses)$", r"\1\2", text, flags=re.MULTILINE)
    assert found == 1, text
    return text


class Site(http.server.ThreadingHTTPServer):
    """What the proxies protect: remembers its requests, as (method, path, body)."""

    daemon_threads = True

    def __init__(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.server.requests.append((self.command, self.path, self.read_body()))
                self.send_response(200)
                self.send_header("Content-Length", "8")
                self.end_headers()
                self.wfile.write(b"the site")

            do_POST = do_GET

            def read_body(self):
                if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size + 2)[:-2]
                self.rfile.readline()
                return body

            def log_message(self, *_):
                pass

        self.requests = []
        super().__init__(("127.0.0.1", free_port()), Handler)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, *_):
        pass  # A proxy that is stopped resets its connections.


class Page(SystemTest):
    """The ports of the page's files are replaced by free ones."""

    def setUp(self):
        self.folder = self.temporary_folder()
        self.files = files_of_page()
        self.ports = {port: free_port() for port in ("8000", "8009", "8080")}

    def with_ports(self, text):
        return PORT.sub(lambda found: str(self.ports[found[0]]), text)

    def start_sluice(self, text=None):
        """Sluice with the page's file, or with these limits at the same address. When it is
        stopped, it does not wait for what the proxy will ask next."""
        text = self.with_ports(text or self.files["sluice.yaml"]) + "drain: 0s\n"
        address = f"127.0.0.1:{self.ports['8080']}"
        server = self.serve_file(text, "--http", address)
        self.addCleanup(server.signal, signal.SIGCONT)
        server.await_listening(("127.0.0.1", self.ports["8080"]))
        return server

    def remaining(self, key):
        return post(self.ports["8080"], "/v1/peek", {"limit": "api", "key": key})[2]["remaining"]


class RunProxy(Page):
    """A proxy that is run, before a site."""

    NAMES = ()  # Its files; what it does without Sluice is in the first.

    def command(self):
        raise NotImplementedError

    def setUp(self):
        super().setUp()
        self.site = Site()
        self.addCleanup(self.site.server_close)
        self.addCleanup(self.site.shutdown)
        self.ports["3000"] = self.site.server_address[1]

    def start_proxy(self, timeout="5s"):
        """With longer timeouts than the page's: a busy machine must not look like a lost Sluice."""
        for name in self.NAMES:
            text = self.files[name].replace("100ms", timeout)
            write_text(os.path.join(self.folder, name), self.with_ports(text))
        proxy = Process("env", f"HOME={self.folder}", *self.command(), cwd=self.folder)
        self.addCleanup(proxy.stop)
        proxy.await_listening(("127.0.0.1", self.ports["8000"]))
        return proxy

    def ask(self, path="/", method="GET", headers=None, body=None, client="127.0.0.1"):
        return request(self.ports["8000"], method, path, headers, body, client)


class EachProxy:
    """The tests of each proxy."""

    TOKEN = None  # The file, the line after which it sends Sluice a token, and how.

    def await_status(self, status):
        """Returns once the proxy answers with this status; it may remember for a second that Sluice
        was away."""
        await_true(f"the status {status}", lambda: self.ask()[0] == status)

    def test_it_limits_and_lets_through(self):
        server = self.start_sluice()
        proxy = self.start_proxy()
        for i in range(LIMIT - 2):
            status, headers, body = self.ask(f"/shop?i={i}")
            self.assertEqual((status, body), (200, b"the site"))
            self.assertRegex(headers["ratelimit"], rf'^"api";r={LIMIT - 1 - i};t=\d+$')
            self.assertEqual(headers["ratelimit-policy"], f'"api";q={LIMIT};w=60')
        self.assertEqual(self.ask("/post", "POST", body=b"a body")[2], b"the site")
        self.assertEqual(self.ask("/chunks", "POST", body=iter([b"abc"]))[0], 200)
        self.assertEqual(self.site.requests[-3:], [("GET", f"/shop?i={LIMIT - 3}", b""),
                                                   ("POST", "/post", b"a body"),
                                                   ("POST", "/chunks", b"abc")])
        self.check_denial(*self.ask("/post", "POST", body=b"a body")[:2])
        self.check_denial(*self.ask(headers={"X-Forwarded-For": "203.0.113.7"})[:2])
        self.assertEqual(len(self.site.requests), LIMIT)
        proxy.stop()
        self.start_proxy("500ms")
        self.assertEqual(self.ask(client="127.0.0.2")[0], 200)
        self.check_away(server, 200)
        self.assertEqual(len(self.site.requests), LIMIT + 3)

    def check_denial(self, status, headers):
        self.assertEqual(status, 429)
        self.assertEqual(headers["ratelimit-policy"], f'"api";q={LIMIT};w=60')
        self.assertRegex(headers["ratelimit"], r'^"api";r=0;t=\d+$')
        self.assertLessEqual(int(headers["retry-after"]), 60)
        self.assertEqual(headers["cache-control"], "no-store")

    def check_away(self, server, status):
        """Sluice first does not answer, and then is not there."""
        for away in (signal.SIGSTOP, signal.SIGKILL):
            server.signal(away)
            os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            begin = time.monotonic()
            got, headers, _ = self.ask()
            self.assertEqual(got, status)
            self.assertLess(time.monotonic() - begin, 5)
            self.assertNotIn("ratelimit", headers)
            if status == 503:
                self.assertEqual(headers["retry-after"], "1")

    def test_it_refuses_without_sluice(self):
        server = self.start_sluice()
        self.files[self.NAMES[0]] = refusing(self.files[self.NAMES[0]])
        self.start_proxy("500ms")
        self.await_status(200)
        self.check_away(server, 503)
        self.assertEqual(len(self.site.requests), 1)
        self.start_sluice()
        self.await_status(200)

    def test_sluice_is_told_of_the_request(self):
        self.start_sluice(TOLD)
        self.start_proxy()
        false = {f"X-Forwarded-{name}": "false" for name in ("Method", "Host", "Uri", "For")}
        false |= {f"X-Original-{name}": "false" for name in ("Method", "Host", "Uri", "URL")}
        for headers in ({}, false):
            headers = headers | {"Host": "shop.example", "Accept": "text/html",
                                 "Expect": "100-continue", "Cookie": "a=b"}
            self.assertEqual(self.ask("/a/b?p=1&q=2", "POST", headers, b"x" * 100)[0], 200)
        self.assertEqual(self.remaining("127.0.0.1 POST shop.example /a/b 2"), LIMIT - 2)
        # Without Host, of which HTTP/1.0 has no need.
        with socket.create_connection(("127.0.0.1", self.ports["8000"])) as client:
            client.sendall(b"GET /a/b?q=2 HTTP/1.0\r\nX-Original-Host: false\r\n\r\n")
            self.assertIn(b" 200 ", client.makefile("rb").readline())
        self.assertEqual(self.remaining("127.0.0.1 GET false /a/b 2"), LIMIT)

    def test_the_proxy_is_a_user(self):
        token, user = new_token("proxy")
        self.start_sluice(f"{self.files['sluice.yaml']}users:\n{user}\n")
        proxy = self.start_proxy()
        self.assertIn(self.ask()[0], (500, 503))
        self.assertEqual(self.site.requests, [])
        proxy.stop()
        name, place, setting = self.TOKEN
        self.assertEqual(self.files[name].count(place), 1)
        self.files[name] = self.files[name].replace(place, f"{place}\n{setting % token}\n")
        self.start_proxy()
        self.assertEqual(self.ask()[0], 200)


def nginx_command(folder):
    """Runs folder/nginx.conf. nginx's own folders belong to root, so it uses this one for all."""
    path = os.path.join(folder, "nginx.conf")
    text = read_text(path)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    paths = "".join(f"  {kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    write_text(path, text.replace("http {\n", f"http {{\n  access_log off;\n{paths}", 1))
    return ["nginx", "-p", folder, "-c", path, "-e", "stderr", "-g",
            f"daemon off; pid {folder}/nginx.pid;"]


class Nginx(EachProxy, RunProxy):
    NAMES = ("nginx.conf",)
    TOKEN = ("nginx.conf", "location = /sluice {", "proxy_set_header X-Sluice-Token %s;")

    def command(self):
        return nginx_command(self.folder)


class NginxOfReadme(RunProxy):
    """The lines in README.md."""

    NAMES = ("nginx.conf",)

    def command(self):
        return nginx_command(self.folder)

    def test_it_limits(self):
        text = read_text(os.path.join(ROOT, "README.md"))
        lines = re.search(r"^```nginx\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[1]
        self.files["nginx.conf"] = "events {}\nhttp {\nserver {\nlisten 8000;\n%s}\n}\n" % lines
        # A cookie that reached Sluice would make another key.
        self.start_sluice("limits: {login: {limit: sliding_log 5/10m, "
                          "key: '{ip}{header:Cookie}'}}\n")
        self.start_proxy()
        for i in range(5):
            status, _, _ = self.ask(f"/{i}", "POST", {"Cookie": f"a={i}"}, b"a body")
            self.assertEqual(status, 200)
        self.assertEqual(self.ask(headers={"Cookie": "a=5"})[0], 429)
        self.assertEqual(self.site.requests, [("POST", f"/{i}", b"a body") for i in range(5)])


class Caddy(EachProxy, RunProxy):
    NAMES = ("Caddyfile",)
    TOKEN = ("Caddyfile", "uri /auth?limit=api", "header_up X-Sluice-Token %s")

    def command(self):
        return ["caddy", "run", "--config", "Caddyfile"]


class HaProxy(EachProxy, RunProxy):
    NAMES = ("haproxy.cfg", "sluice.lua")
    TOKEN = ("sluice.lua", "headers = {", '["x-sluice-token"] = { "%s" },')

    def command(self):
        return ["haproxy", "-f", "haproxy.cfg"]


class Documented(Page):
    """Sluice is sent what a proxy is documented to send it."""

    def check(self, status, path, method, headers):
        port = self.ports["8080"]
        for i in range(LIMIT):
            got, told, _ = request(port, method, path, headers)
            self.assertEqual(got, status)
            self.assertRegex(told["ratelimit"], rf'^"api";r={LIMIT - 1 - i};t=\d+$')
        got, told, body = request(port, method, path, headers)
        self.assertEqual((got, told["content-type"]), (429, "application/problem+json"))
        self.assertIn("retry-after", told)
        self.assertEqual(json.loads(body)["violated-policies"], ["api"])
        self.assertEqual(self.remaining("203.0.113.7"), 0)

    def test_traefik(self):
        """Accept, and X-Forwarded- headers of which Traefik believes no client's."""
        url = re.search(r'address: "http://127.0.0.1:8080(\S*)"', self.files["dynamic.yaml"])[1]
        self.assertIn("authRequestHeaders: [Accept]", self.files["dynamic.yaml"])
        headers = {"Host": "127.0.0.1:8080", "User-Agent": "Go-http-client/1.1", "Accept": "*/*",
                   "X-Forwarded-Method": "POST", "X-Forwarded-Proto": "https",
                   "X-Forwarded-Host": "shop.example", "X-Forwarded-Uri": "/a/b?p=1&q=2",
                   "X-Forwarded-For": "203.0.113.7", "Accept-Encoding": "gzip"}
        server = self.start_sluice()
        self.check(204, url, "GET", headers)
        server.stop()
        self.start_sluice(TOLD)
        request(self.ports["8080"], "GET", url, headers)
        self.assertEqual(self.remaining("203.0.113.7 POST shop.example /a/b 2"), LIMIT - 1)

    def test_envoy(self):
        """The client's method, and its path behind the prefix."""
        prefix = re.search(r"path_prefix: (\S+)", self.files["envoy.yaml"])[1]
        headers = {"Host": "shop.example", "Content-Length": "0", "X-Forwarded-For": "203.0.113.7",
                   "Authorization": "Bearer of-the-client", "Accept": "*/*",
                   "X-Envoy-Internal": "true", "X-Envoy-Expected-Rq-Timeout-Ms": "100"}
        server = self.start_sluice()
        self.check(200, prefix + "/a/b?p=1&q=2", "POST", headers)
        server.stop()
        self.start_sluice(TOLD)
        for method in ("GET", "PUT", "DELETE", "OPTIONS", "PATCH"):
            request(self.ports["8080"], method, prefix + "/a/b?p=1&q=2", headers)
            self.assertEqual(self.remaining(f"203.0.113.7 {method} shop.example /a/b 2"), LIMIT - 1)
