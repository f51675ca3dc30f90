/* SPDX-License-Identifier: MIT */
#include "service/resp/answer.h"

void answer_failure(struct reply *out, const struct failure *f)
{
    if (f->unmade && reply_is_of_redisbloom(f->code))
        reply_error(out, "ERR %s", f->text);
    else
        reply_failure(out, f->code, "%s", f->text);
}

void answer_reply(struct reply *out, enum answer answer, const char *filter, const struct failure *why)
{
    switch (answer) {
    case ANSWER_NO:
    case ANSWER_YES:
        reply_boolean(out, answer == ANSWER_YES);
        break;
    case ANSWER_FULL:
        reply_failure(out, ERR_FULL, "full");
        break;
    case ANSWER_LOST:
        reply_failure(out, ERR_LOST, "filter '%s' is degraded: the shard of this key is lost, or may be",
                      filter);
        break;
    case ANSWER_ERROR:
        answer_failure(out, why);
        break;
    }
}

void summary_add(struct summary *t, enum answer answer, const struct failure *why)
{
    t->keys++;
    t->yes += answer == ANSWER_YES;
    t->done += answer == ANSWER_YES || answer == ANSWER_NO;
    if (answer == ANSWER_NO || answer == ANSWER_YES || t->worst != ANSWER_NO)
        return;
    t->worst = answer;
    if (answer == ANSWER_ERROR)
        t->why = *why;
}

void summary_reply(const struct summary *t, struct reply *out, const char *filter)
{
    if (t->worst == ANSWER_NO) {
        reply_integer(out, (int64_t)t->yes);
        return;
    }
    answer_reply(out, t->worst, filter, &t->why);
    struct buffer *b = out->out;
    if (buffer_failed(b))
        return;
    b->length -= 2; /* remove the line's end: the line continues */
    buffer_printf(b, "; %zu of %zu keys were done\r\n", t->done, t->keys);
}
