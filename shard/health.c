/* SPDX-License-Identifier: MIT */
#include "shard/health.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/cluster.h"

/* Connections come and go some times a second at the most: one lock will do. */
struct node_health {
    pthread_mutex_t lock;
    unsigned count, room;
    struct node_health_figures *row;
};

struct node_health *node_health_new(void)
{
    struct node_health *h = calloc(1, sizeof(*h));
    if (h != NULL)
        (void)pthread_mutex_init(&h->lock, NULL);
    return h;
}

void node_health_free(struct node_health *h)
{
    if (h == NULL)
        return;
    (void)pthread_mutex_destroy(&h->lock);
    free(h->row);
    free(h);
}

static struct node_health_figures *find(struct node_health *h, const char *name)
{
    for (unsigned i = 0; i < h->count; i++)
        if (strcmp(h->row[i].name, name) == 0)
            return &h->row[i];
    return NULL;
}

/* The node's row, made where it is new, with the lock held; NULL: nobody wants to know, or no memory. */
static struct node_health_figures *begin(const struct nodes *nodes, const struct node *n)
{
    struct node_health *h = nodes->health;
    if (h == NULL)
        return NULL;
    (void)pthread_mutex_lock(&h->lock);
    struct node_health_figures *row = find(h, n->name);
    if (row != NULL)
        return row;
    if (h->count == h->room) {
        row = realloc(h->row, (2 * h->room + 8) * sizeof(*row));
        if (row == NULL) {
            (void)pthread_mutex_unlock(&h->lock);
            return NULL;
        }
        h->row = row;
        h->room = 2 * h->room + 8;
    }
    row = &h->row[h->count++];
    *row = (struct node_health_figures){0};
    memcpy(row->name, n->name, sizeof(row->name));
    return row;
}

static void end(const struct nodes *nodes)
{
    (void)pthread_mutex_unlock(&nodes->health->lock);
}

void node_health_opened(const struct nodes *nodes, const struct node *n)
{
    struct node_health_figures *row = begin(nodes, n);
    if (row == NULL)
        return;
    row->connections++;
    end(nodes);
}

void node_health_closed(const struct nodes *nodes, const struct node *n)
{
    struct node_health_figures *row = begin(nodes, n);
    if (row == NULL)
        return;
    row->connections -= row->connections > 0;
    end(nodes);
}

void node_health_failed(const struct nodes *nodes, const struct node *n, const char *why)
{
    struct node_health_figures *row = begin(nodes, n);
    if (row == NULL)
        return;
    row->failures++;
    row->error_ms = clock_wall_us() / 1000;
    (void)snprintf(row->error, sizeof(row->error), "%s", why);
    end(nodes);
}

void node_health_down(const struct nodes *nodes, const struct node *n, bool down)
{
    struct node_health_figures *row = begin(nodes, n);
    if (row == NULL)
        return;
    if (down)
        row->loops_down++;
    else
        row->loops_down -= row->loops_down > 0;
    end(nodes);
}

void node_health_reconnected(const struct nodes *nodes, const struct node *n)
{
    struct node_health_figures *row = begin(nodes, n);
    if (row == NULL)
        return;
    row->reconnects++;
    end(nodes);
}

void node_health_took(const struct nodes *nodes, const struct node *n, uint64_t us)
{
    struct node_health_figures *row = begin(nodes, n);
    if (row == NULL)
        return;
    row->took.bucket[timing_bucket(us)]++;
    row->took.count++;
    row->took.sum_us += us;
    end(nodes);
}

static void read_row(const struct nodes *nodes, const char *name, struct node_health_figures *out)
{
    struct node_health *h = nodes->health;
    *out = (struct node_health_figures){0};
    if (h != NULL) {
        (void)pthread_mutex_lock(&h->lock);
        const struct node_health_figures *row = find(h, name);
        if (row != NULL)
            *out = *row;
        (void)pthread_mutex_unlock(&h->lock);
    }
    (void)snprintf(out->name, sizeof(out->name), "%s", name);
}

bool node_health_read(const struct nodes *nodes, unsigned i, struct node_health_figures *out)
{
    struct slot_node master;
    if (nodes->cluster == NULL) {
        if (i >= nodes->count)
            return false;
        read_row(nodes, nodes->node[i].name, out);
        return true;
    }
    if (!cluster_master(nodes->cluster, i, &master))
        return false;
    read_row(nodes, master.name, out);
    out->slots = master.slots;
    return true;
}

const char *node_health_state(const struct node_health_figures *f)
{
    return f->loops_down > 0 ? "down" : f->connections > 0 ? "up" : "unused";
}
