/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_KEY_OPERATION_H
#define SERVICE_KEY_OPERATION_H
/* One check or add of one or many keys, which are copied: by the log where the daemon keeps its filters in
 * logs (append_log), else by shards (shard/operation.h, whose words are used for both). Belongs to one
 * thread. */
#include <event2/event.h>
#include "shard/operation.h"
#include "shard/request/filters.h"

struct key_operation;
typedef void key_operation_done_fn(struct key_operation *op, void *arg);

/* A thread's place for operations on logs. Borrows all. NULL: no memory. */
struct key_port;
struct key_port *key_port_new(struct event_base *base, struct store *store, struct filters *filters,
                              unsigned timeout_ms);
/* The configuration has changed: operations under way get no more time than new ones. NULL is fine. */
void key_port_configure(struct key_port *p, unsigned timeout_ms);
/* Operations still running are finished with ERR_CANCELLED. NULL is fine. */
void key_port_free(struct key_port *p);

/* As the functions of shard/operation.h of that name. */
struct key_operation *key_operation_new(struct catalog *c, enum operation_kind kind, size_t keys,
                                        size_t bytes);
void key_operation_put(struct key_operation *op, const char *key, size_t length);
void key_operation_set_timeout(struct key_operation *op, unsigned ms);
/* An add that may not have its filter grow ends with ERR_FULL. Of a log; by shards every add does. */
void key_operation_set_bounded(struct key_operation *op, bool bounded);
void key_operation_look_if_full(struct key_operation *op);
void key_operation_start(struct key_operation *op, struct catalog_filter *f, key_operation_done_fn *done,
                         void *arg);
enum err key_operation_status(const struct key_operation *op);
const char *key_operation_error(const struct key_operation *op);
size_t key_operation_keys(const struct key_operation *op);
bool key_operation_answered(const struct key_operation *op, size_t i);
enum key_result key_operation_result(const struct key_operation *op, size_t i);
enum operation_kind key_operation_kind(const struct key_operation *op);
bool key_operation_any_no(const struct key_operation *op);
bool key_operation_was_retried(const struct key_operation *op);
/* An add that was begun: nothing that is begun later in this thread comes before it. Of shards alone: nobody
 * knows, and whoever must know it begins nothing later. */
bool key_operation_is_in_order(const struct key_operation *op);
void key_operation_rewind(struct key_operation *op);
void key_operation_release(struct key_operation *op);
#endif
