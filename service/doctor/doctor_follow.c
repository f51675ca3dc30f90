/* SPDX-License-Identifier: MIT */
/* Checks what following a table needs of the database: a standby, an outbox, logical replication and its
 * slots. */
#include "service/doctor/doctor_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "expansion/follow/follower.h"
#include "migrate/source/connection.h"
#include "migrate/change/outbox.h"
#include "migrate/source/source.h"
#include "migrate/change/stream.h"

static const struct source_watch nobody = {NULL, NULL};

/* --- followers --- */

static enum err try_outbox(const struct doctor *d, const struct config_filter *f, struct source *s,
                           struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned i = 0; i < source_tables(s) && code == ERR_OK; i++) {
        struct outbox *outbox = NULL;
        const struct outbox_options o = {.dsn = d->o->config->dsn,
                                         .application = "twinbloom doctor",
                                         .outbox = f->outbox,
                                         .table = source_table(s, i),
                                         .timeout_ms = (unsigned)d->o->config->postgres_timeout_ms,
                                         .watch = nobody};
        code = outbox_open(&outbox, &o, e);
        outbox_close(outbox);
    }
    return code;
}

/* Opens a stream without reading: no slot is made or moved. */
static enum err try_stream(const struct doctor *d, const struct config_filter *f, struct source *s,
                           struct error *e)
{
    char slot[FOLLOWER_SLOT_MAX];
    const char *columns[SOURCE_ID_COLUMNS_MAX];
    unsigned tables = source_tables(s), count = source_id_columns(s, columns);
    struct stream_table *list = calloc(tables, sizeof(*list));
    struct stream *stream = NULL;
    if (list == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    for (unsigned i = 0; i < tables; i++)
        list[i] =
            (struct stream_table){.table = source_table(s, i), .id_columns = columns, .id_count = count};
    follower_slot_of(slot, f->slot, f->name);
    const struct stream_options o = {.dsn = d->o->config->dsn,
                                     .application = "twinbloom doctor",
                                     .slot = slot,
                                     .publication = f->publication,
                                     .timeout_ms = (unsigned)d->o->config->postgres_timeout_ms,
                                     .watch = nobody,
                                     .tables = list,
                                     .table_count = tables};
    enum err code = stream_open(&stream, &o, e);
    if (code == ERR_OK)
        stream_close(stream);
    free(list);
    return code;
}

static void look_at_follower(struct doctor *d, const struct config_filter *f)
{
    struct error e;
    SCOPED(source_drop) struct source *s = doctor_open_source(d, f, &e);
    if (s == NULL)
        return; /* the probe of tables reports the reason */
    enum err code = ERR_OK;
    if (f->follow_by == FOLLOW_BY_OUTBOX)
        code = try_outbox(d, f, s, &e);
    else if (f->follow_by == FOLLOW_BY_LOGICAL)
        code = try_stream(d, f, s, &e);
    if (code != ERR_OK)
        doctor_tell_error(d, DOCTOR_PROBLEM, f->name, &e, "");
    else if (f->follow_by == FOLLOW_BY_IDS && f->follow && !source_id_is_integer(s))
        doctor_tell(
            d, DOCTOR_WARNING, f->name, "set follow_by = outbox or logical, or follow = no",
            "rows that plain SQL writes wait for the next rebuild: the id is no single integer column");
    else
        doctor_tell(d, DOCTOR_OK, f->name, "", "%s%s",
                    f->follow_by == FOLLOW_BY_IDS       ? "by ids"
                    : f->follow_by == FOLLOW_BY_LOGICAL ? "by logical replication"
                                                        : "by an outbox",
                    f->follow ? "" : ", during rebuilds only");
}

void doctor_followers(struct doctor *d)
{
    doctor_each_table(d, look_at_follower);
}

/* --- standby for rebuilds --- */

void doctor_standby(struct doctor *d)
{
    const struct config *c = d->o->config;
    SCOPED(source_drop) struct source *primary = NULL, *standby = NULL;
    struct source_replay replay;
    char barrier[SOURCE_BARRIER_MAX];
    struct error e;
    double seconds = 0;
    if (!d->has_postgres || c->read_dsn[0] == '\0')
        return;
    for (size_t i = 0; primary == NULL && i < c->filter_count; i++)
        if (c->filter[i].table[0] != '\0')
            primary = doctor_open_source(d, &c->filter[i], &e);
    if (primary == NULL)
        return;
    if (source_open_another(&standby, primary, c->read_dsn, "twinbloom doctor", nobody, &e) != ERR_OK ||
        source_barrier(primary, barrier, &e) != ERR_OK ||
        source_has_replayed(standby, barrier, &replay, &e) != ERR_OK)
        doctor_tell(d, DOCTOR_PROBLEM, "", "check [postgres] read_dsn", "%s", e.text);
    else if (replay.foreign)
        doctor_tell(d, DOCTOR_PROBLEM, "",
                    "check [postgres] read_dsn; rebuilds wait for a standby of dsn's server",
                    "read_dsn leads to no standby of dsn's server: %s", replay.why);
    else if (source_replication_lag(primary, &seconds, &e) == ERR_OK &&
             seconds * 1000 > (double)c->replication_lag_max_ms)
        doctor_tell(d, DOCTOR_WARNING, "", "see what holds replay up; rebuilds wait for it",
                    "it is %.0f s behind", seconds);
    else
        doctor_tell(d, DOCTOR_OK, "", "", "it answers, %.0f s behind", seconds < 0 ? 0 : seconds);
}

/* --- slots --- */

static bool is_configured(const struct doctor *d, const char *slot)
{
    const struct config *c = d->o->config;
    char name[FOLLOWER_SLOT_MAX];
    for (size_t i = 0; i < c->filter_count; i++) {
        const struct config_filter *f = &c->filter[i];
        follower_slot_of(name, f->slot, f->name);
        if (f->table[0] != '\0' && f->follow_by == FOLLOW_BY_LOGICAL && strcmp(name, slot) == 0)
            return true;
    }
    return false;
}

void doctor_slot(struct doctor *d, const char *slot, const struct stream_slot *s)
{
    uint64_t most = d->o->config->slot_wal_max;
    char remedy[200];
    (void)snprintf(
        remedy, sizeof(remedy),
        "nothing: it is dropped after slot_grace; or now: SELECT pg_drop_replication_slot('%.64s')", slot);
    if (s->lost)
        doctor_tell(d, DOCTOR_PROBLEM, slot,
                    "raise max_slot_wal_keep_size; the slot is made again, and missed rows are read",
                    "Postgres has given it up, and removed log that was not read");
    else if (!is_configured(d, slot))
        doctor_tell(d, DOCTOR_WARNING, slot, remedy,
                    "no filter of this configuration uses it; Postgres keeps %" PRIu64 " bytes of log for it",
                    s->retained);
    else if (s->retained > most / 2)
        doctor_tell(d, DOCTOR_WARNING, slot,
                    "see whether a coordinator follows the table: twinbloom status FILTER",
                    "Postgres keeps %" PRIu64 " bytes of log for it; at %" PRIu64 " it is dropped",
                    s->retained, most);
    else
        doctor_tell(d, DOCTOR_OK, slot, "", "%s, Postgres keeps %" PRIu64 " bytes of log for it",
                    s->active ? "in use" : "not in use now", s->retained);
}

/* Check the slots that were noted for this database. */
static void look_at_slots(struct doctor *d, struct connection *server, const redisReply *noted)
{
    char place[STREAM_PLACE_MAX];
    struct error e;
    if (stream_slot_place(server, place, &e) != ERR_OK) {
        doctor_tell_error(d, DOCTOR_PROBLEM, "", &e, "");
        return;
    }
    size_t length = strlen(place);
    for (size_t i = 0; i + 1 < noted->elements; i += 2) {
        const char *field = noted->element[i]->str;
        struct stream_slot s;
        if (strncmp(field, place, length) != 0 || field[length] != '/')
            continue;
        if (stream_slot_state(server, field + length + 1, &s, &e) != ERR_OK)
            doctor_tell_error(d, DOCTOR_PROBLEM, field + length + 1, &e, "");
        else if (s.exists && s.is_ours)
            doctor_slot(d, field + length + 1, &s);
    }
}

void doctor_slots(struct doctor *d)
{
    const struct config *c = d->o->config;
    struct connection *server = NULL;
    SCOPED(scope_reply) redisReply *noted = NULL;
    struct error e;
    char key[PREFIX_MAX + sizeof(":slots")];
    if (!d->has_postgres)
        return;
    if (d->postgres.slots >= d->postgres.slots_max && d->postgres.slots_max > 0)
        doctor_tell(d, DOCTOR_WARNING, "", "raise max_replication_slots, then restart Postgres",
                    "all %" PRIu64 " replication slots of the server are taken", d->postgres.slots_max);
    (void)snprintf(key, sizeof(key), "%s:slots", c->prefix);
    unsigned where = nodes_key(d->o->nodes, key, strlen(key));
    if (sync_client_command(d->redis, where, &noted, &e, "HGETALL %s", key) != ERR_OK)
        return; /* others report it */
    if (noted->type == REDIS_REPLY_ARRAY && noted->elements > 0) {
        if (connection_open(&server, CONNECTION_SQL, c->dsn, "twinbloom slots",
                            (unsigned)c->postgres_timeout_ms, nobody, &e) == ERR_OK)
            look_at_slots(d, server, noted);
        else
            doctor_tell_error(d, DOCTOR_PROBLEM, "", &e, "");
        connection_close(server);
    }
}
