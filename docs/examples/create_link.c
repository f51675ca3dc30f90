/* SPDX-License-Identifier: MIT */
/* usage: create_link [--length N] URL...
 *        create_link [--length N] -        (URLs, one a line, from standard input)
 *
 * Creates short links: prints a code and its URL for each. A code of N letters (7) is random.
 *
 *   TWINBLOOM_URL   where Twinbloom listens, redis://[user:password@]host:port
 *   DATABASE_URL    the database with the table short_link, postgresql://...
 *
 * Exit status 75: Twinbloom did not take the code in time. That link was not created; try again.
 * Build: cc create_link.c -o create_link $(pkg-config --cflags --libs hiredis libpq) */
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
    PATIENCE_MS = 5000, /* for an add to be acknowledged */
    ANSWER_S = 2,       /* for one answer */
    LENGTH_MAX = 32,
    TRY_LATER = 75 /* EX_TEMPFAIL */
};

enum outcome { DONE, TAKEN, AWAY, BROKEN };

struct links {
    PGconn *db;
    redisContext *bloom; /* NULL: to be connected */
    char host[256], user[128], password[256];
    int port;
    char why[256]; /* the last thing that went wrong with Twinbloom */
};

/* redis://[user:password@]host[:port]. Names with %XX are not decoded. */
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

static void drop(struct links *l, const char *why)
{
    (void)snprintf(l->why, sizeof(l->why), "%s", why);
    if (l->bloom != NULL)
        redisFree(l->bloom);
    l->bloom = NULL;
}

/* True: connected, and logged in where the URL says so. */
static bool connected(struct links *l)
{
    const struct timeval patience = {.tv_sec = ANSWER_S};
    if (l->bloom != NULL)
        return true;
    l->bloom = redisConnectWithTimeout(l->host, l->port, patience);
    if (l->bloom == NULL || l->bloom->err != 0 || redisSetTimeout(l->bloom, patience) != REDIS_OK) {
        drop(l, l->bloom != NULL ? l->bloom->errstr : "out of memory");
        return false;
    }
    if (l->password[0] == '\0')
        return true;
    redisReply *r =
        redisCommand(l->bloom, "AUTH %s %s", l->user[0] != '\0' ? l->user : "default", l->password);
    bool in = r != NULL && r->type != REDIS_REPLY_ERROR;
    if (!in)
        drop(l, r != NULL ? "the login is refused" : l->bloom->errstr);
    freeReplyObject(r);
    return in;
}

/* 0 or 1, or -1: not answered, or an error; whether or not it was carried out. */
static int ask(struct links *l, const char *command, const char *code)
{
    if (!connected(l))
        return -1;
    redisReply *r = redisCommand(l->bloom, "%s %s %s", command, FILTER, code);
    int answer = -1;
    if (r == NULL)
        drop(l, l->bloom->errstr); /* what it would still answer would be taken for the next one's answer */
    else if (r->type == REDIS_REPLY_INTEGER)
        answer = r->integer != 0;
    else
        (void)snprintf(l->why, sizeof(l->why), "%s",
                       r->type == REDIS_REPLY_ERROR ? r->str : "a reply of another kind");
    freeReplyObject(r);
    return answer;
}

/* False: certainly not. Without an answer nobody knows, and the database is asked. */
static bool maybe_taken(struct links *l, const char *code)
{
    return ask(l, "BF.EXISTS", code) != 0;
}

static bool is_taken(struct links *l, const char *code)
{
    PGresult *r =
        PQexecParams(l->db, "SELECT 1 FROM short_link WHERE code = $1", 1, NULL, &code, NULL, NULL, 0);
    bool found = PQresultStatus(r) != PGRES_TUPLES_OK || PQntuples(r) > 0;
    PQclear(r);
    return found;
}

static long now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Until it is acknowledged. An add that was not may have happened all the same; one more does no harm. */
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
        outcome = AWAY;
    if (outcome == DONE)
        return statement(l, "COMMIT") ? DONE : BROKEN;
    return statement(l, "ROLLBACK") ? outcome : BROKEN;
}

static void pick(char *code, size_t length)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    for (size_t i = 0; i < length;) {
        unsigned char byte;
        if (getrandom(&byte, 1, 0) == 1 && byte < 4 * 62) /* so that all letters are as likely */
            code[i++] = letters[byte % 62];
    }
    code[length] = '\0';
}

static enum outcome create(struct links *l, const char *url, size_t length)
{
    char code[LENGTH_MAX + 1];
    for (int i = 0; i < ATTEMPTS; i++) {
        pick(code, length);
        if (maybe_taken(l, code) && is_taken(l, code))
            continue;
        enum outcome outcome = insert(l, code, url);
        if (outcome == DONE && printf("%s\t%s\n", code, url) > 0)
            return fflush(stdout) == 0 ? DONE : BROKEN;
        if (outcome != TAKEN)
            return outcome;
        /* The code has a row. If the filter denies it, its writer did not add it: do so. */
        if (!maybe_taken(l, code) && !add(l, code))
            return AWAY;
    }
    return TAKEN;
}

static int report(struct links *l, enum outcome outcome)
{
    if (outcome == AWAY)
        (void)fprintf(stderr, "create_link: Twinbloom did not take the code: %s\n", l->why);
    else if (outcome == TAKEN)
        (void)fprintf(stderr, "create_link: %d codes were taken; take longer ones\n", (int)ATTEMPTS);
    else if (outcome == BROKEN)
        (void)fprintf(stderr, "create_link: %s", PQerrorMessage(l->db));
    return outcome == DONE ? EXIT_SUCCESS : outcome == AWAY ? TRY_LATER : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct links l = {0};
    size_t length = 7;
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "--length") == 0) {
        length = strtoul(argv[2], NULL, 10);
        first = 3;
    }
    const char *database = getenv("DATABASE_URL");
    if (first >= argc || length < 1 || length > LENGTH_MAX || database == NULL ||
        !parse_url(&l, getenv("TWINBLOOM_URL"))) {
        (void)fputs("usage: TWINBLOOM_URL=redis://... DATABASE_URL=postgresql://... create_link [--length N] "
                    "URL... | -\n",
                    stderr);
        return 2;
    }
    l.db = PQconnectdb(database);
    enum outcome outcome = PQstatus(l.db) == CONNECTION_OK ? DONE : BROKEN;
    char *line = NULL;
    size_t room = 0;
    if (strcmp(argv[first], "-") == 0) {
        while (outcome == DONE && getline(&line, &room, stdin) > 0) {
            line[strcspn(line, "\n")] = '\0';
            outcome = create(&l, line, length);
        }
    } else {
        for (int i = first; i < argc && outcome == DONE; i++)
            outcome = create(&l, argv[i], length);
    }
    int status = report(&l, outcome);
    free(line);
    drop(&l, "");
    PQfinish(l.db);
    return status;
}
