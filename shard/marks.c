/* SPDX-License-Identifier: MIT */
/* Marks on every master.
 *
 * The happy path of writing is: all masters are sent the script, then all replies are read. Possible failure
 * modes are: one is away (the others have their mark all the same; what is found on it later is older, so
 * that more rows are read), the slot has moved in between (refused; the next mark goes to where it is by
 * then), no memory (as if it were away). */
#include "shard/marks.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "shard/script.h"
#include "shard/script_call.h"
#include "shard/slots.h"

/* --- names --- */

static uint32_t tag_of_slot[SLOTS];

/* The smallest number whose digits belong into each slot. The last one is found below 200,000. */
static void find_tags(void)
{
    for (unsigned left = SLOTS, n = 1; left > 0; n++) {
        char digits[12];
        int length = snprintf(digits, sizeof(digits), "%u", n);
        unsigned slot = slots_of_crc(slots_crc(0, digits, (size_t)length));
        if (tag_of_slot[slot] == 0) {
            tag_of_slot[slot] = n;
            left--;
        }
    }
}

void marks_key(const char *prefix, unsigned slot, const char *what, struct key_name *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, find_tags);
    int length = slot < SLOTS
                     ? snprintf(out->text, sizeof(out->text), "%s:{%u}:%s", prefix, tag_of_slot[slot], what)
                     : snprintf(out->text, sizeof(out->text), "%s:%s", prefix, what);
    out->length = (size_t)length;
}

void marks_name(const char *prefix, unsigned slot, struct key_name *out)
{
    marks_key(prefix, slot, "mark", out);
}

/* --- one mark as text: ms:horizon:next:server:lineage --- */

enum { MARK_TEXT_MAX = 3 * 21 + MARK_SERVER_MAX + MARK_LINEAGE_MAX + 8 };

/* The part up to the next colon, or to the end; *@at moves behind it. */
static bool next_part(const char **at, const char *end, const char **part, size_t *length)
{
    if (*at > end)
        return false;
    const char *colon = memchr(*at, ':', (size_t)(end - *at));
    const char *stop = colon == NULL ? end : colon;
    *part = *at;
    *length = (size_t)(stop - *at);
    *at = stop + 1;
    return true;
}

static bool is_lineage(const char *text, size_t length)
{
    if (length == 0 || length >= MARK_LINEAGE_MAX)
        return false;
    for (size_t i = 0; i < length; i++)
        if (strchr("0123456789abcdef", text[i]) == NULL || text[i] == '\0')
            return false;
    return true;
}

bool mark_parse(struct mark *out, const char *text, size_t length)
{
    enum { NUMBERS = 3, PARTS = 5 };
    const char *at = text, *end = text + length, *part[PARTS];
    size_t size[PARTS];
    *out = (struct mark){0};
    uint64_t *const numbers[NUMBERS] = {&out->ms, &out->horizon, &out->next};
    for (unsigned i = 0; i < PARTS; i++)
        if (!next_part(&at, end, &part[i], &size[i]))
            return false;
    for (unsigned i = 0; i < NUMBERS; i++)
        if (!number_u64(part[i], size[i], numbers[i]))
            return false;
    if (at <= end || size[3] == 0 || size[3] >= sizeof(out->server) || !is_lineage(part[4], size[4]) ||
        memchr(part[3], '\0', size[3]) != NULL || out->horizon > out->next)
        return false;
    memcpy(out->server, part[3], size[3]);
    memcpy(out->lineage, part[4], size[4]);
    return true;
}

/* --- writing --- */

static enum err send_mark(struct script_call *c, struct link *l, const char *prefix, unsigned i,
                          const char *text, const struct mark *m, uint64_t interval_ms, unsigned keep,
                          struct error *e)
{
    struct key_name name;
    marks_name(prefix, link_master_slot(l, i), &name);
    script_begin(c, embedded_mark);
    script_key(c, &name);
    script_text(c, text);
    script_number(c, m->ms);
    script_number(c, interval_ms);
    script_number(c, keep);
    return script_send(c, l, link_master(l, i), e);
}

static enum err read_mark(struct link *l, unsigned i, struct error *e)
{
    long long answer;
    enum err code = script_reply(l, link_master(l, i), &answer, e);
    if (code == ERR_OK && answer < 0)
        code = error_set(e, ERR_UNREACHABLE, "Redis node %s is no master", link_name(l, link_master(l, i)));
    return code;
}

enum err marks_write(struct link *l, const char *prefix, const struct mark *m, uint64_t interval_ms,
                     unsigned keep, struct marks_outcome *out, struct error *e)
{
    struct script_call call = {0};
    unsigned count = 0;
    char text[MARK_TEXT_MAX];
    (void)snprintf(text, sizeof(text), "%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%s", m->ms, m->horizon, m->next,
                   m->server);
    *out = (struct marks_outcome){0};
    enum err code = link_masters(l, &count, e);
    if (code != ERR_OK)
        return code;
    bool *sent = calloc(count + 1, sizeof(*sent));
    if (sent == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    for (unsigned i = 0; i < count; i++) {
        if (!link_master_has_slots(l, i))
            continue;
        out->masters++;
        sent[i] = send_mark(&call, l, prefix, i, text, m, interval_ms, keep, &out->why) == ERR_OK;
    }
    for (unsigned i = 0; i < count; i++)
        out->written += sent[i] && read_mark(l, i, &out->why) == ERR_OK;
    link_forget(l);
    script_fini(&call);
    free(sent);
    return ERR_OK;
}

/* --- reading --- */

static enum err take_list(const redisReply *reply, struct mark **out, size_t *count, struct error *e)
{
    *count = 0;
    *out = calloc(reply->elements + 1, sizeof(**out));
    if (*out == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *text = reply->element[i];
        if (text->type == REDIS_REPLY_STRING && mark_parse(&(*out)[*count], text->str, (size_t)text->len))
            ++*count;
    }
    return ERR_OK;
}

enum err marks_read(struct link *l, const char *prefix, unsigned i, struct mark **out, size_t *count,
                    struct error *e)
{
    struct key_name name;
    redisReply *reply;
    *out = NULL;
    *count = 0;
    marks_name(prefix, link_master_slot(l, i), &name);
    enum err code = link_command(l, link_master(l, i), &reply, e, "LRANGE %b 0 %d", name.text, name.length,
                                 MARKS_KEPT_MAX);
    if (code != ERR_OK)
        return code;
    code = take_list(reply, out, count, e);
    freeReplyObject(reply);
    return code;
}

/* --- choosing --- */

static bool of_this_history(const struct mark *m, const struct marks_wish *w)
{
    return strcmp(m->server, w->server) == 0 && m->next <= w->next;
}

/* Clocks may be set back: of what is passed on the way the oldest horizon counts, whatever its time says. */
bool marks_choose(const struct mark *marks, size_t count, const struct marks_wish *w, uint64_t *horizon)
{
    const struct mark *newest = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct mark *m = &marks[i];
        if (!of_this_history(m, w))
            continue;
        if (newest == NULL && !w->trusted(w->arg, m->lineage))
            continue; /* written since: it says nothing of what came before */
        if (newest == NULL) {
            newest = m;
            *horizon = m->horizon;
        }
        if (m->horizon < *horizon)
            *horizon = m->horizon;
        if (m->ms + w->margin_ms <= newest->ms)
            return newest->next > w->after;
    }
    return false;
}

unsigned marks_kept(uint64_t interval_ms, uint64_t margin_ms)
{
    uint64_t wanted = interval_ms == 0 ? 0 : 2 * (margin_ms / interval_ms) + MARKS_KEPT_MIN;
    return wanted < MARKS_KEPT_MIN   ? MARKS_KEPT_MIN
           : wanted > MARKS_KEPT_MAX ? MARKS_KEPT_MAX
                                     : (unsigned)wanted;
}
