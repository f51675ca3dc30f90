#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""usage: short_links.py create [--length N] URL...     prints a new code and its URL, for each URL
       short_links.py find CODE...                  prints the code and its URL, or 404

  TWINBLOOM_URL   where Twinbloom listens, redis://[user:password@]host:port
  DATABASE_URL    the database with the table short_link, postgresql://...

A code is random and has N letters (7). Exit status 75: Twinbloom did not acknowledge the add in time. That link was
not created; try again later. Needs redis-py and psycopg2 (Debian: python3-redis, python3-psycopg2).
"""

import os
import secrets
import string
import sys
import time

import psycopg2
import psycopg2.errors
import redis

FILTER = "short-link"
LETTERS = string.ascii_letters + string.digits
ATTEMPTS = 100  # codes that are tried for one URL
PATIENCE = 5.0  # seconds in which an add must be acknowledged
ANSWER = 2.0  # seconds for one answer; a web server would wait for less
TRY_LATER = 75  # EX_TEMPFAIL


class NotAcknowledged(Exception):
    """Twinbloom did not acknowledge the add, so the row must not be committed."""


def maybe_present(bloom, code):
    """False: certainly absent. True: maybe present, or Twinbloom gave no answer, so the table must be asked."""
    try:
        return bloom.execute_command("BF.EXISTS", FILTER, code) != 0
    except redis.RedisError:
        return True


def look_up(db, code):
    """The URL of the code, from the table; None if there is no such row."""
    with db, db.cursor() as cursor:
        cursor.execute("SELECT url FROM short_link WHERE code = %s", (code,))
        row = cursor.fetchone()
        return row[0] if row else None


def find(db, bloom, code):
    """The URL, or None for 404. Only codes that may be present cost a query."""
    # "Absent" may be trusted because every writer adds inside its transaction, as create() does. If a follower adds
    # the rows instead (follow = yes), a new row is absent until the follower has it: README.md says what to do then.
    return look_up(db, code) if maybe_present(bloom, code) else None


def add(bloom, code):
    """Add until Twinbloom acknowledges it. An unacknowledged add may have happened; adding again does no harm."""
    until = time.monotonic() + PATIENCE
    pause = 0.05
    while True:
        try:
            bloom.execute_command("BF.ADD", FILTER, code)
            return
        except redis.RedisError as e:
            if time.monotonic() + pause > until:
                raise NotAcknowledged(str(e)) from e
        time.sleep(pause)
        pause = min(2 * pause, 1.0)


def insert(db, bloom, code, url):
    """One transaction, with the add inside. False: the code is taken."""
    try:
        with db, db.cursor() as cursor:  # commits at its end, rolls back after an exception
            cursor.execute("INSERT INTO short_link (code, url) VALUES (%s, %s)", (code, url))
            add(bloom, code)
        return True
    except psycopg2.errors.UniqueViolation:
        return False


def create(db, bloom, url, length):
    for _ in range(ATTEMPTS):
        code = "".join(secrets.choice(LETTERS) for _ in range(length))
        if maybe_present(bloom, code) and look_up(db, code) is not None:
            continue
        if insert(db, bloom, code, url):
            return code
        if not maybe_present(bloom, code):  # the code has a row, but its writer did not add it
            add(bloom, code)
    raise SystemExit("short_links: %d codes of %d letters were taken; use longer codes" % (ATTEMPTS, length))


def main(arguments):
    command, arguments, length = arguments[:1], arguments[1:], 7
    if command == ["create"] and arguments[:1] == ["--length"] and "".join(arguments[1:2]).isdigit():
        length = int(arguments[1])
        arguments = arguments[2:]
    if command not in (["create"], ["find"]) or not arguments or length < 1:
        print(__doc__, file=sys.stderr)
        return 2
    bloom = redis.Redis.from_url(os.environ["TWINBLOOM_URL"], socket_timeout=ANSWER, socket_connect_timeout=ANSWER)
    db = psycopg2.connect(os.environ["DATABASE_URL"])
    try:
        for argument in arguments:
            if command == ["create"]:
                print("%s\t%s" % (create(db, bloom, argument, length), argument), flush=True)
            else:
                print("%s\t%s" % (argument, find(db, bloom, argument) or 404), flush=True)
    except NotAcknowledged as e:
        print("short_links: Twinbloom did not acknowledge the add: %s" % e, file=sys.stderr)
        return TRY_LATER
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
