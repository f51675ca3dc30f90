/* SPDX-License-Identifier: MIT */
#include "tests/integration/memory.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "tests/lib/raw.h"

enum { CONNECTIONS_MAX = 64, REST_MS = 10000, REST_LOOKS = 10, REST_LOOK_MS = 20 };

void memory_count_what_is_held(void)
{
    char options[1024];
    const char *before = getenv("ASAN_OPTIONS");
    (void)snprintf(
        options, sizeof(options),
        "%s%squarantine_size_mb=0:thread_local_quarantine_size_kb=0:"
        "allocator_release_to_os_interval_ms=0:malloc_context_size=0:detect_stack_use_after_return=0",
        before == NULL ? "" : before, before == NULL ? "" : ":");
    assert_int_equal(setenv("ASAN_OPTIONS", options, 1), 0);
}

static size_t line_of_status(const struct fixture *f, const char *name)
{
    char path[64], line[256];
    size_t kib = 0, length = strlen(name);
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)f->daemon[0].process.pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, name, length) == 0 && line[length] == ':')
            kib = strtoull(line + length + 1, NULL, 10);
    (void)fclose(file);
    assert_true(kib > 0);
    return kib * 1024;
}

size_t memory_now(const struct fixture *f)
{
    return line_of_status(f, "VmRSS");
}

size_t memory_at_rest(const struct fixture *f)
{
    uint64_t end = clock_mono_us() + REST_MS * 1000ull;
    size_t now = memory_now(f);
    for (unsigned same = 0; same < REST_LOOKS && clock_mono_us() < end;) {
        size_t before = now;
        clock_sleep_us(REST_LOOK_MS * 1000);
        now = memory_now(f);
        same = now == before ? same + 1 : 0;
    }
    return now;
}

size_t memory_peak(const struct fixture *f)
{
    return line_of_status(f, "VmHWM");
}

void memory_reset_peak(const struct fixture *f)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/clear_refs", (int)f->daemon[0].process.pid);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("5", file) >= 0);
    assert_int_equal(fclose(file), 0);
}

void memory_pour(const int *fds, size_t count, const char *first, const char *again, size_t again_length)
{
    struct pollfd p[CONNECTIONS_MAX];
    size_t sent[CONNECTIONS_MAX] = {0};
    assert_true(count <= CONNECTIONS_MAX);
    for (size_t i = 0; i < count; i++) {
        assert_true(raw_puts(fds[i], first));
        p[i] = (struct pollfd){.fd = fds[i], .events = POLLOUT};
    }
    uint64_t end = clock_mono_us() + POUR_MS * 1000ull;
    while (clock_mono_us() < end && poll(p, count, 50) >= 0)
        for (size_t i = 0; i < count; i++) {
            size_t from = sent[i] % again_length;
            ssize_t n = (p[i].revents & POLLOUT) == 0
                            ? 0
                            : send(fds[i], again + from, again_length - from, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n > 0)
                sent[i] += (size_t)n;
            if (n < 0 || sent[i] > POUR_MAX)
                p[i].fd = -1; /* the connection has had POUR_MAX bytes, or was closed */
        }
}
