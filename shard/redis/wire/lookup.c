/* SPDX-License-Identifier: MIT */
#include "shard/redis/wire/lookup.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The most threads at one time. If name servers do not answer, each thread lasts for some seconds, and
 * connections try again more often than that. */
enum { THREADS_MAX = 64, STACK_BYTES = 256 * 1024 };

static atomic_uint threads;

struct lookup {
    atomic_uint holders; /* the thread, and the caller */
    int fd;
    int code;
    struct addrinfo *found;
    char port[8];
    char host[];
};

static void release(struct lookup *l)
{
    if (atomic_fetch_sub(&l->holders, 1) != 1)
        return;
    if (l->found != NULL)
        freeaddrinfo(l->found);
    (void)close(l->fd);
    free(l);
}

static void *run(void *arg)
{
    struct lookup *l = arg;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    l->code = getaddrinfo(l->host, l->port, &hints, &l->found);
    if (l->code != 0)
        l->found = NULL;
    (void)eventfd_write(l->fd, 1);
    release(l);
    (void)atomic_fetch_sub(&threads, 1);
    return NULL;
}

/* The thread blocks all signals: the main thread takes them. */
static bool start(struct lookup *l)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, &attributes, run, l) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return started;
}

struct lookup *lookup_new(const char *host, uint16_t port)
{
    size_t size = strlen(host) + 1;
    struct lookup *l = calloc(1, sizeof(*l) + size);
    if (l == NULL)
        return NULL;
    memcpy(l->host, host, size);
    (void)snprintf(l->port, sizeof(l->port), "%u", port);
    atomic_init(&l->holders, 2);
    l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bool counted = atomic_fetch_add(&threads, 1) < THREADS_MAX;
    if (l->fd >= 0 && counted && start(l))
        return l;
    (void)atomic_fetch_sub(&threads, 1);
    if (l->fd >= 0)
        (void)close(l->fd);
    free(l);
    return NULL;
}

void lookup_free(struct lookup *l)
{
    if (l != NULL)
        release(l);
}

int lookup_fd(const struct lookup *l)
{
    return l->fd;
}

bool lookup_take(struct lookup *l, struct addrinfo **out, int *code)
{
    eventfd_t ended = 0;
    *out = NULL;
    *code = 0;
    if (eventfd_read(l->fd, &ended) != 0 || ended == 0)
        return false;
    *code = l->code;
    *out = l->found;
    l->found = NULL;
    return true;
}
