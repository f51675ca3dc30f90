/* SPDX-License-Identifier: MIT */
#include "service/answer.h"

static const char *prefix_of(enum err code)
{
    return code == ERR_UNREACHABLE ? "CLUSTERDOWN" : code == ERR_NOMEM ? "OOM" : "ERR";
}

void answer_failure(struct reply *out, const struct failure *f)
{
    if (f->unmade)
        reply_error(out, "ERR %s", f->text);
    else if (f->code == ERR_NOT_FOUND)
        reply_error(out, "ERR not found");
    else if (f->code == ERR_WRONG_TYPE)
        reply_error(out, "%s", f->text);
    else
        reply_error(out, "%s %s", prefix_of(f->code), f->text);
}

void answer_reply(struct reply *out, enum answer answer, const char *filter, const struct failure *why)
{
    switch (answer) {
    case ANSWER_NO:
    case ANSWER_YES:
        reply_boolean(out, answer == ANSWER_YES);
        break;
    case ANSWER_FULL:
        reply_error(out, "ERR non scaling filter is full");
        break;
    case ANSWER_LOST:
        reply_error(out, "ERR filter '%s' is degraded: the data of this key's shard is lost, or may be",
                    filter);
        break;
    case ANSWER_ERROR:
        answer_failure(out, why);
        break;
    }
}

void tally_add(struct tally *t, enum answer answer, const struct failure *why)
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

void tally_reply(const struct tally *t, struct reply *out, const char *filter)
{
    if (t->worst == ANSWER_NO) {
        reply_integer(out, (int64_t)t->yes);
        return;
    }
    answer_reply(out, t->worst, filter, &t->why);
    struct buffer *b = out->out;
    if (buffer_failed(b))
        return;
    b->length -= 2; /* the line goes on */
    buffer_printf(b, "; %zu of %zu items were done\r\n", t->done, t->keys);
}
