/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONFIG_H
#define SERVICE_CONFIG_H
/* The configuration: an INI file read by a table of keys (name, type, default, bounds, secret, one line of
 * help). The table drives parsing, --print-config and the reference. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "base/error.h"
#include "base/log.h"

enum { CONFIG_FILTERS_MAX = 256, CONFIG_USERS_MAX = 256 };
enum on_lost { ON_LOST_MAYBE, ON_LOST_ERROR };
enum scan_order { SCAN_KEYSET, SCAN_CTID };
enum follow_by { FOLLOW_BY_IDS, FOLLOW_BY_LOGICAL, FOLLOW_BY_OUTBOX };
enum http_metrics { HTTP_METRICS_LOGIN, HTTP_METRICS_LOOPBACK, HTTP_METRICS_OPEN };
enum client_auth { CLIENT_AUTH_NO, CLIENT_AUTH_OPTIONAL, CLIENT_AUTH_REQUIRED };

/* [filter NAME]; strings are owned by the config. */
struct config_filter {
    char *name;
    unsigned line;     /* of its section, for messages */
    uint64_t capacity; /* 0: see config_capacity() */
    double error_rate;
    char *table;     /* names and patterns, comma separated; "": no source */
    char *id_column; /* "": the primary key */
    char *key;
    char *where;
    enum scan_order scan;     /* default keyset */
    bool sweep;               /* default yes */
    enum follow_by follow_by; /* default ids */
    bool follow;              /* rows are followed always; default yes */
    char *publication;        /* of logical */
    char *slot;               /* "": by the filter's name */
    char *outbox;             /* of outbox */
    double expand_at;         /* items / capacity that starts an expansion, default 0.8 */
    double growth;            /* default 1.5 */
    double headroom;          /* capacity planned per source row, default 1.3 */
    double expand_at_dead;    /* dead keys / items that starts an expansion, 0: never */
    uint64_t expand_at_bytes; /* memory size that starts an expansion, 0: never */
    char *schedule;           /* cron form "30 3 * * *", "": none */
    char *window;             /* hours in which expansions may start "01:00-05:00, 22:00-02:00", "": always */
    uint32_t expansion;       /* overflow growth for filters without a source, default 2; 0 = non-scaling */
    uint64_t grace_ms;        /* between cutover and retirement, default 10 min */
    enum on_lost on_lost;     /* default maybe */
    unsigned add_acks;        /* replicas; what [redis] says counts where it is more */
    bool add_fsync;
    char *nodes; /* names of those of [redis] nodes that it lies on, "": all */
};

/* [user NAME]; see users.h. */
struct config_user {
    char *name;
    unsigned line;
    bool enabled;
    unsigned roles;                  /* enum role, with what they imply */
    char *password;                  /* a hash of crypt(3), "": none */
    char *token;                     /* "sha256:<hex>", comma separated, "": none */
    char *filters;                   /* patterns, comma separated */
    uint64_t filters_max, bytes_max; /* of those that they match; 0: no limit */
};

#define RESIDENT_MEMORY_DEFAULT (1ull << 50)

struct config {
    /* [service] */
    char *listen;      /* host:port, comma separated; "": none */
    char *listen_tls;  /* the same */
    char *unix_socket; /* path, "": none */
    unsigned unix_socket_mode;
    bool insecure;                     /* listens anywhere without a login */
    char *tls_cert, *tls_key, *tls_ca; /* paths, "": none */
    enum client_auth tls_client_auth;
    bool tls_client_user; /* a certificate's CN logs in */
    char *http;           /* host:port; "": none */
    char *http_hosts;     /* names of it for browsers, comma separated; "": none more */
    bool http_tls;
    bool redis_verify; /* tls_verify of [redis], default yes */
    uint64_t http_body_max;
    uint64_t http_timeout_ms; /* of a request from its first byte, and of a connection without one */
    uint64_t http_max_clients;
    enum http_metrics http_metrics; /* who may ask for metrics without a login */
    unsigned threads;               /* see config_threads() */
    char *password;                 /* of the default user: text, or a hash of crypt(3); "": none; secret */
    char *password_file;            /* that holds it, instead; "": none */
    uint64_t login_timeout_ms;      /* default 60 s */
    uint64_t timeout_ms;            /* of a request, default 1000 */
    uint64_t shutdown_delay_ms;     /* served on after SIGTERM, default 0 */
    uint64_t check_interval_ms;     /* of thresholds, default 1000 */
    enum log_level log_level;
    enum log_format log_format;
    uint64_t slow_ms; /* requests that take longer are logged; 0: none */
    uint64_t max_clients;
    uint64_t request_max;       /* bytes of one request */
    uint64_t batch_max;         /* keys of one command */
    uint64_t in_flight_max;     /* keys under way in one worker */
    uint64_t client_memory_max; /* bytes that all clients hold */
    uint64_t output_timeout_ms; /* how long a client may leave much unread */
    uint64_t idle_timeout_ms;   /* 0: never */
    /* [redis] */
    char *nodes;
    char *cluster;             /* seeds; "": there is a list of nodes */
    char *sentinel;            /* URLs; "": none */
    char *master;              /* the sentinels' names, comma separated */
    char *redis_password_file; /* for nodes whose URL has none; "": none */
    char *prefix;
    uint64_t redis_timeout_ms;
    unsigned add_acks; /* of all filters */
    bool add_fsync;
    char *redis_ca_file, *redis_ca_dir;     /* "": the system's authorities */
    char *redis_cert_file, *redis_key_file; /* "": none */
    char *redis_server_name;                /* "": as each node's URL says */
    uint64_t shard_bytes;
    uint64_t resident_memory; /* bytes; RESIDENT_MEMORY_DEFAULT: half of what there is */
    /* [postgres] */
    char *dsn;
    char *read_dsn;               /* of a standby; "": none */
    char *postgres_password_file; /* for those of them that have none; "": none */
    uint64_t postgres_timeout_ms;
    /* [rebuild] */
    uint64_t build_memory; /* bytes, default 512 MiB */
    char *spill_dir;       /* for hashes of builds that do not fit into it */
    uint64_t spill_bytes;  /* default 64 GiB */
    uint64_t readers;      /* connections that read a source; 0: as many as there are processors, up to 8 */
    uint64_t page_ms;      /* of one page, default 250 ms */
    uint64_t page_rows;    /* at the most, default 1000000 */
    uint64_t lease_ms;     /* of the mutex, default 10 s */
    uint64_t settle_timeout_ms;    /* default 10 min */
    uint64_t verify_sample;        /* keys, default 100000 */
    uint64_t verify_stale_ms;      /* default 1 h */
    uint64_t checkpoint_ms;        /* between checkpoints of a scan, default 30 s */
    uint64_t slot_wal_max;         /* bytes, default 10 GiB */
    uint64_t slot_grace_ms;        /* default 1 h */
    uint64_t follower_interval_ms; /* of follow_by = ids, default 500 ms */
    /* What slows a build down; 0: never. */
    uint64_t redis_p99_max_ms;       /* of replies to requests, default 20 ms */
    uint64_t replication_lag_max_ms; /* of the database, default 10 s */
    double yield_at;                 /* share of what others do beside half of the readers, default 0.8 */
    uint64_t rows_per_second;        /* default 0 */

    size_t filter_count;
    struct config_filter filter[CONFIG_FILTERS_MAX];
    size_t user_count;
    struct config_user user[CONFIG_USERS_MAX];

    atomic_uint references; /* the last member; see config_hold() */
};

/* Read @path into a new config, validated as a whole; the caller owns it. ERR_IO, ERR_CONFIG: the text is
 * "file:line: what; remedy". */
MUST_CHECK enum err config_read(struct config **out, const char *path, struct error *e);
/* The same from an open stream; @name stands for it in messages. */
MUST_CHECK enum err config_read_stream(struct config **out, FILE *from, const char *name, struct error *e);
void config_free(struct config *c);

/* Another one with the same values. NULL: no memory. */
struct config *config_copy(const struct config *from);
/* Once threads share a config nobody changes it. Each that uses it holds it, and whoever gives it back last
 * frees it. A new config is held once: by its owner. */
const struct config *config_hold(const struct config *c);
void config_release(const struct config *c);

/* The effective configuration as INI with every key, its default and help as comments; secrets masked. */
void config_print(const struct config *c, FILE *to);

/* Threads that serve clients: configured, or by the machine. */
unsigned config_threads(const struct config *c);
/* Connections that read a source at once, likewise. */
unsigned config_readers(const struct config *c);

/* Keys that the first generation of @f is made for at the least: configured, or the default. */
enum { CONFIG_CAPACITY_DEFAULT = 100, CONFIG_CAPACITY_SOURCED = 10000 };
uint64_t config_capacity(const struct config_filter *f);

struct nodes;
/* The nodes that @c names: those of the list, the seeds of the cluster, or, with *@sentinels, the names of
 * the masters. Without sentinels their count is 0. ERR_PARSE, as of nodes_parse(). */
MUST_CHECK enum err config_nodes(const struct config *c, struct nodes *nodes, struct nodes *sentinels,
                                 struct error *e);

const struct config_filter *config_find(const struct config *c, const char *name, size_t length);

/* "host:port" or ":port" or "[v6]:port" to parts; port 0 stands for any free one. ERR_PARSE. */
MUST_CHECK enum err config_split_address(const char *address, char *host, size_t host_size, uint16_t *port,
                                         struct error *e);
/* The next of a comma-separated list, from *@at on (0 at first), cut to @size; false: there is none. An empty
 * list has none. */
bool config_next_address(const char *list, size_t *at, char *address, size_t size);
#endif
