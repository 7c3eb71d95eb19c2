"""Checks the pages against the program: links, the options of limits, the man pages."""

import glob
import json
import os
import re
import unittest

from harness import ROOT, SAMPLE, SystemTest, read_text, run, sluice
from tests.docs.links import dangling_links

MAN = os.path.join(ROOT, "docs", "man")


class Links(SystemTest):
    def test_no_link_of_the_project_dangles(self):
        self.assertEqual(list(dangling_links(ROOT)), [])

    def test_a_dangling_link_is_found(self):
        path = self.write_file("a.md", "# A page\n[1](a.md#a-page) [2](#a-page) [3](http://x) "
                               "`[4](x)`\n```\n# no heading\n[5](y)\n```\n"
                               "[6](b.md) [7](#no-heading) [8](..) [9](a.md)\n")
        self.assertEqual(list(dangling_links(os.path.dirname(path))),
                         ["a.md: b.md", "a.md: #no-heading", "a.md: .."])


def refusal(limit):
    """What the program says about an invalid limit."""
    return sluice("replay", "--limit", limit, stdin="").stderr


def options_by_algorithm():
    """{algorithm: its options}, as the parser of limits names them."""
    names = re.search(r"there are ([\w ]+),", refusal("? 1/1s"))[1].split()
    options = {}
    for name in names:
        count = "1" if name == "concurrency" else "1/1s"
        needed = " queue=1" if name == "leaky_bucket" else ""
        known = re.search(r"has no option '\?'(?:; it has ([\w ]+)|, nor any other),",
                          refusal(f"{name} {count}{needed} ?=1"))
        options[name] = set((known[1] or "").split())
    return options


class LimitsPages(unittest.TestCase):
    """Each option of each algorithm is described, and no other."""

    @classmethod
    def setUpClass(cls):
        cls.options = options_by_algorithm()

    def test_the_parser_tells(self):
        self.assertGreater(len(self.options), 6)
        self.assertEqual(self.options["token_bucket"], {"burst", "borrow"})

    def test_reference(self):
        page = read_text(os.path.join(ROOT, "docs", "limits.md"))
        described = {name: set() for name in re.findall(r"(?m)^\| \[`(\w+)`\]", page)}
        for option, name in re.findall(r"(?m)^\| `(\w+)` \| `(\w+)` \|", page):
            described[name].add(option)
        self.assertEqual(described, self.options)

    def test_man_page(self):
        rows = re.findall(r'(?m)^\.It Li "(\w+) [\d/smh]+" Ta(.*)$',
                          read_text(os.path.join(MAN, "sluice.1")))
        self.assertEqual({name: set(re.findall(r"(\w+)=", options)) for name, options in rows},
                         self.options)

    def test_help(self):
        text = sluice("replay", "--help").stdout
        rows = re.findall(r"(\w+) \d+(?:/\w+)?((?: \[?\w+=[^\s\]]+\]?)*)",
                          text[text.index("Limits:"):text.index("several joined")])
        self.assertEqual({name: set(re.findall(r"(\w+)=", options)) for name, options in rows},
                         self.options)

    def test_page_of_each_algorithm(self):
        for name, options in self.options.items():
            page = read_text(os.path.join(ROOT, "src", "algorithms", name, "README.md"))
            for option in options:
                with self.subTest(name + " " + option):
                    self.assertRegex(page, rf"\b{option}=|`{option}`")

    def test_header(self):
        comment = read_text(os.path.join(ROOT, "include", "sluice", "limit.h"))
        comment = comment[:comment.index("class SLUICE_EXPORT Limit {")]
        self.assertEqual(set(re.findall(r"[\[ ](\w+)=", comment)),
                         set().union(*self.options.values()))


def members_of(value, prefix=""):
    """The names of the members of a JSON value that are no objects or lists of objects, as the
    pages write them: "limits[].key"."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return members_of(value[0], prefix + "[]")
    if not isinstance(value, dict):
        return {prefix}
    inner = (members_of(each, f"{prefix}.{name}".lstrip(".")) for name, each in value.items())
    return set().union(*inner)


class JsonReports(unittest.TestCase):
    """The members of --json are described, and no others."""

    def check(self, command, *options):
        printed = members_of(json.loads(sluice(command, SAMPLE, "--json", *options).stdout))
        page = read_text(os.path.join(ROOT, "docs", command + ".md"))
        described = set()
        for cell in re.findall(r"(?m)^\| (`.*?`) \| ", page.rpartition("`--json` prints")[2]):
            names = re.findall("`([^`]+)`", cell)
            # "….b" after "a[].b" has the same beginning.
            before = names[0].rpartition(".")[0]
            described |= {before + name[1:] if name.startswith("…") else name for name in names}
        self.assertEqual(described, printed)

    def test_replay(self):
        self.check("replay", "--limit", "fixed_window 5/1m")

    def test_advise(self):
        self.check("advise")


def options_of_help(text):
    """{option: (its value, its default)} in the output of --help."""
    rows = re.findall(r"(?m)^  ((?:-\w,)?--[\w-]+)(?: ([^\s=]+)(?:=\[?([^\s\]]+))?)?", text)
    return {option: (value, default) for option, value, default in rows}


def options_of_man(text):
    """{option: (its value, the text that describes it)} in the source of a man page."""
    section = re.search(r"(?ms)^\.Sh OPTIONS$(.*?)^\.Sh ", text)[1]
    options = {}
    for item in section.split("\n.It ")[1:]:
        head, _, description = item.partition("\n")
        flags, _, value = head.partition(" Ar ")
        flags = flags.replace("Fl Fl ", "--").replace("Fl ", "-").replace(" , ", ",")
        options[flags] = (value, description)
    return options


class ManPages(unittest.TestCase):
    """Each man page has the options that --help lists, and each subcommand has a man page."""

    def test_each_subcommand_has_a_page(self):
        text = sluice("--help").stdout
        commands = set(re.findall(r"(?m)^  (\w[\w-]*) ", text.partition("Subcommands:")[2]))
        self.assertIn("serve", commands)
        pages = {os.path.basename(path) for path in glob.glob(os.path.join(MAN, "*"))}
        self.assertEqual(pages, {f"sluice-{name}.1" for name in commands} | {"sluice.1"})
        described = re.findall(r"(?m)^\.It Cm ([\w-]+)$", read_text(os.path.join(MAN, "sluice.1")))
        self.assertEqual(set(described), commands)

    def test_options(self):
        for path in glob.glob(os.path.join(MAN, "*")):
            command = re.fullmatch(r"sluice-?([\w-]*)\.1", os.path.basename(path))[1]
            promised = options_of_help(sluice(*command.split(), "--help").stdout)
            described = options_of_man(read_text(path))
            with self.subTest(path):
                self.assertIn("-h,--help", promised)
                self.assertEqual(described.keys(), promised.keys())
                for option, (value, default) in promised.items():
                    self.assertEqual(described[option][0], value, option)
                    self.assertIn(default, described[option][1], option)

    def test_they_are_formatted_without_warnings(self):
        for path in glob.glob(os.path.join(MAN, "*")):
            result = run("groff", "-mandoc", "-Tutf8", "-ww", "-z", path)
            self.assertEqual((result.returncode, result.stderr), (0, ""), path)
