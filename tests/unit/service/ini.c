/* SPDX-License-Identifier: MIT */
#include "tests/unit/service/ini.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

const char ini_full[] =
    "# all of it\n"
    "[service]\nlisten = [::1]:7000\nhttp=\nthreads = 4\ntimeout = 250ms\ncheck_interval = 5s\n"
    "log_level = debug\nmax_clients = 5 ; few\nbatch_max = 9\t# tiny\n"
    "[redis]\nnodes = redis://127.0.0.1:1,\n   redis://127.0.0.1:2/3\nprefix = p\ntimeout = 2s\n"
    "shard_bytes = 64KiB\n"
    "[postgres]\ndsn = host=/tmp user=app\ntimeout = 1m\n"
    "[rebuild]\nbuild_memory = 2GiB\npage_rows = 7\nlease = 3s\ntransaction_timeout = 2h\n"
    "verify_sample = 9\nredis_p99_max = 0\nreplication_lag_max = 1m\n"
    "yield_at = 0.7\n"
    "rows_per_second = 5000\n"
    "[filter short-link]\ncapacity = 1000000\nerror_rate = 1e-4\ntable = public.short_link\n"
    "id_column = nr\nkey = code\nwhere = deleted_at IS NULL\n  # live rows\n  AND kind = 'a;b'\n"
    "\n  AND x#>3 = 1\nexpand_at = 1\ngrowth = 2.25\nheadroom = 1\nexpand_at_bytes = 3MiB\n"
    "expand_at_dead = 0.25\n"
    "schedule = 30 3 * * *\nwindow = 01:00-05:00, 22:00-02:00\nexpansion = 0\ngrace = 0\non_lost = error\n"
    "[filter empty one]\ncapacity = 5\n";

enum err ini_read(struct config **out, const char *text, struct error *e)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    rewind(f);
    enum err err = config_read_stream(out, f, "t.ini", e);
    (void)fclose(f);
    return err;
}

struct config *ini_accept(const char *text)
{
    struct config *c = NULL;
    struct error e = {{0}};
    if (ini_read(&c, text, &e) != ERR_OK)
        fail_msg("refused: %s", e.text);
    assert_non_null(c);
    return c;
}

void ini_refuse(const char *text, const char *message)
{
    struct config *c = NULL;
    struct error e = {{0}};
    assert_int_equal(ini_read(&c, text, &e), ERR_CONFIG);
    assert_null(c);
    assert_int_equal(strncmp(e.text, "t.ini:", 6), 0);
    assert_string_equal(e.text + 6, message);
}

char *ini_print(const struct config *c)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    config_print(c, f);
    (void)fclose(f);
    return text;
}
