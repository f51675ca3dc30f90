/* SPDX-License-Identifier: MIT */
/* Another Postgres at every step: coordinator A drives an expansion, and when it comes to its n-th request,
 * for n = 1, 2, 3 and so on, `dsn` leads to another server, for good or for a moment, or the table is another
 * one. Then the filter must come to rest with every key that was acknowledged and whose row is there, and
 * with every row that was there before the cutover. */
#include "tests/fault/pair.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/fault/journal.h"

enum {
    ADDED = 4,      /* keys that a coordinator is given at each turn */
    LOST_MOST = 60, /* transactions that the other server lacks */
    PLAIN = 5,      /* rows that nobody adds */
    REST_MS = 60000,
    BACK_MOST = 40, /* requests until `dsn` leads back */
    BACK_MS = 500,
    LATE_MOST_US = 200000,
    WAIT_MS = 20000
};

/* What `dsn` leads to. */
enum server {
    PROMOTED,  /* a standby that lacks the last transactions, and was promoted */
    CLONE,     /* a copy of the storage, which lacks them, too */
    FOREIGN,   /* another installation, with a table of that name */
    RECREATED, /* the same; the table was made again, with the same rows */
    LOW_IDS,   /* the same; ids begin again */
    SERVERS
};

static const char *const server_names[SERVERS] = {[PROMOTED] = "a promoted standby",
                                                  [CLONE] = "a clone",
                                                  [FOREIGN] = "another database",
                                                  [RECREATED] = "a table that was made again",
                                                  [LOW_IDS] = "a table whose ids begin again"};

static struct turn {
    uint64_t n;
    enum proxy_moment moment;
    bool late; /* the request is executed some milliseconds later */
    enum server server;
    bool stays; /* connections that are there lead to the server before */
    bool back;  /* it leads back */
    uint64_t second, late_us;
    unsigned lost;
} turn;

struct primaries {
    struct pair pair;
    struct temp_postgres other;
    PGconn *db; /* of the other one */
    unsigned follow;
};

/* How rows get into the filter that nobody adds. */
static const struct {
    const char *name, *lines;
} follows[] = {{"no", "follow = no\n"},
               {"ids", "follow = yes\n"},
               {"outbox", "follow_by = outbox\noutbox = link_outbox\nfollow = yes\n"},
               {"logical", "follow_by = logical\npublication = links\nfollow = yes\n"}};
enum { OUTBOX = 2, FOLLOWS = sizeof(follows) / sizeof(follows[0]) };

static enum err failed(struct error *e, PGconn *db, const char *what)
{
    return error_set(e, ERR_IO, "%s: %.300s", what, PQerrorMessage(db));
}

static bool sql(PGconn *db, const char *text)
{
    PGresult *r = PQexec(db, text);
    ExecStatusType s = PQresultStatus(r);
    PQclear(r);
    return s == PGRES_COMMAND_OK || s == PGRES_TUPLES_OK;
}

static bool is_there(PGconn *db, const char *text)
{
    PGresult *r = PQexec(db, text);
    bool there = PQntuples(r) > 0;
    PQclear(r);
    return there;
}

/* --- keys --- */

/* Rows that nobody adds, each in a transaction of its own. Returns the first number; they are in order. */
static uint64_t insert(struct primaries *p, PGconn *db, unsigned count)
{
    uint64_t first = ledger_end(p->pair.ledger);
    char text[128], key[CLIENT_KEY_MAX];
    for (unsigned i = 0; i < count; i++) {
        (void)ledger_key(ledger_take(p->pair.ledger), key);
        (void)snprintf(text, sizeof(text), "INSERT INTO " WORLD_TABLE " (code) VALUES ('%s')", key);
        (void)sql(db, text);
    }
    return first;
}

static void promise(struct primaries *p, uint64_t first, unsigned count)
{
    for (uint64_t n = first; n < first + count; n++)
        ledger_acknowledge(p->pair.ledger, n, B, LEDGER_COMMIT_THEN_ADD);
}

/* What has no row is promised no more. */
static enum err withdraw_lost(struct primaries *p, struct error *e)
{
    PGresult *r = PQexec(p->pair.world.db, "SELECT substr(code, 2) FROM " WORLD_TABLE);
    uint64_t first = ledger_first(p->pair.ledger), end = ledger_end(p->pair.ledger);
    bool *has = calloc(end - first + 1, sizeof(*has));
    enum err code = PQresultStatus(r) == PGRES_TUPLES_OK ? ERR_OK : failed(e, p->pair.world.db, "rows");
    for (int i = 0; i < PQntuples(r); i++) {
        uint64_t n = strtoull(PQgetvalue(r, i, 0), NULL, 10);
        if (n >= first && n < end)
            has[n - first] = true;
    }
    for (uint64_t n = first; n < end && code == ERR_OK; n++)
        if (!has[n - first])
            ledger_withdraw(p->pair.ledger, n);
    free(has);
    PQclear(r);
    return code;
}

static enum err check_both(struct primaries *p, struct error *e)
{
    enum err err = withdraw_lost(p, e);
    for (unsigned i = 0; err == ERR_OK && i < 2; i++)
        err = pair_check(&p->pair, i, e);
    return err;
}

/* --- the other server --- */

static enum err connect_other(struct primaries *p, struct error *e)
{
    p->db = PQconnectdb(p->other.dsn);
    (void)PQsetNoticeProcessor(p->db, world_ignore_notice, NULL);
    return PQstatus(p->db) == CONNECTION_OK ? ERR_OK : failed(e, p->db, "the other server");
}

static void end_other(struct primaries *p)
{
    PQfinish(p->db);
    p->db = NULL;
    temp_postgres_fini(&p->other);
    p->other = (struct temp_postgres){0};
}

/* It gets nothing more from the primary. */
static enum err cut_off(struct primaries *p, struct error *e)
{
    uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;
    bool ok = sql(p->db, "ALTER SYSTEM SET primary_conninfo = ''") && sql(p->db, "SELECT pg_reload_conf()");
    while (ok && is_there(p->db, "SELECT FROM pg_stat_wal_receiver") && clock_mono_us() < until)
        clock_sleep_us(5000);
    return ok ? ERR_OK : failed(e, p->db, "the standby");
}

static enum err make_foreign(struct primaries *p, struct error *e)
{
    enum err err = temp_postgres_start(&p->other, NULL, e);
    if (err == ERR_OK)
        err = connect_other(p, e);
    bool ok = err == ERR_OK && sql(p->db, "CREATE TABLE " WORLD_TABLE
                                          " (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, code text "
                                          "NOT NULL UNIQUE)");
    for (unsigned i = 0; ok && i < p->pair.world.coordinators; i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "CREATE ROLE %s SUPERUSER LOGIN", world_user(i));
        ok = sql(p->db, text);
    }
    ok = ok &&
         sql(p->db, "INSERT INTO " WORLD_TABLE " (code) SELECT 'x' || i FROM generate_series(1, 100000) i");
    return ok || err != ERR_OK ? err : failed(e, p->db, "the other database");
}

static enum err make_other(struct primaries *p, struct error *e)
{
    enum err err = ERR_OK;
    if (turn.server == FOREIGN)
        return make_foreign(p, e);
    if (turn.server == PROMOTED)
        err = temp_postgres_start_standby(&p->other, &p->pair.world.postgres, e);
    if (turn.server == CLONE)
        err = temp_postgres_start_clone(&p->other, &p->pair.world.postgres, e);
    if (err == ERR_OK && turn.server < FOREIGN)
        err = connect_other(p, e);
    return err == ERR_OK && turn.server == PROMOTED ? cut_off(p, e) : err;
}

static bool has_other(void)
{
    return turn.server <= FOREIGN;
}

static const char recreate[] =
    "BEGIN; ALTER TABLE " WORLD_TABLE " RENAME TO former; CREATE TABLE " WORLD_TABLE
    " (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, code text NOT NULL UNIQUE); "
    "INSERT INTO " WORLD_TABLE " SELECT * FROM former; "
    "SELECT setval(pg_get_serial_sequence('" WORLD_TABLE "', 'id'), (SELECT max(id) FROM former)); "
    "DROP TABLE former; COMMIT";

/* There is room for so many ids. */
static const char to_high_ids[] =
    "SELECT setval(pg_get_serial_sequence('" WORLD_TABLE "', 'id'), 1000 + max(id)) FROM " WORLD_TABLE;
static const char back_to_low_ids[] =
    "SELECT setval(pg_get_serial_sequence('" WORLD_TABLE
    "', 'id'), currval(pg_get_serial_sequence('" WORLD_TABLE "', 'id')) - 900)";

/* The process is held. */
static enum err happen(struct primaries *p, struct error *e)
{
    struct world *w = &p->pair.world;
    bool ok = true;
    if (turn.server == PROMOTED)
        ok = sql(p->db, "SELECT pg_promote()");
    if (turn.server == RECREATED)
        ok = sql(w->db, recreate);
    if (turn.server == LOW_IDS)
        ok = sql(w->db, back_to_low_ids);
    if (!ok)
        return failed(e, turn.server == PROMOTED ? p->db : w->db, server_names[turn.server]);
    if (has_other() && turn.stays)
        proxy_lead(w->proxy, w->postgres_route, p->other.port);
    else if (has_other())
        proxy_aim(w->proxy, w->postgres_route, p->other.port);
    return ERR_OK;
}

/* From now on the other server is the primary. */
static void succeed(struct primaries *p)
{
    struct world *w = &p->pair.world;
    for (unsigned i = 0; i < 2; i++)
        creator_fini(&p->pair.creators[i]);
    PGconn *db = w->db;
    w->db = p->db;
    p->db = db;
    struct temp_postgres before = w->postgres;
    w->postgres = p->other;
    p->other = before;
    for (unsigned i = 0; i < 2; i++)
        creator_init(&p->pair.creators[i], w, i);
}

/* --- a turn --- */

static void let_go(struct primaries *p)
{
    if (turn.late) {
        proxy_hang_up(p->pair.world.proxy, world_user(A));
        clock_sleep_us(turn.late_us);
        proxy_release(p->pair.world.proxy, true);
    } else {
        proxy_release(p->pair.world.proxy, false);
    }
}

static void lead_back(struct primaries *p)
{
    struct world *w = &p->pair.world;
    proxy_count(w->proxy, world_user(A), turn.second, PROXY_BEFORE);
    (void)proxy_await_held(w->proxy, BACK_MS);
    if (has_other() && turn.stays)
        proxy_lead(w->proxy, w->postgres_route, w->postgres.port);
    else if (has_other())
        proxy_aim(w->proxy, w->postgres_route, w->postgres.port);
    proxy_release(w->proxy, false);
}

/* The job is held. */
static enum err change(struct primaries *p, struct error *e)
{
    struct world *w = &p->pair.world;
    enum err err = happen(p, e);
    if (err != ERR_OK)
        return err;
    if (has_other() && !turn.back)
        succeed(p);
    pair_create(&p->pair, A, 1);
    pair_create(&p->pair, B, 1);
    uint64_t plain = insert(p, w->db, PLAIN);
    let_go(p);
    if (turn.back)
        lead_back(p);
    pair_create(&p->pair, A, ADDED);
    pair_create(&p->pair, B, ADDED);
    if (has_other())
        end_other(p);
    err = world_wait_rest(w, REST_MS, e);
    char text[WORLD_STATUS_MAX] = "";
    (void)world_is_at_rest(w, text);
    /* it has cut over behind these rows; what a clone gives under ids of before is not found */
    if (err == ERR_OK && strstr(text, "job_state=done") != NULL && turn.server != CLONE)
        promise(p, plain, PLAIN);
    if (err == ERR_OK)
        err = check_both(p, e);
    if (err == ERR_OK)
        err = world_rebuild(w, B, REST_MS, e);
    promise(p, plain, PLAIN);
    return err == ERR_OK ? check_both(p, e) : err;
}

static enum err one_turn(struct primaries *p, bool *held, struct error *e)
{
    pair_forget_old_rows(&p->pair);
    pair_create(&p->pair, A, ADDED);
    pair_create(&p->pair, B, ADDED);
    enum err err = make_other(p, e);
    if (err == ERR_OK && turn.server == LOW_IDS && !sql(p->pair.world.db, to_high_ids))
        err = failed(e, p->pair.world.db, "ids");
    if (err == ERR_OK)
        (void)insert(p, p->pair.world.db, turn.lost / 2);
    pair_create(&p->pair, A, turn.lost / 2);
    if (err == ERR_OK)
        err = pair_expand(&p->pair, turn.n, turn.moment, held, e);
    if (err == ERR_OK && *held) {
        journal_note("coordinator 0 is at request %" PRIu64 "; dsn leads to %s", turn.n,
                     server_names[turn.server]);
        err = change(p, e);
    }
    proxy_release(p->pair.world.proxy, false);
    end_other(p);
    return err;
}

static void tell(const char *what, const struct error *e)
{
    (void)fprintf(stderr, "%s: request %" PRIu64 " %s%s: %s%s%s (%" PRIu64 " later), %u lost: %s\n", what,
                  turn.n, turn.moment == PROXY_AFTER ? "after" : "before", turn.late ? ", late" : "",
                  server_names[turn.server], turn.stays ? ", for new connections" : "",
                  turn.back ? ", and back" : "", turn.second, turn.lost, e->text);
}

static void choose(struct primaries *p)
{
    uint64_t *s = &p->pair.state;
    turn.moment = fault_between(s, 0, 1) == 0 ? PROXY_BEFORE : PROXY_AFTER;
    turn.late = turn.moment == PROXY_BEFORE && fault_between(s, 0, 1) == 0;
    turn.server = (enum server)fault_between(s, 0, SERVERS - 1);
    if (turn.server == RECREATED && p->follow >= OUTBOX) /* without triggers, and in no publication */
        turn.server = LOW_IDS;
    turn.stays = fault_between(s, 0, 1) == 0;
    turn.back = turn.server == FOREIGN || (turn.server < FOREIGN && fault_between(s, 0, 2) == 0);
    turn.second = fault_between(s, 1, BACK_MOST);
    turn.late_us = fault_between(s, 1000, LATE_MOST_US);
    turn.lost = (unsigned)fault_between(s, 0, LOST_MOST);
}

/* As a DBA does it. */
static bool prepare(struct world *w)
{
    static const char table[] = "table=" WORLD_TABLE, script[] = SQL_DIRECTORY "/outbox.sql";
    char program[PATH_MAX + 16];
    (void)snprintf(program, sizeof(program), "%s/psql", w->postgres.binaries);
    const char *const argv[] = {program, "-XqAt",
                                "-v",    "ON_ERROR_STOP=1",
                                "-d",    w->postgres.dsn,
                                "-v",    table,
                                "-v",    "id=id",
                                "-v",    "columns=code",
                                "-v",    "outbox=link_outbox",
                                "-v",    "reader=postgres",
                                "-v",    "notify=true",
                                "-f",    script,
                                NULL};
    struct error e = {""};
    char *output = NULL;
    int status = 1;
    bool ok = process_run(argv, WAIT_MS, &output, &status, &e) == ERR_OK && status == 0;
    if (!ok)
        (void)fprintf(stderr, "outbox.sql: %s%s\n", e.text, output == NULL ? "" : output);
    free(output);
    return ok && sql(w->db, "CREATE PUBLICATION links FOR TABLE " WORLD_TABLE);
}

static enum err start(struct primaries *p, const struct fault_options *o, struct error *e)
{
    char filter[400];
    (void)snprintf(filter, sizeof(filter),
                   "[filter " WORLD_FILTER "]\ncapacity = 600\nerror_rate = 0.001\ntable = " WORLD_TABLE
                   "\nid_column = id\nkey = code\ngrace = 0ms\n%s",
                   follows[p->follow].lines);
    const struct world_options w = {
        .coordinators = 2,
        .service = "check_interval = 50ms\nthreads = 1\n",
        .redis = "timeout = 500ms\nshard_bytes = 1KiB\n",
        .postgres = "timeout = 2s\n",
        .expansion = "lease = 5s\npage_rows = 150\nverify_sample = 1\ncheckpoint_interval = 10ms\n",
        .filter = filter,
        .settings = "wal_level = logical\nmax_replication_slots = 20\n",
        .prepare = prepare,
        .keep = o->keep};
    return pair_start(&p->pair, &w, REST_MS, p->follow == 0 ? "twinbloom reader" : "twinbloom follower", o,
                      e);
}

static enum err all_turns(struct primaries *p, const struct fault_options *o, struct error *e)
{
    bool held = true;
    enum err err = ERR_OK;
    uint64_t turns = o->most > 0 ? o->most : UINT64_MAX, done = 0;
    turn = (struct turn){.n = 0};
    err = pair_expand(&p->pair, turn.n, turn.moment, &held, e);
    uint64_t requests = proxy_counted(p->pair.world.proxy);
    proxy_release(p->pair.world.proxy, false);
    uint64_t stride = o->most > 0 ? (requests + o->most - 1) / o->most : o->stride;
    stride = stride == 0 ? 1 : stride;
    (void)printf("another Postgres: a job makes about %" PRIu64 " requests; stride %" PRIu64 " (seed %" PRIu64
                 ")\n",
                 requests, stride, o->seed);
    for (turn.n = 1 + fault_between(&p->pair.state, 0, stride - 1);
         err == ERR_OK && done < turns && !fault_interrupted();
         done++, turn.n = (turn.n + stride) % (requests + 10) + 1) {
        choose(p);
        err = one_turn(p, &held, e);
        if (err != ERR_OK || o->verbose)
            tell(err != ERR_OK ? "BROKEN" : held ? "kept" : "not reached", e);
    }
    (void)printf("%" PRIu64 " turns\n", done);
    return err;
}

int primaries_run(const struct fault_options *o)
{
    struct primaries *p = calloc(1, sizeof(*p));
    struct error e = {""};
    if (p == NULL)
        abort();
    while (o->only != NULL && p->follow < FOLLOWS && strcmp(o->only, follows[p->follow].name) != 0)
        p->follow++;
    if (p->follow == FOLLOWS) {
        (void)fprintf(stderr, "FAILED: rows are followed by no, ids, outbox or logical\n");
        free(p);
        return 1;
    }
    enum err err = start(p, o, &e);
    if (err == ERR_OK)
        err = all_turns(p, o, &e);
    end_other(p);
    int code = pair_end(&p->pair, err, &e);
    free(p);
    return code;
}
