/* SPDX-License-Identifier: MIT */
/* The lease of a filter's follower, and its status for others. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/number.h"
#include "expansion/follow/follower_internal.h"

extern const char embedded_follower[], embedded_follower_ask[], embedded_follower_leave[];

enum { TEND_US = 500 * 1000 };

enum err follower_hold(struct follower *t, struct error *e)
{
    long long answer;
    uint64_t now = clock_mono_us();
    if (strcmp(t->state, "running") != 0 && t->stepped_at != 0)
        t->lag_ms = (now - t->stepped_at) / 1000;
    t->tended_at = now;
    script_begin(&t->call, embedded_follower);
    script_filter_key(&t->call, &t->handle.names, "tail");
    script_text(&t->call, t->o->owner);
    script_number(&t->call, t->o->lease_ms);
    script_number(&t->call, t->attempt);
    script_text(&t->call, t->taken ? "0" : "1");
    script_field(&t->call, "state", t->state);
    script_field(&t->call, "mode", follower_mode_name(t->mode));
    script_field(&t->call, "error", t->problem.text[0] != '\0' ? t->problem.text : t->fallback);
    script_field(&t->call, "coverage", t->coverage);
    script_number_field(&t->call, "lag_ms", t->lag_ms);
    script_number_field(&t->call, "rows", t->rows);
    script_number_field(&t->call, "done", t->done);
    enum err code = script_run(&t->call, t->redis, handle_home(&t->handle), &answer, e);
    if (code != ERR_OK)
        return code;
    t->held = t->taken = answer >= 0;
    if (!t->held)
        return error_set(e, ERR_BUSY, "another coordinator follows the table, or has done so meanwhile");
    t->request = (uint64_t)answer;
    return ERR_OK;
}

enum err follower_tend(struct follower *t, struct error *e)
{
    return clock_mono_us() - t->tended_at < TEND_US ? ERR_OK : follower_hold(t, e);
}

void follower_leave(struct follower *t)
{
    long long answer;
    if (!t->held)
        return;
    script_begin(&t->call, embedded_follower_leave);
    script_filter_key(&t->call, &t->handle.names, "tail");
    script_text(&t->call, t->o->owner);
    t->held = script_run(&t->call, t->redis, handle_home(&t->handle), &answer, NULL) != ERR_OK;
}

/* --- for jobs --- */

static const char *text_of(const redisReply *reply, size_t i)
{
    return i < reply->elements && reply->element[i]->type == REDIS_REPLY_STRING ? reply->element[i]->str : "";
}

enum { ROWS_DIGITS = 11 };

uint64_t follower_rows(const struct source *s)
{
    return source_tables_hash(s) ^ source_keys_hash(s);
}

void follower_coverage(uint64_t rows, uint64_t number, char out[FOLLOWER_COVERAGE_MAX])
{
    (void)snprintf(out, FOLLOWER_COVERAGE_MAX, "%0*" PRIx64 "%0*" PRIx64, ROWS_DIGITS, rows >> 20,
                   ROWS_DIGITS, number >> 20);
}

bool follower_covers(const struct follower_status *status, uint64_t rows)
{
    char expected[FOLLOWER_COVERAGE_MAX];
    follower_coverage(rows, 0, expected);
    return strncmp(status->coverage, expected, ROWS_DIGITS) == 0;
}

enum err follower_look(struct sync_client *l, const struct names *names, struct follower_status *out,
                       struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    *out = (struct follower_status){.exists = false};
    enum err code = sync_client_filter_command(l, names, "tail",
                                               "HMGET %b owner state mode coverage error done", &reply, e);
    if (code != ERR_OK)
        return code;
    out->exists = text_of(reply, 0)[0] != '\0';
    out->running = strcmp(text_of(reply, 1), "running") == 0;
    for (enum follower_mode m = FOLLOWER_KEYSET; m <= FOLLOWER_OUTBOX; m++)
        if (strcmp(text_of(reply, 2), follower_mode_name(m)) == 0)
            out->mode = m;
    (void)snprintf(out->coverage, sizeof(out->coverage), "%s", text_of(reply, 3));
    (void)snprintf(out->error, sizeof(out->error), "%s", text_of(reply, 4));
    (void)number_u64(text_of(reply, 5), strlen(text_of(reply, 5)), &out->done);
    return ERR_OK;
}

enum err follower_ask(struct sync_client *l, const struct names *names, uint64_t *request, struct error *e)
{
    struct script_call c = {0};
    long long answer = 0;
    script_begin(&c, embedded_follower_ask);
    script_filter_key(&c, names, "tail");
    enum err code = script_run_once(&c, l, names, &answer, e);
    *request = code == ERR_OK && answer > 0 ? (uint64_t)answer : 0;
    return code;
}
