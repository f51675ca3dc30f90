/* SPDX-License-Identifier: MIT */
#include "base/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

void standard_files_fill(void)
{
    static const int wrong_way[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", wrong_way[fd] | O_CLOEXEC); /* gets the lowest number, which is @fd */
}
