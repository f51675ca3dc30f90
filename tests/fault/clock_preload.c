/* SPDX-License-Identifier: MIT */
/* Preloaded into a coordinator: the file FAULT_CLOCK holds the seconds by which its wall clock is off, a
 * signed 64-bit number, which may change while the process runs. The monotonic clock is right, as it is when
 * an operator sets the wall clock. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile const int64_t *offset;

__attribute__((constructor)) static void find_offset(void)
{
    const char *path = getenv("FAULT_CLOCK");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *page = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED)
        offset = page;
    if (fd >= 0)
        (void)close(fd);
}

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the C library's names are reserved
 * ones. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
    int status = (int)syscall(SYS_clock_gettime, clock, out);
    if (status == 0 && offset != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        out->tv_sec += *offset;
    return status;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    int status = clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return status;
}

time_t time(time_t *out)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
