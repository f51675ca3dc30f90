/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_PROTOCOL_FIELD_H
#define SERVICE_PROTOCOL_FIELD_H
/* A reply of names and values, or a list, for callers that know the number of pairs or elements only at the
 * end. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "service/protocol/reply.h"

struct fields {
    struct buffer bytes;
    struct reply reply; /* encodes into `bytes` */
    size_t count;
};

void field_bytes(struct fields *f, const char *name, const void *bytes, size_t length);
void field_text(struct fields *f, const char *name, const char *value);
void field_number(struct fields *f, const char *name, uint64_t value);
void field_decimal(struct fields *f, const char *name, double value);
double field_digits(double value); /* @value rounded to the digits that decimals are written with */
void field_bool(struct fields *f, const char *name, bool value);
/* A time, given in ms since 1970, written as Unix seconds with up to three decimals. 0 is written as null. */
void field_time(struct fields *f, const char *name, uint64_t ms);
void field_null(struct fields *f, const char *name); /* a value that is not known */
/* Write the field "job_id"; see job_id.h. */
void field_job_id(struct fields *f, const char *filter, size_t length, uint64_t number);
/* Begin an array. The caller writes its @count values to f->reply. */
void field_array(struct fields *f, const char *name, size_t count);

void fields_begin(struct fields *f, int protocol);
/* Append all fields to @r as one map, and free @f. */
void fields_end(struct fields *f, struct reply *r);
/* As fields_end(), for an array: the caller has written f->count elements to f->reply. */
void fields_end_list(struct fields *f, struct reply *r);
/* Write the list @list, which was begun with the protocol of @f, as a field, and free it. */
void field_list(struct fields *f, const char *name, struct fields *list);
/* Free the fields without a reply. */
void fields_drop(struct fields *f);
#endif
