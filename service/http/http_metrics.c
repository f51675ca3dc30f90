/* SPDX-License-Identifier: MIT */
/* GET /metrics, and what this thread counts for it.
 *
 * A scrape asks Redis for the figures of filters and waits for at most SCRAPE_MS. If they are late, the
 * previous figures are written. So a scrape is answered even if Redis and Postgres are unreachable. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "service/http/http_internal.h"
#include "service/keys/request_count.h"
#include "service/metrics/collector.h"

enum { SCRAPE_MS = 1000 };

/* --- counting --- */

static const char *label_of(size_t row, unsigned i)
{
    if (row == http_route_count)
        return "other";
    return i == 0 ? http_routes[row].method : http_routes[row].pattern;
}

static const char *column_of(size_t column, char out[METER_COLUMN_SIZE])
{
    (void)snprintf(out, METER_COLUMN_SIZE, "%d", http_status_at(column));
    return out;
}

static bool is_of_keys(size_t row)
{
    return row < http_route_count && http_routes[row].run == http_keys;
}

static bool is_failure(size_t column)
{
    return http_status_at(column) >= 500;
}

struct meter *http_meter_new(struct meter_kind *kind)
{
    size_t statuses = 0;
    while (http_status_at(statuses) != 0)
        statuses++;
    *kind = (struct meter_kind){.of = METER_OF_ROUTES,
                                .rows = http_route_count + 1,
                                .columns = statuses,
                                .labels = METER_LABELS,
                                .label = label_of,
                                .column = column_of,
                                .is_of_keys = is_of_keys,
                                .is_failure = is_failure};
    return meter_new(kind);
}

/* Log the request, with its id, if it was slow. */
static void log_slow(struct http_request *r, int status, uint64_t us)
{
    char what[160], outcome[16];
    if (!slow_is(r->http->config, us))
        return;
    (void)snprintf(what, sizeof(what), "%s %s", r->route == NULL ? "?" : r->route->method,
                   r->route == NULL ? "?" : r->route->pattern);
    (void)snprintf(outcome, sizeof(outcome), "%d", status);
    const struct spent spent = {.name =
                                    r->filter.length > 0 ? (char *)(uintptr_t)buffer_text(&r->filter) : NULL,
                                .keys = r->body.key_count};
    meter_slow(r->http->meter);
    slow_log(&(struct slow){.id = r->id,
                            .client = r->connection->address,
                            .what = what,
                            .outcome = outcome,
                            .us = us,
                            .spent = &spent,
                            .keys = r->http->keys});
}

void http_meter_count(struct http_request *r, int status)
{
    size_t column = 0;
    size_t row = r->route == NULL ? http_route_count : (size_t)(r->route - http_routes);
    while (http_status_at(column) != 0 && http_status_at(column) != status)
        column++;
    uint64_t us = clock_mono_us() - r->began_us;
    if (http_status_at(column) != 0)
        meter_count(r->http->meter, row, column, us, 1);
    if (r->route == NULL || r->route->role != HTTP_ROLE_SCRAPE) /* a scrape waits by design, see SCRAPE_MS */
        log_slow(r, status, us);
}

/* --- who may read metrics --- */

static bool is_local(struct http_request *r)
{
    char host[ADDRESS_TEXT_MAX];
    const char *address = host;
    struct in_addr v4;
    address_host(r->connection->address, host);
    if (strncmp(address, "::ffff:", 7) == 0)
        address += 7;
    return strcmp(address, "::1") == 0 ||
           (inet_pton(AF_INET, address, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127);
}

bool http_scrapes_freely(struct http_request *r)
{
    enum http_metrics allowed = r->http->config->http_metrics;
    return r->route->role == HTTP_ROLE_SCRAPE &&
           (allowed == HTTP_METRICS_OPEN || (allowed == HTTP_METRICS_LOOPBACK && is_local(r)));
}

/* --- a scrape --- */

static void answer(void *request)
{
    struct buffer text = {0};
    struct http_request *r = request;
    if (r->connection == NULL)
        return;
    enum exposition format = exposition_negotiate(http_asked(r, "Accept"));
    collector_write(r->http->o.collector, &text, format, r->http->connection_count);
    http_answer_as(r, 200, exposition_type(format), &text);
}

/* Runs in the HTTP thread, perhaps long after the answer. */
static void on_told(void *arg)
{
    struct admin_call *call = arg;
    struct http_request *r = call->asker;
    if (!r->http->stopped)
        answer(r);
    http_request_release(r);
    admin_call_free(call);
}

void http_metrics(struct http_request *r)
{
    struct http *h = r->http;
    if (!http_deadline(r, SCRAPE_MS, answer, r))
        return;
    if (collector_ask(h->o.collector, h->mailbox, on_told, http_request_hold(r)) == ERR_OK)
        return;
    http_no_memory(r);
    http_request_release(r);
}
