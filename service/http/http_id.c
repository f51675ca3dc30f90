/* SPDX-License-Identifier: MIT */
/* Ids of requests: each answer has one, and a slow request is logged with it. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "service/keys/request_count.h"
#include "service/http/http_internal.h"
#include "shard/filter/hash.h"

bool http_id_is_sane(const char *id)
{
    size_t length = strlen(id);
    bool good = length > 0 && length <= HTTP_ID_MAX;
    for (size_t i = 0; i < length && good; i++)
        good = isalnum((unsigned char)id[i]) || strchr("._:+/=@-", id[i]) != NULL;
    return good;
}

void http_id_take(struct http_request *r)
{
    const char *given = http_asked(r, "X-Request-Id");
    if (given != NULL && http_id_is_sane(given))
        (void)snprintf(r->id, sizeof(r->id), "%s", given);
    else
        (void)snprintf(r->id, sizeof(r->id), "%016" PRIx64, hash_scramble(r->http->next_id++));
}

void http_slow(struct http_request *r, int status, uint64_t us)
{
    char what[160], outcome[16], client[80];
    if (!slow_is(r->http->config, us))
        return;
    (void)snprintf(client, sizeof(client), "%s:%s", r->connection->host, r->connection->port);
    (void)snprintf(what, sizeof(what), "%s %s", r->route == NULL ? "?" : r->route->method,
                   r->route == NULL ? "?" : r->route->pattern);
    (void)snprintf(outcome, sizeof(outcome), "%d", status);
    const struct spent spent = {.name =
                                    r->filter.length > 0 ? (char *)(uintptr_t)buffer_text(&r->filter) : NULL,
                                .keys = r->body.key_count};
    meter_slow(r->http->meter);
    slow_log(&(struct slow){.id = r->id,
                            .client = client,
                            .what = what,
                            .outcome = outcome,
                            .us = us,
                            .spent = &spent,
                            .keys = r->http->keys});
}
