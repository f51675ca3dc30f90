/* SPDX-License-Identifier: MIT */
#ifndef SHARD_MEMBERS_ERAS_H
#define SHARD_MEMBERS_ERAS_H
/* The replication ids of the shards' nodes, and what follows when one is another one than the view accepts: a
 * failover, a restart, a first replica. Nobody reads shards of such a node until the view takes its id.
 * Blocking.
 *
 * | the node                                                      | what follows                           |
 * |---------------------------------------------------------------|----------------------------------------|
 * | is the process that was watched under the former id, and has  | nothing was lost: whoever watched has  |
 * | received nothing from another server (replication_goes_on())      | the view take the id | | is not known
 * to be, and each registered writer has all shards | each writes what it has to the shards, | | in memory,
 * and one of them has what those had added who left  | and says so; the last one has the view | | | take the
 * id                            | | else, also where no writer is registered                      | the same,
 * and the filter is degraded;  | |                                                               | where one
 * had not all, nobody waits    | |                                                               | for
 * writers in doubt                   |
 *
 * What a writer reads of the shards when it writes them is not all: others write behind it. A shard that it
 * had to load again is loaded when the view has taken the id. Model: WHOLE_WHEN_WRITTEN of left.pml.
 *
 * A writer's memory has at least the keys whose adds it has acknowledged, so all of them together have every
 * key that one of them has acknowledged. Those of a writer that has left are in the shards, and in the memory
 * of whoever has read a tail since the view says that it left (tests/model/log/left.pml). */
#include "shard/redis/wire/replication.h"
#include "shard/redis/sync_client.h"
#include "shard/view/log_view.h"

enum eras_action {
    ERAS_KEEP, /* the view accepts what is there */
    ERAS_TAKE, /* nothing was lost */
    ERAS_WRITE /* bits may be missing on a node */
};

/* Who watches the nodes. Zero-initialised it has seen nothing. */
struct eras {
    struct replications seen;  /* while the view accepted all of them */
    struct replications there; /* out of eras_look(): all masters, */
    struct trusted now;        /* and the ids of those that hold shards */
};
void eras_fini(struct eras *s);

/* Ask all nodes that hold shards of a generation of @v. ERR_UNREACHABLE also where one is no master. */
MUST_CHECK enum err eras_look(struct eras *s, struct sync_client *l, const struct names *names,
                              const struct log_view *v, enum eras_action *out, struct error *e);

/* What a writer had in memory when it wrote it to the shards. */
struct eras_written {
    bool all;             /* all shards of the generation that is read */
    bool knows_left;      /* and all that those had added who have left, up to the one below */
    struct log_left left; /* registration 0: nobody had left */
};

/* Say that all that @writer has in memory of the generation that @v reads was written to the nodes that
 * eras_look() found, which are looked at once more. Where that was not all the filter is degraded, unless
 * somebody knows that nothing was lost. ERR_FENCED: the view, what it reads, or a node, is another one by
 * now: begin again. ERR_NOT_FOUND: the writer is not registered. */
MUST_CHECK enum err eras_say(struct eras *s, struct sync_client *l, const struct names *names,
                             const struct log_view *v, const uint8_t writer[LOG_WRITER_BYTES],
                             const struct eras_written *what, struct error *e);
/* *@said: the view has what eras_say() would say, or what says more. A writer that knows of those that have
 * left by now, and did not when it wrote, has not said it. */
MUST_CHECK enum err eras_has_said(const struct eras *s, struct sync_client *l, const struct names *names,
                                  const struct log_view *v, const uint8_t writer[LOG_WRITER_BYTES],
                                  const struct eras_written *what, bool *said, struct error *e);
/* Have the view accept what eras_look() found. *@missing: how many writers have not said that they wrote; not
 * asked for where @action is ERAS_TAKE. ERR_FENCED as above. */
MUST_CHECK enum err eras_take(struct eras *s, struct sync_client *l, const struct names *names,
                              const struct log_view *v, enum eras_action action, unsigned *missing,
                              struct error *e);
#endif
