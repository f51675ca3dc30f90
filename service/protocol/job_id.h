/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_PROTOCOL_JOB_ID_H
#define SERVICE_PROTOCOL_JOB_ID_H
/* Ids of jobs as users see them: the filter's name and 16 hexadecimal digits, such as
 * "short-link.6f1c09a2b7d8e345". So an id tells where the job's record lies and which users may see it. An id
 * has only letters, digits and - . _ ~ and so reads the same in JSON, in a path and in a shell. Pure. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"

/* Append @name. Bytes other than letters, digits, '-', '.' and '_' become ~XX. */
void job_id_put_name(struct buffer *out, const char *name, size_t length);
/* Append the name that @text encodes. False: @text is invalid, and nothing is appended. */
bool job_id_take_name(struct buffer *out, const char *text, size_t length);

void job_id_put(struct buffer *out, const char *name, size_t length, uint64_t number);
/* Append the name and return the number. False: @text is not an id. */
bool job_id_take(struct buffer *name, uint64_t *number, const char *text, size_t length);
#endif
