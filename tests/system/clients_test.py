"""Real clients against `sluice serve`: plain, pipelined, in transactions."""

import os

from harness import ServerTest, npm_install, run

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "clients")
HIREDIS_CLIENT = os.environ.get("HIREDIS_CLIENT", "")


class Clients(ServerTest):
    def expect_ok(self, result, name):
        self.assertEqual((result.returncode, result.stdout), (0, f"{name}: ok\n"), result.stderr)

    def test_hiredis(self):
        self.assertTrue(os.access(HIREDIS_CLIENT, os.X_OK), "HIREDIS_CLIENT names no program")
        self.expect_ok(run(HIREDIS_CLIENT, str(self.server.port)), "hiredis")

    def test_redis_py(self):
        """Debian's python3 has Debian's redis-py; the python3 of the path may be another."""
        program = os.path.join(FOLDER, "redis_py.py")
        self.expect_ok(run("/usr/bin/python3", program, str(self.server.port)), "redis-py")

    def test_phpredis(self):
        program = os.path.join(FOLDER, "phpredis.php")
        self.expect_ok(run("/usr/bin/php", program, str(self.server.port)), "phpredis")

    def test_redis_rb(self):
        """Debian's ruby has Debian's redis-rb; the ruby of the path may be another."""
        program = os.path.join(FOLDER, "redis_rb.rb")
        self.expect_ok(run("/usr/bin/ruby", program, str(self.server.port)), "redis-rb")

    def test_npm_redis(self):
        self.run_npm_client("redis")

    def test_npm_ioredis(self):
        self.run_npm_client("ioredis")

    def run_npm_client(self, name):
        program = os.path.join(FOLDER, "clients.mjs")
        self.expect_ok(run("node", program, name, str(self.server.port)), name)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        npm_install()
