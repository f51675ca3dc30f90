/* SPDX-License-Identifier: MIT */
/* The configuration: no text may crash the parser. A refusal names the file. An accepted configuration
 * without secrets is printed in a form that is accepted again, and prints the same. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/config/config.h"
#include "service/config/config_keys.h"
#include "tests/fuzz/fuzz.h"

static enum err read_bytes(struct config **out, const void *bytes, size_t size, struct error *e)
{
    char nothing[] = "\n"; /* fmemopen() refuses an empty buffer */
    FILE *f = size > 0 ? fmemopen((void *)(uintptr_t)bytes, size, "r") : fmemopen(nothing, 1, "r");
    fuzz_check(f != NULL);
    enum err err = config_read_stream(out, f, "fuzz", e);
    (void)fclose(f);
    return err;
}

static char *print(const struct config *c, size_t *size)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    fuzz_check(f != NULL);
    config_print(c, f);
    (void)fclose(f);
    fuzz_check(text != NULL);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config *c = NULL, *again = NULL;
    struct error e = {{0}};
    enum err err = read_bytes(&c, data, size, &e);
    if (err != ERR_OK) {
        fuzz_check(err == ERR_CONFIG && c == NULL && strncmp(e.text, "fuzz", 4) == 0);
        return 0;
    }
    size_t length = 0, length_again = 0;
    char *text = print(c, &length);
    if (strstr(text, CONFIG_MASK) == NULL) {
        err = read_bytes(&again, text, length, &e);
        if (err != ERR_OK)
            (void)fprintf(stderr, "%s\n%s", e.text, text);
        fuzz_check(err == ERR_OK);
        char *text_again = print(again, &length_again);
        fuzz_check(length == length_again && memcmp(text, text_again, length) == 0);
        free(text_again);
        config_free(again);
    }
    free(text);
    config_free(c);
    return 0;
}
