# SPDX-License-Identifier: MIT
"""usage: python3 render.py <LINES >session.svg. A terminal session as SVG: lines that begin with "$ " are what was typed."""

import sys
from xml.sax.saxutils import escape

WIDTH = 108  # columns; longer lines are cut
ADVANCE, LINE = 8.4, 19  # of a column and a line, in pixels
MARGIN = 18

STYLE = """
  .screen { fill: #14181f; }
  text { font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #d6dbe3; white-space: pre; }
  .typed { fill: #ffffff; font-weight: 600; }
  .prompt { fill: #6fbf73; }
"""


def cut(line):
    line = line.expandtabs(8)
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def draw(lines):
    width = MARGIN * 2 + int(WIDTH * ADVANCE)
    height = MARGIN * 2 + LINE * len(lines)
    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" '
        'aria-label="A terminal session: status, check, rebuild and history of a filter">' % (width, height, width, height),
        "<style>%s</style>" % STYLE,
        '<rect class="screen" width="100%%" height="100%%" rx="8"/>' % (),
    ]
    for number, line in enumerate(lines):
        y = MARGIN + LINE * number + 14
        if line.startswith("$ "):
            text = '<tspan class="prompt">$</tspan><tspan class="typed"> %s</tspan>' % escape(cut(line)[2:])
        else:
            text = escape(cut(line))
        out.append('<text x="%d" y="%d" xml:space="preserve">%s</text>' % (MARGIN, y, text))
    out.append("</svg>")
    return "\n".join(out)


def main():
    lines = [line.rstrip("\n").replace("; true", "") for line in sys.stdin]
    if lines and "blocks ran" in lines[-1]:
        lines.pop()
    spaced = []
    for line in lines:
        if line.startswith("$ ") and spaced:
            spaced.append("")
        spaced.append(line)
    print(draw(spaced))


main()
