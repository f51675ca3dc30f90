# SPDX-License-Identifier: MIT
"""usage: python3 redis_py.py. The redis-py that is installed, through r.bf(); what checks.js asks of others."""

import os
import sys
import threading
import time
import traceback

try:
    import redis
except ImportError:
    print("# the module redis is not installed (Debian: python3-redis)")
    sys.exit(77)

HOST = os.environ.get("TWINBLOOM_HOST", "127.0.0.1")
PORT = int(os.environ["TWINBLOOM_PORT"])
GUARDED_PORT = int(os.environ["TWINBLOOM_GUARDED_PORT"])
USER = os.environ.get("TWINBLOOM_USER", "default")
PASSWORD = os.environ["TWINBLOOM_PASSWORD"]
CA = os.environ.get("TWINBLOOM_CA")


def connect(port=PORT, **options):
    if CA:
        options.update(ssl=True, ssl_ca_certs=CA)
    return redis.Redis(host=HOST, port=port, socket_timeout=20, **options)


def refuses(call, text):
    try:
        call()
    except redis.RedisError as e:
        assert text in str(e), str(e)
    else:
        raise AssertionError("went through: wanted " + text)


def bf_through_its_own_interface(r, f):
    bf = r.bf()
    assert bf.create(f, 0.001, 5000)
    refuses(lambda: bf.create(f, 0.001, 5000), "item exists")
    assert bf.add(f, "a") == 1
    assert bf.add(f, "a") == 0
    assert bf.exists(f, "a") == 1
    assert bf.exists(f, "b") == 0
    assert bf.madd(f, "a", b"\x00\xff", "") == [0, 1, 1]
    assert bf.mexists(f, "a", b"\x00\xff", "", "none") == [1, 1, 1, 0]
    assert bf.insert(f + ":2", ["x", "y"], capacity=700) == [1, 1]
    info = bf.info(f)
    seen = (info.capacity, info.filterNum, info.insertedNum, info.expansionRate)
    assert seen == (5000, 1, 3, 2), vars(info)
    assert info.size > 5000
    assert bf.info(f + ":2").capacity == 700
    refuses(lambda: bf.info(f + ":none"), "not found")


def a_pipeline_without_a_transaction(r, f):
    with r.pipeline(transaction=False) as p:
        for i in range(1000):
            p.execute_command("BF.ADD", f, "k%d" % i)
            p.echo("k%d" % i)
        replies = p.execute()
    assert [e.decode() for e in replies[1::2]] == ["k%d" % i for i in range(1000)]
    assert all(r.bf().mexists(f, *["k%d" % i for i in range(1000)]))


def a_pipeline_that_is_a_transaction(r, f):
    with r.pipeline() as p:
        for _ in range(2):
            p.execute_command("BF.ADD", f, "a")
        p.execute_command("BF.EXISTS", f, "a")
        assert p.execute() == [1, 0, 1]
    with r.pipeline() as p:
        p.execute_command("BF.ADD", f, "not-added")
        p.execute_command("BF.ADD", f)
        refuses(p.execute, "wrong number of arguments")
    assert r.bf().exists(f, "not-added") == 0


def a_watch_that_is_refused(r, f):
    with r.pipeline() as p:
        refuses(lambda: p.watch(f), "WATCH is not offered")
    assert r.ping()


def its_own_line_in_client_list(r, _):
    r.client_setname("checked")
    mine = [c for c in r.client_list() if c["id"] == str(r.client_id())]
    assert len(mine) == 1 and mine[0]["name"] == "checked", mine
    assert r.client_getname() == "checked"
    assert r.info("server")["redis_mode"] == "standalone"
    assert r.command_count() > 20
    assert r.config_get("save") == {"save": ""}


def a_hundred_connections_at_once(r, f):
    added = []
    r.bf().create(f, 0.000001, 1000)  # or a new key would now and then be taken for an old one

    def add(i):
        with connect() as one:
            added.append(one.bf().add(f, "of-%d" % i))

    threads = [threading.Thread(target=add, args=(i,)) for i in range(100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert added == [1] * 100, added
    assert all(r.bf().mexists(f, *["of-%d" % i for i in range(100)]))


def the_password_that_is_right_and_no_other(_, f):
    refuses(lambda: connect(GUARDED_PORT, username=USER, password="wrong").ping(), "invalid username-password pair")
    refuses(lambda: connect(GUARDED_PORT).bf().add(f, "x"), "Authentication required")
    assert connect(GUARDED_PORT, username=USER, password=PASSWORD).bf().add(f, "x") == 1
    assert connect(GUARDED_PORT, password=PASSWORD).bf().exists(f, "x") == 1


def a_coordinator_that_starts_again(r, f):
    r.bf().add(f, "kept")
    before = r.info("server")["process_id"]
    print("restart", flush=True)
    until = time.monotonic() + 25
    while True:
        try:
            if r.info("server")["process_id"] != before:
                break
        except redis.RedisError:
            assert time.monotonic() < until, "it did not come back"
        time.sleep(0.05)
    assert r.bf().exists(f, "kept") == 1
    assert r.bf().add(f, "after") == 1


CHECKS = (
    bf_through_its_own_interface,
    a_pipeline_without_a_transaction,
    a_pipeline_that_is_a_transaction,
    a_watch_that_is_refused,
    its_own_line_in_client_list,
    a_hundred_connections_at_once,
    the_password_that_is_right_and_no_other,
    a_coordinator_that_starts_again,
)


def main():
    failed = 0
    r = connect(single_connection_client=True)
    for number, check in enumerate(CHECKS, 1):
        name = "%d - redis-py %s: %s" % (number, redis.__version__, check.__name__.replace("_", " "))
        try:
            check(r, "py:%d" % number)
            print("ok " + name, flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print("not ok " + name)
            print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), flush=True)
    print("1..%d" % len(CHECKS))
    sys.exit(1 if failed else 0)


main()
