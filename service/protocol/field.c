/* SPDX-License-Identifier: MIT */
#include "service/protocol/field.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "service/protocol/job_id.h"

void field_text(struct fields *f, const char *name, const char *value)
{
    reply_text(&f->reply, name);
    reply_text(&f->reply, value);
    f->count++;
}

void field_number(struct fields *f, const char *name, uint64_t value)
{
    reply_text(&f->reply, name);
    reply_integer(&f->reply, (int64_t)value);
    f->count++;
}

enum { DIGITS_SIZE = 32 };

static void write_digits(char out[DIGITS_SIZE], double value)
{
    (void)snprintf(out, DIGITS_SIZE, "%.6g", value == 0 ? 0 : value); /* never "-0" */
}

double field_digits(double value)
{
    char text[DIGITS_SIZE];
    write_digits(text, value);
    return strtod(text, NULL);
}

void field_decimal(struct fields *f, const char *name, double value)
{
    char text[DIGITS_SIZE];
    write_digits(text, value);
    if (f->reply.protocol < REPLY_TYPED) {
        field_text(f, name, text);
        return;
    }
    reply_text(&f->reply, name);
    reply_double(&f->reply, strtod(text, NULL)); /* written with the same digits */
    f->count++;
}

void field_bool(struct fields *f, const char *name, bool value)
{
    reply_text(&f->reply, name);
    reply_boolean(&f->reply, value);
    f->count++;
}

void field_time(struct fields *f, const char *name, uint64_t ms)
{
    char text[DIGITS_SIZE];
    if (ms == 0) {
        field_null(f, name);
        return;
    }
    reply_text(&f->reply, name);
    (void)snprintf(text, sizeof(text), ms % 1000 == 0 ? "%" PRIu64 : "%" PRIu64 ".%03u", ms / 1000,
                   (unsigned)(ms % 1000));
    if (f->reply.protocol < REPLY_TYPED)
        reply_text(&f->reply, text);
    else
        reply_double(&f->reply, strtod(text, NULL));
    f->count++;
}

void field_job_id(struct fields *f, const char *filter, size_t length, uint64_t number)
{
    struct buffer id = {0};
    job_id_put(&id, filter, length, number);
    field_text(f, "job_id", buffer_text(&id));
    f->bytes.failed |= buffer_failed(&id);
    buffer_fini(&id);
}

void field_null(struct fields *f, const char *name)
{
    reply_text(&f->reply, name);
    reply_null(&f->reply);
    f->count++;
}

void field_array(struct fields *f, const char *name, size_t count)
{
    reply_text(&f->reply, name);
    reply_array(&f->reply, count);
    f->count++;
}

void fields_begin(struct fields *f, int protocol)
{
    *f = (struct fields){.reply = {.protocol = protocol}};
    f->reply.out = &f->bytes;
}

static void append(struct fields *f, struct reply *r)
{
    buffer_append(r->out, f->bytes.data, f->bytes.length);
    r->out->failed |= buffer_failed(&f->bytes);
    buffer_fini(&f->bytes);
}

void fields_end(struct fields *f, struct reply *r)
{
    reply_map(r, f->count);
    append(f, r);
}

void fields_end_list(struct fields *f, struct reply *r)
{
    reply_array(r, f->count);
    append(f, r);
}

void fields_drop(struct fields *f)
{
    buffer_fini(&f->bytes);
}
