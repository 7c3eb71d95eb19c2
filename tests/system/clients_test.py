"""Real clients against `sluice serve`: plain, pipelined, in transactions."""

import os

from harness import ServerTest, npm_install, run

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients")
HIREDIS_CLIENT = os.environ.get("HIREDIS_CLIENT", "")


class Clients(ServerTest):
    def expect_ok(self, name, *command):
        result = run(*command, str(self.server.port))
        self.assertEqual((result.returncode, result.stdout), (0, f"{name}: ok\n"), result.stderr)

    def test_hiredis(self):
        self.assertTrue(os.access(HIREDIS_CLIENT, os.X_OK), "HIREDIS_CLIENT names no program")
        self.expect_ok("hiredis", HIREDIS_CLIENT)

    def test_those_of_debian(self):
        """Debian's python3 has Debian's redis-py; the python3 of the path may be another."""
        for name, language, program in (("redis-py", "python3", "redis_py.py"),
                                        ("phpredis", "php", "phpredis.php"),
                                        ("redis-rb", "ruby", "redis_rb.rb")):
            with self.subTest(name):
                self.expect_ok(name, "/usr/bin/" + language, os.path.join(FOLDER, program))

    def test_those_from_npm(self):
        npm_install()
        for name in ("redis", "ioredis", "glide"):
            with self.subTest(name):
                self.expect_ok(name, "node", os.path.join(FOLDER, "clients.mjs"), name)
