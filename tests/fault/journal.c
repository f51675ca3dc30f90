/* SPDX-License-Identifier: MIT */
#include "tests/fault/journal.h"

#include <pthread.h>
#include <stdarg.h>

#include "base/clock.h"

enum { KEPT = 400, BEFORE = 6, TEXT_MAX = 300 };

struct entry {
    uint64_t at;
    char text[TEXT_MAX];
};

static struct {
    pthread_mutex_t lock;
    struct entry entries[KEPT];
    uint64_t count;
    uint64_t origin;
    bool verbose;
} journal = {.lock = PTHREAD_MUTEX_INITIALIZER};

void journal_verbose(bool on)
{
    journal.verbose = on;
}

static uint64_t now_locked(void)
{
    uint64_t now = clock_mono_us();
    if (journal.origin == 0)
        journal.origin = now;
    return now - journal.origin;
}

uint64_t journal_now(void)
{
    (void)pthread_mutex_lock(&journal.lock);
    uint64_t now = now_locked();
    (void)pthread_mutex_unlock(&journal.lock);
    return now;
}

static void print(FILE *to, const struct entry *e)
{
    (void)fprintf(to, "  %10.3f s  %s\n", (double)e->at / 1e6, e->text);
}

void journal_note(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    (void)pthread_mutex_lock(&journal.lock);
    struct entry *e = &journal.entries[journal.count++ % KEPT];
    e->at = now_locked();
    (void)vsnprintf(e->text, sizeof(e->text), format, ap);
    if (journal.verbose)
        print(stdout, e);
    (void)pthread_mutex_unlock(&journal.lock);
    va_end(ap);
}

void journal_print(FILE *to, uint64_t since)
{
    (void)pthread_mutex_lock(&journal.lock);
    uint64_t oldest = journal.count > KEPT ? journal.count - KEPT : 0, from = journal.count;
    while (from > oldest && journal.entries[(from - 1) % KEPT].at >= since)
        from--;
    from = from - oldest > BEFORE ? from - BEFORE : oldest;
    for (uint64_t i = from; i < journal.count; i++)
        print(to, &journal.entries[i % KEPT]);
    (void)pthread_mutex_unlock(&journal.lock);
}
