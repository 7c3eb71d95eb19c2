"""Servers other than a single redis-server: a cluster, sentinels with their servers, memcached."""

import os
import tempfile
from contextlib import ExitStack

from harness import Connection, Process, RedisServer, await_true, free_port, write_text

SLOTS = 16384


def ask(server, *words):
    with Connection(server.address) as connection:
        return connection.ask(*words)


class Fleet(ExitStack):
    """Servers and their folder; leaving the context ends them all."""

    def __init__(self):
        super().__init__()
        self.folder = self.enter_context(tempfile.TemporaryDirectory(prefix="sluice-test-"))

    def stop(self):
        self.close()

    def write_file(self, name, lines):
        path = os.path.join(self.folder, name)
        write_text(path, "".join(line + "\n" for line in lines))
        return path


class RedisCluster(Fleet):
    """A Redis Cluster without replicas, its slots evenly distributed over `self.nodes`.

    Each node starts with a complete map of the cluster, so the nodes need not exchange it.
    Still, each waits for 2 s before it takes part.
    """

    def __init__(self, primaries=3):
        super().__init__()
        ports = [(free_port(), free_port()) for _ in range(primaries)]
        with ExitStack() as undo:
            undo.enter_context(self)
            self.nodes = [self._start_node(i, ports) for i in range(primaries)]
            await_true("a cluster that is well", lambda: all(map(self._is_well, self.nodes)))
            undo.pop_all()
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port, _ in ports)

    def _start_node(self, self_index, ports):
        lines = []
        for i, (port, bus_port) in enumerate(ports):
            flags = "myself,master" if i == self_index else "master"
            first, last = i * SLOTS // len(ports), (i + 1) * SLOTS // len(ports) - 1
            lines.append(f"{i + 1:040} 127.0.0.1:{port}@{bus_port} {flags} - 0 0 {i + 1} connected "
                         f"{first}-{last}")
        cluster_map = self.write_file(f"nodes-{self_index}.conf",
                                      lines + [f"vars currentEpoch {len(ports)} lastVoteEpoch 0"])
        port, bus_port = ports[self_index]
        return self.enter_context(RedisServer(
            "--cluster-enabled", "yes", "--cluster-port", str(bus_port), "--cluster-config-file",
            cluster_map, "--cluster-node-timeout", "1000", port=port))

    @staticmethod
    def _is_well(node):
        return ask(node, "CLUSTER", "INFO").startswith("cluster_state:ok")


class RedisSentinel(Fleet):
    """A primary, a replica and three sentinels, which know the primary as "mymaster" and replace it
    when it has been silent for 500 ms."""

    NAME = "mymaster"

    def __init__(self):
        super().__init__()
        with ExitStack() as undo:
            undo.enter_context(self)
            # A replica writes the data that it receives to its folder before it loads them.
            options = ("--dir", self.folder, "--repl-diskless-sync-delay", "0")
            self.primary = self.enter_context(RedisServer(*options))
            self.replica = self.enter_context(RedisServer(
                *options, "--replicaof", f"127.0.0.1 {self.primary.port}"))
            await_true("a replica that follows", self._replica_follows)
            ports = [free_port() for _ in range(3)]
            self.sentinels = [self._start_sentinel(i, ports) for i in range(len(ports))]
            await_true("sentinels that are ready", lambda: all(map(self._ready, self.sentinels)))
            undo.pop_all()
        self.url = ("redis+sentinel://" + ",".join(f"127.0.0.1:{port}" for port in ports) +
                    "/" + self.NAME)

    def _replica_follows(self):
        return "master_link_status:up" in ask(self.replica, "INFO", "replication")

    def _ready(self, sentinel):
        """Whether the sentinel has information from the replica, without which it cannot promote
        it, and is connected to the other sentinels, without which there is no majority."""
        replica = ask(sentinel, "SENTINEL", "REPLICAS", self.NAME)[0]
        others = ask(sentinel, "SENTINEL", "SENTINELS", self.NAME)
        return (replica[replica.index("master-link-status") + 1] == "ok" and
                all(other[other.index("flags") + 1] == "sentinel" for other in others))

    def _start_sentinel(self, index, ports):
        """Tells the sentinels of each other and of the replica. They consider the primary lost one
        after the other: at the same time, each would vote for itself."""
        ids = [letter * 40 for letter in "abc"]
        path = self.write_file(f"sentinel-{index}.conf", [
            f"sentinel myid {ids[index]}",
            f"sentinel monitor {self.NAME} 127.0.0.1 {self.primary.port} 1",
            f"sentinel down-after-milliseconds {self.NAME} {500 * (index + 1)}",
            f"sentinel failover-timeout {self.NAME} 1000",
            f"sentinel known-replica {self.NAME} 127.0.0.1 {self.replica.port}",
            *(f"sentinel known-sentinel {self.NAME} 127.0.0.1 {port} {ids[i]}"
              for i, port in enumerate(ports) if i != index)])
        sentinel = self.enter_context(RedisServer(path, "--sentinel", port=ports[index]))
        # The first, which leads failovers, tells the others of them often. With a short period of
        # their own, the others would undo a failover now and then: see redis_sentinel.cc.
        publish = (("PUBLISH-PERIOD", 200),) if index == 0 else ()
        for period, milliseconds in (("INFO-PERIOD", 200), ("PING-PERIOD", 300),
                                     ("ASK-PERIOD", 100), ("MIN-LINK-RECONNECT-PERIOD", 100),
                                     *publish):
            ask(sentinel, "SENTINEL", "DEBUG", period, milliseconds)
        return sentinel

    def named_primary(self):
        """The port of the primary, according to the first running sentinel."""
        sentinel = next(sentinel for sentinel in self.sentinels if sentinel.running())
        return int(ask(sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.NAME)[1])


class MemcachedServer(Process):
    """A memcached on a free port, with further `arguments`."""

    def __init__(self, *arguments, port=None):
        self.port = port or free_port()
        self.address = ("127.0.0.1", self.port)
        self.url = f"memcached://127.0.0.1:{self.port}"
        super().__init__("memcached", "-l", "127.0.0.1", "-p", str(self.port), "-U", "0", "-t", "1",
                         *(("-u", "root") if os.geteuid() == 0 else ()), *arguments)
        self.await_listening(self.address)
