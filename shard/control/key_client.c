/* SPDX-License-Identifier: MIT */
#include "shard/control/key_client.h"

#include <stdlib.h>
#include <string.h>
#include <event2/event.h>

struct key_client {
    struct filters *filters;
    char name[FILTER_NAME_MAX];
    size_t length;
    struct open_filter *open;
    struct event_base *base;
    struct async_client *async;
    struct request_port *port;
    struct key_request request;
    struct request_key keys[KEY_REQUEST_MAX];
    bool is_told;
    enum err code;
    struct error why;
};

static struct key_client *client_new(struct filters *fs, const struct nodes *nodes, unsigned timeout_ms)
{
    struct key_client *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->filters = fs;
    c->base = event_base_new();
    if (c->base != NULL)
        c->async = async_client_new(c->base, nodes, timeout_ms, NULL);
    if (c->async != NULL)
        c->port = request_port_new(c->base, c->async, timeout_ms);
    if (c->port != NULL)
        return c;
    key_client_free(c);
    return NULL;
}

void key_client_free(struct key_client *c)
{
    if (c == NULL)
        return;
    request_port_free(c->port);
    open_filter_close(c->open);
    if (c->async != NULL)
        async_client_free(c->async);
    if (c->base != NULL)
        event_base_free(c->base);
    free(c);
}

static void on_told(void *arg, enum err code, const char *text)
{
    struct key_client *c = arg;
    c->is_told = true;
    c->code = code == ERR_OK ? ERR_OK : error_set(&c->why, code, "%s", text);
}

/* Open the filter again, if it was deleted, and made again, since the last call. */
static enum err open_filter(struct key_client *c, struct error *e)
{
    if (c->open != NULL && open_filter_is_over(c->open)) {
        open_filter_close(c->open);
        c->open = NULL;
    }
    return c->open != NULL ? ERR_OK : filters_open(c->filters, c->name, c->length, &c->open, e);
}

static enum err ask_some(struct key_client *c, bool adds, unsigned count, uint8_t *answers, struct error *e)
{
    struct log_filter *log = open_filter_log(c->open);
    c->is_told = false;
    if (adds)
        key_add(c->port, log, &c->request, c->keys, count, answers, NULL, on_told, c);
    else if (key_check(c->port, log, &c->request, c->keys, count, answers, on_told, c))
        return ERR_OK;
    while (!c->is_told) /* the port's tick ends each wait */
        (void)event_base_loop(c->base, EVLOOP_ONCE);
    request_port_rest(c->port);
    return c->code == ERR_OK ? ERR_OK : error_set(e, c->code, "%s", c->why.text);
}

enum err key_client_open(struct key_client **client, struct filters *fs, const struct nodes *nodes,
                         unsigned timeout_ms, const char *filter, size_t length, struct error *e)
{
    if (*client == NULL && (*client = client_new(fs, nodes, timeout_ms)) == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    struct key_client *c = *client;
    if (length > sizeof(c->name))
        return error_set(e, ERR_RANGE, "the name of the filter is too long");
    if (length != c->length || memcmp(filter, c->name, length) != 0) {
        open_filter_close(c->open);
        c->open = NULL;
        memcpy(c->name, filter, length);
        c->length = length;
    }
    return open_filter(c, e);
}

enum err key_client_ask(struct key_client *c, bool adds, const char *const *keys, const size_t *lengths,
                        size_t count, uint8_t *answers, struct error *e)
{
    enum err code = open_filter(c, e);
    for (size_t done = 0; done < count && code == ERR_OK;) {
        unsigned n = 0;
        for (; n < KEY_REQUEST_MAX && done + n < count; n++)
            c->keys[n] = (struct request_key){.bytes = keys[done + n], .length = lengths[done + n]};
        code = ask_some(c, adds, n, answers + done, e);
        done += n;
    }
    return code;
}
