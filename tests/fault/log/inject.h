/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_INJECT_H
#define TESTS_FAULT_LOG_INJECT_H
/* Faults of data in Redis: functions for the field inject of log_injection. */
#include "tests/fault/log/world.h"

bool inject_delete_lane(struct log_world *w);
bool inject_delete_shard(struct log_world *w);
bool inject_flush_shards(struct log_world *w);
bool inject_delete_view(struct log_world *w);
bool inject_delete_field(struct log_world *w);
bool inject_move_slot(struct log_world *w);
/* Wait until the last of three servers has every shard that it should have. */
bool inject_shards_come_back(struct log_world *w);
#endif
