/* SPDX-License-Identifier: MIT */
/* Replacements for malloc and its relatives, and for functions of libevent that allocate. A coordinator is
 * linked with them (-Wl,--wrap). */
#include "tests/lib/allocations.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

static struct allocations *shared;

/* For debugging: with TWINBLOOM_ALLOCATIONS_TRACE=1 the log shows which allocation failed. */
void __sanitizer_print_stack_trace(void) __attribute__((weak));

static bool fails(void)
{
    char name[16];
    if (shared == NULL || atomic_load(&shared->countdown) == 0 ||
        pthread_getname_np(pthread_self(), name, sizeof(name)) != 0 || strcmp(name, shared->thread) != 0 ||
        atomic_fetch_sub(&shared->countdown, 1) != 1)
        return false;
    if (__sanitizer_print_stack_trace != NULL && getenv(ALLOCATIONS_FILE "_TRACE") != NULL)
        __sanitizer_print_stack_trace();
    atomic_store(&shared->failed, 1);
    return true;
}

/* WRAP(return type, name, return value on failure, parameters, arguments) */
#define WRAP(type, name, failure, parameters, arguments)                                                     \
    type __real_##name parameters;                                                                           \
    type __wrap_##name parameters;                                                                           \
    type __wrap_##name parameters                                                                            \
    {                                                                                                        \
        return fails() ? (failure) : __real_##name arguments;                                                \
    }

WRAP(void *, malloc, NULL, (size_t size), (size))
WRAP(void *, calloc, NULL, (size_t count, size_t size), (count, size))
WRAP(void *, realloc, NULL, (void *old, size_t size), (old, size))
WRAP(void *, reallocarray, NULL, (void *old, size_t count, size_t size), (old, count, size))
WRAP(void *, aligned_alloc, NULL, (size_t alignment, size_t size), (alignment, size))
WRAP(char *, strdup, NULL, (const char *text), (text))

WRAP(int, event_add, -1, (struct event * e, const struct timeval *after), (e, after))
WRAP(struct event *, event_new, NULL,
     (struct event_base * base, evutil_socket_t fd, short events, event_callback_fn fn, void *arg),
     (base, fd, events, fn, arg))
WRAP(int, event_base_once, -1,
     (struct event_base * base, evutil_socket_t fd, short events, event_callback_fn fn, void *arg,
      const struct timeval *after),
     (base, fd, events, fn, arg, after))
WRAP(struct bufferevent *, bufferevent_socket_new, NULL,
     (struct event_base * base, evutil_socket_t fd, int options), (base, fd, options))
WRAP(int, bufferevent_write, -1, (struct bufferevent * io, const void *bytes, size_t length),
     (io, bytes, length))
WRAP(int, evbuffer_add, -1, (struct evbuffer * buffer, const void *bytes, size_t length),
     (buffer, bytes, length))
WRAP(struct evbuffer *, evbuffer_new, NULL, (void), ())

__attribute__((constructor)) static void start(void)
{
    const char *path = getenv(ALLOCATIONS_FILE);
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *map = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map != MAP_FAILED)
        shared = map;
}
