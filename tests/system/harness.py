"""Tools of the system tests: servers on free local ports, raw connections, single commands.

Every wait has the timeout PATIENCE_S. A test stops the servers that it starts by their process ids.
"""

import contextlib
import fcntl
import http.client
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BINARY = os.environ.get("SLUICE_BINARY", os.path.join(ROOT, "build", "release", "sluice"))
GOLDEN = os.path.join(ROOT, "tests", "system", "golden")
SAMPLE = os.path.join(ROOT, "data", "access.log")
PATIENCE_S = 20
# Options of a program for which the permissions of files count, as they do not for root.
NOBODY = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}

# Below the ports that the system uses for outgoing connections, and apart from those of
# tests/servers.
FIRST_PORT = 10_000
PORTS = 10_000
# The distance between the first ports of tests that run at the same time.
PORTS_EACH = 97
port_numbers = itertools.count(os.getpid() * PORTS_EACH)


def run(*arguments, stdin=None, text=True, timeout_s=200, **options):
    """Runs a program to its end. Returns its CompletedProcess; its exit code is not checked."""
    return subprocess.run(arguments, input=stdin, text=text, capture_output=True, check=False,
                          timeout=timeout_s, **options)


def sluice(*arguments, **options):
    return run(BINARY, *arguments, **options)


def output_of(*command, **options):
    """The standard output of a program, which must succeed."""
    result = run(*command, **options)
    if result.returncode != 0:
        raise AssertionError(f"{command} ended with {result.returncode}: {result.stdout}"
                             f"{result.stderr}")
    return result.stdout


def limit_options(limits):
    return [word for limit in limits for word in ("--limit", limit)]


def replay(limits, *arguments, **options):
    """The standard output of `sluice replay` under these limits."""
    return output_of(BINARY, "replay", *limit_options(limits), *arguments, **options)


def decisions(limits, *arguments, **options):
    """What `sluice replay` decides under these limits, as values."""
    lines = replay(limits, *arguments, "--decisions", "-", **options).splitlines()
    return [json.loads(line) for line in lines]


def new_token(name):
    """A token, and the line of the file that `sluice token` prints for it."""
    said = sluice("token", "--name", name).stdout
    return re.search(r"^token: (\S+)$", said, re.M)[1], re.search(r"^line: (.*)$", said, re.M)[1]


def read_text(path):
    return pathlib.Path(path).read_text(encoding="utf-8")


def write_text(path, text):
    pathlib.Path(path).write_text(text, encoding="utf-8")


def replace_text(path, text):
    """Writes the file in one step: nobody reads a part of it."""
    write_text(path + ".new", text)
    os.rename(path + ".new", path)


def unit_settings(path):
    """The settings of a unit of systemd, of which each is there once or its last one counts."""
    return dict(line.split("=", 1) for line in read_text(path).splitlines()
                if "=" in line and not line.startswith("#"))


def unit_command(settings, state, variables):
    """The words of the unit's ExecStart, as systemd makes them: `state` is %S, and `variables` are
    those of the unit's EnvironmentFile."""
    its = dict(word.split("=", 1) for word in shlex.split(settings["Environment"]))
    its.update(variables)
    line = re.sub(r"\$(\w+)", lambda name: its.get(name[1], ""), settings["ExecStart"])
    return shlex.split(line.replace("%S", state))


def npm_install():
    """Installs the packages of tests/package-lock.json, if they are not installed. Other tests may
    call it at the same time."""
    folder = os.path.join(ROOT, "tests")
    installed = os.path.join(folder, "node_modules", ".package-lock.json")
    wanted = os.path.join(folder, "package-lock.json")
    with open(wanted, encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(installed) and os.path.getmtime(installed) >= os.path.getmtime(wanted):
            return
        if not shutil.which("npm"):
            raise AssertionError("no npm: tools/setup system installs it")
        for _ in range(2):  # The network may fail once.
            result = run("npm", "ci", "--silent", cwd=folder, timeout_s=120)
            if result.returncode == 0:
                return
        raise AssertionError("npm ci failed: " + result.stderr)


def take_port(port):
    """Whether no other test has this port. It is taken as long as this process runs, also while no
    server listens on it: by a Unix socket of that name, which has no file."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0sluice-test-port-{port}")
    except OSError:
        claim.close()
        return False
    claim.detach()  # It is closed with the process.
    return True


def free_port():
    """A free port of 127.0.0.1, a different one with each call, in all tests that run."""
    for number in itertools.islice(port_numbers, PORTS):
        port = FIRST_PORT + number % PORTS
        if not take_port(port):
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass  # It is in use.
    raise AssertionError("no port of 127.0.0.1 is free")


def await_true(what, is_so):
    """Returns what `is_so` returns, once that is true. Raises AssertionError that names `what` if
    it never is."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := is_so()):
        if time.monotonic() > deadline:
            raise AssertionError(f"awaited in vain: {what}")
        time.sleep(0.01)
    return found


def written_to(file):
    """Everything that programs have written to this file so far. Opens it again, since the programs
    share the file position of `file`, which reading would move."""
    return read_text(f"/proc/self/fd/{file.fileno()}")


class Process:
    """A context manager that runs a program in the background, with its output in files."""

    def __init__(self, *arguments, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, **options):
        """`options`: further ones of subprocess.Popen."""
        self._output = tempfile.TemporaryFile()
        self._process = subprocess.Popen(arguments, stdin=stdin, stdout=self._output,
                                         stderr=stderr, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def pid(self):
        return self._process.pid

    def resident_kib(self):
        """How much of its memory is in the machine's."""
        status = read_text(f"/proc/{self.pid}/status")
        return int(re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)[1])

    def output(self):
        """Everything that it has written so far to standard output and standard error."""
        return written_to(self._output)

    def running(self):
        return self._process.poll() is None

    def signal(self, number):
        self._process.send_signal(number)

    def wait(self):
        """The exit code, once the program has ended by itself."""
        return self._process.wait(PATIENCE_S)

    def stop(self):
        """Ends the program, if it still runs. Returns its exit code."""
        if self.running():
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired as slow:
                self._process.kill()
                self._process.wait()
                raise AssertionError("does not end on SIGTERM: " + self.output()) from slow
        code = self._process.returncode
        if not self._output.closed:
            self._output.close()
        return code

    def await_output(self, text, count=1):
        """Returns once it has written the text so many times. Raises AssertionError if it does
        not."""
        self._await(f"has not written {text!r}", lambda: self.output().count(text) >= count)

    def await_listening(self, address):
        """Returns once connections to the address are accepted. Raises AssertionError if they
        never are."""
        def listens():
            with contextlib.suppress(OSError):
                open_socket(address).close()
                return self.running()  # Else someone else listens there.

        self._await(f"does not listen on {address}", listens)

    def _await(self, failure, is_so):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            ended = not self.running() or time.monotonic() > deadline
            if is_so():  # Asked later: so its output is all, if the program has ended.
                return
            if ended:
                said = self.output()
                self.stop()
                raise AssertionError(f"{failure}: {said}")
            time.sleep(0.01)


class Server(Process):
    """`sluice serve` on a free port, ready for connections, with further `arguments`. With `http`
    it serves HTTP, too: at the address `http` on another port, below `url`."""

    def __init__(self, *arguments, unix=None, http=False):
        self.port = None if unix else free_port()
        self.address = unix or ("127.0.0.1", self.port)
        resp = f"unix:{unix}" if unix else f"127.0.0.1:{self.port}"
        if http:
            self.http = ("127.0.0.1", free_port())
            self.url = f"http://127.0.0.1:{self.http[1]}"
            arguments += ("--http", f"127.0.0.1:{self.http[1]}")
        super().__init__(BINARY, "serve", "--resp", resp, *arguments)
        self.await_listening(self.address)


class RedisServer(Process):
    """A redis-server on a free port that writes nothing to disk, with further `arguments`."""

    def __init__(self, *arguments, port=None):
        self.port = port or free_port()
        self.address = ("127.0.0.1", self.port)
        self.url = f"redis://127.0.0.1:{self.port}"
        super().__init__("redis-server", *arguments, "--port", str(self.port), "--bind",
                         "127.0.0.1", "--save", "", "--appendonly", "no", "--loglevel", "warning")
        self.await_listening(self.address)

    def ask(self, *words):
        """Sends one command over a connection of its own, and reads its reply."""
        with Connection(self.address) as connection:
            return connection.ask(*words)


class RedisCluster(RedisServer):
    """A Redis Cluster of one node. It waits for 2 s before it takes part."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-test-")
        super().__init__("--cluster-enabled", "yes", "--cluster-port", str(free_port()),
                         "--dir", self._folder.name)
        self.url = f"redis+cluster://127.0.0.1:{self.port}"
        try:
            self.ask("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            await_true("a cluster that is well",
                       lambda: "cluster_state:ok" in self.ask("CLUSTER", "INFO"))
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


def open_socket(address):
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    connection = socket.socket(family)
    connection.settimeout(PATIENCE_S)
    try:
        connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def taken_address():
    """An address on which someone else listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def read_terminal(descriptor):
    """What is written to the terminal of this descriptor, which is closed, until its end."""
    written = b""
    with contextlib.suppress(OSError):  # The program has closed its side.
        while piece := os.read(descriptor, 65536):
            written += piece
    os.close(descriptor)
    return written


class Connection:
    """A raw connection: sends bytes, reads replies as bytes or as Python values."""

    def __init__(self, address):
        self.socket = open_socket(address)
        self._replies = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._replies.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def send_slowly(self, data):
        """Sends one byte at a time, so that the server receives the frame in pieces."""
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in data:
            self.socket.sendall(bytes([byte]))

    def read_all(self):
        """Reads until the server closes the connection; a reset counts as closing."""
        try:
            return self._replies.read()
        except ConnectionResetError:
            return b""

    def read(self):
        """The next reply: int, str, list, dict or None; an error as an Exception object."""
        line = self._replies.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError(f"closed within a reply: {line!r}")
        kind, rest = line[:1], line[1:-2]
        if kind in b":,":
            return int(rest)
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return Exception(rest.decode())
        if kind == b"_":
            return None
        if kind in b"$=":
            return self._read_bulk(int(rest))
        if kind in b"*~%":
            return self._read_many(kind, int(rest))
        raise AssertionError(f"not a reply: {line!r}")

    def _read_bulk(self, length):
        if length < 0:
            return None
        return self._replies.read(length + 2)[:-2].decode()

    def _read_many(self, kind, length):
        if kind == b"%":
            return {self.read(): self.read() for _ in range(length)}
        return None if length < 0 else [self.read() for _ in range(length)]

    def ask(self, *words):
        """Sends one command and reads its reply."""
        self.send(command(*words))
        return self.read()


def command(*words):
    """One command as an array of bulk strings."""
    encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    bulks = b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)
    return b"*%d\r\n%s" % (len(encoded), bulks)


def exchange(address, data, slowly=False):
    """Sends bytes, closes the sending side, and returns all bytes of the replies."""
    with Connection(address) as connection:
        try:
            connection.send_slowly(data) if slowly else connection.send(data)
            connection.socket.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError, OSError):
            pass  # The server closed after an error; the bytes before that can still be read.
        return connection.read_all()


def request(port, method, path, headers=None, body=None, client="127.0.0.1"):
    """(status, headers in small letters, body) of one request by a client with this address."""
    connection = http.client.HTTPConnection("127.0.0.1", port, PATIENCE_S, (client, 0))
    try:
        connection.request(method, path, body, headers or {})
        reply = connection.getresponse()
        return (reply.status, {name.lower(): value for name, value in reply.getheaders()},
                reply.read())
    finally:
        connection.close()


def post(port, path, body):
    """(status, headers in small letters, value or None) of a POST of this value as JSON."""
    status, headers, text = request(port, "POST", path, {"Content-Type": "application/json"},
                                    json.dumps(body))
    return status, headers, json.loads(text) if text else None


def metrics(port, headers=None):
    """{'NAME{LABELS}': value} of a server of HTTP."""
    text = request(port, "GET", "/metrics", headers)[2].decode()
    rows = re.findall(r"^(\w+(?:\{.*?\})?) (\S+)$", text, re.M)
    return {name: float(value) for name, value in rows}


class SystemTest(unittest.TestCase):
    """A test of the built binary; fails if there is none."""

    def expect_golden(self, name, text):
        """Compares with a file in tests/system/golden; with SLUICE_WRITE_GOLDEN, writes it."""
        path = os.path.join(GOLDEN, name)
        if os.environ.get("SLUICE_WRITE_GOLDEN"):
            write_text(path, text)
        self.assertEqual(text, read_text(path), f"differs from {path}")

    @classmethod
    def setUpClass(cls):
        if not os.access(BINARY, os.X_OK):
            raise AssertionError(f"no binary at {BINARY}: run `make build`")

    def temporary_folder(self):
        folder = tempfile.TemporaryDirectory(prefix="sluice-test-")
        self.addCleanup(folder.cleanup)
        return folder.name

    def write_file(self, name, content):
        """Writes a file in a new folder. Returns its path."""
        path = os.path.join(self.temporary_folder(), name)
        content = content if isinstance(content, bytes) else content.encode()
        pathlib.Path(path).write_bytes(content)
        return path

    def refusal(self, *arguments, code=2):
        """The one line that `sluice` says, and nothing else, when it ends with this code."""
        result = sluice(*arguments)
        self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, f"not one sentence: {result.stderr}")
        return result.stderr

    def serve_file(self, text, *arguments, **options):
        """A Server with this text as its file, which is stopped when the test ends."""
        path = self.write_file("sluice.yaml", text)
        return self.enterContext(Server("--config", path, *arguments, **options))

    def run_serve(self, *arguments):
        """`sluice serve` with no other arguments than these, which is stopped when the test ends.
        Returns it once it serves."""
        server = self.enterContext(Process(BINARY, "serve", *arguments))
        server.await_output("serving ")
        return server


class ServerTest(SystemTest):
    """Tests that share one server; each uses different keys."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.enterClassContext(Server())

    def connect(self):
        return self.enterContext(Connection(self.server.address))
