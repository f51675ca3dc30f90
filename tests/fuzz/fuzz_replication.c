/* SPDX-License-Identifier: MIT */
/* Any bytes as INFO replication: an error, or what can be used as it is. */
#include <stdlib.h>
#include <string.h>

#include "shard/replication.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct replication r;
    struct error e = {""};
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    if (replication_parse(&r, text, size, &e) == ERR_OK) {
        fuzz_check(r.id != 0 && r.count <= REPLICAS_MAX && (r.count == 0 || r.master) &&
                   !(r.linked && r.master));
        for (unsigned i = 0; i < r.count; i++)
            fuzz_check(r.replica[i].port != 0 && r.replica[i].host[0] != '\0' &&
                       memchr(r.replica[i].host, '\0', sizeof(r.replica[i].host)) != NULL);
    }
    free(text);
    return 0;
}
