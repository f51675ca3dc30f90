/* SPDX-License-Identifier: MIT */
/* A log line as JSON: a JSON parser must accept it, whatever the bytes are. */
#include <stdint.h>
#include <stdlib.h>

#include <jansson.h>

#include "base/log.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t room = LOG_JSON_MAX(size);
    char *out = malloc(room);
    json_error_t why;
    if (out == NULL)
        return 0;
    size_t n = log_json(out, room, (const char *)data, size);
    json_t *root = json_loadb(out, n, JSON_ALLOW_NUL, &why);
    fuzz_check(root != NULL);
    json_decref(root);
    free(out);
    return 0;
}
