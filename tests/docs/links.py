"""The links of a tree of Markdown pages."""

import os
import re

from harness import read_text

UNREAD_FOLDERS = {".git", "build", "node_modules"}
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`[^`\n]+`")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def pages_of(root):
    """The paths of all pages below `root`."""
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(set(subfolders) - UNREAD_FOLDERS)
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(".md"))


def anchors_of(page):
    """The anchors of a page's headings, as web sites that render Markdown name them."""
    for heading in HEADING.findall(FENCE.sub("", page)):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def dangling_links(root):
    """"page: link" for each relative link of the pages below `root` that leads to no file, to no
    heading of a page, or out of `root`."""
    root = os.path.realpath(root)
    for path in pages_of(root):
        for link in LINK.findall(SPAN.sub("", FENCE.sub("", read_text(path)))):
            if re.match(r"\w+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            inside = target == root or target.startswith(root + os.sep)
            found = inside and os.path.exists(target)
            if found and anchor:
                found = anchor in anchors_of(read_text(target))
            if not found:
                yield f"{os.path.relpath(path, root)}: {link}"
