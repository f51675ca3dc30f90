/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_ANSWER_H
#define SERVICE_RESP_ANSWER_H
/* How the answer to a checked or added key is written as a RESP reply. */
#include "service/keys/key_operation.h"
#include "service/protocol/reply.h"

void answer_failure(struct reply *out, const struct failure *f);
/* Write the reply for one key. @why is read only for ANSWER_ERROR. */
void answer_reply(struct reply *out, enum answer answer, const char *filter, const struct failure *why);

/* The answers to many keys, summed up as one number: how many were YES. If one key has an error, the sum is
 * an error whose text says how many keys were done. Zero-initialise. */
struct summary {
    size_t keys, done, yes;
    enum answer worst;  /* the first answer that is neither YES nor NO; ANSWER_NO if there is none */
    struct failure why; /* set if `worst` is ANSWER_ERROR; its text is borrowed */
};
void summary_add(struct summary *t, enum answer answer, const struct failure *why);
void summary_reply(const struct summary *t, struct reply *out, const char *filter);
#endif
