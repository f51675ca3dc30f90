# SPDX-License-Identifier: MIT
"""usage: python3 events.py ROOT. docs/reference/logs.md has a row for every event that the sources log, and for no others."""

import pathlib
import re
import sys

FOLDERS = ("base", "expansion", "migrate", "service", "shard")
# log_info("event", ...), log_at(level, "event", ...), log_write(site, level, "event", ...)
CALL = re.compile(r'\blog_(?:(?:debug|info|warn|error)\(|at\([^,;]+,|write\([^,;]+,[^,;]+,)\s*"(\w+)"')


def logged(root):
    """The first place of each event."""
    events = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.[ch]")):
            for found in CALL.finditer(path.read_text(encoding="utf-8")):
                events.setdefault(found.group(1), path.relative_to(root))
    return events


def listed(page):
    """What the first column of the table has, and the second, where some events stand beside the one that they go with."""
    rows = re.findall(r"(?m)^\| (`.*?) \| (.*) \|$", page)
    first = {name for row, _ in rows for name in re.findall(r"`(\w+)`", row)}
    second = {name for _, what in rows for name in re.findall(r"`(\w+)`", what)}
    return first, second


def main():
    root = pathlib.Path(sys.argv[1])
    events = logged(root)
    first, second = listed((root / "docs/reference/logs.md").read_text(encoding="utf-8"))
    faults = ["%s logs %s, which the page lacks" % (events[e], e) for e in sorted(set(events) - first - second)]
    faults += ["the page has %s, which nothing logs" % e for e in sorted(first - set(events))]
    for fault in faults:
        print("docs/reference/logs.md: " + fault)
    print("%d events, %d faults" % (len(events), len(faults)))
    sys.exit(1 if faults or not events else 0)


main()
