/* SPDX-License-Identifier: MIT */
/* The happy path is: a task with a password arrives and waits for its turn, the password is hashed and
 * compared, and the outcome is sent back. Possible failure modes are: the password is wrong (the next login
 * from that address with that name is delayed), too many logins wait from one address (refused), the client
 * has disconnected (no hash is computed, its mailbox still takes the outcome), no memory for the answer
 * (logged). The number of waiting logins is bounded by the number of connections, as none has more than one
 * login under way, and those of connections that were closed are the first to go. */
#include "service/core/login.h"

#include <crypt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <xxhash.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "service/core/login_delay.h"
#include "service/config/users.h"

enum {
    DELAYED_MAX = 8, /* logins from one address with one name that may wait while it is delayed */
    REMEMBERED = 1024,
    SECRET_SIZE = USERS_PASSWORD_MAX + 1, /* plain text, or a hash, which is shorter */
    MAC_SIZE = 32,
    WAIT_MS = 200
};

_Static_assert(SECRET_SIZE >= CRYPT_OUTPUT_SIZE, "a hash fits");

TAILQ_HEAD(login_requests, login_request);

struct login {
    struct mailbox *mailbox;
    pthread_t thread;
    atomic_bool stop;
    unsigned char key[MAC_SIZE];
    struct login_requests waiting; /* used by the thread; in the order of arrival */
    pthread_mutex_t lock;          /* protects the members below */
    unsigned char remembered[REMEMBERED][MAC_SIZE];
    struct login_delay delay;
};

struct login_request {
    TAILQ_ENTRY(login_request) link;
    struct login *login;
    struct login_back back;
    struct login_who who;
    const struct config *const *held; /* the configuration of the thread that is told */
    char user[USERS_NAME_MAX + 1];    /* of the user that is `known` */
    /* `secret` belongs to this user; otherwise it is another user's, which takes as long to verify. */
    bool known;
    enum login_outcome outcome;
    char secret[SECRET_SIZE];
    char password[USERS_PASSWORD_MAX + 1];
};

/* --- what was verified --- */

static void make_mac(struct login *l, const char *secret, const char *password, unsigned char out[MAC_SIZE])
{
    char text[SECRET_SIZE + USERS_PASSWORD_MAX + 1];
    size_t n = strlen(secret) + 1, m = strlen(password);
    memcpy(text, secret, n);
    memcpy(text + n, password, m + 1);
    unsigned length = 0;
    (void)HMAC(EVP_sha256(), l->key, MAC_SIZE, (const unsigned char *)text, n + m, out, &length);
    OPENSSL_cleanse(text, sizeof(text));
}

static unsigned char *slot_of(struct login *l, const unsigned char mac[MAC_SIZE])
{
    return l->remembered[(mac[0] | mac[1] << 8) % REMEMBERED];
}

/* Call with the lock held. */
static bool is_remembered(struct login *l, const unsigned char mac[MAC_SIZE])
{
    return CRYPTO_memcmp(slot_of(l, mac), mac, MAC_SIZE) == 0;
}

void login_forget(struct login *l)
{
    HOLD(&l->lock);
    OPENSSL_cleanse(l->remembered, sizeof(l->remembered));
}

/* --- the thread --- */

static void forget_query(struct login_request *q)
{
    OPENSSL_cleanse(q, sizeof(*q));
    free(q);
}

/* True if the password that was verified is still valid: the configuration may have changed meanwhile. */
static bool still_holds(const struct login_request *q)
{
    const struct config_user *u = users_find(*q->held, q->user, strlen(q->user));
    return u != NULL && strcmp(users_secret(*q->held, u), q->secret) == 0;
}

static void deliver(void *arg)
{
    struct login_request *q = arg;
    q->back.fn(q->back.arg, q->outcome == LOGIN_WELCOME && !still_holds(q) ? LOGIN_REFUSED : q->outcome);
    forget_query(q);
}

static void answer(struct login_request *q, enum login_outcome outcome)
{
    q->outcome = outcome;
    OPENSSL_cleanse(q->password, sizeof(q->password));
    if (mailbox_post(q->back.mailbox, deliver, q) == ERR_OK)
        return;
    log_error("out_of_memory", "part=login note=\"a reply is lost\"");
    forget_query(q);
}

/* Refuse the logins that are so far behind that their clients would give up first. */
static void refuse_many(struct login *l, struct login_who who)
{
    unsigned count = 0;
    struct login_request *q, *next;
    for (q = TAILQ_FIRST(&l->waiting); q != NULL; q = next) {
        next = TAILQ_NEXT(q, link);
        if (!login_who_is(q->who, who) || ++count <= DELAYED_MAX)
            continue;
        TAILQ_REMOVE(&l->waiting, q, link);
        answer(q, LOGIN_BUSY);
    }
}

static uint64_t delayed_until_us(struct login *l, struct login_who who)
{
    HOLD(&l->lock);
    return login_delay_until_us(&l->delay, who, clock_mono_us());
}

static void on_query(void *arg)
{
    struct login_request *q = arg;
    struct login *l = q->login;
    TAILQ_INSERT_TAIL(&l->waiting, q, link);
    if (delayed_until_us(l, q->who) != 0)
        refuse_many(l, q->who);
}

/* Verify a password. The hash is computed without the lock. */
static enum login_outcome verify(struct login *l, const struct login_request *q)
{
    unsigned char mac[MAC_SIZE];
    make_mac(l, q->secret, q->password, mac);
    (void)pthread_mutex_lock(&l->lock);
    bool right =
        /* If several clients log in at once with one password, only the first needs a hash. */
        q->known && is_remembered(l, mac);
    login_delay_serve(&l->delay, q->who);
    (void)pthread_mutex_unlock(&l->lock);
    if (!right)
        right = users_verify(q->secret, q->password) && q->known;
    (void)pthread_mutex_lock(&l->lock);
    if (right)
        memcpy(slot_of(l, mac), mac, MAC_SIZE);
    else
        login_delay_failed(&l->delay, q->who, clock_mono_us());
    (void)pthread_mutex_unlock(&l->lock);
    return right ? LOGIN_WELCOME : LOGIN_REFUSED;
}

/* Choose a login whose client has gone, otherwise one that has no delay: the one whose address had its turn
 * longest ago. NULL: all are delayed, and the first can be tried in *@ms. */
static struct login_request *choose(struct login *l, int *ms)
{
    struct login_request *q, *best = NULL;
    uint64_t now = clock_mono_us(), best_turn = 0;
    *ms = WAIT_MS;
    HOLD(&l->lock);
    TAILQ_FOREACH(q, &l->waiting, link)
    {
        if (atomic_load(q->back.gone)) {
            best = q;
            break;
        }
        uint64_t until = login_delay_until_us(&l->delay, q->who, now),
                 turn = login_delay_turn(&l->delay, q->who);
        if (until > now) {
            uint64_t rest_ms = (until - now) / 1000 + 1;
            *ms = rest_ms < (uint64_t)*ms ? (int)rest_ms : *ms;
        } else if (best == NULL || turn < best_turn) {
            best = q;
            best_turn = turn;
        }
    }
    return best;
}

/* Verify one login. Returns how many milliseconds there is nothing to do. */
static int take_turn(struct login *l)
{
    int ms;
    struct login_request *q = choose(l, &ms);
    if (q == NULL)
        return ms;
    TAILQ_REMOVE(&l->waiting, q, link);
    struct login_who who = q->who;
    enum login_outcome outcome = atomic_load(q->back.gone) ? LOGIN_BUSY : verify(l, q);
    answer(q, outcome);
    if (outcome == LOGIN_REFUSED && delayed_until_us(l, who) != 0)
        refuse_many(l, who);
    return 0;
}

static void *run(void *arg)
{
    struct login *l = arg;
    struct login_request *q;
    int ms = 0;
    while (!atomic_load(&l->stop)) {
        mailbox_wait(l->mailbox, ms);
        ms = take_turn(l);
    }
    mailbox_run(l->mailbox); /* clients that still wait get an answer */
    while ((q = TAILQ_FIRST(&l->waiting)) != NULL) {
        TAILQ_REMOVE(&l->waiting, q, link);
        answer(q, LOGIN_BUSY);
    }
    return NULL;
}

enum err login_start(struct login **out, struct error *e)
{
    struct login *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    (void)pthread_mutex_init(&l->lock, NULL);
    TAILQ_INIT(&l->waiting);
    l->delay.seed = random_u64();
    l->mailbox = mailbox_new();
    if (l->mailbox == NULL || RAND_bytes(l->key, MAC_SIZE) != 1 ||
        pthread_create(&l->thread, NULL, run, l) != 0) {
        mailbox_free(l->mailbox);
        free(l);
        return error_set(e, ERR_NOMEM, "the thread for logins could not be started");
    }
    *out = l;
    return ERR_OK;
}

void login_stop(struct login *l)
{
    if (l == NULL)
        return;
    atomic_store(&l->stop, true);
    mailbox_wake(l->mailbox);
    (void)pthread_join(l->thread, NULL);
    mailbox_free(l->mailbox);
    (void)pthread_mutex_destroy(&l->lock);
    OPENSSL_cleanse(l, sizeof(*l));
    free(l);
}

/* --- requests --- */

/* A name without a password is verified against the hash of one of the users, always the same for one name,
 * so that it takes as long as for that user. "": no user has a hash, so no verification is slow. */
static const char *decoy(const struct login *l, const struct config *c, const char *name, size_t length)
{
    const char *found[CONFIG_USERS_MAX + 1];
    size_t count = 0;
    if (users_is_hash(c->password))
        found[count++] = c->password;
    for (size_t i = 0; i < c->user_count; i++)
        if (users_is_hash(c->user[i].password))
            found[count++] = c->user[i].password;
    return count > 0 ? found[XXH3_64bits_withSeed(name, length, l->delay.seed) / LOGIN_NAMES % count] : "";
}

/* Decide a login without computing a hash, from plain text or from what was verified before. Only for logins
 * that are not delayed. False: the login has to wait. */
static bool is_decided(struct login *l, const struct login_request *q, enum login_outcome *outcome)
{
    unsigned char mac[MAC_SIZE];
    bool text = !users_is_hash(q->secret);
    make_mac(l, q->secret, q->password, mac);
    HOLD(&l->lock);
    uint64_t now = clock_mono_us();
    bool free_to_try = login_delay_until_us(&l->delay, q->who, now) <= now;
    bool right =
        free_to_try && q->known && (text ? users_verify(q->secret, q->password) : is_remembered(l, mac));
    if (free_to_try && text && !right)
        login_delay_failed(&l->delay, q->who, now);
    *outcome = right ? LOGIN_WELCOME : LOGIN_REFUSED;
    return right || (free_to_try && text);
}

enum login_outcome login_ask(struct login *l, const struct config *const *held, const char *address,
                             const char *name, size_t name_length, const char *password,
                             size_t password_length, const struct login_back *back)
{
    const struct config *c = *held;
    const struct config_user *u = users_find(c, name, name_length);
    const char *secret = u != NULL ? users_secret(c, u) : "";
    bool known = secret[0] != '\0';
    if (u != NULL && !users_login_required(c))
        /* Without a configured password any password is accepted for the default user, as in Redis. */
        return LOGIN_WELCOME;
    if (!known)
        secret = decoy(l, c, name, name_length);
    if (password_length > USERS_PASSWORD_MAX || memchr(password, '\0', password_length) != NULL ||
        strlen(secret) >= SECRET_SIZE)
        return LOGIN_REFUSED;
    struct login_request *q = calloc(1, sizeof(*q));
    if (q == NULL)
        return LOGIN_BUSY;
    *q = (struct login_request){.login = l, .back = *back, .held = held, .known = known};
    if (known)
        memcpy(q->user, name, name_length);
    q->who = login_delay_who(&l->delay, address, name, name_length);
    memcpy(q->secret, secret, strlen(secret) + 1);
    memcpy(q->password, password, password_length);
    enum login_outcome outcome = LOGIN_PENDING;
    if (!is_decided(l, q, &outcome)) {
        if (mailbox_post(l->mailbox, on_query, q) == ERR_OK)
            return LOGIN_PENDING;
        outcome = LOGIN_BUSY;
    }
    forget_query(q);
    return outcome;
}
