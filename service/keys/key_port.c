/* SPDX-License-Identifier: MIT */
#include "service/keys/key_port.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "shard/filter/names.h"

struct async_client *key_port_redis(const struct key_port *p)
{
    return p->async;
}

/* --- filters --- */

static struct filter_policy policy_of(const struct key_port *p, const char *name, size_t length)
{
    const struct config *c = *p->config;
    const struct config_filter *f = config_find(c, name, length);
    if (f == NULL)
        return (struct filter_policy){.add_acks = c->add_acks, .add_fsync = c->add_fsync};
    return (struct filter_policy){.configured = true,
                                  .sourced = f->table[0] != '\0',
                                  .error_on_lost = f->on_lost == ON_LOST_ERROR,
                                  .add_acks = f->add_acks > c->add_acks ? f->add_acks : c->add_acks,
                                  .add_fsync = f->add_fsync || c->add_fsync};
}

static struct key_filter **bucket_of(struct key_port *p, const char *name, size_t length)
{
    return &p->bucket[XXH3_64bits(name, length) % KEY_PORT_BUCKETS];
}

enum err key_port_find(struct key_port *p, const char *name, size_t length, struct key_filter **out,
                       struct error *e)
{
    struct names names;
    struct key_filter **head = bucket_of(p, name, length);
    for (*out = *head; *out != NULL; *out = (*out)->next)
        if ((*out)->name_length == length && memcmp((*out)->name, name, length) == 0)
            return ERR_OK;
    enum err code = names_init(&names, p->service->prefix, name, length, e);
    if (code != ERR_OK)
        return code;
    struct key_filter *f = calloc(1, sizeof(*f));
    if (f == NULL || (f->name = buffer_copy(name, length)) == NULL) {
        free(f);
        return error_set(e, ERR_NOMEM, "out of memory");
    }
    f->name_length = length;
    f->port = p;
    f->policy = policy_of(p, name, length);
    f->next = *head;
    *head = f;
    *out = f;
    return ERR_OK;
}

static void filter_free(struct key_filter *f)
{
    open_filter_close(f->open);
    free(f->name);
    free(f);
}

/* Free the entry of a name under which no filter ever existed. */
static void forget_if_unused(struct key_filter *f)
{
    if (f->seen || f->policy.configured || f->users > 0 || f->port->closing)
        return;
    struct key_filter **at = bucket_of(f->port, f->name, f->name_length);
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    filter_free(f);
}

bool key_filter_close_if_over(struct key_filter *f)
{
    if (f->open == NULL || !open_filter_is_over(f->open))
        return false;
    open_filter_close(f->open);
    f->open = NULL;
    f->seen = false;
    return true;
}

void key_filter_use(struct key_filter *f)
{
    f->users++;
}

void key_filter_unuse(struct key_filter *f)
{
    f->users--;
    forget_if_unused(f);
}

/* --- the port --- */

/* A filter that is over takes memory as long as an entry has it open, and nobody may use its name again. */
static void on_second(evutil_socket_t fd UNUSED, short events UNUSED, void *arg)
{
    struct key_port *p = arg;
    unsigned ended = filters_ended(p->service->logs);
    if (ended == p->ended)
        return;
    p->ended = ended;
    for (size_t i = 0; i < KEY_PORT_BUCKETS; i++)
        for (struct key_filter *f = p->bucket[i], *next; f != NULL; f = next) {
            next = f->next;
            if (key_filter_close_if_over(f))
                forget_if_unused(f);
        }
}

struct key_port *key_port_new(struct service *s, struct event_base *base, const struct config *const *config)
{
    struct key_port *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return NULL;
    p->service = s;
    p->config = config;
    p->operations.size = KEY_OPERATION_BYTES;
    p->async = async_client_new(base, &s->nodes, s->redis_timeout_ms, &s->latency);
    p->requests = p->async == NULL ? NULL : request_port_new(base, p->async, (unsigned)(*config)->timeout_ms);
    p->second = event_new(base, -1, EV_PERSIST, on_second, p);
    if (p->requests == NULL || p->second == NULL ||
        event_add(p->second, &(struct timeval){.tv_sec = 1}) != 0) {
        key_port_free(p);
        return NULL;
    }
    return p;
}

void key_port_configure(struct key_port *p)
{
    request_port_bound(p->requests, (*p->config)->timeout_ms * 1000);
    for (size_t i = 0; i < KEY_PORT_BUCKETS; i++)
        for (struct key_filter *f = p->bucket[i], *next; f != NULL; f = next) {
            next = f->next;
            f->policy = policy_of(p, f->name, f->name_length);
            forget_if_unused(f);
        }
}

void key_port_free(struct key_port *p)
{
    if (p == NULL)
        return;
    request_port_free(p->requests);
    if (p->second != NULL)
        event_free(p->second);
    p->closing = true;
    async_client_free(p->async);
    for (size_t i = 0; i < KEY_PORT_BUCKETS; i++)
        for (struct key_filter *f = p->bucket[i], *next; f != NULL; f = next) {
            next = f->next;
            filter_free(f);
        }
    pool_fini(&p->operations);
    free(p);
}
