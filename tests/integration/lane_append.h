/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_LANE_APPEND_H
#define TESTS_INTEGRATION_LANE_APPEND_H
/* Appends an entry as a test's blocking writer. */
#include <string.h>
#include "shard/log/lane_sync.h"

/* Append an entry that log_entry_encode() wrote, and read the tail from *@at until it has that entry: then
 * *@state is TAIL_COMPLETE or TAIL_MORE. With any other *@state, or an error, the entry is not
 * acknowledged. */
static inline enum err lane_append(struct sync_client *l, const struct lane *lane, struct log_position *at,
                                   const void *entry, size_t length, lane_apply_fn *apply, void *arg,
                                   enum tail_state *state, struct error *e)
{
    struct lane_put put = {.length = length};
    struct log_position unchanged = *at;
    memcpy(put.bytes, entry, length);
    enum err code = lane_put(l, lane, &put, 1, e);
    *state = TAIL_MORE;
    if (code != ERR_OK && lane_read(l, lane, &unchanged, NULL, NULL, state, NULL) == ERR_OK &&
        (*state == TAIL_ERA || *state == TAIL_LOST))
        return ERR_OK;
    while (code == ERR_OK && (*state == TAIL_COMPLETE || *state == TAIL_MORE) &&
           log_id_compare(at->id, put.id) < 0)
        code = lane_read(l, lane, at, apply, arg, state, e);
    return code;
}
#endif
