"""Pages in Chromium: those that `sluice replay --html` and `sluice advise --html` write, and the
playground."""

import json
import os
import re

from harness import SystemTest, npm_install, output_of, read_text

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pages")
DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)
# Keys that would do harm as markup, as a formula, or unseen.
HOSTILE = ["</script><script>window.harmed=1</script>", "<img src=x onerror=window.harmed=1>",
           "=1+1", "<!--", "a\u202eb", "${7*7}", "'\"&amp;"]


def data_of(page):
    return json.loads(DATA.search(read_text(page))[1])


class PageTest(SystemTest):
    def expect_in_chromium(self, name, address, *arguments):
        """pages/NAME.mjs, which looks at a page in Chromium, finds nothing wrong. The address is a
        URL or a path."""
        npm_install()
        output_of("node", os.path.join(FOLDER, name + ".mjs"),
                  "file://" + address if address.startswith("/") else address, *arguments,
                  timeout_s=120)
