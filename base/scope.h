/* SPDX-License-Identifier: MIT */
#ifndef BASE_SCOPE_H
#define BASE_SCOPE_H
/* What a function owns is released where its scope ends, on every way out:
 *     SCOPED(buffer_fini) struct buffer text = {0}; */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* @release gets the variable's address. */
#define SCOPED(release) __attribute__((cleanup(release)))

/* For SCOPED(): free what another file has allocated. Where the analyzer of clang-tidy 14 sees malloc(), it
 * reports a leak, as it does not know the attribute. */
static inline void scope_free(void *pointer)
{
    void *memory;
    memcpy(&memory, pointer, sizeof(memory));
    free(memory);
}

static inline pthread_mutex_t *scope_lock(pthread_mutex_t *mutex)
{
    (void)pthread_mutex_lock(mutex);
    return mutex;
}

static inline void scope_unlock(pthread_mutex_t **mutex)
{
    (void)pthread_mutex_unlock(*mutex);
}

/* Lock @mutex until the scope ends. */
#define HOLD(mutex)                                                                                          \
    SCOPED(scope_unlock) __attribute__((unused)) pthread_mutex_t *scope_held = scope_lock(mutex)
#endif
