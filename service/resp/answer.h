/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_ANSWER_H
#define SERVICE_RESP_ANSWER_H
/* What a reply in RESP says of keys that were checked or added. */
#include "service/keys/pending_query.h"
#include "service/protocol/reply.h"

void answer_failure(struct reply *out, const struct failure *f);
/* @why: of ANSWER_ERROR. */
void answer_reply(struct reply *out, enum answer answer, const char *filter, const struct failure *why);

/* The answers to many keys as one number: how many were YES. An error of one key makes an error of the whole,
 * which says how many were done. Zero-initialise. */
struct summary {
    size_t keys, done, yes;
    enum answer worst;  /* the first that is no answer; ANSWER_NO where all are */
    struct failure why; /* of ANSWER_ERROR; its text is borrowed */
};
void summary_add(struct summary *t, enum answer answer, const struct failure *why);
void summary_reply(const struct summary *t, struct reply *out, const char *filter);
#endif
