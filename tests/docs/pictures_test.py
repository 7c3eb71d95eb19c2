"""The pictures of the algorithms are those that tools/pictures draws.

After an intended change: tools/pictures build/release/sluice draws them again; review their diff.
"""

import os
import re
import shutil
import tempfile
import unittest
import xml.etree.ElementTree

from harness import BINARY, ROOT, run
from tests.docs.links import read

ALGORITHMS = os.path.join(ROOT, "src", "algorithms")


class Pictures(unittest.TestCase):
    def test_they_are_what_the_program_decides(self):
        folder = tempfile.mkdtemp(prefix="sluice-pictures-")
        self.addCleanup(shutil.rmtree, folder)
        result = run(os.path.join(ROOT, "tools", "pictures"), BINARY, folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        drawn = sorted(os.listdir(folder))
        self.assertEqual(drawn, sorted(name for name in os.listdir(ALGORITHMS)
                                       if os.path.isdir(os.path.join(ALGORITHMS, name))))
        for name in drawn:
            with self.subTest(name):
                self.assertEqual(read(os.path.join(folder, name, "burst.svg")),
                                 read(os.path.join(ALGORITHMS, name, "burst.svg")))
                self.assertIn("](burst.svg)", read(os.path.join(ALGORITHMS, name, "README.md")))

    def test_each_has_a_name_and_dots_for_its_requests(self):
        for name in os.listdir(ALGORITHMS):
            path = os.path.join(ALGORITHMS, name, "burst.svg")
            if not os.path.isdir(os.path.dirname(path)):
                continue
            with self.subTest(name):
                text = read(path)
                title = xml.etree.ElementTree.parse(path).getroot()[0].text
                admitted, requests = map(int, re.search(r"(\d+) of (\d+) requests", title).groups())
                self.assertEqual(text.count('<circle class="admitted"'), admitted)
                self.assertEqual(text.count('<path class="denied"'), requests - admitted)
                self.assertIn("prefers-color-scheme: dark", text)
