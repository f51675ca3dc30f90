/* SPDX-License-Identifier: MIT */
/* usage: short_links create [--length N] URL...     prints a new code and its URL, for each URL
 *        short_links find CODE...                   prints the code and its URL, or 404
 *
 *   TWINBLOOM_URL   where Twinbloom listens, redis://[user:password@]host:port
 *   DATABASE_URL    the database with the table short_link, postgresql://...
 *
 * A code is random and has N letters (7). Exit status 75: Twinbloom did not acknowledge the add in time. That
 * link was not created; try again later.
 * Build: cc short_links.c -o short_links $(pkg-config --cflags --libs hiredis libpq) */
#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define FILTER "short-link"

enum {
    ATTEMPTS = 100,     /* codes that are tried for one URL */
    PATIENCE_MS = 5000, /* in which an add must be acknowledged */
    ANSWER_S = 2,       /* for one answer; a web server would wait for less */
    LENGTH_MAX = 32,
    TRY_LATER = 75 /* EX_TEMPFAIL */
};

enum outcome { DONE, TAKEN, NO_ROW, NOT_ACKNOWLEDGED, BROKEN };

struct links {
    PGconn *db;
    redisContext *bloom; /* NULL: not connected */
    char host[256], user[128], password[256];
    int port;
    char why[256]; /* Twinbloom's last error */
};

/* redis://[user:password@]host[:port]. %XX is not decoded. */
static bool parse_url(struct links *l, const char *url)
{
    static const char scheme[] = "redis://";
    l->port = 6479;
    if (url == NULL || strncmp(url, scheme, strlen(scheme)) != 0)
        return false;
    url += strlen(scheme);
    const char *at = strrchr(url, '@');
    if (at != NULL) {
        const char *colon = memchr(url, ':', (size_t)(at - url));
        if (colon == NULL)
            return false;
        (void)snprintf(l->user, sizeof(l->user), "%.*s", (int)(colon - url), url);
        (void)snprintf(l->password, sizeof(l->password), "%.*s", (int)(at - colon - 1), colon + 1);
        url = at + 1;
    }
    size_t n = strcspn(url, ":/");
    (void)snprintf(l->host, sizeof(l->host), "%.*s", (int)n, url);
    if (url[n] == ':')
        l->port = (int)strtol(url + n + 1, NULL, 10);
    return l->host[0] != '\0';
}

static void disconnect(struct links *l, const char *why)
{
    (void)snprintf(l->why, sizeof(l->why), "%s", why);
    if (l->bloom != NULL)
        redisFree(l->bloom);
    l->bloom = NULL;
}

/* True: connected, and logged in if the URL has a password. */
static bool connected(struct links *l)
{
    const struct timeval patience = {.tv_sec = ANSWER_S};
    if (l->bloom != NULL)
        return true;
    l->bloom = redisConnectWithTimeout(l->host, l->port, patience);
    if (l->bloom == NULL || l->bloom->err != 0 || redisSetTimeout(l->bloom, patience) != REDIS_OK) {
        disconnect(l, l->bloom != NULL ? l->bloom->errstr : "out of memory");
        return false;
    }
    if (l->password[0] == '\0')
        return true;
    redisReply *r =
        redisCommand(l->bloom, "AUTH %s %s", l->user[0] != '\0' ? l->user : "default", l->password);
    bool in = r != NULL && r->type != REDIS_REPLY_ERROR;
    if (!in)
        disconnect(l, r != NULL ? "Twinbloom refused the login" : l->bloom->errstr);
    freeReplyObject(r);
    return in;
}

/* The answer, 0 or 1, or -1: no answer in time, or an error. The command may have been carried out. */
static int ask(struct links *l, const char *command, const char *code)
{
    if (!connected(l))
        return -1;
    redisReply *r = redisCommand(l->bloom, "%s %s %s", command, FILTER, code);
    int answer = -1;
    if (r == NULL)
        disconnect(l, l->bloom->errstr); /* a late answer must not be taken for the next command's */
    else if (r->type == REDIS_REPLY_INTEGER)
        answer = r->integer != 0;
    else
        (void)snprintf(l->why, sizeof(l->why), "%s",
                       r->type == REDIS_REPLY_ERROR ? r->str : "unexpected answer");
    freeReplyObject(r);
    return answer;
}

/* False: certainly absent. True: maybe present, or Twinbloom gave no answer, so the table must be asked. */
static bool maybe_present(struct links *l, const char *code)
{
    return ask(l, "BF.EXISTS", code) != 0;
}

/* DONE: the code has a row, with @url if that is not NULL; to be freed. Else NO_ROW or BROKEN. */
static enum outcome look_up(struct links *l, const char *code, char **url)
{
    PGresult *r =
        PQexecParams(l->db, "SELECT url FROM short_link WHERE code = $1", 1, NULL, &code, NULL, NULL, 0);
    enum outcome outcome = PQresultStatus(r) != PGRES_TUPLES_OK ? BROKEN : PQntuples(r) > 0 ? DONE : NO_ROW;
    if (outcome == DONE && url != NULL)
        *url = strdup(PQgetvalue(r, 0, 0));
    PQclear(r);
    return outcome;
}

/* Print the code and its URL, or 404. Only codes that may be present cost a query.
 * "Absent" may be trusted because every writer adds inside its transaction, as create() does. If a follower
 * adds the rows instead (follow = yes), a new row is absent until the follower has it: README.md says what to
 * do then. */
static enum outcome find(struct links *l, const char *code)
{
    char *url = NULL;
    if (maybe_present(l, code) && look_up(l, code, &url) == BROKEN)
        return BROKEN;
    bool printed = printf("%s\t%s\n", code, url != NULL ? url : "404") > 0;
    free(url);
    return printed ? DONE : BROKEN;
}

static long now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Add until Twinbloom acknowledges it. An unacknowledged add may have happened; adding again does no harm. */
static bool add(struct links *l, const char *code)
{
    long until = now_ms() + PATIENCE_MS;
    for (long pause = 50;; pause = pause < 500 ? 2 * pause : 1000) {
        if (ask(l, "BF.ADD", code) >= 0)
            return true;
        if (now_ms() + pause > until)
            return false;
        const struct timespec rest = {.tv_sec = pause / 1000, .tv_nsec = pause % 1000 * 1000000};
        (void)nanosleep(&rest, NULL);
    }
}

static bool statement(struct links *l, const char *sql)
{
    PGresult *r = PQexec(l->db, sql);
    bool done = PQresultStatus(r) == PGRES_COMMAND_OK;
    PQclear(r);
    return done;
}

static enum outcome insert_row(struct links *l, const char *code, const char *url)
{
    const char *values[] = {code, url};
    PGresult *r = PQexecParams(l->db, "INSERT INTO short_link (code, url) VALUES ($1, $2)", 2, NULL, values,
                               NULL, NULL, 0);
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    enum outcome outcome = DONE;
    if (PQresultStatus(r) != PGRES_COMMAND_OK)
        outcome = state != NULL && strcmp(state, "23505") == 0 ? TAKEN : BROKEN;
    PQclear(r);
    return outcome;
}

/* One transaction, with the add inside. */
static enum outcome insert(struct links *l, const char *code, const char *url)
{
    if (!statement(l, "BEGIN"))
        return BROKEN;
    enum outcome outcome = insert_row(l, code, url);
    if (outcome == DONE && !add(l, code))
        outcome = NOT_ACKNOWLEDGED;
    if (outcome == DONE)
        return statement(l, "COMMIT") ? DONE : BROKEN;
    return statement(l, "ROLLBACK") ? outcome : BROKEN;
}

static void pick(char *code, size_t length)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    for (size_t i = 0; i < length;) {
        unsigned char byte;
        if (getrandom(&byte, 1, 0) == 1 && byte < 4 * 62) /* so that all letters are equally likely */
            code[i++] = letters[byte % 62];
    }
    code[length] = '\0';
}

static enum outcome create(struct links *l, const char *url, size_t length)
{
    char code[LENGTH_MAX + 1];
    for (int i = 0; i < ATTEMPTS; i++) {
        pick(code, length);
        if (maybe_present(l, code) && look_up(l, code, NULL) == DONE)
            continue;
        enum outcome outcome = insert(l, code, url);
        if (outcome == DONE && printf("%s\t%s\n", code, url) > 0)
            return fflush(stdout) == 0 ? DONE : BROKEN;
        if (outcome != TAKEN)
            return outcome;
        /* The code has a row, but if the filter denies it, its writer did not add it. */
        if (!maybe_present(l, code) && !add(l, code))
            return NOT_ACKNOWLEDGED;
    }
    return TAKEN;
}

static int report(struct links *l, enum outcome outcome)
{
    if (outcome == NOT_ACKNOWLEDGED)
        (void)fprintf(stderr, "short_links: Twinbloom did not acknowledge the add: %s\n", l->why);
    else if (outcome == TAKEN)
        (void)fprintf(stderr, "short_links: %d codes were taken; use longer codes\n", (int)ATTEMPTS);
    else if (outcome != DONE)
        (void)fprintf(stderr, "short_links: %s", PQerrorMessage(l->db));
    return outcome == DONE ? EXIT_SUCCESS : outcome == NOT_ACKNOWLEDGED ? TRY_LATER : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct links l = {0};
    size_t length = 7;
    int first = 2;
    bool creates = argc > 1 && strcmp(argv[1], "create") == 0;
    if (creates && argc > 3 && strcmp(argv[2], "--length") == 0) {
        length = strtoul(argv[3], NULL, 10);
        first = 4;
    }
    const char *database = getenv("DATABASE_URL");
    if (first >= argc || (!creates && strcmp(argv[1], "find") != 0) || length < 1 || length > LENGTH_MAX ||
        database == NULL || !parse_url(&l, getenv("TWINBLOOM_URL"))) {
        (void)fputs("usage: TWINBLOOM_URL=redis://... DATABASE_URL=postgresql://... short_links "
                    "create [--length N] URL... | find CODE...\n",
                    stderr);
        return 2;
    }
    l.db = PQconnectdb(database);
    enum outcome outcome = PQstatus(l.db) == CONNECTION_OK ? DONE : BROKEN;
    for (int i = first; i < argc && outcome == DONE; i++)
        outcome = creates ? create(&l, argv[i], length) : find(&l, argv[i]);
    int status = report(&l, outcome);
    disconnect(&l, "");
    PQfinish(l.db);
    return status;
}
