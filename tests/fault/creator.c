/* SPDX-License-Identifier: MIT */
#include "tests/fault/creator.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

void creator_init(struct creator *c, const struct world *w, unsigned coordinator)
{
    *c = (struct creator){.coordinator = coordinator, .port = w->daemon[coordinator].port};
    (void)snprintf(c->dsn, sizeof(c->dsn),
                   "host=127.0.0.1 port=%u user=postgres dbname=postgres application_name=creator "
                   "connect_timeout=5 gssencmode=disable options='-c synchronous_commit=on'",
                   w->postgres.port);
}

void creator_fini(struct creator *c)
{
    PQfinish(c->db);
    client_close(&c->client);
    c->db = NULL;
}

/* The command's tag must be @tag: COMMIT of a transaction that failed says ROLLBACK. */
static bool sql(struct creator *c, const char *text, const char *tag)
{
    PGresult *r = PQexec(c->db, text);
    bool done = PQresultStatus(r) == PGRES_COMMAND_OK && strncmp(PQcmdStatus(r), tag, strlen(tag)) == 0;
    PQclear(r);
    return done;
}

static bool connected(struct creator *c)
{
    struct error e = {""};
    if (c->db == NULL) {
        c->db = PQconnectdb(c->dsn);
        (void)PQsetNoticeProcessor(c->db, world_ignore_notice, NULL);
    }
    if (PQstatus(c->db) != CONNECTION_OK) {
        PQfinish(c->db);
        c->db = NULL;
        return false;
    }
    if (c->client.redis != NULL && c->client.redis->err != 0)
        client_close(&c->client);
    return c->client.redis != NULL || client_open(&c->client, c->port, WORLD_REPLY_MS, &e) == ERR_OK;
}

static bool insert(struct creator *c, uint64_t number)
{
    char text[128], key[CLIENT_KEY_MAX];
    (void)ledger_key(number, key);
    (void)snprintf(text, sizeof(text), "INSERT INTO " WORLD_TABLE " (code) VALUES ('%s')", key);
    return sql(c, text, "INSERT");
}

/* Only an integer is an acknowledgement. */
static bool add(struct creator *c, uint64_t number)
{
    char key[CLIENT_KEY_MAX];
    struct error e = {""};
    int64_t fresh;
    (void)ledger_key(number, key);
    return client_integer(&c->client, &fresh, &e, "BF.ADD " WORLD_FILTER " %s", key) == ERR_OK;
}

bool creator_create(struct creator *c, struct ledger *l, enum ledger_order order, uint64_t linger_us)
{
    if (!connected(c))
        return false;
    uint64_t number = ledger_take(l);
    if (number == UINT64_MAX)
        return false;
    bool done;
    if (order == LEDGER_COMMIT_THEN_ADD) {
        done = insert(c, number);
        clock_sleep_us(linger_us);
        done = done && add(c, number);
    } else {
        done = sql(c, "BEGIN", "BEGIN") && insert(c, number) && add(c, number);
        clock_sleep_us(linger_us);
        done = sql(c, done ? "COMMIT" : "ROLLBACK", done ? "COMMIT" : "ROLLBACK") && done;
    }
    if (done)
        ledger_acknowledge(l, number, c->coordinator, order);
    return done;
}
