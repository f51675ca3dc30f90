/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_PROTOCOL_FIELD_H
#define SERVICE_PROTOCOL_FIELD_H
/* A reply of names and values whose number is known at the end only. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "service/protocol/reply.h"

struct fields {
    struct buffer bytes;
    struct reply reply; /* into bytes */
    size_t count;
};

void field_text(struct fields *f, const char *name, const char *value);
void field_number(struct fields *f, const char *name, uint64_t value);
void field_decimal(struct fields *f, const char *name, double value);
double field_digits(double value); /* with as many digits as decimals have */
void field_bool(struct fields *f, const char *name, bool value);
/* A moment, @ms since 1970, as Unix seconds with up to three decimals. 0: null. */
void field_time(struct fields *f, const char *name, uint64_t ms);
void field_null(struct fields *f, const char *name); /* not known */
/* "job_id": see job_id.h. */
void field_job_id(struct fields *f, const char *filter, size_t length, uint64_t number);
/* @count values, which the caller writes to f->reply. */
void field_array(struct fields *f, const char *name, size_t count);

void fields_begin(struct fields *f, int protocol);
/* Append all of them to @r as one map, and free @f. */
void fields_end(struct fields *f, struct reply *r);
/* Free what came to nothing. */
void fields_drop(struct fields *f);
#endif
