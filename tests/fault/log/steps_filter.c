/* SPDX-License-Identifier: MIT */
#include "tests/fault/log/steps_filter.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "shard/view/view_load.h"
#include "tests/fault/log/lease.h"

enum {
    MORE = 100,
    SHARD_BYTES = 4096,
    GRACE_US = 300 * 1000 /* after which a silent writer is removed from the roll call */
};

bool steps_said(enum err code, const struct error *e)
{
    if (code != ERR_OK)
        (void)fprintf(stderr, "%s\n", e->text);
    return code == ERR_OK;
}

bool steps_is_said(bool ok, const char *text)
{
    if (!ok)
        (void)fprintf(stderr, "%s\n", text);
    return ok;
}

bool steps_make(struct steps *s, const struct nodes *nodes)
{
    struct error e = {""};
    struct sync_client *l = sync_client_new(nodes, STEPS_TIMEOUT_MS, NULL);
    struct names names = s->names;
    names.incarnation = 0;
    uint64_t capacity = s->kind->capacity != 0 ? s->kind->capacity : 4 * STEPS_KEYS;
    enum err code = log_member_make(l, &names, capacity, 2, SHARD_BYTES, &e);
    sync_client_free(l);
    return code == ERR_EXISTS || steps_said(code, &e);
}

static bool load_view(struct steps *s)
{
    struct error e = {""};
    return steps_said(log_view_load(s->link, &s->names, s->view, &e), &e);
}

struct log_member_options steps_member_options(struct steps *s, const struct nodes *nodes, bool folds)
{
    return (struct log_member_options){.nodes = nodes,
                                       .names = &s->names,
                                       .memory = UINT64_MAX,
                                       .timeout_ms = STEPS_TIMEOUT_MS,
                                       .lease_ms =
                                           LEASE_MS, /* a process that dies keeps the lease for this time */
                                       .folds = folds};
}

bool steps_allows_maybe;

static bool is_as(uint8_t answer, enum key_answer wanted)
{
    return answer == wanted || answer == KEY_UNSURE || (steps_allows_maybe && answer == KEY_MAYBE);
}

bool steps_ask(struct log_member *m, bool adds, uint64_t first, uint64_t last, enum key_answer wanted)
{
    static uint64_t keys[STEPS_KEYS];
    static uint8_t answers[STEPS_KEYS];
    struct error e = {""};
    uint64_t until = clock_mono_us() + STEPS_END_US;
    for (uint64_t at = first; at < last;) {
        unsigned count = (unsigned)(last - at < STEPS_KEYS ? last - at : STEPS_KEYS), wrong = 0;
        for (unsigned i = 0; i < count; i++)
            keys[i] = at + i;
        enum err code = log_member_ask(m, adds, keys, count, answers, &e);
        bool again = code != ERR_OK;
        for (; code != ERR_OK && clock_mono_us() < until; clock_sleep_us(STEPS_LOOK_US))
            code = log_member_ask(m, adds, keys, count, answers, &e);
        if (code != ERR_OK)
            return steps_said(code, &e);
        for (unsigned i = 0; i < count; i++)
            wrong += !is_as(answers[i], wanted);
        if (!(adds && again) &&
            wrong > (wanted == KEY_PRESENT ? 0 : count / 20)) { /* the others may be false positives */
            (void)fprintf(stderr, "of %u keys %u were answered otherwise than by %d\n", count, wrong, wanted);
            return false;
        }
        at += count;
    }
    return true;
}

bool steps_add_more(struct steps *s, struct log_member *m)
{
    bool ok = steps_ask(m, true, s->next, s->next + MORE, KEY_ADDED);
    for (uint64_t i = s->next; ok && i < s->next + MORE; i++)
        s->ledger->acknowledged[i % LEDGER_KEYS] = 1;
    s->next += ok ? MORE : 0;
    return ok;
}

/* Whether the current generation is folded up to the ends of all lanes. */
static bool is_folded(struct steps *s)
{
    const struct log_view *v = s->view;
    bool folded = load_view(s);
    for (unsigned i = 0; folded && i < v->lane_count; i++) {
        char id[LOG_ID_TEXT_MAX];
        struct key_name key;
        lane_key(&key, &s->names, i, v->lane[i].number);
        redisReply *r;
        if (sync_client_command(s->link, sync_client_home(s->link, &s->names), &r, NULL,
                                "XREVRANGE %b + - COUNT 1", key.text, key.length) != ERR_OK)
            return false;
        (void)log_id_format(v->slot[v->current].folded[i].position.id, id);
        folded = r->elements == 1 && strcmp(r->element[0]->element[0]->str, id) == 0;
        freeReplyObject(r);
    }
    return folded;
}

bool steps_wait_until_folded(struct steps *s, const struct log_member *m)
{
    uint64_t until = clock_mono_us() + STEPS_END_US;
    bool folded;
    while (!(folded = is_folded(s)) && clock_mono_us() < until)
        clock_sleep_us(STEPS_LOOK_US);
    for (unsigned i = 0; !folded && i < s->view->lane_count; i++) {
        char id[LOG_ID_TEXT_MAX];
        (void)log_id_format(s->view->slot[s->view->current].folded[i].position.id, id);
        (void)fprintf(stderr, "lane %u is folded to %s only: %s%s\n", i, id, s->writer.last.text,
                      m == NULL ? "" : m->last.text);
    }
    return folded;
}

bool steps_begin_filter(struct steps *s)
{
    struct error e = {""};
    s->next = 0;
    memset(s->ledger, 0, sizeof(*s->ledger));
    if (!steps_make(s, &s->b) || !load_view(s))
        return false;
    s->names.incarnation = s->view->incarnation;
    struct log_member_options o = steps_member_options(s, &s->b, false);
    if (s->kind->alone) { /* the writer folds, so that nobody waits for A forever */
        o.memory = 0;
        o.folds = true;
        o.writer_grace_us = GRACE_US;
    }
    s->has_writer = true;
    return steps_said(log_member_open(&s->writer, &o, &e), &e) && steps_add_more(s, &s->writer);
}

void steps_end_writer(struct steps *s)
{
    if (!s->has_writer)
        return;
    log_set_folding(s->writer.control, true);
    if (s->kind->alone)
        log_member_abandon(&s->writer);
    else
        log_member_close(&s->writer);
    s->has_writer = false;
}

bool steps_all_is_there(struct steps *s)
{
    static struct log_member m;
    struct error e = {""};
    const struct log_member_options o = steps_member_options(s, &s->b, false);
    bool ok = steps_said(log_member_open(&m, &o, &e), &e) && steps_ask(&m, false, 0, s->next, KEY_PRESENT) &&
              steps_ask(&m, false, LEDGER_NEVER, LEDGER_NEVER + STEPS_KEYS, KEY_ABSENT);
    log_member_abandon(&m); /* it has added nothing */
    return ok;
}
