/* SPDX-License-Identifier: MIT */
/* The happy path is: the task visits one worker after the other, a few clients at a time so that other
 * clients are not held up, and returns to the worker that it started from. Possible failure modes are: the
 * client that sent the command disconnects (its memory stays until the task is back), clients come and go
 * meanwhile (a client that is connected all the time is seen exactly once), the workers end (the task is
 * answered when all have ended; see end_threads() of service/daemon/). */
#include "service/resp/client_list.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/core/sockets.h"
#include "service/resp/worker.h"

enum { SLICE = 128 /* clients per visit */ };

struct task {
    const struct service *service;
    const struct workers *workers;
    struct client *asker;
    struct request *request;
    enum client_list_kind kind;
    struct client_choice choice;
    unsigned at;    /* index of the worker to visit next */
    uint64_t below; /* clients of that worker with ids below this one have still to be seen */
    struct buffer lines;
    uint64_t hits;
    bool hit_asker;
};

static void visit(void *arg);
static void answer(void *arg);

/* --- one client --- */

static const char *user_of(const struct client *c)
{
    return c->session.user[0] != '\0' ? c->session.user : USERS_DEFAULT;
}

/* The local address of the connection; "" for a unix socket. */
static void local_address(const struct client *c, char out[ADDRESS_TEXT_MAX])
{
    struct sockaddr_storage a;
    socklen_t length = sizeof(a);
    out[0] = '\0';
    if (getsockname(bufferevent_getfd(c->io), (struct sockaddr *)&a, &length) == 0)
        address_text((struct sockaddr *)&a, length, out);
}

void client_list_line(struct buffer *out, const struct client *c)
{
    char local[ADDRESS_TEXT_MAX];
    uint64_t now = clock_mono_us();
    uint64_t active = c->active_us < now ? c->active_us : now;
    local_address(c, local);
    buffer_printf(out,
                  "id=%" PRIu64 " addr=%s laddr=%s fd=%d name=%s age=%" PRIu64 " idle=%" PRIu64
                  " flags=%s%s db=0 sub=0 psub=0 ssub=0 multi=%d qbuf=%zu obl=%zu tot-mem=%zu cmd=",
                  c->id, c->address, local, (int)bufferevent_getfd(c->io), c->name,
                  (now - c->connected_us) / 1000000, (now - active) / 1000000, c->in_transaction ? "x" : "",
                  c->state == CLIENT_CLOSING ? "c"
                  : c->in_transaction        ? ""
                                             : "N",
                  c->in_transaction ? (int)c->transaction_count : -1, c->input.length - c->input_from,
                  client_unread(c), c->memory);
    for (const char *p = c->command == NULL ? "NULL" : c->command; *p != '\0'; p++) {
        char small = c->command == NULL ? *p : (char)tolower((unsigned char)*p);
        buffer_append(out, &small, 1);
    }
    buffer_printf(out, " user=%s resp=%d lib-name=%s lib-ver=%s\n", user_of(c), c->protocol, c->library,
                  c->library_version);
}

static bool id_is_meant(const struct client_choice *choice, uint64_t id)
{
    size_t i = 0;
    while (i < choice->id_count && choice->ids[i] != id)
        i++;
    return choice->ids == NULL || i < choice->id_count;
}

static bool is_meant(const struct task *l, const struct client *c)
{
    const struct client_choice *choice = &l->choice;
    char local[ADDRESS_TEXT_MAX];
    if (choice->nobody || !id_is_meant(choice, c->id) || (choice->not_self && c == l->asker))
        return false;
    if (choice->address[0] != '\0' && strcmp(choice->address, c->address) != 0)
        return false;
    if (choice->user[0] != '\0' && strcmp(choice->user, user_of(c)) != 0)
        return false;
    if ((clock_mono_us() - c->connected_us) / 1000000 < choice->age_s)
        return false;
    if (choice->local[0] == '\0')
        return true;
    local_address(c, local);
    return strcmp(choice->local, local) == 0;
}

static void take(struct task *l, struct client *c)
{
    l->hits++;
    if (l->kind == CLIENT_LIST)
        client_list_line(&l->lines, c);
    else if (c == l->asker)
        l->hit_asker = true; /* this client is closed after its reply */
    else
        client_destroy(c);
}

/* --- the task's way round the workers --- */

/* Send the task to the next worker, or back to the one that it started from. */
static void send_on(struct task *l)
{
    while (l->at < l->workers->count) {
        if (mailbox_post(l->workers->worker[l->at]->mailbox, visit, l) == ERR_OK)
            return;
        l->at++; /* no memory: the clients of that worker are left out */
        l->lines.failed = true;
    }
    if (mailbox_post(l->asker->worker->mailbox, answer, l) != ERR_OK)
        log_error("out_of_memory", "part=client_list note=\"a reply is lost\"");
}

static void visit(void *arg)
{
    struct task *l = arg;
    if (atomic_load(&l->service->stop)) { /* no worker runs any more */
        answer(l);
        return;
    }
    struct worker *w = l->workers->worker[l->at];
    unsigned seen = 0;
    struct client *c, *next;
    /* The newest client comes first. */
    for (c = LIST_FIRST(&w->clients); c != NULL && seen < SLICE; c = next) {
        next = LIST_NEXT(c, link);
        if (c->id >= l->below)
            continue;
        l->below = c->id;
        seen++;
        if (is_meant(l, c))
            take(l, c);
    }
    if (c == NULL) {
        l->at++;
        l->below = UINT64_MAX;
    }
    send_on(l);
}

static void answer(void *arg)
{
    struct task *l = arg;
    struct client *c = l->asker;
    SCOPED(buffer_fini) struct buffer text = {0};
    struct reply r = {.out = &text, .protocol = c->protocol};
    if (buffer_failed(&l->lines))
        reply_error(&r, "OOM out of memory");
    else if (l->kind == CLIENT_LIST)
        reply_verbatim(&r, l->lines.data, l->lines.length);
    else if (l->kind == CLIENT_KILL)
        reply_integer(&r, (int64_t)l->hits);
    else if (l->hits == 0)
        reply_error(&r, "ERR No such client");
    else
        reply_simple(&r, "OK");
    if (l->hit_asker && c->state != CLIENT_GONE)
        client_close_after_reply(c);
    client_answer(c, l->request, &text);
    free(l->choice.ids);
    buffer_fini(&l->lines);
    free(l);
}

void client_list_start(struct client *c, enum client_list_kind kind, const struct client_choice *choice)
{
    struct task *l = calloc(1, sizeof(*l));
    struct request *r = l == NULL ? NULL : client_await(c);
    if (r == NULL) {
        free(l);
        free(choice->ids);
        client_error(c, "OOM out of memory");
        return;
    }
    *l = (struct task){.service = c->worker->service,
                       .workers = c->worker->all,
                       .asker = c,
                       .request = r,
                       .kind = kind,
                       .choice = *choice,
                       .below = UINT64_MAX};
    send_on(l);
}
