/* SPDX-License-Identifier: MIT */
#include "tests/integration/log_cluster.h"

#include <signal.h>
#include <stdlib.h>

#include "shard/redis/nodes/cluster.h"

enum { REPLY_MS = 5000 };

struct log_cluster at;

void log_cluster_start(unsigned masters, unsigned owners, bool has_replicas)
{
    struct error e = {""};
    (void)signal(SIGPIPE, SIG_IGN);
    must(temp_cluster_start(&at.cluster, masters, owners, has_replicas ? masters : 0, &e), e);
    must(cluster_parse_seeds(&at.seeds, at.cluster.seeds, &e), e);
    at.nodes = (struct nodes){.cluster = cluster_new(&at.seeds)};
    at.other_nodes = (struct nodes){.cluster = cluster_new(&at.seeds)};
    at.link = sync_client_new(&at.nodes, REPLY_MS, NULL);
    at.view = calloc(1, sizeof(*at.view));
    assert_true(at.link != NULL && at.view != NULL);
}

void log_cluster_stop(void)
{
    sync_client_free(at.link);
    free(at.view);
    cluster_free(at.nodes.cluster);
    cluster_free(at.other_nodes.cluster);
    temp_cluster_fini(&at.cluster);
}

unsigned log_cluster_owner(const struct key_name *key)
{
    return temp_cluster_owner(&at.cluster, 0, slots_of_key(key->text, key->length));
}
