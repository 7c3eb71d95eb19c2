"""Servers other than a single redis-server: a cluster, memcached."""

import os
import tempfile

from harness import Connection, Process, RedisServer, await_true, free_port


def ask(server, *words):
    with Connection(server.address) as connection:
        return connection.ask(*words)


class RedisCluster(RedisServer):
    """A Redis Cluster of one node. It waits for 2 s before it takes part."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-test-")
        super().__init__("--cluster-enabled", "yes", "--cluster-port", str(free_port()),
                         "--dir", self._folder.name)
        self.url = f"redis+cluster://127.0.0.1:{self.port}"
        try:
            ask(self, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            await_true("a cluster that is well", lambda: "cluster_state:ok" in ask(
                self, "CLUSTER", "INFO"))
        except AssertionError:
            self.stop()
            raise

    def stop(self):
        code = super().stop()
        self._folder.cleanup()
        return code


class MemcachedServer(Process):
    """A memcached on a free port, with further `arguments`."""

    def __init__(self, *arguments):
        self.port = free_port()
        self.address = ("127.0.0.1", self.port)
        self.url = f"memcached://127.0.0.1:{self.port}"
        super().__init__("memcached", "-l", "127.0.0.1", "-p", str(self.port), "-U", "0", "-t", "1",
                         *(("-u", "root") if os.geteuid() == 0 else ()), *arguments)
        self.await_listening(self.address)
