/* SPDX-License-Identifier: MIT */
#include "shard/log/tail.h"

#include <assert.h>
#include <string.h>
#include "base/info.h"

struct record_head {
    struct log_id id;
    uint32_t length;
};

const char *tail_state_name(enum tail_state state)
{
    static const char *const names[] = {[TAIL_COMPLETE] = "complete",
                                        [TAIL_MORE] = "more to read",
                                        [TAIL_GAP] = "the position is no longer in the lane",
                                        [TAIL_LOST] = "the lane is lost",
                                        [TAIL_ERA] = "another replication id, or no master",
                                        [TAIL_EMPTY] = "no entry from the position on",
                                        [TAIL_NEW] = "a new connection",
                                        [TAIL_LAYER] = "a layer begins that is not known yet"};
    return names[state];
}

void tail_clear(struct tail *t)
{
    struct buffer entries = t->entries;
    buffer_clear(&entries);
    *t = (struct tail){.entries = entries};
}

void tail_fini(struct tail *t)
{
    buffer_fini(&t->entries);
}

static enum err unexpected(const struct lane *lane, const char *command, const redisReply *reply,
                           struct error *e)
{
    if (reply->type == REDIS_REPLY_ERROR)
        return lane_refusal(lane, reply, e);
    return error_set(e, ERR_PARSE, "lane %s: unexpected reply to %s", lane->key.text, command);
}

/* --- entries --- */

/* "[id, [e, bytes]]" */
static bool parse_element(const redisReply *element, struct log_id *id, const redisReply **bytes)
{
    if (element->type != REDIS_REPLY_ARRAY || element->elements != 2)
        return false;
    const redisReply *name = element->element[0], *fields = element->element[1];
    if (name->type != REDIS_REPLY_STRING || !log_id_parse(id, name->str, name->len) ||
        fields->type != REDIS_REPLY_ARRAY || fields->elements != 2)
        return false;
    const redisReply *field = fields->element[0];
    *bytes = fields->element[1];
    return field->type == REDIS_REPLY_STRING && field->len == 1 && field->str[0] == 'e' &&
           (*bytes)->type == REDIS_REPLY_STRING;
}

static enum err keep(struct tail *t, const struct lane *lane, const redisReply *element, struct error *e)
{
    const redisReply *bytes = NULL;
    struct log_entry entry;
    struct error why = {"its fields are others"};
    struct record_head head;
    enum err code = ERR_PARSE;
    if (parse_element(element, &head.id, &bytes))
        code = log_entry_decode(&entry, bytes->str, bytes->len, &why);
    if (code != ERR_OK) {
        const redisReply *name =
            element->type == REDIS_REPLY_ARRAY && element->elements > 0 ? element->element[0] : NULL;
        const char *id = name != NULL && name->type == REDIS_REPLY_STRING ? name->str : "?";
        return error_set(e, code, "lane %s: entry %s is not an entry of this log: %s", lane->key.text, id,
                         why.text);
    }
    head.length = (uint32_t)bytes->len;
    buffer_append(&t->entries, &head, sizeof(head));
    buffer_append(&t->entries, bytes->str, bytes->len);
    return ERR_OK;
}

static bool is_anchor(const redisReply *element, const struct log_position *from)
{
    const redisReply *bytes = NULL;
    struct log_id id;
    return parse_element(element, &id, &bytes) && log_position_is(from, id, bytes->str, bytes->len);
}

bool tail_next(struct tail *t, struct tail_record *out)
{
    struct record_head head;
    if (t->next == t->entries.length)
        return false;
    memcpy(&head, t->entries.data + t->next, sizeof(head));
    out->id = head.id;
    out->length = head.length;
    out->bytes = (const uint8_t *)t->entries.data + t->next + sizeof(head);
    t->next += sizeof(head) + head.length;
    enum err code = log_entry_decode(&out->entry, out->bytes, out->length, NULL);
    assert(code == ERR_OK); /* tail_take_range() has decoded it */
    (void)code;
    return true;
}

/* --- replies --- */

enum err tail_take_length(struct tail *t, const struct lane *lane, const redisReply *reply, struct error *e)
{
    if (reply->type != REDIS_REPLY_INTEGER)
        return unexpected(lane, "XLEN", reply, e);
    t->has_length = true;
    t->length = (uint64_t)reply->integer;
    return ERR_OK;
}

enum err tail_take_range(struct tail *t, const struct lane *lane, const struct log_position *from,
                         const redisReply *reply, struct error *e)
{
    if (reply->type != REDIS_REPLY_ARRAY)
        return unexpected(lane, "XRANGE", reply, e);
    t->has_range = true;
    t->count = (unsigned)reply->elements;
    unsigned first = 0;
    t->is_anchored = from == NULL;
    while (!t->is_anchored && first < t->count)
        t->is_anchored = is_anchor(reply->element[first++], from);
    enum err code = ERR_OK;
    for (unsigned i = first; t->is_anchored && i < t->count && code == ERR_OK; i++)
        code = keep(t, lane, reply->element[i], e);
    if (code == ERR_OK && buffer_failed(&t->entries))
        code = error_set(e, ERR_NOMEM, "out of memory");
    return code;
}

enum err tail_take_info(struct tail *t, const struct lane *lane, const redisReply *reply, struct error *e)
{
    if (reply->type != REDIS_REPLY_STRING)
        return unexpected(lane, "INFO replication", reply, e);
    t->has_info = true;
    t->era = info_master_id(reply->str, reply->len);
    return ERR_OK;
}

bool tail_is_other_era(const struct tail *t, const struct lane *lane)
{
    return t->has_info && (t->era == 0 || t->era != lane->era);
}

enum tail_state tail_state(const struct tail *t, const struct lane *lane)
{
    assert(t->has_range && t->has_info);
    if (tail_is_other_era(t, lane))
        return TAIL_ERA;
    if (t->count == 0)
        return !t->has_length ? TAIL_EMPTY : t->length == 0 ? TAIL_LOST : TAIL_GAP;
    if (!t->is_anchored)
        return TAIL_GAP;
    return t->count < LANE_RANGE_COUNT ? TAIL_COMPLETE : TAIL_MORE;
}
