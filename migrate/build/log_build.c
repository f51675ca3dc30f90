/* SPDX-License-Identifier: MIT */
#include "migrate/build/log_build.h"

#include <stdlib.h>

enum err log_build_new(struct log_build **out, struct builder *builder, const struct build_options *o,
                       struct error *e)
{
    struct log_build *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return error_set(e, ERR_NOMEM, "no memory for a build");
    b->builder = builder;
    builder_go_back(b->builder); /* its bitmaps are empty */
    b->entries = o->writers;
    struct build_options options = *o;
    options.writers++;
    options.output = &b->output;
    options.layer = builder->shape.layer_count - 1;
    options.geometry = builder->shape.layers[options.layer].geometry;
    enum err code = log_output_init(&b->output, builder, e);
    if (code == ERR_OK)
        code = build_new(&b->build, &options, e);
    if (code == ERR_OK)
        *out = b;
    else
        log_build_free(b);
    return code;
}

void log_build_free(struct log_build *b)
{
    if (b == NULL)
        return;
    build_free(b->build);
    log_output_fini(&b->output);
    free(b);
}

void log_build_put(struct log_build *b, unsigned writer, struct key_hash h)
{
    build_put(build_writer(b->build, writer), hash_mix(h, b->builder->shape.seed));
}

enum err log_build_page_end(struct log_build *b, unsigned writer, struct error *e)
{
    return build_page_end(build_writer(b->build, writer), e);
}

/* --- entries of the lanes --- */

static enum err put_entry(void *arg, const struct tail_record *record, struct error *e)
{
    struct log_build *b = arg;
    (void)e;
    for (unsigned i = 0; i < record->entry.count; i++)
        log_build_put(b, b->entries, log_entry_hash(&record->entry, i));
    return ERR_OK;
}

/* An error may come after positions have moved: the entries that they passed are handed over in that case,
 * too. */
enum err log_build_follow(struct log_build *b, struct error *e)
{
    struct error why;
    enum err code = builder_follow(b->builder, put_entry, b, e);
    enum err ended = log_build_page_end(b, b->entries, &why);
    return code == ERR_OK && ended != ERR_OK ? error_set(e, ended, "%s", why.text) : code;
}

/* --- to Redis --- */

/* Note the positions before writing what they passed. If no row is put meanwhile, the counted keys are
 * exactly those up to the positions. */
static enum err flush(struct log_build *b, struct error *e)
{
    enum err code = log_build_follow(b, e);
    builder_note(b->builder);
    if (code == ERR_OK && !b->builder->took_over)
        code = builder_take_over(b->builder, e);
    if (code == ERR_OK)
        code = build_flush(b->build, e);
    if (code == ERR_OK)
        b->builder->keys += build_take_count(b->build);
    if (code == ERR_OK)
        builder_wrote(b->builder);
    return code;
}

enum err log_build_checkpoint(struct log_build *b, const void *rows, size_t length, struct error *e)
{
    enum err code = flush(b, e);
    return code == ERR_OK ? builder_record(b->builder, rows, length, e) : code;
}

enum err log_build_cutover(struct log_build *b, bool heals, struct error *e)
{
    bool read = false;
    enum err code = ERR_OK;
    while (code == ERR_OK && !read) {
        code = flush(b, e);
        if (code == ERR_OK)
            code = builder_cutover(b->builder, heals, &read, e);
    }
    return code;
}
