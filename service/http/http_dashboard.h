/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_DASHBOARD_H
#define SERVICE_HTTP_DASHBOARD_H
/* The files of service/dashboard/ and the pages of docs/. The build puts them into the program
 * (twinbloom_embed_files). */
#include <stddef.h>

struct dashboard_file {
    const char *name;
    const char *etag;                    /* hash of the contents, with quotes */
    const unsigned char *bytes, *packed; /* as they are, and compressed by gzip */
    size_t length, packed_length;
};

extern const struct dashboard_file dashboard_files[];
extern const size_t dashboard_file_count;
#endif
