/* SPDX-License-Identifier: MIT */
/* A creator of short links. The happy path is BEGIN, INSERT, BF.ADD, COMMIT: the add stands between the
 * insert and the commit, so that every committed code is in the filter. Possible failure modes are: the code
 * is taken (unique violation: roll back, ask the filter, add if it denies the code), an error reply of the
 * daemon (roll back, count it), and a writer that dies after its commit without having added (acted out now
 * and then; the next one who tries the code heals it). */
#include <string.h>
#include "base/clock.h"
#include "deploy/traffic.h"

enum { PER_MILLE_TAKEN = 40, PER_MILLE_ORPHAN = 10 };

enum outcome { OUTCOME_DONE, OUTCOME_VIOLATION, OUTCOME_BROKEN };

static void postgres_failed(struct creator *c, const char *what)
{
    const char *text = PQerrorMessage(c->pg);
    traffic_fail(c->traffic, "%s: Postgres says: %.*s", what, (int)strcspn(text, "\n"), text);
}

static bool statement(struct creator *c, const char *sql)
{
    PGresult *r = PQexec(c->pg, sql);
    bool ok = PQresultStatus(r) == PGRES_COMMAND_OK;
    PQclear(r);
    if (!ok)
        postgres_failed(c, sql);
    return ok;
}

static enum outcome insert(struct creator *c, const char *code)
{
    const char *values[] = {code, "https://www.example.org/created"};
    PGresult *r = PQexecPrepared(c->pg, "create_link", 2, values, NULL, NULL, 0);
    enum outcome outcome = OUTCOME_DONE;
    if (PQresultStatus(r) != PGRES_COMMAND_OK) {
        const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
        outcome = state != NULL && strcmp(state, "23505") == 0 ? OUTCOME_VIOLATION : OUTCOME_BROKEN;
    }
    PQclear(r);
    if (outcome == OUTCOME_BROKEN)
        postgres_failed(c, "INSERT");
    return outcome;
}

/* BF.ADD or BF.EXISTS; *@answer is 0 or 1, or -1 after an error reply. False: the connection is lost. */
static bool ask(struct creator *c, const char *command, const char *code, int *answer)
{
    bool add = strcmp(command, "BF.ADD") == 0;
    struct figures *f = c->figures;
    int moment = atomic_load_explicit(&c->traffic->moment, memory_order_relaxed);
    uint64_t begin = clock_mono_us();
    redisReply *r = redisCommand(c->daemon, "%s %s %s", command, c->traffic->options.filter, code);
    uint64_t end = clock_mono_us();
    if (r == NULL) {
        traffic_fail(c->traffic, "the daemon is gone: %s of %s: %s", command, code, c->daemon->errstr);
        return false;
    }
    histogram_record(add ? &f->adds[moment] : &f->checks[moment], end - begin);
    stalls_record(&f->stalls, begin, end);
    *answer = -1;
    if (r->type == REDIS_REPLY_INTEGER)
        *answer = r->integer != 0;
    else
        traffic_refused(c->traffic, f, r->type == REDIS_REPLY_ERROR ? r->str : "reply of a wrong type");
    if (!add)
        tally(&f->keys_checked, 1);
    freeReplyObject(r);
    return true;
}

static void acknowledge(struct creator *c, const struct code *code)
{
    size_t n = atomic_load_explicit(&c->acknowledged_count, memory_order_relaxed);
    if (n == ACKNOWLEDGED_MAX)
        return;
    c->acknowledged[n] = *code;
    atomic_store_explicit(&c->acknowledged_count, n + 1, memory_order_release);
}

/* The code is in the table already. @known: it was acknowledged, so the filter must not deny it. */
static bool heal(struct creator *c, const struct code *code, bool known)
{
    int answer;
    tally(&c->figures->violations, 1);
    if (!ask(c, "BF.EXISTS", code->text, &answer))
        return false;
    if (answer != 0)
        return true;
    if (known)
        traffic_denied(c->traffic, c->figures, code->text, "after a unique violation");
    if (!ask(c, "BF.ADD", code->text, &answer))
        return false;
    if (answer >= 0) {
        tally(&c->figures->healed, 1);
        acknowledge(c, code);
    }
    return true;
}

static bool create(struct creator *c, const struct code *code, bool known)
{
    uint64_t begin = clock_mono_us();
    if (!statement(c, "BEGIN"))
        return false;
    enum outcome outcome = insert(c, code->text);
    if (outcome == OUTCOME_BROKEN)
        return false;
    if (outcome == OUTCOME_VIOLATION)
        return statement(c, "ROLLBACK") && heal(c, code, known);
    int answer;
    if (!ask(c, "BF.ADD", code->text, &answer))
        return false;
    if (answer < 0)
        return statement(c, "ROLLBACK");
    if (!statement(c, "COMMIT"))
        return false;
    histogram_record(&c->figures->creations, clock_mono_us() - begin);
    acknowledge(c, code);
    return true;
}

static bool one(struct creator *c)
{
    uint64_t dice = traffic_random(&c->random) % 1000;
    if (dice < PER_MILLE_TAKEN) {
        struct code taken = traffic_known(c->traffic, &c->random);
        return create(c, &taken, true);
    }
    struct code fresh = code_of(atomic_fetch_add(&c->traffic->next_counter, 1));
    if (dice < PER_MILLE_TAKEN + PER_MILLE_ORPHAN && insert(c, fresh.text) != OUTCOME_DONE)
        return false;
    return create(c, &fresh, false);
}

void *creator_run(void *arg)
{
    struct creator *c = arg;
    struct traffic *t = c->traffic;
    PGresult *r =
        PQprepare(c->pg, "create_link", "INSERT INTO short_link (code, url) VALUES ($1, $2)", 2, NULL);
    bool ok = PQresultStatus(r) == PGRES_COMMAND_OK;
    PQclear(r);
    if (!ok)
        postgres_failed(c, "preparing INSERT");
    uint64_t start = clock_mono_us();
    uint64_t done = 0;
    while (ok && !atomic_load_explicit(&t->stop, memory_order_relaxed)) {
        ok = one(c);
        traffic_pace(t, start, ++done, (double)t->options.adds_per_second / t->options.creators);
    }
    return NULL;
}
