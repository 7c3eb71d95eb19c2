"""docs/metrics.md names what a server tells at /metrics, and nothing else; the dashboard and the
alert rules ask for nothing else."""

import json
import os
import re
import tempfile

from certificates import Certificates
from harness import ROOT, Server, SystemTest, output_of, read_text, write_text

ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|([^|]*)\| \S.* \|$", re.MULTILINE)
RULES = os.path.join(ROOT, "packaging", "prometheus", "sluice-alerts.yaml")
DASHBOARD = os.path.join(ROOT, "packaging", "grafana", "sluice.json")
TYPE = re.compile(r"^# TYPE (\w+) (\w+)$", re.MULTILINE)
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? ", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# A metric in an expression, with the labels that it must have.
ASKED = re.compile(r"\b((?:sluice|process)_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)(=~?)"([^"]*)"')
# How an expression and a legend name labels.
NAMES = re.compile(r"\bby \(([^)]*)\)|\{\{ ?(?:\$labels\.)?(\w+) ?\}\}")
ADDED_BY_PROMETHEUS = {"job", "instance"}
# What is told only once it has happened.
TOLD_LATER = {("sluice_decisions_total", "source", "unavailable"),
              ("sluice_decisions_total", "source", "local"),
              ("sluice_decisions_total", "source", "policy"),
              ("sluice_decisions_total", "outcome", "would_deny")}


class MetricsTest(SystemTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="sluice-test-"))
        made = Certificates(folder)
        limits = os.path.join(folder, "limits.yaml")
        write_text(limits, "limits: {a: fixed_window 5/1m}\n")
        with Server("--snapshot", os.path.join(folder, "snapshot"), "--limits", limits,
                    *made.options(), http=True) as server:
            text = made.fetch(f"https://127.0.0.1:{server.http[1]}/metrics")
        cls.types = TYPE.findall(text)
        cls.told = {}  # {metric: {(label, value)}}
        for name, labels in SAMPLE.findall(text):
            cls.told.setdefault(name, set()).update(LABEL.findall(labels))


class Page(MetricsTest):
    rows = ROW.findall(read_text(os.path.join(ROOT, "docs", "metrics.md")))

    def test_the_page_has_each_metric_and_no_other(self):
        self.assertEqual(sorted((name, kind) for name, kind, _ in self.rows), sorted(self.types))

    def test_the_page_has_the_labels_of_each_metric(self):
        told = {name: set() for name, _ in self.types}
        for name, labels in self.told.items():
            family = name if name in told else re.sub("_(bucket|sum|count)$", "", name)
            told[family] |= {label for label, _ in labels} - {"le"}
        written = {name: set(re.findall(r"`(\w+)`", labels)) for name, _, labels in self.rows}
        self.assertEqual(written, told)


class Packaging(MetricsTest):
    def check(self, expression, told_to_people):
        found = ASKED.findall(expression)
        labels = {"le", *ADDED_BY_PROMETHEUS}
        for metric, matchers in found:
            self.assertIn(metric, list(self.told), expression)
            labels |= {label for label, _ in self.told[metric]}
            for label, operator, value in MATCHER.findall(matchers):
                if label in ADDED_BY_PROMETHEUS or (metric, label, value) in TOLD_LATER:
                    continue
                self.assertEqual(operator, "=", expression)
                self.assertIn((label, value), self.told[metric], expression)
        for grouped, named in NAMES.findall(expression + told_to_people):
            for label in re.findall(r"\w+", grouped + named):
                self.assertIn(label, labels, expression + " " + told_to_people)
        return {metric for metric, _ in found}

    def test_the_alert_rules(self):
        output_of("promtool", "check", "rules", RULES)
        rules = read_text(RULES).split("- alert: ")[1:]
        self.assertGreater(len(rules), 5)
        for rule in rules:
            self.check(rule.partition("labels:")[0], rule.partition("annotations:")[2])

    def expect_alert(self, name, summary, description, minutes, series):
        """Server `a` has the alert in the minutes whose value is true. `series`: of each its
        metric, its value each minute and its instance."""
        alert = {"exp_labels": {"job": "sluice", "instance": "a", "severity": "warning"},
                 "exp_annotations": {"summary": summary, "description": description}}
        tests = [{"eval_time": f"{minute}m", "alertname": name,
                  "exp_alerts": [alert] if is_so else []} for minute, is_so in minutes.items()]
        rules = self.write_file("test.yaml", json.dumps({
            "rule_files": [RULES], "evaluation_interval": "1m",
            "tests": [{"interval": "1m", "alert_rule_test": tests, "input_series": [
                {"series": f'{metric}{{job="sluice", instance="{instance}"}}', "values": values}
                for metric, values, instance in series]}]}))
        output_of("promtool", "test", "rules", rules)

    def test_the_alert_of_snapshots(self):
        """Of a server that writes one each hour: it begins when one is missing, and ends with the
        next. Another server keeps none."""
        always = "0x299"  # Once a minute.
        self.expect_alert(
            "SluiceSnapshotFailed", "a cannot write its snapshot",
            "A restart may lose what was decided since the last one. The log says why, with the "
            "event snapshot_failed or snapshot_not_synced.",
            {30: False, 66: False, 125: False, 128: True, 180: True, 239: True, 241: False},
            [("process_start_time_seconds", always, "a"),
             ("sluice_snapshot_interval_seconds", "3600x299", "a"),
             # After an hour, and then only after three more.
             ("sluice_last_snapshot_time_seconds", "0x59 3600x179 14400x59", "a"),
             ("process_start_time_seconds", always, "b"),
             ("sluice_last_snapshot_time_seconds", always, "b")])

    def test_the_alert_of_reloads(self):
        """It stays for as long as the last reload is one that failed."""
        self.expect_alert(
            "SluiceReloadFailed", "a has not taken its changed file",
            "It goes on as before. The log says where the mistake is, or that the file is gone, "
            "with the event not_reloaded.", {9: False, 10: True, 100: True, 110: False},
            [("sluice_last_reload_succeeded", "1x9 0x99 1x9", "a")])

    def test_the_dashboard(self):
        dashboard = json.loads(read_text(DASHBOARD))
        shown = set()
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                with self.subTest(panel["title"]):
                    expression = target["expr"].replace("$__rate_interval", "5m")
                    rules = self.write_file("rules.yaml", json.dumps({"groups": [
                        {"name": "g", "rules": [{"record": "r", "expr": expression}]}]}))
                    output_of("promtool", "check", "rules", rules)
                    shown |= self.check(expression, target["legendFormat"])
        self.assertEqual(len({panel["id"] for panel in dashboard["panels"]}),
                         len(dashboard["panels"]))
        # What only an alert, or a look at the page itself, is for.
        families = {re.sub("_(bucket|sum|count)$", "", name) for name in self.told}
        shown = {re.sub("_(bucket|sum|count)$", "", name) for name in shown}
        self.assertEqual(families - shown, {
            "sluice_certificate_not_after_seconds", "sluice_last_reload_succeeded",
            "sluice_last_reload_time_seconds",
            "sluice_last_snapshot_time_seconds", "sluice_login_timeouts_total",
            "sluice_snapshot_interval_seconds",
            "sluice_store_charged_back_units_total", "sluice_store_clock_behind_total",
            "sluice_store_late_replies_total", "sluice_store_lost_total",
            "sluice_store_not_charged_back_units_total", "sluice_store_refused_total"})
