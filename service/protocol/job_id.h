/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_PROTOCOL_JOB_ID_H
#define SERVICE_PROTOCOL_JOB_ID_H
/* Ids of jobs as users see them: "short-link.6f1c09a2b7d8e345", the filter's name and 16 hexadecimal digits.
 * So whoever has an id knows where to look, and who may see it. Letters, digits and - . _ ~ alone: an id is
 * the same in JSON, in a path and in a shell. Pure. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"

/* Append @name; bytes that are no letter, digit, '-', '.' or '_' as ~XX. */
void job_id_put_name(struct buffer *out, const char *name, size_t length);
/* Append the name that is written so. False: nothing is. */
bool job_id_take_name(struct buffer *out, const char *text, size_t length);

void job_id_put(struct buffer *out, const char *name, size_t length, uint64_t number);
/* Append the name, and give the number. False: @text is no id. */
bool job_id_take(struct buffer *name, uint64_t *number, const char *text, size_t length);
#endif
