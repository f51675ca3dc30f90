/* SPDX-License-Identifier: MIT */
/* The happy path is: a letter with a password comes, its hash is made and compared, the outcome goes back.
 * Possible failure modes are: more logins wait than may (refused at once), the one who asked is gone (its
 * mailbox takes the outcome nevertheless), no memory for the answer (said in the log). */
#include "service/login.h"

#include <crypt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "base/log.h"
#include "service/users.h"

enum {
    WAITING_MAX = 4096, /* logins; about 1 KiB each */
    REMEMBERED = 1024,
    MAC_SIZE = 32,
    WAIT_MS = 200
};

struct login {
    struct mailbox *mailbox;
    pthread_t thread;
    atomic_bool stop;
    atomic_uint waiting;
    char decoy[CRYPT_GENSALT_OUTPUT_SIZE]; /* what the password of nobody is compared with: a salt, no hash */
    unsigned char key[MAC_SIZE];
    pthread_mutex_t lock; /* of `remembered` */
    unsigned char remembered[REMEMBERED][MAC_SIZE];
};

struct question {
    struct login *login;
    struct mailbox *back;
    login_fn *fn;
    void *arg;
    enum login_outcome outcome;
    char secret[CRYPT_OUTPUT_SIZE];
    char password[USERS_PASSWORD_MAX + 1];
};

/* --- what was verified --- */

static void make_mac(struct login *l, const char *secret, const char *password, unsigned char out[MAC_SIZE])
{
    char text[CRYPT_OUTPUT_SIZE + USERS_PASSWORD_MAX + 2];
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

static bool is_remembered(struct login *l, const unsigned char mac[MAC_SIZE])
{
    (void)pthread_mutex_lock(&l->lock);
    bool is = CRYPTO_memcmp(slot_of(l, mac), mac, MAC_SIZE) == 0;
    (void)pthread_mutex_unlock(&l->lock);
    return is;
}

static void remember(struct login *l, const unsigned char mac[MAC_SIZE])
{
    (void)pthread_mutex_lock(&l->lock);
    memcpy(slot_of(l, mac), mac, MAC_SIZE);
    (void)pthread_mutex_unlock(&l->lock);
}

void login_forget(struct login *l)
{
    (void)pthread_mutex_lock(&l->lock);
    OPENSSL_cleanse(l->remembered, sizeof(l->remembered));
    (void)pthread_mutex_unlock(&l->lock);
}

/* --- the thread --- */

static void forget_question(struct question *q)
{
    OPENSSL_cleanse(q, sizeof(*q));
    free(q);
}

static void deliver(void *arg)
{
    struct question *q = arg;
    q->fn(q->arg, q->outcome);
    forget_question(q);
}

static enum login_outcome verify(struct login *l, const struct question *q)
{
    unsigned char mac[MAC_SIZE];
    make_mac(l, q->secret, q->password, mac);
    if (is_remembered(l, mac)) /* of many that came together the first one has the work */
        return LOGIN_WELCOME;
    if (!users_verify(q->secret, q->password))
        return LOGIN_REFUSED;
    remember(l, mac);
    return LOGIN_WELCOME;
}

static void answer(void *arg)
{
    struct question *q = arg;
    struct login *l = q->login;
    q->outcome = atomic_load(&l->stop) ? LOGIN_BUSY : verify(l, q);
    OPENSSL_cleanse(q->password, sizeof(q->password));
    (void)atomic_fetch_sub(&l->waiting, 1);
    if (mailbox_post(q->back, deliver, q) == ERR_OK)
        return;
    log_error("login", "error=\"out of memory: an answer is lost\"");
    forget_question(q);
}

static void *run(void *arg)
{
    struct login *l = arg;
    while (!atomic_load(&l->stop))
        mailbox_wait(l->mailbox, WAIT_MS);
    mailbox_run(l->mailbox); /* whoever still waits gets an answer */
    return NULL;
}

enum err login_start(struct login **out, struct error *e)
{
    struct login *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    (void)pthread_mutex_init(&l->lock, NULL);
    l->mailbox = mailbox_new();
    if (l->mailbox == NULL || RAND_bytes(l->key, MAC_SIZE) != 1 ||
        crypt_gensalt_rn("$y$", 0, NULL, 0, l->decoy, sizeof(l->decoy)) == NULL ||
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

/* --- questions --- */

static enum login_outcome post(struct login *l, struct question *q)
{
    if (atomic_fetch_add(&l->waiting, 1) < WAITING_MAX && mailbox_post(l->mailbox, answer, q) == ERR_OK)
        return LOGIN_PENDING;
    (void)atomic_fetch_sub(&l->waiting, 1);
    forget_question(q);
    return LOGIN_BUSY;
}

/* A hash, or the decoy where there is none. */
static enum login_outcome ask_for_hash(struct login *l, const char *secret, const char *password,
                                       size_t length, const struct question *from)
{
    struct question *q = malloc(sizeof(*q));
    unsigned char mac[MAC_SIZE];
    if (q == NULL)
        return LOGIN_BUSY;
    *q = *from;
    memcpy(q->secret, secret, strlen(secret) + 1);
    memcpy(q->password, password, length);
    q->password[length] = '\0';
    make_mac(l, q->secret, q->password, mac);
    if (!is_remembered(l, mac))
        return post(l, q);
    forget_question(q);
    return LOGIN_WELCOME;
}

enum login_outcome login_ask(struct login *l, const struct config *c, const char *name, size_t name_length,
                             const char *password, size_t password_length, struct mailbox *back, login_fn *fn,
                             void *arg)
{
    const struct config_user *u = users_find(c, name, name_length);
    const char *secret = u != NULL ? users_secret(c, u) : "";
    if (u != NULL && !users_login_required(c))
        return LOGIN_WELCOME; /* without a password the default user may log in with any, as in Redis */
    if (password_length > USERS_PASSWORD_MAX || memchr(password, '\0', password_length) != NULL)
        return LOGIN_REFUSED;
    if (secret[0] != '\0' && !users_is_hash(secret))
        return users_same(secret, strlen(secret), password, password_length) ? LOGIN_WELCOME : LOGIN_REFUSED;
    if (strlen(secret) >= CRYPT_OUTPUT_SIZE)
        return LOGIN_REFUSED;
    const struct question q = {.login = l, .back = back, .fn = fn, .arg = arg};
    return ask_for_hash(l, secret[0] != '\0' ? secret : l->decoy, password, password_length, &q);
}
