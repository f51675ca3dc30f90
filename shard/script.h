/* SPDX-License-Identifier: MIT */
#ifndef SHARD_SCRIPT_H
#define SHARD_SCRIPT_H
/* The Lua scripts of scripts/, embedded by the build. Each file's first lines say its keys, arguments and
 * answers. */
extern const char embedded_rename[];
extern const char embedded_anew[];
extern const char embedded_sure[];
extern const char embedded_tombstone[];
extern const char embedded_enter[];
extern const char embedded_enter_found[];
extern const char embedded_leave[];
extern const char embedded_upload[];
extern const char embedded_trust[];
extern const char embedded_latest[];
extern const char embedded_publish[];
extern const char embedded_put_back[];
extern const char embedded_reconcile[];
extern const char embedded_recount[];
extern const char embedded_change[];
extern const char embedded_claim[];
extern const char embedded_control[];
extern const char embedded_fenced[];
extern const char embedded_retired[];
extern const char embedded_acquire[];
extern const char embedded_renew[];
extern const char embedded_release[];
extern const char embedded_job[];
extern const char embedded_finish[];
extern const char embedded_load_begin[];
extern const char embedded_load_chunk[];
extern const char embedded_load_end[];
extern const char embedded_mark[];
extern const char embedded_drop[];
extern const char embedded_dropped[];
extern const char embedded_no_filter[];
extern const char embedded_expire[];
extern const char embedded_beat[];
extern const char embedded_enrol[];
extern const char embedded_tail[];
extern const char embedded_tail_ask[];
extern const char embedded_tail_leave[];
#endif
