/* SPDX-License-Identifier: MIT */
/* If the filter's follower reports every row, a job need not look for rows that came without BF.ADD: it
 * checks before the settle that the follower runs, and asks it in catch-up whether all rows are added. The
 * follower may run in another coordinator. Possible failure modes are: there is no follower in time, it fell
 * back to ids, its coordinator has another configuration, or it restarted meanwhile (another coverage). Then
 * the job looks for the rows itself. */
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/job/driver_internal.h"

enum { TROUBLE_US = 30 * 1000 * 1000 }; /* give up waiting for a follower that cannot begin */

static uint64_t patience(const struct driver *d)
{
    return clock_mono_us() + d->o->settle_timeout_ms * 1000;
}

static void not_covered(const struct driver *d, const char *why)
{
    log_warn("job_without_follower", "filter=%s reason=%s note=\"it looks for new rows itself\"",
             log_quote(d->o->filter), log_quote(why));
}

enum err driver_await_follower(struct driver *d, struct error *e)
{
    struct follower_status follower;
    uint64_t deadline = patience(d), well = clock_mono_us(), server = 0;
    d->record.coverage[0] = '\0';
    enum err known = source_server(d->source, &server, e);
    if (known != ERR_OK)
        return known;
    const uint64_t rows = server ^ follower_rows(d->source);
    while (d->o->follower_mode != FOLLOWER_KEYSET) {
        enum err code = follower_look(d->redis, &d->handle.names, &follower, e);
        if (code != ERR_OK)
            return code;
        bool covers =
            follower.running && follower.mode == d->o->follower_mode && follower.coverage[0] != '\0';
        if (covers && !follower_covers(&follower, rows)) {
            not_covered(d, "it follows another server, as dsn leads to two of them, or its coordinator has "
                           "another `table`, `key` or `where`");
            break;
        }
        if (covers) {
            memcpy(d->record.coverage, follower.coverage, sizeof(d->record.coverage));
            break;
        }
        bool fell_back = follower.running && follower.mode != d->o->follower_mode;
        uint64_t now = clock_mono_us();
        if (follower.running || follower.error[0] == '\0')
            well = now;
        if (fell_back || now > deadline || now - well > TROUBLE_US) {
            not_covered(d, follower.error[0] != '\0' ? follower.error : "there is none");
            break;
        }
        char text[RECORD_TEXT_MAX];
        (void)snprintf(text, sizeof(text), "the follower (follow_by = %s) to begin%s%s",
                       follower_mode_name(d->o->follower_mode), follower.error[0] != '\0' ? ": " : "",
                       follower.error);
        code = driver_nap(d, text, e);
        if (code != ERR_OK)
            return code;
    }
    return ERR_OK;
}

enum err driver_followed(struct driver *d, bool *covered, struct error *e)
{
    struct follower_status follower;
    uint64_t request = 0, began = clock_mono_us(), deadline = patience(d);
    *covered = false;
    if (d->record.coverage[0] == '\0')
        return ERR_OK;
    enum err code = follower_ask(d->redis, &d->handle.names, &request, e);
    while (code == ERR_OK && !*covered) {
        code = follower_look(d->redis, &d->handle.names, &follower, e);
        if (code != ERR_OK)
            return code;
        if (request == 0 || strcmp(follower.coverage, d->record.coverage) != 0 ||
            clock_mono_us() > deadline) {
            not_covered(d,
                        follower.error[0] != '\0' ? follower.error : "it was interrupted, or did not answer");
            return ERR_OK;
        }
        *covered = follower.done >= request;
        if (!*covered)
            code = driver_nap(d, "the follower to add what is committed", e);
    }
    if (code == ERR_OK)
        log_info("caught_up", "filter=%s by=follower duration_ms=%.3f", log_quote(d->o->filter),
                 (double)(clock_mono_us() - began) / 1e3);
    return code;
}

enum err driver_lower_marks(struct driver *d, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned i = 0; i < source_tables(d->source) && source_id_is_integer(d->source) && code == ERR_OK;
         i++)
        code = follower_lower_mark(d->redis, &d->handle.names, source_table(d->source, i),
                                   d->record.marks[i].low_water, e);
    return code;
}
