"""Compares docs/metrics.md with what the server tells at /metrics, in both directions."""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
from certificates import Certificates  # noqa: E402
from harness import ROOT, Server, SystemTest, free_port  # noqa: E402

ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|([^|]*)\| \S.* \|$", re.MULTILINE)
TYPE = re.compile(r"^# TYPE (\w+) (\w+)$", re.MULTILINE)
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? ", re.MULTILINE)
LABEL = re.compile(r'(\w+)="(?:[^"\\]|\\.)*"')


class Metrics(SystemTest):
    def setUp(self):
        with open(os.path.join(ROOT, "docs", "metrics.md"), encoding="utf-8") as file:
            self.rows = ROW.findall(file.read())
        port = free_port()
        made = Certificates(self.temporary_folder())
        server = Server("--http", f"127.0.0.1:{port}", "--tls-cert", made.pem("server"),
                        "--tls-key", made.key("server"))
        self.addCleanup(server.stop)
        self.text = made.fetch(f"https://127.0.0.1:{port}/metrics")

    def test_the_page_has_each_metric_and_no_other(self):
        self.assertEqual(sorted((name, kind) for name, kind, _ in self.rows),
                         sorted(TYPE.findall(self.text)))

    def test_the_page_has_the_labels_of_each_metric(self):
        told = {name: set() for name, kind in TYPE.findall(self.text)}
        for name, labels in SAMPLE.findall(self.text):
            family = name if name in told else re.sub("_(bucket|sum|count)$", "", name)
            told[family] |= set(LABEL.findall(labels)) - {"le"}
        written = {name: set(re.findall(r"`(\w+)`", labels)) for name, _, labels in self.rows}
        self.assertEqual(written, told)


if __name__ == "__main__":
    unittest.main()
