# SPDX-License-Identifier: MIT
"""usage: python3 events.py ROOT. docs/reference/logs.md has one row for each event that the sources log, with its level."""

import pathlib
import re
import sys

FOLDERS = ("base", "expansion", "migrate", "service", "shard")
# log_info("event", ...); base/log.c itself: log_write(site, LOG_LEVEL_WARN, "event", ...)
CALL = re.compile(r'\blog_(?:(debug|info|warn|error)\(|write\([^,;]+, LOG_LEVEL_([A-Z]+),)\s*"(\w+)"')
ROW = re.compile(r"(?m)^\| `(\w+)` \| (debug|info|warn|error) \| ([^|]+) \| (nothing|look|act)\b[^|]* \|$")


def uncoded(root):
    """Lines with the text of a struct error that lack its code."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.c")):
            text = path.read_text(encoding="utf-8")
            for found in CALL.finditer(text):
                call = text[found.start() : text.index(";", found.end())]
                if "error=%s" in call and re.search(r"\.text\)|->text\)", call) and "code=%s" not in call:
                    yield "%s logs %s with error= and without code=" % (path.relative_to(root), found.group(3))


def logged(root):
    """Of each event the levels at which it is logged, with the first file that does so."""
    events = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.[ch]")):
            for found in CALL.finditer(path.read_text(encoding="utf-8")):
                level = found.group(1) or found.group(2).lower()
                events.setdefault(found.group(3), {}).setdefault(level, path.relative_to(root))
    return events


def faults_of(events, rows):
    for event, levels in sorted(events.items()):
        if event not in rows:
            yield "%s logs %s, which the page lacks" % (next(iter(levels.values())), event)
        for level, path in levels.items():
            if level not in rows.get(event, [level]):
                yield "%s logs %s at level %s, the page says %s" % (path, event, level, rows[event][0])
    for event, levels in sorted(rows.items()):
        if event not in events:
            yield "the page has %s, which nothing logs" % event
        if len(levels) > 1:
            yield "the page has %s %d times" % (event, len(levels))


def main():
    root = pathlib.Path(sys.argv[1])
    events = logged(root)
    rows = {}
    for event, level, _, _ in ROW.findall((root / "docs/reference/logs.md").read_text(encoding="utf-8")):
        rows.setdefault(event, []).append(level)
    faults = list(faults_of(events, rows)) + list(uncoded(root))
    for fault in faults:
        print(fault)
    print("%d events, %d faults" % (len(events), len(faults)))
    sys.exit(1 if faults or not events else 0)


main()
