/* SPDX-License-Identifier: MIT */
#include "shard/members/remove.h"

#include <stdlib.h>
#include <string.h>
#include "shard/members/roll_internal.h"
#include "shard/view/view_load.h"

extern const char embedded_remove_doubt[], embedded_remove_folded[], embedded_remove_degraded[],
    embedded_remove_restore[];

/* Begin a script on the view, with the writer as argument. */
static void begin(struct roll *r, const char *text, const uint8_t writer[LOG_WRITER_BYTES])
{
    roll_begin(r, text);
    roll_put_writer(r, writer);
}

enum err remove_doubt(struct roll *r, const struct log_writer *w, struct error *e)
{
    long long result = 0;
    begin(r, embedded_remove_doubt, w->id);
    script_number(&r->call, w->registration);
    enum err code = roll_run(r, &result, e);
    if (code != ERR_OK)
        return code;
    if (result == 1)
        log_view_notify(r->redis, r->names);
    else
        code = result < 0 ? roll_not_registered(w->id, e) : log_view_another(r->names, e);
    return code;
}

/* --- removal once all entries are folded --- */

struct looked {
    const struct lane_put *put;
    bool met;
};

static enum err compare(void *arg, const struct tail_record *record, struct error *e)
{
    struct looked *k = arg;
    (void)e;
    k->met = record->length == k->put->length && memcmp(record->bytes, k->put->bytes, record->length) == 0;
    return ERR_OK;
}

/* Append @put to @lane, and check that it is there, under the lane's era. */
static enum err append(struct roll *r, const struct lane *lane, struct lane_put *put, struct error *e)
{
    struct looked k = {.put = put};
    struct lane_page page;
    enum err code = lane_put(r->redis, lane, put, 1, e);
    if (code == ERR_OK)
        code = lane_look(r->redis, lane, put->id, 1, compare, &k, &page, e);
    return code == ERR_OK && !k.met ? error_set(e, ERR_FENCED, "lane %.*s has another replication id",
                                                (int)lane->key.length, lane->key.text)
                                    : code;
}

enum err remove_begin(struct roll *r, const struct log_view *v, const struct log_writer *w,
                      struct removal *out, struct error *e)
{
    struct lane_put *put = calloc(1, sizeof(*put));
    enum err code = ERR_OK;
    if (put == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    *out = (struct removal){.registration = w->registration, .lanes = v->lane_count};
    memcpy(out->writer, w->id, LOG_WRITER_BYTES);
    sync_client_forget(r->redis); /* earlier replies belong to nobody */
    for (unsigned i = 0; i < v->lane_count && code == ERR_OK; i++) {
        struct lane lane;
        code = roll_lane(r, v, i, &lane, e);
        put->length = log_entry_encode_removal(put->bytes, w->id, w->registration);
        if (code == ERR_OK)
            code = lane.era == 0 ? log_view_another(r->names, e) : append(r, &lane, put, e);
        out->lane[i] = v->lane[i];
        out->notice[i] = put->id;
    }
    free(put);
    return code;
}

enum err remove_end(struct roll *r, const struct removal *m, struct error *e)
{
    long long result = 0;
    char id[LOG_ID_TEXT_MAX];
    begin(r, embedded_remove_folded, m->writer);
    script_number(&r->call, m->registration);
    log_lanes_text(m->lane, m->lanes, script_argument(&r->call));
    for (unsigned i = 0; i < m->lanes; i++)
        script_bytes(&r->call, id, log_id_format(m->notice[i], id));
    enum err code = roll_run(r, &result, e);
    if (code != ERR_OK || result == 1)
        return code;
    if (result == -2)
        return error_set(e, ERR_BUSY, "the shards do not hold all entries of a writer that is being removed");
    return result == -1 ? roll_not_registered(m->writer, e) : log_view_another(r->names, e);
}

/* --- removal while a roll call waits --- */

/* Read the eras of the lanes' nodes. *@waits: a roll call waits for @w. *@same: some lane's era is the
 * view's. */
static enum err look_at_eras(struct roll *r, const struct log_view *v, const struct log_writer *w,
                             uint64_t era[LOG_LANES_MAX], bool *waits, bool *same, struct error *e)
{
    struct lane_page page;
    enum err code = ERR_OK;
    *waits = *same = false;
    for (unsigned i = 0; i < v->lane_count && code == ERR_OK; i++) {
        struct lane there;
        code = roll_lane(r, v, i, &there, e);
        if (code == ERR_OK)
            code = roll_look_at_era(r, &there, NULL, &page, e);
        if (code != ERR_OK)
            break;
        era[i] = page.era;
        *same |= page.era == v->lane[i].era;
        *waits |= page.era != v->lane[i].era && !log_writer_has_said(w, i, v->lane[i].number, page.era);
    }
    return code;
}

/* Replace the lanes whose era is the view's, and load the view again. */
static enum err leave_eras(struct roll *r, struct log_view *v, const uint64_t era[LOG_LANES_MAX],
                           struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned i = 0; i < v->lane_count && code == ERR_OK; i++)
        if (era[i] == v->lane[i].era)
            code = roll_replace_lane(r, v, i, e);
    if (code == ERR_OK)
        code = log_view_load(r->redis, r->names, v, e);
    return code;
}

static enum err remove_from(struct roll *r, const struct log_view *v, const uint8_t writer[LOG_WRITER_BYTES],
                            const uint64_t era[LOG_LANES_MAX], struct error *e)
{
    long long result = 0;
    begin(r, embedded_remove_degraded, writer);
    log_lanes_text(v->lane, v->lane_count, script_argument(&r->call));
    for (unsigned i = 0; i < v->lane_count; i++)
        script_incarnation(&r->call, era[i]);
    enum err code = roll_run(r, &result, e);
    if (code != ERR_OK || result == 1)
        return code;
    return result == -1 ? roll_not_registered(writer, e) : log_view_another(r->names, e);
}

static enum err remove_with(struct roll *r, struct log_view *v, const uint8_t writer[LOG_WRITER_BYTES],
                            struct error *e)
{
    uint64_t era[LOG_LANES_MAX] = {0};
    char name[LOG_WRITER_NAME_MAX];
    bool waits, same;
    const struct log_writer *w = log_view_writer(v, writer);
    if (w == NULL)
        return roll_not_registered(writer, e);
    enum err code = look_at_eras(r, v, w, era, &waits, &same, e);
    if (code == ERR_OK && !waits) {
        log_writer_name(writer, name);
        code = error_set(e, ERR_CONFLICT, "no roll call waits for %s", name);
    }
    if (code == ERR_OK && same)
        code = leave_eras(r, v, era, e);
    return code == ERR_OK ? remove_from(r, v, writer, era, e) : code;
}

enum err remove_degraded(struct roll *r, const struct log_view *v, const uint8_t writer[LOG_WRITER_BYTES],
                         struct error *e)
{
    struct log_view *now = malloc(sizeof(*now));
    if (now == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    *now = *v;
    enum err code = remove_with(r, now, writer, e);
    free(now);
    return code;
}

/* --- a view that went back --- */

enum err remove_undo(struct roll *r, const struct log_lane *lane, unsigned lanes,
                     const struct log_writer *writers, unsigned count, unsigned *entered, struct error *e)
{
    long long result = 0;
    *entered = 0;
    roll_begin(r, embedded_remove_restore);
    log_lanes_text(lane, lanes, script_argument(&r->call));
    script_number(&r->call, LOG_WRITERS_MAX);
    for (unsigned i = 0; i < count; i++) {
        roll_put_writer(r, writers[i].id);
        script_number(&r->call, writers[i].registration);
    }
    enum err code = roll_run(r, &result, e);
    if (code == ERR_OK && result < 0)
        code = log_view_another(r->names, e);
    if (code == ERR_OK)
        *entered = (unsigned)result;
    return code;
}
