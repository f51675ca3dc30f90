/* SPDX-License-Identifier: MIT */
#include "shard/view/notify.h"

#include <stdlib.h>
#include "base/random.h"
#include "shard/log/lane_sync.h"
#include "shard/view/log_view.h"
#include "shard/view/view_load.h"

void log_view_notify(struct sync_client *l, const struct names *names)
{
    uint8_t writer[LOG_WRITER_BYTES];
    struct log_view *v = malloc(sizeof(*v));
    if (v == NULL || log_view_load(l, names, v, NULL) != ERR_OK || v->incarnation != names->incarnation) {
        free(v);
        return;
    }
    random_id(writer); /* of no process: so no two notices are the same entry */
    for (unsigned i = 0; i < v->lane_count; i++) {
        struct lane lane;
        enum err code = log_view_lane_at(v, names, sync_client_nodes(l), i, &lane, NULL);
        if (code == ERR_OK)
            code = lane_notice(l, &lane, writer, NULL);
        (void)code; /* readers of that lane learn of the change later */
    }
    free(v);
}
