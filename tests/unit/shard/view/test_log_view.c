/* SPDX-License-Identifier: MIT */
/* The view of a filter that is a log. A view that was written is read back, and an error names the damaged
 * field. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>
#include "shard/view/log_view.h"

enum { FIELDS_MAX = 32 };

struct stored {
    unsigned count;
    char name[FIELDS_MAX][LOG_WRITER_NAME_MAX];
    char value[FIELDS_MAX][GENERATION_TEXT_MAX];
};

static void store(void *arg, const char *name, const char *value)
{
    struct stored *s = arg;
    assert_true(s->count < FIELDS_MAX);
    (void)snprintf(s->name[s->count], sizeof(s->name[0]), "%s", name);
    (void)snprintf(s->value[s->count++], sizeof(s->value[0]), "%s", value);
}

static void write_out(struct stored *s, const struct log_view *v)
{
    s->count = 0;
    log_view_format(v, store, s);
}

static void replace(struct stored *s, const char *name, const char *value)
{
    for (unsigned i = 0; i < s->count; i++)
        if (strcmp(s->name[i], name) == 0) {
            (void)snprintf(s->value[i], sizeof(s->value[0]), "%s", value);
            return;
        }
    store(s, name, value);
}

static enum err parse(struct log_view *out, const struct stored *s, unsigned without, struct error *e)
{
    struct view_field fields[FIELDS_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < s->count; i++)
        if (i != without)
            fields[count++] =
                (struct view_field){s->name[i], strlen(s->name[i]), s->value[i], strlen(s->value[i])};
    return log_view_parse(out, fields, count, e);
}

static struct log_view *example(void)
{
    struct error e = {""};
    struct log_view *v = calloc(1, sizeof(*v));
    *v = (struct log_view){.incarnation = 0xabc,
                           .version = 7,
                           .seed = 0xfeed,
                           .last_generation = 3,
                           .expansion = 2,
                           .sourced = true,
                           .current = 1,
                           .lane_count = 3,
                           .lane = {{4, 0xe4}, {1, 0xe1}, {9, 0xe4}},
                           .eras = {.count = 2, .id = {0x12, 0x34}}};
    struct generation *g = &v->slot[1].shape;
    *g = (struct generation){.number = 3,
                             .seed = 5,
                             .built = true,
                             .capacity = 1000,
                             .error_rate = 0.01,
                             .layer_count = 1,
                             .node_count = 1,
                             .nodes = {"a:1"}};
    g->layers[0] = (struct layer){.capacity = 1000, .error_rate = 0.01, .token = 1};
    assert_int_equal(geometry_plan(&g->layers[0].geometry, 1000, 0.01, SHARD_BYTES_DEFAULT, &e), ERR_OK);
    v->slot[1].writer = (struct writer_token){.number = 11, .random = 0x99};
    return v;
}

static void test_view__is_read_as_it_was_written(void **state)
{
    (void)state;
    struct error e = {""};
    struct log_view *v = example(), *again = malloc(sizeof(*again));
    static struct stored s;
    write_out(&s, v);
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_OK);
    assert_int_equal(again->incarnation, 0xabc);
    assert_int_equal(again->version, 7);
    assert_int_equal(again->seed, 0xfeed);
    assert_int_equal(again->lane_count, 3);
    assert_memory_equal(again->lane, v->lane, sizeof(struct log_lane) * 3);
    assert_int_equal(again->eras.count, 2);
    assert_int_equal(again->eras.id[1], 0x34);
    assert_int_equal(again->current, 1);
    assert_int_equal(again->slot[0].shape.number, 0);
    assert_int_equal(again->slot[1].shape.number, 3);
    assert_int_equal(again->slot[1].writer.number, 11);
    assert_int_equal(again->slot[1].writer.random, 0x99);
    assert_false(log_view_is_folded(again, &again->slot[1], 0));
    free(v);
    free(again);
}

static void test_view__without_a_field_is_damaged(void **state)
{
    (void)state;
    struct log_view *v = example(), *again = malloc(sizeof(*again));
    static struct stored s;
    write_out(&s, v);
    for (unsigned i = 0; i < s.count; i++) {
        struct error e = {""};
        bool is_format = strcmp(s.name[i], "format") == 0; /* the first format had no such field */
        assert_int_equal(parse(again, &s, i, &e), is_format ? ERR_FORMAT : ERR_PARSE);
        assert_non_null(strstr(e.text, s.name[i]));
    }
    free(v);
    free(again);
}

static void test_view__says_which_field_is_damaged(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
    } damaged[] = {
        {"format", "three"},
        {"incarnation", "0"},
        {"version", "0"},
        {"version", "x"},
        {"seed", "1"},
        {"lanes", ""},
        {"lanes", "1:00000000000000e1,,"},
        {"lanes", "0:00000000000000e1"},
        {"lanes", "1:00000000000000e1,"},
        {"generation1", "number"},
        {"lanes", "1:e1"},
        {"lanes", "1"},
        {"expansion", "4294967296"},
        {"sourced", "yes"},
        {"degraded", "2"},
        {"deleting", ""},
        {"hold.0", "1"},
        {"hold.1", "1 x"},
        {"writer.01", "7"},
        {"writer.0", ""},
        {"writer.000102030405060708090a0b0c0d0e0f", ""},
        {"writer.000102030405060708090a0b0c0d0e0f", "0"},
        {"writer.000102030405060708090a0b0c0d0e0f", "?"},
        {"writer.000102030405060708090a0b0c0d0e0f", "7 "},
        {"writer.000102030405060708090a0b0c0d0e0f", "7?? 0.1:00000000000000e1"},
        {"writer.000102030405060708090a0b0c0d0e0f", "0.1:00000000000000e1"},
        {"writer.000102030405060708090a0b0c0d0e0f", "7 0.1:00000000000000e1 "},
        {"writer.000102030405060708090a0b0c0d0e0f", "7 0.1:00000000000000e1 12"},
        {"writer.000102030405060708090a0b0c0d0e0f", "7 16.1:00000000000000e1"},
        {"writer.000102030405060708090a0b0c0d0e0f", "7 0.0:00000000000000e1"},
        {"writer.000102030405060708090a0b0c0d0e0f", "7 1:00000000000000e1"},
        {"generation1", ""},
        {"token1", "3"},
        {"token1", "3 9"},
        {"bloom_filter_current_index", "0"},
        {"bloom_filter_current_index", "2"},
        {"folded1.0", "4"},
        {"folded1.2", "9 1-1 zz 1"},
        {"folded1.2", "9 1-1 b1010000000000000000000000000000000000000000000000000000"},
        {"folded1.2", "9 1-1 b1010000000000000000000000000000000000000000000000000000 -1"},
        {"folded1.2", "9 1-1 b1010000000000000000000000000000000000000000000000000000 25"},
        {"folded0.15", ""},
        {"last_generation", "2"},
        {"lane_nodes", ","},
        {"lane_nodes", "a:1,"},
        {"keys1", "3"},
        {"keys1", "3 x"},
        {"keys1", "3 4 "},
        {"keys1", "3 4 1:00000000000000e9"},
        {"keys1", "3 4 1:00000000000000e9 5"},
        {"keys1", "3 4 1:e9 5-1"},
        {"full1.0", "3 4:00000000000000e4"},
        {"full1.0", "3 4 1-1"},
        {"expire_at", "tomorrow"},
        {"healthy_ms", "-1"},
        {"near", ""},
        {"near", "3 4"},
        {"strays", "2"},
        {"strays", ""},
        {"lost1", "3 4"},
        {"lost1", "3 4.5"},
        {"lost1", "3 4.5 x"},
        {"lost1", "x 4.5 1"},
        {"lost0", "3 64000.5 1"},
        {"lost0", "3 0.4294967296 1"},
        {"full0.2", "x 4:00000000000000e4 1-1"},
        {"next1", "number"},
        {"eras", "x"},
        {"history", "00000000000000e1 "},
        {"history", "e1"},
        {"history", "00000000000000e1,00000000000000e4"},
        {"lanes",
         "1:00000000000000e1,1:00000000000000e1,1:00000000000000e1,1:00000000000000e1,1:00000000000000e1,"
         "1:00000000000000e1,1:00000000000000e1,1:00000000000000e1,1:00000000000000e1,1:00000000000000e1,"
         "1:00000000000000e1,1:00000000000000e1,1:00000000000000e1,1:00000000000000e1,1:00000000000000e1,"
         "1:00000000000000e1,1:00000000000000e1"},
    };
    struct log_view *v = example(), *again = malloc(sizeof(*again));
    for (unsigned i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        struct error e = {""};
        static struct stored s;
        write_out(&s, v);
        replace(&s, damaged[i].name, damaged[i].value);
        if (parse(again, &s, FIELDS_MAX, &e) != ERR_PARSE)
            fail_msg("%s=\"%s\" was taken", damaged[i].name, damaged[i].value);
        if (strstr(e.text, damaged[i].name) == NULL && *damaged[i].value != '\0')
            fail_msg("%s: %s", damaged[i].name, e.text);
    }
    free(v);
    free(again);
}

static void test_view__of_another_format_is_not_looked_at(void **state)
{
    (void)state;
    struct error e = {""};
    struct log_view *v = example(), *again = malloc(sizeof(*again));
    static struct stored s;
    write_out(&s, v);
    replace(&s, "version", "nonsense");
    replace(&s, "format", "4");
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, "upgrade it"));
    replace(&s, "format", "2");
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_FORMAT);
    assert_non_null(strstr(e.text, "delete it, and have it built from its table"));
    s.count = 0;
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_NOT_FOUND);
    free(v);
    free(again);
}

static void test_view__takes_a_field_once_and_skips_what_it_does_not_know(void **state)
{
    (void)state;
    struct error e = {""};
    struct log_view *v = example(), *again = malloc(sizeof(*again));
    static struct stored s;
    write_out(&s, v);
    store(&s, "of a later version", "1");
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_OK);
    store(&s, "version", "8");
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_PARSE);
    assert_non_null(strstr(e.text, "version occurs twice"));
    free(v);
    free(again);
}

static enum phase phase_of(struct stored *s, const char *name, const char *value)
{
    struct error e = {""};
    struct log_view *v = malloc(sizeof(*v));
    static struct view sum; /* too large for the stack */
    replace(s, name, value);
    assert_int_equal(parse(v, s, FIELDS_MAX, &e), ERR_OK);
    log_view_sum_up(v, &sum);
    free(v);
    return sum.phase;
}

static void test_view__is_summed_up(void **state)
{
    (void)state;
    struct error e = {""};
    char text[GENERATION_TEXT_MAX];
    struct log_view *v = example(), *again = malloc(sizeof(*again));
    static struct stored s;
    static struct view sum; /* too large for the stack */
    write_out(&s, v);
    assert_int_equal(phase_of(&s, "sourced", "1"), PHASE_STEADY);
    struct generation g = v->slot[1].shape;
    g.layers[g.layer_count++] = g.layers[0];
    g.number = 4;
    (void)generation_text(&g, text);
    replace(&s, "last_generation", "4");
    replace(&s, "keys0", "4 70");
    replace(&s, "keys1", "3 60");
    replace(&s, "expire_at", "1795272428000");
    replace(&s, "healthy_ms", "1795272427000");
    replace(&s, "generation0", text);
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_OK);
    log_view_sum_up(again, &sum);
    assert_true(sum.incarnation == 0xabc && sum.epoch == 7 && sum.current);
    assert_true(sum.last_generation == 4 && sum.expansion == 2 && sum.sourced && !sum.degraded);
    assert_ptr_equal(view_current(&sum), &sum.slot[1]);
    assert_ptr_equal(view_alternate(&sum), &sum.slot[0]);
    assert_true(sum.slot[0].number == 4 && sum.slot[1].number == 3);
    assert_true(sum.keys[0] == 70 && sum.keys[1] == 60);
    assert_true(sum.expire_at_ms == 1795272428000 && sum.healthy_ms == 1795272427000);
    assert_false(sum.deleting);
    assert_int_equal(sum.phase, PHASE_BUILDING);
    assert_int_equal(phase_of(&s, "bloom_filter_current_index", "0"), PHASE_SWITCHED);
    assert_int_equal(phase_of(&s, "generation1", ""), PHASE_OVERFLOW);
    replace(&s, "deleting", "1");
    replace(&s, "degraded", "1");
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_OK);
    log_view_sum_up(again, &sum);
    assert_true(sum.deleting && sum.degraded);
    assert_null(view_alternate(&sum));
    assert_int_equal(sum.keys[1], 0); /* the keys were those of another generation */
    free(v);
    free(again);
}

static void test_view__says_where_lanes_lie(void **state)
{
    (void)state;
    struct error e = {""};
    struct log_view *v = example(), *again = malloc(sizeof(*again));
    static struct stored s;
    static struct nodes nodes;
    struct names names;
    struct lane lane;
    assert_int_equal(nodes_parse(&nodes, "redis://a:1,redis://b:2,redis://c:3", &e), ERR_OK);
    assert_int_equal(names_init(&names, "tb", "f", 1, &e), ERR_OK);
    assert_int_equal(log_view_lane_at(v, &names, &nodes, 2, &lane, &e), ERR_OK);
    assert_true(lane.where == NODE_HOME && lane.era == 0xe4);
    v->lane_node_count = 2;
    (void)snprintf(v->lane_node[0], NODE_NAME_MAX, "c:3");
    (void)snprintf(v->lane_node[1], NODE_NAME_MAX, "b:2");
    write_out(&s, v);
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_OK);
    static const unsigned where[] = {2, 1, 2};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(log_view_lane_at(again, &names, &nodes, i, &lane, &e), ERR_OK);
        assert_int_equal(lane.where, where[i]);
    }
    (void)snprintf(again->lane_node[1], NODE_NAME_MAX, "d:2");
    assert_int_equal(log_view_lane_at(again, &names, &nodes, 1, &lane, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "d:2"));
    free(v);
    free(again);
}

/* Fields that another generation left in the slot do not apply to this one. */
static void test_view__has_keys_marks_and_a_next_layer_of_its_own_generation(void **state)
{
    (void)state;
    struct error e = {""};
    char text[GENERATION_TEXT_MAX];
    struct log_view *v = example(), *again = malloc(sizeof(*again));
    static struct stored s;
    struct generation next = v->slot[1].shape;
    next.layers[next.layer_count++] = next.layers[0];
    (void)generation_text(&next, text);
    write_out(&s, v);
    store(&s, "keys1", "3 77");
    store(&s, "full1.0", "3 4:00000000000000e4 5-1");
    store(&s, "full1.1", "3 1:00000000000000e9 5-1"); /* an earlier era */
    store(&s, "full1.2", "1 9:00000000000000e4 5-1"); /* another generation */
    store(&s, "next1", text);
    store(&s, "lost1", "3 2.5 77");
    store(&s, "filled1", "2");
    store(&s, "history", "00000000000000e4 00000000000000e1");
    store(&s, "strays", "1");
    store(&s, "near", "3");
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_OK);
    assert_true(again->strays && again->near == 3);
    assert_true(again->history_count == 2 && again->history[0] == 0xe4 && again->history[1] == 0xe1);
    const struct log_generation *g = &again->slot[1];
    assert_int_equal(g->keys, 77);
    assert_int_equal(g->filled, 2);
    assert_true(g->lost.generation == 3 && g->lost.layer == 2 && g->lost.shard == 5 &&
                g->lost.since_ms == 77);
    log_lost_text(&g->lost, text);
    assert_string_equal(text, "3 2.5 77");
    assert_int_equal(g->next.layer_count, 2);
    assert_true(log_view_is_full(again, g, 0));
    assert_true(g->full[0].id.ms == 5 && g->full[0].id.number == 1);
    assert_false(log_view_is_full(again, g, 1));
    assert_false(log_view_is_full(again, g, 2));
    next.number = 1;
    (void)generation_text(&next, text);
    replace(&s, "keys1", "1 77");
    replace(&s, "next1", text);
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_OK);
    assert_int_equal(g->keys, 0);
    assert_int_equal(g->next.number, 0);
    s.count -= 10; /* nothing may stay of the fields that are missing now */
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_OK);
    assert_true(g->keys == 0 && g->next.number == 0 && g->lost.generation == 0 && g->filled == 0 &&
                !log_view_is_full(again, g, 0) && !again->strays && again->near == 0 &&
                again->history_count == 0);
    free(v);
    free(again);
}

/* Keys are counted up to positions of their own, as long as the view has the same lanes, in whatever era. */
static void test_view__has_counted_keys_behind_what_is_folded(void **state)
{
    (void)state;
    struct error e = {""};
    struct log_view *v = example(), *again = malloc(sizeof(*again));
    static struct stored s;
    char text[400];
    int n = snprintf(text, sizeof(text), "3 77");
    for (unsigned i = 0; i < v->lane_count; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, " %llu:%016llx %u-1",
                      (unsigned long long)v->lane[i].number, (unsigned long long)v->lane[i].era, 2000000 * i);
    write_out(&s, v);
    store(&s, "keys1", text);
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_OK);
    const struct log_generation *g = &again->slot[1];
    assert_int_equal(g->keys, 77);
    for (unsigned i = 0; i < v->lane_count; i++)
        assert_true(log_view_counted(again, g, i).ms == (i == 0 ? g->folded[0].position.id.ms : 2000000 * i));
    again->lane[1].era++;
    assert_true(log_view_counted(again, g, 2).ms == 2000000 * 2);
    again->lane[1].number++;
    assert_int_equal(log_id_compare(log_view_counted(again, g, 2), g->folded[2].position.id), 0);
    replace(&s, "keys1", "3 77");
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_OK);
    assert_int_equal(log_id_compare(log_view_counted(again, g, 2), g->folded[2].position.id), 0);
    free(v);
    free(again);
}

/* A position in a lane that was replaced does not prove that a key is absent. */
static void test_view__is_folded_only_in_the_lane_it_has_now(void **state)
{
    (void)state;
    struct error e = {""};
    struct log_view *v = example(), *again = malloc(sizeof(*again));
    static struct stored s;
    s.count = 0;
    uint8_t bytes[LOG_ENTRY_BYTES_MAX], writer[LOG_WRITER_BYTES] = {1};
    struct log_position *p = calloc(1, sizeof(*p));
    struct buffer text = {0};
    log_position_set(p, (struct log_id){5, 1}, bytes, log_entry_encode(bytes, writer, 1, NULL, 0));
    log_view_format(v, store, &s);
    buffer_append(&text, "1 ", 2);
    log_position_format(p, &text);
    buffer_append(&text, " 1", 3);
    store(&s, "folded1.1", text.data);
    store(&s, "folded1.0", text.data); /* lane 0 has another number: 4 */
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_OK);
    assert_true(log_view_is_folded(again, &again->slot[1], 1));
    assert_false(log_view_is_folded(again, &again->slot[1], 0));
    assert_false(log_view_is_folded(again, &again->slot[1], 2));
    assert_true(log_position_is(&again->slot[1].folded[1].position, p->id, p->bytes, p->length));
    assert_int_equal(again->slot[1].folded[1].layers, 1);
    text.data[text.length - 2] = '3'; /* the generation has fewer layers */
    store(&s, "folded1.2", text.data);
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_PARSE);
    assert_non_null(strstr(e.text, "folded1.2 names 3 layers of"));
    buffer_fini(&text);
    free(p);
    free(v);
    free(again);
}

static void test_view__has_the_writers_and_what_a_build_holds(void **state)
{
    (void)state;
    struct error e = {""};
    const uint8_t id[LOG_WRITER_BYTES] = {0, 1, 0xfe, 3}, other[LOG_WRITER_BYTES] = {4};
    char name[LOG_WRITER_NAME_MAX];
    struct log_view *v = example(), *again = malloc(sizeof(*again));
    static struct stored s;
    write_out(&s, v);
    log_writer_name(id, name);
    assert_string_equal(name, "writer.0001fe03000000000000000000000000");
    store(&s, name, "1700000000000001? 0.4:00000000000000e1 2.1:00000000000000e2");
    log_writer_name(other, name);
    store(&s, name, "12");
    store(&s, "hold.2", "9 77-3");
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_OK);
    assert_int_equal(again->writer_count, 2);
    const struct log_writer *w = log_view_writer(again, id);
    assert_true(w->in_doubt && w->registration == 1700000000000001);
    assert_false(log_view_writer(again, other)->in_doubt);
    assert_int_equal(log_view_writer(again, other)->registration, 12);
    assert_true(log_writer_has_said(w, 0, 4, 0xe1));
    assert_true(log_writer_has_said(w, 2, 1, 0xe2));
    assert_false(log_writer_has_said(w, 0, 4, 0xe2)); /* another lane */
    assert_false(log_writer_has_said(w, 2, 1, 0xe1));
    assert_false(log_writer_has_said(w, 2, 2, 0xe2)); /* another stream */
    assert_false(log_writer_has_said(log_view_writer(again, other), 0, 4, 0xe1));
    assert_null(log_view_writer(v, id));
    struct log_writer gone = {.id = {9}, .registration = 13};
    again->left[again->left_count++] = (struct log_left){.id = {9}, .registration = 12};
    assert_true(log_view_lacks(again, &gone)); /* it has registered again since it left */
    again->left[0].registration = 13;
    assert_false(log_view_lacks(again, &gone));
    assert_false(log_view_lacks(again, w));
    assert_int_equal(again->hold[2].lane_number, 9);
    assert_int_equal(again->hold[2].from.ms, 77);
    assert_int_equal(again->hold[0].lane_number, 0);
    s.count--; /* the hold was released, and the same view is read again */
    assert_int_equal(parse(again, &s, FIELDS_MAX, &e), ERR_OK);
    assert_int_equal(again->hold[2].lane_number, 0);
    assert_int_equal(again->writer_count, 2);
    free(v);
    free(again);
}

static void test_lane__of_a_key_is_always_the_same_and_all_get_some(void **state)
{
    (void)state;
    struct log_view *v = example();
    unsigned count[3] = {0};
    for (uint64_t i = 0; i < 30000; i++) {
        struct key_hash h = hash_key(v->seed, &i, sizeof(i));
        unsigned lane = log_lane_of(h, v->lane_count);
        assert_true(lane < 3 && lane == log_lane_of(h, v->lane_count));
        count[lane]++;
    }
    for (unsigned i = 0; i < 3; i++)
        assert_in_range(count[i], 9500, 10500);
    free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_view__is_read_as_it_was_written),
        cmocka_unit_test(test_view__without_a_field_is_damaged),
        cmocka_unit_test(test_view__says_which_field_is_damaged),
        cmocka_unit_test(test_view__of_another_format_is_not_looked_at),
        cmocka_unit_test(test_view__takes_a_field_once_and_skips_what_it_does_not_know),
        cmocka_unit_test(test_view__is_summed_up),
        cmocka_unit_test(test_view__says_where_lanes_lie),
        cmocka_unit_test(test_view__has_counted_keys_behind_what_is_folded),
        cmocka_unit_test(test_view__has_keys_marks_and_a_next_layer_of_its_own_generation),
        cmocka_unit_test(test_view__is_folded_only_in_the_lane_it_has_now),
        cmocka_unit_test(test_view__has_the_writers_and_what_a_build_holds),
        cmocka_unit_test(test_lane__of_a_key_is_always_the_same_and_all_get_some),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
