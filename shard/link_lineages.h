/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LINK_LINEAGES_H
#define SHARD_LINK_LINEAGES_H
/* Which histories of writes the masters of a link are in (lineage.h). */
#include <stdbool.h>
#include "base/error.h"
#include "shard/lineage.h"
#include "shard/link.h"

/* Ask all masters of @l at this moment: all nodes of the list; those of a cluster that hold slots, and, as
 * idle ones, those without slots. One that cannot be asked is left out where it does not matter. What is in
 * *@out is forgotten first. ERR_UNREACHABLE, ERR_TIMEOUT: one that @matters (NULL: all do) does not answer,
 * or is a replica by now. ERR_REFUSED: the user may not call INFO. ERR_RANGE: too many. */
MUST_CHECK enum err link_lineages(struct link *l, bool (*matters)(const void *arg, const struct lineage *one),
                                  const void *arg, struct lineages *out, struct error *e);
/* The same, but a master that cannot be asked is in it with the id 0; with its run_id if it is a replica. One
 * that
 * @known (NULL: none is) has under the same name and id is asked for little: what else @known says of it
 * holds for as long as it has that id. @known is not @out. ERR_UNREACHABLE, ERR_TIMEOUT: nobody tells who the
 * masters are. ERR_REFUSED, ERR_RANGE, ERR_NOMEM. */
MUST_CHECK enum err link_look_at_lineages(struct link *l, const struct lineages *known, struct lineages *out,
                                          struct error *e);
#endif
