# SPDX-License-Identifier: MIT
"""usage: python3 blocks.py [--long] [--replace OLD=NEW]... PAGE...

Runs the fenced blocks of Markdown pages in one shell a page, from the first to the last, and compares what is printed.

  ```sh        is run as it stands; it must end with status 0
  ```console   "$ " begins a command, "> " continues it; what follows is what it prints

In what is printed "..." stands for anything, in a line of its own for any lines. Blanks count as one, and those at the ends of
lines not at all. A comment before the block says what else there is to know, several with commas:

  <!-- docs-test: numbers -->    every number stands for any number, but for a 0 or a 1 alone on its line
  <!-- docs-test: until -->      the block is repeated until it prints this, for a minute
  <!-- docs-test: status 1 -->   its last command ends with this status
  <!-- docs-test: long -->       only with --long
  <!-- docs-test: skip -->       never: why should be said beside it

Other blocks are not run. With --replace OLD is NEW in commands."""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

DEADLINE = 120  # seconds of one command
LONG_DEADLINE = 1800
UNTIL = 60


class Block:
    def __init__(self, page, line, kind, options):
        self.where = "%s:%d" % (page, line)
        self.kind = kind
        self.options = options
        self.text = []

    def option(self, name):
        for option in self.options:
            if option.split()[0] == name:
                return option.split()[1:] or [""]
        return None

    def steps(self):
        """Pairs of a command and the lines that it prints; None: they are not compared."""
        if self.kind == "sh":
            return [("\n".join(self.text), None)]
        steps = []
        for line in self.text:
            if line.startswith("$ "):
                steps.append((line[2:], []))
            elif line.startswith("> ") and steps and not steps[-1][1]:
                steps[-1] = (steps[-1][0] + "\n" + line[2:], [])
            elif steps:
                steps[-1][1].append(line)
            else:
                raise SystemExit("%s: a console block begins with '$ '" % self.where)
        return steps


def blocks_of(page):
    blocks, options, block = [], [], None
    with open(page, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip("\n")
            if block is not None:
                if line.strip() == "```":
                    if block.kind in ("sh", "console"):
                        blocks.append(block)
                    block = None
                else:
                    block.text.append(line)
                continue
            comment = re.match(r"<!-- docs-test: (.*) -->$", line)
            fence = re.match(r"```(\w*)$", line)
            if comment:
                options = [o.strip() for o in comment.group(1).split(",")]
            elif fence:
                block = Block(page, number, fence.group(1), options)
                options = []
    return blocks


class Shell:
    """One bash for a page, so that variables and directories last. Each command is sourced from a file."""

    def __init__(self, scratch):
        self.script = os.path.join(scratch, "command")
        self.mark = "--- ended %d: " % os.getpid()
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", bufsize=1, start_new_session=True)

    def run(self, command, deadline):
        """What it printed, and its status. A command past its deadline ends the run."""
        with open(self.script, "w", encoding="utf-8") as f:
            f.write(command + "\n")
        self.process.stdin.write(". '%s' 2>&1 </dev/null; printf '\\n%s%%d\\n' $?\n" % (self.script, self.mark))
        self.process.stdin.flush()
        watchdog = threading.Timer(deadline, self.end)
        watchdog.start()
        lines = []
        try:
            for line in self.process.stdout:
                line = line.rstrip("\n")
                if line.startswith(self.mark):
                    return lines[:-1] if lines and lines[-1] == "" else lines, int(line[len(self.mark):])
                lines.append(line)
            raise SystemExit("'%s' did not end in %d s, or ended the shell:\n%s" % (command, deadline, "\n".join(lines[-20:])))
        finally:
            watchdog.cancel()

    def end(self):
        """The shell, and what it left running."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def close(self):
        self.end()
        self.process.wait()


def squeeze(line):
    return re.sub(r"\s+", " ", line).strip()


NUMBER = r"\d[\d.,]*(?:e[-+]\d+)?"


def pattern_of(line, numbers):
    text = ""
    numbers = numbers and line.strip() not in ("0", "1")  # a filter's answer is none of any number
    for part in re.split(r"( \.\.\. |\.\.\.|%s)" % NUMBER, squeeze(line)):
        if part == " ... ":
            text += " (?:.* )?"
        elif part == "...":
            text += ".*"
        elif numbers and re.match(NUMBER + "$", part):
            text += NUMBER
        else:
            text += re.escape(part)
    return re.compile(text + "$")


def matches(expected, printed, numbers):
    """Whether the lines are as expected."""
    if not expected:
        return not printed
    if expected[0].strip() == "...":
        return any(matches(expected[1:], printed[i:], numbers) for i in range(len(printed) + 1))
    if not printed or not pattern_of(expected[0], numbers).match(squeeze(printed[0])):
        return False
    return matches(expected[1:], printed[1:], numbers)


def without_blank(lines):
    return [line for line in lines if line.strip()]


class Failure(Exception):
    pass


def run_once(block, shell, replace):
    numbers = block.option("numbers") is not None
    deadline = LONG_DEADLINE if block.option("long") else DEADLINE
    steps = block.steps()
    for i, (command, expected) in enumerate(steps):
        for old, new in replace:
            command = command.replace(old, new)
        printed, status = shell.run(command, deadline)
        last = i == len(steps) - 1
        wanted = int(block.option("status")[0]) if last and block.option("status") else 0
        if status != wanted:
            raise Failure("%s: '%s' ended with status %d, not %d:\n%s" % (
                block.where, command, status, wanted, "\n".join(printed[-20:])))
        if expected is not None and not matches(without_blank(expected), without_blank(printed), numbers):
            raise Failure("%s: '%s' printed\n%s\n-- instead of\n%s" % (
                block.where, command, "\n".join(printed), "\n".join(expected)))


def run_block(block, shell, replace):
    until = time.monotonic() + (UNTIL if block.option("until") is not None else 0)
    while True:
        try:
            return run_once(block, shell, replace)
        except Failure:
            if time.monotonic() > until:
                raise
        time.sleep(0.3)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--replace", action="append", default=[])
    parser.add_argument("pages", nargs="+")
    given = parser.parse_args()
    replace = [r.partition("=")[::2] for r in given.replace]
    for page in given.pages:
        count = skipped = 0
        with tempfile.TemporaryDirectory() as scratch:
            shell = Shell(scratch)
            try:
                for block in blocks_of(page):
                    if block.option("skip") is not None or (block.option("long") is not None and not given.long):
                        skipped += 1
                        continue
                    run_block(block, shell, replace)
                    count += 1
            except Failure as e:
                print(e)
                sys.exit(1)
            finally:
                shell.close()
        print("%s: %d blocks ran, %d did not" % (page, count, skipped))
        if count == 0:
            sys.exit("%s: there is nothing to run" % page)


main()
