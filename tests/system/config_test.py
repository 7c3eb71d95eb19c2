"""`sluice check-config`, and `sluice serve` with the file of --config."""

import os
import re
import shutil
import signal

from certificates import Certificates
from harness import (BINARY, NOBODY, Connection, Process, SystemTest, free_port, new_token, post,
                     request, run, sluice, write_text)


class CheckConfig(SystemTest):
    def test_says_what_a_file_holds(self):
        path = self.write_file("sluice.yaml", "limits: {login: sliding_log 5/10m}\ndrain: 1s\n")
        result = sluice("check-config", path)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, f"{path}: 1 named limit\n")

    def test_the_file_may_be_a_pipe(self):
        text = "limits: {login: sliding_log 5/10m}\n"
        for command in ("check-config /dev/stdin", "check-config <(cat)"):
            with self.subTest(command):
                result = run("bash", "-c", f'"$0" {command}', BINARY, stdin=text)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertTrue(result.stdout.endswith(": 1 named limit\n"), result.stdout)

    def test_a_mistake_is_said_in_one_line_with_its_place(self):
        """The same for both commands, and where the file has nothing but limits."""
        for text, place in (
                ('limits: {login: "sliding_log 5/10parsecs"}\n', "1:34"),
                ("limist: {}\n", "1:1"),
                ("limits: {login: \n", "2:1"),
                ("drain: 5\n", "1:9"),
                ("store: memory:\n", "1:14"),
                ("", "1:1")):
            path = self.write_file("sluice.yaml", text)
            commands = [("check-config", 1), ("serve --config", 2)]
            if "drain" not in text:
                commands += [("serve --limits", 2)]
            for command, code in commands:
                with self.subTest(text, command=command):
                    said = self.refusal(*command.split(), path, code=code)
                    self.assertTrue(said.startswith(f"sluice: {path}:{place}: "), said)

    def test_arguments(self):
        self.assertEqual(sluice("check-config").returncode, 2)
        self.assertEqual(sluice("check-config", "a", "b").returncode, 2)
        missing = sluice("check-config", "/nonexistent.yaml")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("/nonexistent.yaml", missing.stderr)


class Agreement(SystemTest):
    """sluice serve starts with what check-config accepts, and refuses the rest in its words."""

    def agree(self, text, *options):
        """Whether both accept the file, and what check-config says on standard error."""
        path = self.write_file("sluice.yaml", text)
        checked = sluice("check-config", path, *options)
        if checked.returncode == 0:
            with Process(BINARY, "serve", "--config", path, *options) as server:
                server.await_output("serving ")
                said = server.output()
        else:
            served = sluice("serve", "--config", path, *options)
            # Where it is the system that refuses, serve ends with 1.
            status = 1 if "cannot listen on" in served.stderr else 2
            self.assertEqual((checked.returncode, served.returncode), (1, status), served.stderr)
            said = served.stderr
        self.assertEqual(checked.stderr.count("\n"), int(checked.stderr != ""), checked.stderr)
        sentence = re.sub(r"^(:\d+)*: ", "", checked.stderr.removeprefix(f"sluice: {path}"))
        self.assertIn(sentence, said)
        return checked.returncode == 0, sentence

    def test_on_one_table(self):
        made = Certificates(self.temporary_folder())
        tls = f"tls: {{cert: {made.pem('server')}, key: {made.key('server')}"
        own = f"listen: {{resp: '127.0.0.1:{free_port()}'}}\n"
        several = "listen: {resp: ['127.0.0.1:%d', '127.0.0.1:%d']}\n" % (free_port(), free_port())
        public = f"listen: {{resp: '0.0.0.0:{free_port()}'}}\n"
        user = "users: [{certificate: CN=gateway, roles: [check]}]\n"
        token = f"users:\n{new_token('gateway')[1]}\n"
        overrides = "limits: {a: {limit: fixed_window 5/1m, overrides: [%s]}}\n"
        folder = self.temporary_folder()
        for text, is_accepted, says in (
                (own, True, ""),
                ("listen: {}\n", False, "there is no address to serve on"),
                (public, False, "refusing to serve on 0.0.0.0:"),
                (public + tls + "}\n", False, "refusing to serve on 0.0.0.0:"),
                (public + tls + f", client_ca: {made.pem('ca')}}}\n" + user, True, ""),
                (public + tls + f", client_ca: {made.pem('ca')}}}\n", True, ""),
                (public + token, True, "tokens there in clear text"),
                (own + token, True, ""),
                (public + user, True, "1 user with a certificate can do nothing: no address"),
                (own + tls + "}\n" + user, True, "1 user with a certificate can do nothing"),
                (own + tls.replace("server.pem", "none") + "}\n", False, "the certificate file"),
                (several + tls + "}\n", True, ""),
                (own + f"snapshot: {{file: {folder}/state, every: 30s}}\n", True, ""),
                (own + f'snapshot: {{file: "{folder}/a\\nb/state"}}\n', False,
                 f"snapshot: no file can be made in the folder {folder}/a\\x0ab: No such file"),
                (own + f"snapshot: {{file: {folder}}}\n", False,
                 f"snapshot: {folder} is a folder, and must be a file"),
                (f"listen: {{resp: 'unix:{folder}/resp.sock'}}\n", True, ""),
                (f"listen: {{resp: 'unix:{folder}/none/resp.sock'}}\n", False,
                 f"cannot listen on unix:{folder}/none/resp.sock: No such file or directory"),
                (f"listen: {{resp: 'unix:{folder}'}}\n", False,
                 f"cannot listen on unix:{folder}: the file at this path is not a socket"),
                (own + f"snapshot: {{file: {folder}/state}}\nstore: redis://127.0.0.1:1\n", False,
                 "snapshot: only a store memory: has one"),
                (own + "store: redis://127.0.0.1:1\n", True, ""),
                (own + "store: redis://127.0.0.1:1?nonsense=1\n", False, "nonsense"),
                (own + "store: 'rediss://127.0.0.1:1?ca=/none.pem'\n", False, "/none.pem"),
                (own + "store: memcached://127.0.0.1:1\nlimits: {a: sliding_log 40000/1h}\n", False,
                 "at most 32768 fit into a value"),
                (own + "limits: {a: token_bucket 600000000/1s}\n", True, "admits 500000000/1s"),
                (own + overrides % "{key: a, limit: token_bucket 600000000/1s}", True,
                 "the limit a: 'token_bucket 600000000/1s' admits 500000000/1s"),
                (own + "users: []\n", True, "'users' has no user, which is as if it were left out"),
                (own + overrides % "{key: 'a*', deny: yes}, {key: '*', deny: yes}", True, ""),
                (own + overrides % "{key: '*', deny: yes}, {key: a, deny: yes}", True, ""),
                (own + overrides % '{key: "*", deny: yes}, {key: "a\\n*", deny: yes}', True,
                 "the limit a: the override 'a\\x0a*' never applies, since '*' stands before it"),
                (own + overrides % ("{key: 'a*', deny: yes}, {key: '*b', deny: yes}, "
                                    "{key: 'a*b', deny: yes}, {key: 'ab*', deny: yes}"), True,
                 "'a*b' never applies, since 'a*' stands before it; the same is true for 1 other"),
                (own + "limits: {a: token_buket 5/1s}\n", False, "did you mean 'token_bucket'")):
            with self.subTest(text):
                accepted, sentence = self.agree(text)
                self.assertEqual(accepted, is_accepted, sentence)
                self.assertIn(says, sentence)
                self.assertEqual(says == "", sentence == "", sentence)
        self.assertEqual(self.agree(public, "--insecure"), (True, ""))

    def test_as_a_user_who_may_not_use_the_snapshot(self):
        folder = self.temporary_folder()
        path = self.write_file("sluice.yaml", f"snapshot: {{file: {folder}/state}}\n")
        binary = shutil.copy(BINARY, os.path.dirname(path))
        os.chmod(os.path.dirname(path), 0o755)
        write_text(f"{folder}/state", "")
        os.chmod(f"{folder}/state", 0)
        self.addCleanup(os.chmod, folder, 0o700)
        for mode, says in ((0o555, f"no file can be made in the folder {folder}"),
                           (0o333, "cannot open the folder, which is synced after each snapshot, "
                                   + folder),
                           (0o777, f"cannot read {folder}/state")):
            os.chmod(folder, mode)
            for command, status in (("check-config",), 1), (("serve", "--config"), 2):
                with self.subTest(says, command=command):
                    result = run(binary, *command, path, **NOBODY)
                    self.assertEqual(result.returncode, status, result.stderr)
                    self.assertRegex(result.stderr, re.escape(says) + ": Permission denied$")


class ServeConfig(SystemTest):
    def serve(self, text, *options):
        return self.run_serve("--config", self.write_file("sluice.yaml", text), *options)

    def test_serves_what_the_file_says(self):
        port = free_port()
        unix = os.path.join(self.temporary_folder(), "resp.sock")
        server = self.serve(f"listen: {{resp: ['127.0.0.1:{port}', 'unix:{unix}']}}\n"
                            "store: memory:?max_bytes=16777216\n"
                            "limits: {login: sliding_log 5/10m}\n")
        for address in (("127.0.0.1", port), unix):
            with Connection(address) as connection:
                connection.ask("SLUICE.CHECK", "login", "k")
        with Connection(unix) as connection:
            self.assertEqual(connection.ask("SLUICE.PEEK", "login", "k")[:3], [1, 5, 3])
        server.await_output("1 named limit, memory:?max_bytes=16777216)")
        self.assertEqual(server.stop(), 0)

    def test_options_win_over_the_file(self):
        port, others = free_port(), free_port()
        server = self.serve(f"listen: {{resp: '127.0.0.1:{others}'}}\nstore: memory\n"
                            "limits: {login: sliding_log 5/10m}\n",
                            "--resp", f"127.0.0.1:{port}", "--store", "memory:?full=allow")
        server.await_output(f"RESP on 127.0.0.1:{port} (")
        self.assertIn("memory:?full=allow", server.output())
        with Connection(("127.0.0.1", port)) as connection:
            self.assertEqual(connection.ask("SLUICE.CHECK", "login", "k")[:3], [1, 5, 4])

    def test_named_limits_only(self):
        server = self.serve_file("expressions: no\nlimits: {login: sliding_log 5/10m}\n")
        with Connection(server.address) as connection:
            self.assertEqual(connection.ask("SLUICE.CHECK", "login", "k")[0], 1)
            for words in (("SLUICE.CHECK", "sliding_log 5/10m", "k"), ("CL.THROTTLE", "k", 1, 1, 1),
                          ("THROTTLE", "k", 1, 1, 1),
                          ("INCREX", "k", "UBOUND", 5, "EX", 60, "ENX")):
                reply = connection.ask(*words)
                self.assertIn("ERR this server answers named limits only", str(reply), words)
            unknown = connection.ask("SLUICE.CHECK", "logn", "k")
            self.assertIn("no limit is named 'logn'", str(unknown))

    def test_overrides_and_dry_run(self):
        server = self.serve_file("""
limits:
  api:
    limit: token_bucket 3/1h
    overrides:
      - {key: "customer:7", limit: token_bucket 9/1h}
      - {key: "internal:*", unlimited: true}
      - {key: "banned:*", deny: true}
  trial: {limit: token_bucket 1/1h, dry_run: true}
  tried: {limit: concurrency 1 lease=1m, dry_run: true,
           overrides: [{key: big, limit: concurrency 1 lease=5m}]}
""", http=True)
        with Connection(server.address) as connection:
            self.assertEqual(connection.ask("SLUICE.CHECK", "api", "internal:x", 1000),
                             [1, -1, -1, 0, 0, 0])
            self.assertEqual(connection.ask("SLUICE.CHECK", "api", "banned:x"),
                             [0, 0, 0, -1, 0, 0])
            for taken in (1, 7):
                reply = connection.ask("SLUICE.TAKE", "trial", "k", taken)
                self.assertEqual((reply[:4], reply[6]), ([1, 1, 0, 0], taken))
            self.assertIn("\r\nwould_deny:1\r\n", connection.ask("INFO", "sluice"))
            self.assertIn("\r\nallowed_override:1\r\n", connection.ask("INFO", "sluice"))

        def ask(path, **body):
            status, headers, reply = post(server.http[1], path, body)
            return status, reply, [name for name in headers if name.startswith("ratelimit")]

        status, decision, headers = ask("/v1/check", limit="api", key="customer:7")
        self.assertEqual((status, decision["limit"], decision["remaining"]), (200, 9, 8))
        self.assertTrue(headers)
        self.assertEqual(
            ask("/v1/check", limit="api", key="internal:x"),
            (200, {"allowed": True, "limit": None, "remaining": None, "retry_after_ms": 0,
                   "reset_after_ms": 0, "delay_ms": 0, "source": "override"}, []))
        self.assertEqual(
            ask("/v1/check", limit="api", key="banned:x"),
            (429, {"allowed": False, "limit": 0, "remaining": 0, "retry_after_ms": None,
                   "reset_after_ms": 0, "delay_ms": 0, "source": "override"}, []))
        self.assertNotIn("would_deny", ask("/v1/check", limit="trial", key="web")[1])
        status, decision, _ = ask("/v1/check", limit="trial", key="web")
        self.assertEqual((status, decision["allowed"], decision["would_deny"]), (200, True, True))
        # What the dry run gave is returned to no store, nor is a higher cost charged there.
        for cost in (0, 1_000):
            reservation = ask("/v1/reserve", limit="trial", key="web")[1]["reservation"]
            self.assertEqual(ask("/v1/commit", reservation=reservation, cost=cost)[0], 200)
            decision = ask("/v1/check", limit="trial", key="web")[1]
            self.assertTrue(decision["would_deny"] and decision["reset_after_ms"] <= 3_600_000)
        for _ in range(2):
            permit = ask("/v1/permits/acquire", limit="tried", key="big")[1]
            self.assertEqual(permit["lease_ms"], 300_000)
        self.assertEqual(ask("/v1/permits/release", limit="tried", key="big",
                              permit=permit["permit"])[0], 200)

    def test_rules_for_clients_behind_proxies(self):
        """They hold from a reload on, too."""
        port = free_port()
        text = (f"listen: {{http: '127.0.0.1:{port}'}}\n"
                "limits: {api: {limit: fixed_window 100/1d, key: '{ip}'}}\n")
        path = self.write_file(
            "sluice.yaml", text + "trusted_proxies: [10.0.0.0/8]\nheaders: draft-3\n")
        server = self.run_serve("--config", path)

        def ask(address, extra=""):
            headers = {"X-Forwarded-For": address}
            return request(port, "GET", "/auth?limit=api" + extra, headers=headers)[1]

        # The key is the address of the connection.
        self.assertEqual(ask("192.0.2.1")["ratelimit-remaining"], "99")
        self.assertEqual(ask("192.0.2.2")["ratelimit-remaining"], "98")
        write_text(path, text + "trusted_proxies: [127.0.0.1]\nheaders: x-ratelimit\n")
        server.signal(signal.SIGHUP)
        server.await_output("reloaded: ")
        self.assertEqual(ask("192.0.2.1")["x-ratelimit-remaining"], "99")
        self.assertEqual(ask("192.0.2.2")["x-ratelimit-remaining"], "99")
        checked = post(port, "/v1/check", {"limit": "api", "key": "k"})[1]
        self.assertEqual(checked["x-ratelimit-remaining"], "99")
        self.assertNotIn("ratelimit", str(ask("192.0.2.1", "&headers=none")))
