/* SPDX-License-Identifier: MIT */
#include "service/protocol/field.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "service/protocol/job_id.h"

void field_bytes(struct fields *f, const char *name, const void *bytes, size_t length)
{
    reply_name(&f->reply, name);
    reply_bulk(&f->reply, bytes, length);
    f->count++;
}

void field_text(struct fields *f, const char *name, const char *value)
{
    field_bytes(f, name, value, strlen(value));
}

void field_number(struct fields *f, const char *name, uint64_t value)
{
    reply_name(&f->reply, name);
    reply_integer(&f->reply, (int64_t)value);
    f->count++;
}

enum { DIGITS_SIZE = 32 };

static void write_digits(char out[DIGITS_SIZE], double value)
{
    (void)snprintf(out, DIGITS_SIZE, "%.6g", value == 0 ? 0 : value); /* never "-0" */
}

/* Redis has no type for a number with these digits, so its clients get text. */
static void field_as_written(struct fields *f, const char *name, const char *digits)
{
    reply_name(&f->reply, name);
    if (f->reply.protocol == REPLY_JSON)
        reply_double(&f->reply, strtod(digits, NULL));
    else
        reply_text(&f->reply, digits);
    f->count++;
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
    field_as_written(f, name, text);
}

void field_bool(struct fields *f, const char *name, bool value)
{
    reply_name(&f->reply, name);
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
    (void)snprintf(text, sizeof(text), ms % 1000 == 0 ? "%" PRIu64 : "%" PRIu64 ".%03u", ms / 1000,
                   (unsigned)(ms % 1000));
    field_as_written(f, name, text);
}

void field_job_id(struct fields *f, const char *filter, size_t length, uint64_t number)
{
    SCOPED(buffer_fini) struct buffer id = {0};
    job_id_put(&id, filter, length, number);
    field_text(f, "job_id", buffer_text(&id));
    f->bytes.failed |= buffer_failed(&id);
}

void field_null(struct fields *f, const char *name)
{
    reply_name(&f->reply, name);
    reply_null(&f->reply);
    f->count++;
}

void field_array(struct fields *f, const char *name, size_t count)
{
    reply_name(&f->reply, name);
    reply_array(&f->reply, count);
    f->count++;
}

void fields_begin(struct fields *f, int protocol)
{
    *f = (struct fields){.reply = {.protocol = protocol}};
    f->reply.out = &f->bytes;
}

void fields_end(struct fields *f, struct reply *r)
{
    reply_content(r, true, f->count, &f->bytes);
    fields_drop(f);
}

void fields_end_list(struct fields *f, struct reply *r)
{
    reply_content(r, false, f->count, &f->bytes);
    fields_drop(f);
}

void field_list(struct fields *f, const char *name, struct fields *list)
{
    reply_name(&f->reply, name);
    fields_end_list(list, &f->reply);
    f->count++;
}

void fields_drop(struct fields *f)
{
    buffer_fini(&f->bytes);
}
