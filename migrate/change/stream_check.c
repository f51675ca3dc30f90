/* SPDX-License-Identifier: MIT */
/* Checks that server, role and publication are fit for a stream; an error names the remedy. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "migrate/source/result.h"
#include "migrate/change/stream_internal.h"

enum {
    SERVER_VERSION_MIN = 150000,
    REPORT_MS = 10 * 1000,   /* between two reports; the server may require them more often */
    REPORTS_PER_TIMEOUT = 4, /* reports within the server's timeout */
    REPORT_MS_MIN = 100,
};

/* The interval between reports, ms: short enough for the server, which closes silent connections. If
 * wal_sender_timeout is 0, it does not. */
static unsigned interval_for(const PGresult *r)
{
    uint64_t timeout_ms;
    if (!result_number(r, "wal_sender_timeout", &timeout_ms) || timeout_ms == 0 ||
        timeout_ms / REPORTS_PER_TIMEOUT >= REPORT_MS)
        return REPORT_MS;
    uint64_t ms = timeout_ms / REPORTS_PER_TIMEOUT;
    return ms < REPORT_MS_MIN ? REPORT_MS_MIN : (unsigned)ms;
}

enum err stream_check_server(struct stream *s, struct error *e)
{
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = connection_run(s->connection, "replication_check", NULL, &r, e);
    if (err != ERR_OK)
        return err;
    s->interval_ms = interval_for(r);
    if (connection_version(s->connection) < SERVER_VERSION_MIN)
        err = error_set(e, ERR_CONFIG, "a stream of changes needs Postgres 15 or later");
    else if (result_is_true(r, "is_standby"))
        err = error_set(
            e, ERR_CONFIG,
            "the server is a standby; connect to the primary (target_session_attrs=primary in the dsn)");
    else if (!result_is_true(r, "is_logical"))
        err = error_set(
            e, ERR_CONFIG,
            "wal_level is not logical; ALTER SYSTEM SET wal_level = logical, then restart Postgres");
    return err;
}

enum err stream_explain(const struct stream_options *options, enum err err, struct error *e)
{
    struct connection *c = NULL;
    SCOPED(scope_result) PGresult *r = NULL;
    bool answered = connection_open(&c, CONNECTION_SQL, options->dsn, options->application,
                                    options->timeout_ms, options->watch, NULL) == ERR_OK &&
                    connection_run(c, "replication_check", NULL, &r, NULL) == ERR_OK;
    if (answered && !result_is_true(r, "may_replicate"))
        err = error_set(e, ERR_CONFIG, "role %s may not replicate; ALTER ROLE %s REPLICATION",
                        result_text(r, "role"), result_text(r, "role"));
    else if (answered && strcmp(result_text(r, "max_wal_senders"), "0") == 0)
        err = error_set(e, ERR_CONFIG,
                        "max_wal_senders is 0; ALTER SYSTEM SET max_wal_senders = 10, then restart Postgres");
    connection_close(c);
    return err;
}

/* --- publication --- */

static enum err judge_table(const PGresult *r, struct error *e)
{
    const char *publication = result_text(r, "publication");
    const char *table = result_text(r, "table");
    if (!result_is_true(r, "exists"))
        return error_set(e, ERR_CONFIG,
                         "publication %s does not exist; CREATE PUBLICATION %s FOR TABLE %s WITH (publish = "
                         "'insert, update', publish_via_partition_root = true)",
                         publication, publication, table);
    if (!result_is_true(r, "is_enough"))
        return error_set(e, ERR_CONFIG,
                         "publication %s does not publish inserts and updates; ALTER PUBLICATION %s SET "
                         "(publish = 'insert, update')",
                         publication, publication);
    if (!result_is_true(r, "has_table"))
        return error_set(e, ERR_CONFIG,
                         "publication %s does not have table %s; ALTER PUBLICATION %s ADD TABLE %s",
                         publication, table, publication, table);
    if (result_is_true(r, "has_filter"))
        return error_set(e, ERR_CONFIG,
                         "publication %s has a condition on rows of table %s, which could hide some; ALTER "
                         "PUBLICATION %s DROP TABLE %s, then ADD TABLE without WHERE",
                         publication, table, publication, table);
    if (result_is_true(r, "is_unlogged"))
        return error_set(e, ERR_CONFIG,
                         "table %s, or a partition of it, is UNLOGGED: its rows are not in the log that is "
                         "sent; ALTER TABLE ... SET LOGGED",
                         table);
    return ERR_OK;
}

static enum err judge_column(const PGresult *r, struct error *e)
{
    const char *publication = result_text(r, "publication");
    const char *table = result_text(r, "table");
    const char *column = result_text(r, "column");
    if (!result_is_true(r, "column_exists"))
        return error_set(e, ERR_CONFIG, "table %s has no column %s", table, column);
    if (result_is_true(r, "lacks_column"))
        return error_set(e, ERR_CONFIG,
                         "publication %s does not send column %s of table %s; ALTER PUBLICATION %s SET TABLE "
                         "with it in the list of columns, or without a list (generated columns are not sent)",
                         publication, column, table, publication);
    return ERR_OK;
}

static enum err check_column(struct stream *s, size_t table, const char *column, struct error *e)
{
    char oid[16];
    (void)snprintf(oid, sizeof(oid), "%" PRIu32, s->oids[table]);
    SCOPED(scope_result) PGresult *r = NULL;
    enum err err = connection_run(
        s->connection, "publication_check",
        SQL_BINDINGS({"publication", s->options.publication}, {"oid", oid}, {"column", column}), &r, e);
    if (err != ERR_OK)
        return err;
    if (PQntuples(r) != 1)
        err = error_set(e, ERR_CONFIG, "table %s was dropped", s->options.tables[table].table);
    if (err == ERR_OK)
        err = judge_table(r, e);
    return err == ERR_OK ? judge_column(r, e) : err;
}

enum err stream_check_publication(struct stream *s, struct error *e)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < s->options.table_count; i++)
        for (size_t j = 0; j < s->options.tables[i].id_count && err == ERR_OK; j++)
            err = check_column(s, i, s->options.tables[i].id_columns[j], e);
    return err;
}
