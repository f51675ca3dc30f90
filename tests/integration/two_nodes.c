/* SPDX-License-Identifier: MIT */
#include "tests/integration/two_nodes.h"

#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>

#include "shard/generations/make.h"
#include "tests/integration/lanes.h"

enum { REPLY_MS = 5000 };

static void connect_link(const struct two_nodes *t)
{
    *t->link = sync_client_new(t->nodes, REPLY_MS, NULL);
    assert_non_null(*t->link);
}

void two_nodes_start(const struct two_nodes *t, const char *const *arguments)
{
    char urls[600];
    struct error e = {""};
    (void)signal(SIGPIPE, SIG_IGN);
    must(temp_redis_start(t->home, NULL, &e), e);
    must(temp_redis_start(t->other, arguments, &e), e);
    must(client_open(t->client, t->home->port, REPLY_MS, &e), e);
    (void)snprintf(urls, sizeof(urls), "%s,%s", t->home->url, t->other->url);
    must(nodes_parse(t->nodes, urls, &e), e);
    connect_link(t);
    *t->view = malloc(sizeof(**t->view));
    assert_non_null(*t->view);
}

void two_nodes_stop(const struct two_nodes *t)
{
    free(*t->view);
    sync_client_free(*t->link);
    client_close(t->client);
    temp_redis_fini(t->home);
    temp_redis_fini(t->other);
}

void two_nodes_make(const struct two_nodes *t, const struct temp_redis *at, uint64_t capacity, unsigned lanes)
{
    char name[40];
    struct error e = {""};
    struct placement placement;
    must(names_init(t->names, "tb", "f", 1, &e), e);
    (void)snprintf(name, sizeof(name), "127.0.0.1:%u", at->port);
    must(placement_choose(&placement, t->nodes, name, &e), e);
    const struct make_options o = {.capacity = capacity,
                                   .expansion = 2,
                                   .error_rate = 0.0001,
                                   .lanes = lanes,
                                   .placement = &placement,
                                   .shard_bytes = 32768};
    must(log_make(*t->link, t->names, &o, *t->view, NULL, &e), e);
}

void two_nodes_go_back(const struct two_nodes *t)
{
    struct error e = {""};
    client_close(t->client);
    temp_redis_kill(t->home);
    must(temp_redis_restart(t->home, true, &e), e);
    must(client_open(t->client, t->home->port, REPLY_MS, &e), e);
    sync_client_free(*t->link);
    connect_link(t);
}
