/* SPDX-License-Identifier: MIT */
#ifndef SHARD_SCRIPT_H
#define SHARD_SCRIPT_H
/* The Lua scripts of scripts/, embedded by the build. Each file's first lines say its keys, arguments and
 * answers. */
extern const char embedded_enter[];
extern const char embedded_enter_found[];
extern const char embedded_leave[];
extern const char embedded_claim[];
extern const char embedded_control[];
extern const char embedded_acquire[];
extern const char embedded_renew[];
extern const char embedded_release[];
extern const char embedded_job[];
extern const char embedded_finish[];
extern const char embedded_load_begin[];
extern const char embedded_load_chunk[];
extern const char embedded_load_end[];
extern const char embedded_no_filter[];
extern const char embedded_expire[];
extern const char embedded_beat[];
extern const char embedded_enrol[];
extern const char embedded_tail[];
extern const char embedded_tail_ask[];
extern const char embedded_tail_leave[];
#endif
