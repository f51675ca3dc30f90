/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LEDGER_H
#define TESTS_FAULT_LEDGER_H
/* The keys that were acknowledged: BF.ADD replied with an integer and the row is committed. Keys are numbers;
 * those below a mark have been deleted from the table and are promised no more. Any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tests/lib/client.h"

enum ledger_order { LEDGER_ADD_THEN_COMMIT, LEDGER_COMMIT_THEN_ADD };

struct ledger;

struct ledger *ledger_new(uint64_t keys_max);
void ledger_free(struct ledger *l);

client_key_fn ledger_key;

/* Take an unused number; UINT64_MAX: there are no more. */
uint64_t ledger_take(struct ledger *l);

/* From now on no reply for @number may be "no". */
void ledger_acknowledge(struct ledger *l, uint64_t number, unsigned coordinator, enum ledger_order order);

/* Numbers below @number are promised no more. Call this before you delete their rows. */
void ledger_forget_below(struct ledger *l, uint64_t number);

/* This one is promised no more. */
void ledger_withdraw(struct ledger *l, uint64_t number);

/* Promised numbers lie in [first, end); not every number there is one. */
uint64_t ledger_first(const struct ledger *l);
uint64_t ledger_end(const struct ledger *l);
bool ledger_is_promised(const struct ledger *l, uint64_t number);

uint64_t ledger_acknowledged(const struct ledger *l);
uint64_t ledger_checked(const struct ledger *l);
uint64_t ledger_absent(const struct ledger *l);

/* Check @count promised numbers by one command of @client. False: the reply was an error, or there was none,
 * which proves nothing. Each "no" is counted and, up to a bound, reported on standard error. */
bool ledger_check(struct ledger *l, struct client *client, unsigned coordinator, const uint64_t *numbers,
                  size_t count);

/* Check all promised keys, many by one command. Returns false as above. */
bool ledger_check_all(struct ledger *l, struct client *client, unsigned coordinator);
#endif
