/* SPDX-License-Identifier: MIT */
#include "service/keys/request_count.h"

#include <inttypes.h>
#include <stdio.h>
#include "base/buffer.h"
#include "base/log.h"
#include "base/random.h"
#include "shard/control/filters.h"

/* --- answers --- */

void answer_count(struct meter_answers *to, enum answer answer)
{
    to->yes += answer == ANSWER_YES;
    to->no += answer == ANSWER_NO;
    to->other += answer != ANSWER_YES && answer != ANSWER_NO;
}

enum outcome answer_outcome(struct meter *m, const struct key_query *q, const struct meter_answers *answers,
                            const struct failure *why)
{
    struct key_filter *f = q->filter;
    if (f->meter == NULL && f->open != NULL && f->seen) /* the name of one never found may be made up */
        f->meter = meter_filter(m, f->name, f->name_length);
    meter_answered(f->meter, q->kind == OPERATION_CHECK, answers);
    if (answers->other == 0)
        return OUTCOME_OK;
    return answers->yes + answers->no > 0 ? OUTCOME_PARTIAL : outcome_of_error(why->code);
}

/* --- slow requests --- */

bool slow_is(const struct config *config, uint64_t us)
{
    return config->slow_ms != 0 && us >= config->slow_ms * 1000;
}

static double ms(uint64_t us)
{
    return (double)us / 1000;
}

static void put_filter(struct buffer *out, const struct spent *spent)
{
    const struct key_filter *f = spent->filter;
    const char *name = f != NULL ? f->name : spent->name;
    if (name != NULL)
        buffer_printf(out, " filter=%s", log_quote(name));
    if (spent->keys > 0)
        buffer_printf(out, " keys=%zu", spent->keys);
    char node[NODE_NAME_MAX];
    if (f != NULL && f->open != NULL && log_filter_node(open_filter_log(f->open), node))
        buffer_printf(out, " node=%s", log_quote(node));
}

void slow_log(const struct slow *s)
{
    SCOPED(buffer_fini) struct buffer more = {0};
    const char *down, *why;
    char id[24];
    (void)snprintf(id, sizeof(id), "%016" PRIx64, s->id == NULL ? random_u64() : 0);
    if (s->spent != NULL)
        put_filter(&more, s->spent);
    if (s->spent != NULL && s->spent->asked_us != 0)
        buffer_printf(&more, " waited_ms=%.3f %s_ms=%.3f written_ms=%.3f",
                      ms(s->spent->asked_us - s->spent->came_us), s->spent->by,
                      ms(s->spent->answered_us - s->spent->asked_us),
                      ms(s->spent->came_us + s->us - s->spent->answered_us));
    if (s->keys != NULL && async_client_any_down(key_port_redis(s->keys), &down, &why))
        buffer_printf(&more, " node_down=%s", log_quote(down));
    log_warn("slow_request", "id=%s client=%s command=%s duration_ms=%.3f outcome=%s%s",
             log_quote(s->id != NULL ? s->id : id), s->client, log_quote(s->what), ms(s->us), s->outcome,
             buffer_text(&more));
}
