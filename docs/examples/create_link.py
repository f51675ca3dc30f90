#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""usage: create_link.py [--length N] URL...
       create_link.py [--length N] -        (URLs, one a line, from standard input)

Creates short links: prints a code and its URL for each. A code of N letters (7) is random.

  TWINBLOOM_URL   where Twinbloom listens, redis://[user:password@]host:port
  DATABASE_URL    the database with the table short_link, postgresql://...

Exit status 75: Twinbloom did not take the code in time. That link was not created; try again.
Needs redis-py and psycopg2 (Debian: python3-redis, python3-psycopg2).
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
PATIENCE = 5.0  # seconds for an add to be acknowledged
TRY_LATER = 75  # EX_TEMPFAIL


class TwinbloomAway(Exception):
    """The add was not acknowledged, so the row must not be committed."""


def maybe_taken(bloom, code):
    """False: certainly not. Without an answer nobody knows, and the database is asked."""
    try:
        return bloom.execute_command("BF.EXISTS", FILTER, code) != 0
    except redis.RedisError:
        return True


def is_taken(db, code):
    with db, db.cursor() as cursor:
        cursor.execute("SELECT 1 FROM short_link WHERE code = %s", (code,))
        return cursor.fetchone() is not None


def add(bloom, code):
    """Until it is acknowledged. An add that was not may have happened all the same; one more does no harm."""
    until = time.monotonic() + PATIENCE
    pause = 0.05
    while True:
        try:
            bloom.execute_command("BF.ADD", FILTER, code)
            return
        except redis.RedisError as e:
            if time.monotonic() + pause > until:
                raise TwinbloomAway(str(e)) from e
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


def heal(bloom, code):
    """A code has a row. If the filter denies it, its writer did not add it: do so."""
    if not maybe_taken(bloom, code):
        add(bloom, code)


def create(db, bloom, url, length):
    for _ in range(ATTEMPTS):
        code = "".join(secrets.choice(LETTERS) for _ in range(length))
        if maybe_taken(bloom, code) and is_taken(db, code):
            continue
        if insert(db, bloom, code, url):
            return code
        heal(bloom, code)
    raise SystemExit("create_link: %d codes of %d letters were taken; take longer ones" % (ATTEMPTS, length))


def main(arguments):
    length = 7
    if arguments[:1] == ["--length"] and len(arguments) > 1 and arguments[1].isdigit():
        length = int(arguments[1])
        arguments = arguments[2:]
    if not arguments or length < 1:
        raise SystemExit(__doc__)
    urls = (line.strip() for line in sys.stdin) if arguments == ["-"] else arguments
    bloom = redis.Redis.from_url(os.environ["TWINBLOOM_URL"], socket_timeout=2, socket_connect_timeout=2)
    db = psycopg2.connect(os.environ["DATABASE_URL"])
    try:
        for url in urls:
            print("%s\t%s" % (create(db, bloom, url, length), url), flush=True)
    except TwinbloomAway as e:
        print("create_link: Twinbloom did not take the code: %s" % e, file=sys.stderr)
        return TRY_LATER
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
