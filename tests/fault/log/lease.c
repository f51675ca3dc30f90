/* SPDX-License-Identifier: MIT */
#include "tests/fault/log/lease.h"

bool builder_lease(struct sync_client *l, const struct names *names, const char *what, unsigned number)
{
    static const char renew[] =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end "
        "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0";
    struct key_name key;
    redisReply *reply;
    names_filter_key(names, what, &key);
    if (sync_client_command(l, sync_client_home(l, names), &reply, NULL, "EVAL %s 1 %b %u %u", renew,
                            key.text, key.length, number, LEASE_MS) != ERR_OK)
        return false;
    bool has = reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
    freeReplyObject(reply);
    return has;
}
