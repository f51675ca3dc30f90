/* SPDX-License-Identifier: MIT */
#include "base/mailbox.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct task {
    struct task *next;
    mailbox_fn *fn;
    void *arg;
};

struct mailbox {
    pthread_mutex_t lock;
    struct task *head;
    struct task **tail;
    int fd;
};

struct mailbox *mailbox_new(void)
{
    struct mailbox *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return NULL;
    m->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (m->fd < 0 || pthread_mutex_init(&m->lock, NULL) != 0) {
        if (m->fd >= 0)
            (void)close(m->fd);
        free(m);
        return NULL;
    }
    m->tail = &m->head;
    return m;
}

void mailbox_free(struct mailbox *m)
{
    if (m == NULL)
        return;
    for (struct task *l = m->head, *next; l != NULL; l = next) {
        next = l->next;
        free(l);
    }
    (void)close(m->fd);
    (void)pthread_mutex_destroy(&m->lock);
    free(m);
}

int mailbox_fd(const struct mailbox *m)
{
    return m->fd;
}

void mailbox_wake(struct mailbox *m)
{
    uint64_t one = 1;
    ssize_t n = write(m->fd, &one, sizeof(one));
    (void)n; /* if the counter is full, the owner wakes up anyway */
}

enum err mailbox_post(struct mailbox *m, mailbox_fn *fn, void *arg)
{
    struct task *l = malloc(sizeof(*l));
    if (l == NULL)
        return ERR_NOMEM;
    *l = (struct task){.fn = fn, .arg = arg};
    (void)pthread_mutex_lock(&m->lock);
    *m->tail = l;
    m->tail = &l->next;
    (void)pthread_mutex_unlock(&m->lock);
    mailbox_wake(m);
    return ERR_OK;
}

void mailbox_run(struct mailbox *m)
{
    uint64_t count;
    ssize_t n = read(m->fd, &count, sizeof(count));
    (void)n; /* EAGAIN: nothing new; the list holds the tasks */
    (void)pthread_mutex_lock(&m->lock);
    struct task *l = m->head;
    m->head = NULL;
    m->tail = &m->head;
    (void)pthread_mutex_unlock(&m->lock);
    while (l != NULL) {
        struct task *next = l->next;
        l->fn(l->arg);
        free(l);
        l = next;
    }
}

void mailbox_wait(struct mailbox *m, int timeout_ms)
{
    struct pollfd p = {.fd = m->fd, .events = POLLIN};
    (void)poll(&p, 1, timeout_ms);
    mailbox_run(m);
}
