/* SPDX-License-Identifier: MIT */
#include "tests/integration/eras_case.h"

#include "shard/generations/build.h"
#include "shard/members/roll.h"
#include "shard/view/view_load.h"
#include "tests/integration/cut_over.h"
#include "tests/lib/log_member.h"

struct eras eras_case_watch;
const uint8_t eras_case_writer[ERAS_CASE_WRITERS][LOG_WRITER_BYTES] = {"the first one", "the second one",
                                                                       "the third one"};

void eras_case_load(void)
{
    struct error e = {""};
    must(log_view_load(on.link, &on.names, on.view, &e), e);
}

int eras_case_set_up(void **state)
{
    (void)state;
    log_redis_make(1000, 1, 32768);
    eras_case_load();
    return 0;
}

int eras_case_tear_down(void **state)
{
    (void)state;
    eras_fini(&eras_case_watch);
    eras_case_watch = (struct eras){.seen = {0}};
    return 0;
}

void eras_case_registers(const uint8_t id[LOG_WRITER_BYTES])
{
    struct error e = {""};
    struct roll r;
    roll_init(&r, on.link, &on.names, id);
    must(roll_register(&r, &e), e);
    roll_fini(&r);
    eras_case_load();
}

enum eras_action eras_case_look(void)
{
    struct error e = {""};
    enum eras_action action;
    must(eras_look(&eras_case_watch, on.link, &on.names, on.view, &action, &e), e);
    return action;
}

void eras_case_leaves(const uint8_t id[LOG_WRITER_BYTES])
{
    struct error e = {""};
    struct roll r;
    roll_init(&r, on.link, &on.names, id);
    r.registration = log_view_writer(on.view, id)->registration;
    must(roll_leave(&r, &e), e);
    roll_fini(&r);
    eras_case_load();
}

void eras_case_degrades(void)
{
    struct key_name key;
    names_filter_key(&on.names, "view", &key);
    freeReplyObject(client_command(&on.client, "HSET %b degraded 1", key.text, key.length));
    freeReplyObject(client_command(&on.client, "HINCRBY %b version 1", key.text, key.length));
}

void eras_case_heals(bool loses)
{
    struct error e = {""};
    struct builder *b;
    struct key_name key;
    must(builder_new(&b, on.link, &on.names, &e), e);
    must(builder_begin(b, &on.view->slot[1].shape, "", &e), e);
    must(builder_start(b, &e), e);
    builder_note(b);
    names_log_shard(&on.names, (struct shard_id){b->shape.number, 0, 0}, &key);
    if (loses)
        freeReplyObject(client_command(&on.client, "DEL %b", key.text, key.length));
    must(cut_over(b, true, &e), e);
    builder_free(b);
}
