"""Runs the commands, and compiles the code, of README.md, CONTRIBUTING.md and some pages of docs/.

The convention, by the fence that opens a block:
  ```sh    Is run by `sh -eu` in a scratch folder that looks like the project after `make build`:
           build/release/sluice, data/, examples/, docs/. Each block must exit with 0.
           For a line `make TARGET`, only the existence of the target is checked (make -n).
           A block that is one `... sluice serve ...` line is a server: it is started, must listen
           before the next block runs, and is stopped at the end of the file.
  ```text  Directly after a sh or cpp block: the output of that block. A line `...` matches any
           lines; seconds in headers may have passed. Anywhere else: ignored.
  ```yaml  With a first line `# NAME`: is written to the file NAME in the scratch folder.
  ```cpp   A whole file: compiled with the project's warnings; with a main it is linked and run.
The ports 6380, 6381 and 8080 are replaced by free ones, and 6379 by that of a redis-server.
"""

import os
import re
import shlex
import shutil
import unittest
from dataclasses import dataclass

from harness import (BINARY, PATIENCE_S, ROOT, Connection, Process, RedisServer, SystemTest,
                     await_true, free_port, output_of, read_text, write_text)

LIBRARY = os.path.join(ROOT, "build", "library", "libsluice.a")
DEFAULT_PORT = "6380"
REDIS_PORT = "6379"
PORTS = re.compile(r"\b(6379|6380|6381|8080)\b")
# In a line that re.escape() has made a pattern.
SECONDS = re.compile(r"((?<=;t=)|(?<=^Retry\\-After:\\ ))\d+")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CXX_FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(ROOT, "include")]


@dataclass
class Block:
    """A fenced block: its language, its text, its line, and its expected output."""

    language: str
    text: str
    line: int
    expected: str = None


def blocks_of(text):
    blocks = []
    end = 0
    for found in FENCE.finditer(text):
        between, end = text[end:found.start()], found.end()
        block = Block(found[1], found[2], text.count("\n", 0, found.start()) + 1)
        if block.language == "text" and blocks and blocks[-1].language in ("sh", "cpp"):
            if not between.strip():
                blocks[-1].expected = block.text
                continue
        blocks.append(block)
    return blocks


def pattern_of(line):
    """Of the line, in which headers may tell of up to PATIENCE_S less until something."""
    def numbers(found):
        most = int(found[0])
        return f"({'|'.join(map(str, range(max(1, most - PATIENCE_S), most + 1)))})"

    return SECONDS.sub(numbers, re.escape(line))


def matches(expected, printed):
    """Whether the output is the expected one, in which a line `...` matches any lines."""
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == "..." else pattern_of(line) + r"\s*\n"
                      for line in expected.splitlines())
    return re.fullmatch(pattern, printed if printed.endswith("\n") else printed + "\n") is not None


def with_ports(text, port_for):
    """The text with replaced ports. Replaces all in one pass, since a new port may equal an old
    one."""
    return PORTS.sub(lambda found: str(port_for(found[0])), text)


def server_command(block):
    """The words of a block that only starts a server, or None."""
    lines = [line for line in block.text.splitlines() if line and not line.startswith("#")]
    if len(lines) != 1 or not re.match(r"\S*\bsluice serve\b[^&|;]*$", lines[0]):
        return None
    return shlex.split(lines[0])


class Readme(SystemTest):
    def setUp(self):
        self.folder = self.temporary_folder()
        os.makedirs(os.path.join(self.folder, "build", "release"))
        os.symlink(BINARY, os.path.join(self.folder, "build", "release", "sluice"))
        for name in ("data", "examples", "docs"):
            if os.path.isdir(os.path.join(ROOT, name)):
                shutil.copytree(os.path.join(ROOT, name), os.path.join(self.folder, name))
        redis = self.enterContext(RedisServer())
        self.ports = {REDIS_PORT: redis.port}

    def port_for(self, written):
        """The port that replaces `written`; chosen at its first use, shortly before it is bound."""
        if written not in self.ports:
            self.ports[written] = free_port()
        return self.ports[written]

    def check(self, name):
        blocks = blocks_of(read_text(os.path.join(ROOT, name)))
        runners = {"sh": self.run_shell, "yaml": self.write_yaml, "cpp": self.compile}
        self.assertTrue(any(block.language in runners for block in blocks), f"{name} runs nothing")
        for block in blocks:
            if block.language in runners:
                with self.subTest(f"{name}:{block.line}"):
                    runners[block.language](block)

    def run_shell(self, block):
        block.text = with_ports(block.text, self.port_for)
        words = server_command(block)
        if words:
            self.start_server(words)
            return
        lines = []
        for line in block.text.splitlines():
            if line.startswith("make "):
                targets = shlex.split(line, comments=True)[1:]
                output_of("make", "-n", "-C", ROOT, *targets)
            else:
                lines.append(line)
        self.check_output(block, output_of("sh", "-eu", "-c", "\n".join(lines), cwd=self.folder))

    def check_output(self, block, printed):
        if block.expected is not None:
            expected = with_ports(block.expected, self.port_for)
            self.assertTrue(matches(expected, printed),
                            f"expected:\n{expected}\nprinted:\n{printed}")

    def start_server(self, words):
        if "--resp" not in words:
            words += ["--resp", f"127.0.0.1:{self.port_for(DEFAULT_PORT)}"]
        address = ("127.0.0.1", int(words[words.index("--resp") + 1].rpartition(":")[2]))
        server = self.enterContext(Process(*words, cwd=self.folder))
        server.await_listening(address)
        if "--store" in words:  # Before it is connected, the server answers without it.
            with Connection(address) as connection:
                await_true("its store", lambda: "store_state:up\r\n" in connection.ask(
                    "INFO", "sluice"))

    def write_yaml(self, block):
        named = re.match(r"# (\S+)\n", block.text)
        if named:
            write_text(os.path.join(self.folder, named[1]), block.text)

    def compile(self, block):
        source = os.path.join(self.folder, f"line{block.line}.cc")
        write_text(source, block.text)
        program = source.removesuffix(".cc")
        compiler = [os.environ.get("CXX", "g++"), *CXX_FLAGS, source]
        if "int main(" not in block.text:
            output_of(*compiler, "-fsyntax-only")
            return
        output_of(*compiler, "-o", program, LIBRARY, "-pthread", "-lxxhash", "-lssl", "-lcrypto")
        self.check_output(block, output_of(program, cwd=self.folder))


for page in ("README", "CONTRIBUTING", "docs/resp", "docs/http", "docs/http-headers", "docs/advise",
             "docs/replay", "docs/limits", "docs/testing"):
    method = "test_" + os.path.basename(page).lower().replace("-", "_")
    setattr(Readme, method, lambda self, name=page + ".md": self.check(name))


class Convention(unittest.TestCase):
    """Tests of this file's parser."""

    def test_blocks(self):
        text = "a\n```sh\nls\n```\n\n```text\nout\n```\nb\n```text\nno\n```\n```cpp\nint a;\n```\n"
        blocks = blocks_of(text)
        self.assertEqual([(b.language, b.line, b.expected) for b in blocks],
                         [("sh", 2, "out\n"), ("text", 10, None), ("cpp", 13, None)])

    def test_matches(self):
        self.assertTrue(matches("a\n...\nc\n", "a\nb\nb\nc\n"))
        self.assertTrue(matches("a\n", "a"))
        self.assertFalse(matches("a\n...\nc\n", "a\nb\n"))
        self.assertFalse(matches("a.c\n", "abc\n"))
        told = 'RateLimit: "login";r=0;t={}, "b";r=1;t=1\nRetry-After: {}\n'
        for later, is_so in ((600, True), (599, True), (580, True), (579, False), (601, False)):
            self.assertEqual(matches(told.format(600, 600), told.format(later, later)), is_so)

    def test_ports(self):
        port_for = {"6380": 16381, "6381": 16379, "6379": 6380}.get
        self.assertEqual(with_ports("-p 6380 127.0.0.1:6381?a\n16380 6379", port_for),
                         "-p 16381 127.0.0.1:16379?a\n16380 6380")

    def test_servers(self):
        self.assertEqual(server_command(Block("sh", "build/release/sluice serve --threads 1\n", 1)),
                         ["build/release/sluice", "serve", "--threads", "1"])
        self.assertIsNone(server_command(Block("sh", "sluice serve\nredis-cli PING\n", 1)))
        self.assertIsNone(server_command(Block("sh", "sluice replay a\n", 1)))
