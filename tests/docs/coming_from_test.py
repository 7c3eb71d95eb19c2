"""Checks docs/coming-from.md: every call in the middle column of its tables compiles, every limit
on the page is valid, and the server gives the replies that the page says.

A call is compiled after the first block of C++ on the page and those of its section. The
compiler runs once for all calls, and reports lines of the page.
"""

import os
import re

from harness import ROOT, Connection, Server, SystemTest, command, output_of, read_text, replay

PAGE = os.path.join("docs", "coming-from.md")
CXX = os.environ.get("CXX", "g++")
# The results of the calls are not used, which is no error here.
CXX_FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-I",
             os.path.join(ROOT, "include")]
LIMIT = re.compile(r'["`]((?:fixed_window|sliding_\w+|token_bucket|leaky_bucket|concurrency) '
                   r'[^"`]+)["`]')
REPLY = re.compile(r"^((?:CL\.)?THROTTLE .*?)  +([-\d ]+)$", re.MULTILINE)


class Section:
    """The contents of one heading: lines of C++, then calls, each as (line of the page, code)."""

    def __init__(self):
        self.block = []
        self.calls = []


def middle_cell(line):
    """The middle column of a row of a table, or None if it has no call."""
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    if len(cells) != 3 or cells[1] in ("in Sluice", "---", ""):
        return None
    return cells[1]


def sections_of(page):
    """The text before the first heading of level 2, then the page's sections."""
    sections = [Section()]
    fenced = False
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("## "):
            sections.append(Section())
        elif line.startswith("```"):
            fenced = line == "```cpp"
        elif fenced:
            sections[-1].block.append((number, line))
        elif middle_cell(line):
            sections[-1].calls.append((number, middle_cell(line)))
    return sections


def as_program(common, sections):
    """C++ with a function for each section."""
    lines = [line for _, line in common.block if line.startswith("#include")]
    for index, section in enumerate(sections):
        lines.append(f"void section_{index}() {{")
        for number, line in common.block + section.block:
            if not line.startswith("#include"):
                lines += [f'#line {number} "{PAGE}"', line]
        for number, code in section.calls:
            lines += [f'#line {number} "{PAGE}"', "{ " + code.strip("`").rstrip(";") + "; }"]
        lines.append("}")
    return "\n".join(lines) + "\n"


class ComingFrom(SystemTest):
    def setUp(self):
        self.page = read_text(os.path.join(ROOT, PAGE))

    def test_every_call_compiles(self):
        common, *sections = sections_of(self.page)
        for section in sections:
            self.assertTrue(section.calls)
            for number, code in section.calls:
                self.assertRegex(code, "^`[^`]+`$", f"{PAGE}:{number}: not one call")
        output_of(CXX, *CXX_FLAGS, "-x", "c++", "-", stdin=as_program(common, sections))

    def test_every_limit_is_one(self):
        limits = sorted(set(LIMIT.findall(self.page)))
        self.assertGreater(len(limits), 10)
        for limit in limits:
            with self.subTest(limit):
                replay([limit], "--format", "csv", "-", stdin="time,key\n1700000000,caller\n")

    def test_the_server_replies_as_the_page_says(self):
        replies = REPLY.findall(self.page)
        self.assertGreater(len(replies), 8)
        with Server() as server, Connection(server.address) as connection:
            # Sent together, so that they are decided within a moment.
            connection.send(b"".join(command(*words.split()) for words, _ in replies))
            for words, reply in replies:
                expected = [int(number) for number in reply.split()]
                self.assertEqual(connection.read(), expected, words)
