/* SPDX-License-Identifier: MIT */
/* Checks the database: whether it replies, what this role may see, and each filter's tables. */
#include "service/doctor/doctor_internal.h"

#include <inttypes.h>
#include "base/clock.h"
#include "expansion/record/timelines.h"
#include "migrate/build/spill_file.h"
#include "migrate/source/connection.h"
#include "migrate/source/result.h"
#include "migrate/source/source.h"
#include "service/filters/sources.h"

enum {
    VERSION_OLDEST = 130000, /* the oldest that tests ever ran against, or that is still maintained */
    LONG_SECONDS = 600
};

/* --- postgres --- */

/* Over a connection of its own. */
static enum err ask_server(struct server_facts *out, const struct config *config, struct error *e)
{
    struct connection *c = NULL;
    SCOPED(scope_result) PGresult *r = NULL;
    const struct source_watch nobody = {NULL, NULL};
    enum err code = connection_open(&c, CONNECTION_SQL, config->dsn, "twinbloom doctor",
                                    (unsigned)config->postgres_timeout_ms, nobody, e);
    if (code != ERR_OK)
        return code;
    code = connection_run(c, "server", NULL, &r, e);
    if (code == ERR_OK) {
        *out = (struct server_facts){.version = connection_version(c),
                                     .sees_statistics = result_is_true(r, "sees_statistics"),
                                     .standby = result_is_true(r, "is_standby")};
        (void)result_number(r, "now_ms", &out->now_ms);
        (void)result_number(r, "oldest_seconds", &out->oldest_seconds);
        (void)result_number(r, "prepared", &out->prepared);
        (void)result_number(r, "slots", &out->slots);
        (void)result_number(r, "slots_max", &out->slots_max);
        result_copy(out->version_text, sizeof(out->version_text), r, "version");
        result_copy(out->role, sizeof(out->role), r, "role");
    }
    connection_close(c);
    return code;
}

void doctor_postgres(struct doctor *d)
{
    const struct config *c = d->o->config;
    struct error e;
    bool needed = false;
    for (size_t i = 0; i < c->filter_count; i++)
        needed |= c->filter[i].table[0] != '\0';
    if (!needed) {
        doctor_tell(d, DOCTOR_OK, "", "", "not needed: no filter has a table");
        return;
    }
    uint64_t began = clock_wall_us();
    if (ask_server(&d->postgres, c, &e) != ERR_OK) {
        doctor_tell(
            d, DOCTOR_PROBLEM, "",
            "start it; check [postgres] dsn, the password, pg_hba.conf, and that this machine reaches it",
            "%s", e.text);
        return;
    }
    d->has_postgres = true;
    d->postgres_clock_ms = (int64_t)d->postgres.now_ms - (int64_t)((began + clock_wall_us()) / 2000);
    doctor_server(d);
}

void doctor_server(struct doctor *d)
{
    const struct server_facts *f = &d->postgres;
    if (f->standby)
        doctor_tell(d, DOCTOR_PROBLEM, "",
                    "connect to the primary (target_session_attrs=primary in the dsn), and set read_dsn to "
                    "read from the standby",
                    "Postgres %s is a standby, which cannot see the open transactions of its primary",
                    f->version_text);
    else if (f->version < VERSION_OLDEST)
        doctor_tell(d, DOCTOR_WARNING, "", "upgrade it to Postgres 15 or later", "Postgres %s is not tested",
                    f->version_text);
    else
        doctor_tell(d, DOCTOR_OK, "", "", "Postgres %s", f->version_text);
}

/* --- rights --- */

void doctor_rights(struct doctor *d)
{
    char remedy[256];
    if (!d->has_postgres)
        return;
    (void)snprintf(remedy, sizeof(remedy), "GRANT pg_read_all_stats TO %s", d->postgres.role);
    if (d->postgres.sees_statistics)
        doctor_tell(d, DOCTOR_OK, "", "", "role %s sees other sessions", d->postgres.role);
    else
        doctor_tell(d, DOCTOR_WARNING, "", remedy,
                    "role %s does not see other sessions: a rebuild waits for autovacuum too, and cannot say "
                    "whom it waits for, nor how far standbys are behind",
                    d->postgres.role);
}

/* --- transactions --- */

void doctor_transactions(struct doctor *d)
{
    if (!d->has_postgres)
        return;
    if (d->postgres.oldest_seconds > LONG_SECONDS)
        doctor_tell(
            d, DOCTOR_WARNING, "",
            "find it in pg_stat_activity (xact_start) and end it, or set idle_in_transaction_session_timeout",
            "a transaction has been open for %" PRIu64 " s: a rebuild waits for it",
            d->postgres.oldest_seconds);
    else if (d->postgres.prepared > 0)
        doctor_tell(d, DOCTOR_WARNING, "", "look at pg_prepared_xacts, and commit them or roll them back",
                    "%" PRIu64 " prepared transactions are open: a rebuild waits for them",
                    d->postgres.prepared);
    else
        doctor_tell(d, DOCTOR_OK, "", "", "none has been open for longer than 10 minutes");
}

/* --- tables --- */

static void tell_rows(struct doctor *d, struct source *source, const struct config_filter *f)
{
    struct error e;
    struct source_rows rows;
    char warning[512] = "";
    if (source_warning(source, warning, sizeof(warning), &e) != ERR_OK ||
        source_rows_look(source, &rows, &e) != ERR_OK) {
        doctor_tell_error(d, DOCTOR_PROBLEM, f->name, &e, "");
        return;
    }
    if (warning[0] != '\0') {
        (void)snprintf(e.text, sizeof(e.text), "%s", warning);
        doctor_tell_error(d, DOCTOR_WARNING, f->name, &e, "");
    } else if (rows.by == SOURCE_ROWS_GUESSED) {
        doctor_tell(d, DOCTOR_WARNING, f->name, "ANALYZE the table",
                    "%s: the planner has no statistics of it", f->table);
    } else {
        doctor_tell(d, DOCTOR_OK, f->name, "", "%s: %s%" PRIu64 " rows", f->table,
                    rows.by == SOURCE_ROWS_COUNTED ? "" : "about ", rows.rows);
    }
}

struct source *doctor_open_source(const struct doctor *d, const struct config_filter *f, struct error *e)
{
    struct source *s = NULL;
    struct source_history history;
    struct source_config sc = sources_config(d->o->config, f);
    sc.application = "twinbloom doctor";
    if (source_open(&s, &sc, (unsigned)d->o->config->postgres_timeout_ms, e) == ERR_OK &&
        source_check(s, e) == ERR_OK && source_history(s, &history, e) == ERR_OK &&
        timelines_look(d->redis, d->o->config->prefix, &history, false, e) == ERR_OK)
        return s;
    source_close(s);
    return NULL;
}

static void look_at_table(struct doctor *d, const struct config_filter *f)
{
    struct error e;
    SCOPED(source_drop) struct source *source = doctor_open_source(d, f, &e);
    if (source != NULL)
        tell_rows(d, source, f);
    else
        doctor_tell_error(d, DOCTOR_PROBLEM, f->name, &e, "");
}

void doctor_tables(struct doctor *d)
{
    doctor_each_table(d, look_at_table);
}

/* --- spill_dir --- */

void doctor_spill(struct doctor *d)
{
    struct error e;
    struct spill_file *file = NULL;
    if (!d->has_postgres)
        return;
    if (spill_file_new(&file, d->o->config->spill_dir, 1, &e) == ERR_OK)
        doctor_tell(d, DOCTOR_OK, "", "", "spill_dir %s can be written", d->o->config->spill_dir);
    else
        doctor_tell(d, DOCTOR_WARNING, "",
                    "set spill_dir in [rebuild] to a directory that twinbloomd may write",
                    "%s: a build that does not fit into build_memory fails", e.text);
    spill_file_free(file);
}
