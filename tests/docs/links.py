# SPDX-License-Identifier: MIT
"""usage: python3 links.py ROOT. Every relative link in a Markdown file of the tree leads to a file that is there, and
to a heading of it where it names one."""

import os
import re
import sys

FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^()\s<>]+(?:\([^()\s]*\))?)>?(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$")


def files_of(root):
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if f not in ("build", ".git", "node_modules")]
        found += [os.path.relpath(os.path.join(folder, n), root) for n in names if n.endswith(".md")]
    return sorted(found)


def lines_outside_code(path):
    """Number and text of each line that is prose: neither fenced nor indented as code."""
    fence = None
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            mark = FENCE.match(line)
            if mark and fence is None:
                fence = mark.group(1)[:3]
            elif mark and line.strip().startswith(fence):
                fence = None
            elif fence is None and not line.startswith("    "):
                yield number, line


def anchor_of(heading):
    """As code hosting sites make it: lower case, blanks to hyphens, without marks."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    text = re.sub(r"[^\w\- ]", "", text.lower())
    return text.replace(" ", "-")


def anchors_of(path):
    seen, anchors = {}, set()
    for _, line in lines_outside_code(path):
        anchors.update(re.findall(r'<a (?:id|name)="([^"]+)"', line))
        heading = HEADING.match(line)
        if heading:
            name = anchor_of(heading.group(1))
            count = seen.get(name, 0)
            seen[name] = count + 1
            anchors.add(name if count == 0 else "%s-%d" % (name, count))
    return anchors


def fault_of(root, page, target):
    """What is wrong with a link on a page; None: nothing."""
    path, _, anchor = target.partition("#")
    file = os.path.normpath(os.path.join(root, os.path.dirname(page), path)) if path else os.path.join(root, page)
    if not os.path.exists(file):
        return "there is no such file"
    if os.path.relpath(file, root).startswith(".."):
        return "leads out of the tree"
    if anchor and file.endswith(".md") and anchor not in anchors_of(file):
        return "there is no such heading"
    return None


def main():
    root = os.path.abspath(sys.argv[1])
    checked = failed = 0
    for page in files_of(root):
        for number, line in lines_outside_code(os.path.join(root, page)):
            for target in LINK.findall(re.sub(r"`[^`]*`", "``", line)):
                if re.match(r"[a-z][a-z0-9+.-]*:", target):
                    continue
                checked += 1
                fault = fault_of(root, page, target)
                if fault:
                    failed += 1
                    print("%s:%d: %s: %s" % (page, number, target, fault))
    print("%d relative links, %d lead nowhere" % (checked, failed))
    sys.exit(1 if failed or not checked else 0)


main()
