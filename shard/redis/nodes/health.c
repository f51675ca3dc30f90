/* SPDX-License-Identifier: MIT */
#include "shard/redis/nodes/health.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/redis/nodes/cluster.h"

/* Connections come and go a few times a second at most: one lock is enough. */
struct node_health {
    pthread_mutex_t lock;
    unsigned count, room;
    uint64_t events;
    struct health_row {
        struct node_health_figures figures;
        uint64_t last; /* value of @events at the row's last event */
    } * row;
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

static struct health_row *find(struct node_health *h, const char *name)
{
    for (unsigned i = 0; i < h->count; i++)
        if (strcmp(h->row[i].figures.name, name) == 0)
            return &h->row[i];
    return NULL;
}

/* The row to use again: among rows without a connection and without a loop that misses the node, the one
 * whose last event is oldest. Masters of a cluster come and go, each with an address of its own. NULL: there
 * is none, or there is room for more rows. */
static struct health_row *forgotten(struct node_health *h)
{
    struct health_row *oldest = NULL;
    for (unsigned i = 0; h->count >= NODE_HEALTH_ROWS && i < h->count; i++) {
        struct health_row *row = &h->row[i];
        bool idle = row->figures.connections == 0 && row->figures.loops_down == 0;
        if (idle && (oldest == NULL || row->last < oldest->last))
            oldest = row;
    }
    return oldest;
}

/* A row for a new name. NULL: no memory. */
static struct health_row *add(struct node_health *h)
{
    struct health_row *row = forgotten(h);
    if (row != NULL)
        return row;
    if (h->count == h->room) {
        row = realloc(h->row, (2 * h->room + 8) * sizeof(*row));
        if (row == NULL)
            return NULL;
        h->row = row;
        h->room = 2 * h->room + 8;
    }
    return &h->row[h->count++];
}

/* Lock, and find the node's row, or make it; a row that nobody reads if nodes->health is NULL, or without
 * memory. */
static struct node_health_figures *begin(const struct nodes *nodes, const struct node *n)
{
    static _Thread_local struct node_health_figures nowhere;
    struct node_health *h = nodes->health;
    if (h == NULL)
        return &nowhere;
    (void)pthread_mutex_lock(&h->lock);
    struct health_row *row = find(h, n->name);
    if (row == NULL && (row = add(h)) != NULL) {
        *row = (struct health_row){.last = 0};
        memcpy(row->figures.name, n->name, sizeof(row->figures.name));
    }
    if (row == NULL)
        return &nowhere;
    row->last = ++h->events;
    return &row->figures;
}

static void end(const struct nodes *nodes)
{
    if (nodes->health != NULL)
        (void)pthread_mutex_unlock(&nodes->health->lock);
}

void node_health_opened(const struct nodes *nodes, const struct node *n)
{
    struct node_health_figures *row = begin(nodes, n);
    row->connections++;
    row->missed = false;
    end(nodes);
}

void node_health_closed(const struct nodes *nodes, const struct node *n)
{
    struct node_health_figures *row = begin(nodes, n);
    row->connections -= row->connections > 0;
    end(nodes);
}

void node_health_failed(const struct nodes *nodes, const struct node *n, const char *why)
{
    struct node_health_figures *row = begin(nodes, n);
    row->failures++;
    row->missed = true;
    row->error_ms = clock_wall_us() / 1000;
    (void)snprintf(row->error, sizeof(row->error), "%s", why);
    end(nodes);
}

void node_health_down(const struct nodes *nodes, const struct node *n, bool down)
{
    struct node_health_figures *row = begin(nodes, n);
    if (down)
        row->loops_down++;
    else
        row->loops_down -= row->loops_down > 0;
    end(nodes);
}

void node_health_reconnected(const struct nodes *nodes, const struct node *n)
{
    struct node_health_figures *row = begin(nodes, n);
    row->reconnects++;
    end(nodes);
}

void node_health_took(const struct nodes *nodes, const struct node *n, uint64_t us)
{
    struct node_health_figures *row = begin(nodes, n);
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
        HOLD(&h->lock);
        const struct health_row *row = find(h, name);
        if (row != NULL)
            *out = row->figures;
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

bool node_health_is_down(const struct node_health_figures *f)
{
    return f->loops_down > 0 || (f->connections == 0 && f->missed);
}

const char *node_health_state(const struct node_health_figures *f)
{
    return node_health_is_down(f) ? "down" : f->connections > 0 ? "up" : "unused";
}
