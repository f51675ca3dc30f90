/* SPDX-License-Identifier: MIT */
#include "service/http/http_states.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "service/protocol/json.h"

void http_states_clear(struct http_states *s)
{
    statuses_fini(&s->of);
    s->complete = s->busy = false;
}

static bool contains(const struct buffer *b, const char *text)
{
    return b->length > 0 && memmem(b->data, b->length, text, strlen(text)) != NULL;
}

void http_states_take(struct http_states *s, struct statuses *found, bool all)
{
    bool known = true;
    statuses_take(&s->of, found, all ? UNNAMED_GONE : UNNAMED_KEEP);
    if (s->of.count > 0)
        qsort(s->of.of, s->of.count, sizeof(*s->of.of), statuses_by_version);
    s->busy = false;
    for (size_t i = 0; i < s->of.count; i++) {
        const struct status *one = &s->of.of[i];
        if (one->of != STATUS_OF_FILTER)
            continue;
        known &= one->is != STATUS_UNKNOWN;
        s->busy |= contains(&one->reply, "\"job_state\":\"running\"") ||
                   contains(&one->reply, "\"job_state\":\"waiting\"");
    }
    s->complete |= all && known;
}

void http_state_put(const struct status *one, struct buffer *out)
{
    /* The event that tells of it. */
    static const char *const events[] = {
        [STATUS_OF_FILTER] = "filter",
        [STATUS_OF_NODES] = "nodes",
        [STATUS_OF_COORDINATORS] = "coordinators",
        [STATUS_OF_ALL_COORDINATORS] = "coordinators",
    };
    if (one->is == STATUS_GONE) {
        buffer_puts(out, "event: gone\ndata: {\"filter\":");
        json_put_bytes(out, one->name, one->length);
        buffer_puts(out, "}");
    } else {
        buffer_printf(out, "event: %s\ndata: ", events[one->of]);
        buffer_append(out, one->reply.data, one->reply.length);
    }
    buffer_puts(out, "\n\n");
}

void http_states_tick(const struct http_states *s, struct buffer *out)
{
    const char *redis = s->error.text[0] == '\0' ? "ok" : s->error.text;
    buffer_printf(out, "event: tick\ndata: {\"sent_at\":%.3f,\"redis\":", (double)clock_wall_us() / 1e6);
    json_put_text(out, redis, strlen(redis));
    buffer_printf(out, ",\"filters\":%s}\n\n", s->complete ? "true" : "false");
}

bool http_state_may_be_seen(const struct status *one, const struct config_user *u)
{
    if (one->of == STATUS_OF_FILTER)
        return user_may_filter(u, one->name, one->length);
    if (one->of == STATUS_OF_NODES)
        return user_may_all_filters(u);
    return (one->of == STATUS_OF_COORDINATORS) == user_may_all_filters(u);
}
