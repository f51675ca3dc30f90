/* SPDX-License-Identifier: MIT */
#include "service/daemon/describe.h"

#include <string.h>
#include "service/http/http_dashboard.h"

/* Of docs/man/twinbloom.conf.5 and twinbloomd.8. */
extern const char embedded_twinbloom[], embedded_twinbloomd[];

void describe_page(FILE *to, const char *name, const char *from)
{
    for (size_t i = 0; i < dashboard_file_count; i++) {
        const struct dashboard_file *f = &dashboard_files[i];
        const unsigned char *at =
            strcmp(f->name, name) == 0 ? memmem(f->bytes, f->length, from, strlen(from)) : NULL;
        if (at != NULL)
            (void)fwrite(at, 1, f->length - (size_t)(at - f->bytes), to);
    }
}

void describe_config_man(FILE *to)
{
    (void)fputs(embedded_twinbloom, to);
}

void describe_daemon_man(FILE *to)
{
    (void)fputs(embedded_twinbloomd, to);
}
