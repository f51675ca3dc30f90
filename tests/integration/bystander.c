/* SPDX-License-Identifier: MIT */
#include "tests/integration/bystander.h"

#include <stdio.h>

#include "base/clock.h"

enum { ANSWER_MS = 15000 };

static void ask(struct bystander *b, struct client *c, const char *command, uint64_t key, int64_t wanted)
{
    struct error e = {""};
    int64_t got = -1;
    uint64_t from = clock_mono_us();
    enum err err = client_integer(c, &got, &e, "%s calm k%llu", command, (unsigned long long)key);
    uint64_t took = clock_mono_us() - from;
    b->longest_us = took > b->longest_us ? took : b->longest_us;
    if (err != ERR_OK || got != wanted)
        (void)snprintf(b->failure, sizeof(b->failure), "%s k%llu: %lld, wanted %lld %s", command,
                       (unsigned long long)key, (long long)got, (long long)wanted, e.text);
}

static void *stand_by(void *arg)
{
    static atomic_uint_fast64_t next; /* shared by all tests, as each key is new only once */
    struct bystander *b = arg;
    struct error e = {""};
    struct client c;
    if (client_open(&c, b->port, ANSWER_MS, &e) != ERR_OK) {
        (void)snprintf(b->failure, sizeof(b->failure), "%s", e.text);
        return NULL;
    }
    while (b->failure[0] == '\0' && (b->rounds == 0 || !atomic_load(&b->stop))) {
        uint64_t key = atomic_fetch_add(&next, 1);
        ask(b, &c, "BF.EXISTS", key, 0);
        ask(b, &c, "BF.ADD", key, 1);
        ask(b, &c, "BF.EXISTS", key, 1);
        b->rounds++;
        clock_sleep_us(2000);
    }
    client_close(&c);
    return NULL;
}

void bystander_start(struct bystander *b, uint16_t port)
{
    static bool made;
    struct error e = {""};
    struct client c;
    *b = (struct bystander){.port = port};
    if (!made) {
        must(client_open(&c, b->port, ANSWER_MS, &e), e);
        must(client_ok(&c, &e, "BF.RESERVE calm 0.0000001 1000000"), e);
        client_close(&c);
        made = true;
    }
    assert_int_equal(pthread_create(&b->thread, NULL, stand_by, b), 0);
}

void bystander_stop(struct bystander *b)
{
    atomic_store(&b->stop, true);
    (void)pthread_join(b->thread, NULL);
    print_message("bystander: %llu rounds, longest answer %.1f ms\n", (unsigned long long)b->rounds,
                  (double)b->longest_us / 1000);
    if (b->failure[0] != '\0')
        fail_msg("%s", b->failure);
}
