"""Prometheus, as Debian has it, scrapes the server."""

import json
import os
import urllib.parse

from harness import Connection, Process, SystemTest, await_true, free_port, request, run

LIMITS = "limits:\n  login: sliding_log 5/1h\n  api: sliding_log 5/1h\n"
CONFIG = """
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs:
  - job_name: sluice
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


class MetricsTest(SystemTest):
    def setUp(self):
        self.server = self.serve_file(LIMITS, http=True)

    def use(self):
        """Seven requests of one key, two of which are denied, and one of an expression."""
        connection = self.enterContext(Connection(self.server.address))
        for _ in range(7):
            connection.ask("SLUICE.CHECK", "login", "bob")
        connection.ask("SLUICE.CHECK", "token_bucket 9/1h", "bob")
        return connection

    def test_promtool_finds_no_fault(self):
        self.use()
        _, headers, text = request(self.server.http[1], "GET", "/metrics")
        self.assertEqual(headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
        result = run("promtool", "check", "metrics", stdin=text.decode())
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_prometheus_scrapes(self):
        self.use()
        with Connection(self.server.http) as broken:
            broken.send(b"GET / HTTP/1.1\n\n")
            broken.read_all()
        port = free_port()
        config = self.write_file("prometheus.yml", CONFIG.format(port=self.server.http[1]))
        prometheus = self.enterContext(Process(
            "prometheus", "--config.file", config, "--storage.tsdb.path",
            os.path.join(self.temporary_folder(), "data"), "--web.listen-address",
            f"127.0.0.1:{port}"))
        prometheus.await_listening(("127.0.0.1", port))

        def is_ready():
            status, _, text = request(port, "GET", "/-/ready")
            return status == 200 and text != b""

        def ask(query):
            """The values that Prometheus knows, by their labels in the order of `query`."""
            path = "/api/v1/query?query=" + urllib.parse.quote(query)
            rows = json.loads(request(port, "GET", path)[2])["data"]["result"]
            return {tuple(row["metric"].values()): row["value"][1] for row in rows}

        await_true("ready", is_ready)
        for query, wanted in (
                ("sum by (job) (up)", {("sluice",): "1"}),
                ("sum by (limit, outcome) (sluice_decisions_total)",
                 {("api", "allowed"): "0", ("api", "denied"): "0",
                  ("login", "allowed"): "5", ("login", "denied"): "2",
                  ("(other)", "allowed"): "1", ("(other)", "denied"): "0"}),
                ('sum by (protocol) (sluice_connections{protocol="resp"})', {("resp",): "1"}),
                ("sum by (protocol) (sluice_parse_errors_total)",
                 {("http",): "1", ("resp",): "0"}),
                ("sum by (store) (sluice_store_keys)", {("memory",): "2"}),
                ("sum by (store) (sluice_decision_duration_seconds_count)", {("memory",): "8"})):
            # Awaited, since there are no values while a scrape has taken too long.
            await_true(f"{query} to be {wanted}", lambda: ask(query) == wanted)
