"""The pictures of the algorithms are those that tools/pictures draws.

After an intended change: tools/pictures build/release/sluice draws them again; review their diff.
"""

import os
import re
import xml.etree.ElementTree

from harness import BINARY, ROOT, SystemTest, output_of, read_text

ALGORITHMS = os.path.join(ROOT, "src", "algorithms")


class Pictures(SystemTest):
    def test_they_are_what_the_program_decides(self):
        folder = self.temporary_folder()
        output_of(os.path.join(ROOT, "tools", "pictures"), BINARY, folder)
        drawn = sorted(os.listdir(folder))
        self.assertEqual(drawn, sorted(name for name in os.listdir(ALGORITHMS)
                                       if os.path.isdir(os.path.join(ALGORITHMS, name))))
        for name in drawn:
            with self.subTest(name):
                own = os.path.join(ALGORITHMS, name)
                self.assertEqual(read_text(os.path.join(folder, name, "burst.svg")),
                                 read_text(os.path.join(own, "burst.svg")))
                self.assertIn("](burst.svg)", read_text(os.path.join(own, "README.md")))

    def test_each_has_a_name_and_dots_for_its_requests(self):
        for name in os.listdir(ALGORITHMS):
            path = os.path.join(ALGORITHMS, name, "burst.svg")
            if not os.path.isdir(os.path.dirname(path)):
                continue
            with self.subTest(name):
                text = read_text(path)
                title = xml.etree.ElementTree.parse(path).getroot()[0].text
                admitted, requests = map(int, re.search(r"(\d+) of (\d+) requests", title).groups())
                self.assertEqual(text.count('<circle class="admitted"'), admitted)
                self.assertEqual(text.count('<path class="denied"'), requests - admitted)
                self.assertIn("prefers-color-scheme: dark", text)
