/* SPDX-License-Identifier: MIT */
/* hash-password: hashes for the configuration. Needs no service. */
#include <crypt.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include "service/cli/operate/cli_operate.h"

enum { PASSWORD_MAX = 511, TOKEN_BYTES = 32 };

static void on_interrupt(int number)
{
    (void)number; /* the signal only makes read() end with EINTR */
}

static void to_hex(const unsigned char *bytes, size_t count, char *out)
{
    for (size_t i = 0; i < count; i++)
        (void)sprintf(out + 2 * i, "%02x", bytes[i]);
}

/* Read a line without its end into @out. Negative: interrupted, or end of input. */
static int read_line(char out[PASSWORD_MAX + 2])
{
    size_t n = 0;
    for (;;) {
        char c;
        ssize_t got = read(STDIN_FILENO, &c, 1);
        if (got < 0 || (got == 0 && n == 0))
            return -1;
        if (got == 0 || c == '\n')
            break;
        if (n <= PASSWORD_MAX)
            out[n++] = c;
    }
    out[n] = '\0';
    return (int)n;
}

/* Read from the terminal without echo; restores the terminal however the reading ends. */
static int ask(const char *prompt, char out[PASSWORD_MAX + 2])
{
    struct termios before, silent;
    struct sigaction quiet = {.sa_handler = on_interrupt}, old_int, old_term;
    if (tcgetattr(STDIN_FILENO, &before) != 0)
        return read_line(out);
    silent = before;
    silent.c_lflag &= ~(tcflag_t)ECHO;
    (void)sigaction(SIGINT, &quiet, &old_int);
    (void)sigaction(SIGTERM, &quiet, &old_term);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    (void)fputs(prompt, stderr);
    int length = read_line(out);
    (void)fputc('\n', stderr);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    (void)sigaction(SIGINT, &old_int, NULL);
    (void)sigaction(SIGTERM, &old_term, NULL);
    return length;
}

static int print_hash(const struct cli *cli, const char *password)
{
    static struct crypt_data data;
    char salt[CRYPT_GENSALT_OUTPUT_SIZE];
    bool salted = crypt_gensalt_rn("$y$", 0, NULL, 0, salt, sizeof(salt)) != NULL;
    const char *hash = salted ? crypt_r(password, salt, &data) : NULL;
    if (hash == NULL || hash[0] == '*')
        return cli_fail(CLI_FAILED, "the hash could not be made");
    (void)printf(cli->json ? "{\"password\":\"%s\"}\n" : "%s\n", hash);
    return CLI_OK;
}

static int print_token(const struct cli *cli)
{
    unsigned char bytes[TOKEN_BYTES], digest[SHA256_DIGEST_LENGTH];
    char token[2 * TOKEN_BYTES + 1], hash[2 * SHA256_DIGEST_LENGTH + 1];
    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return cli_fail(CLI_FAILED, "the system gives no random bytes");
    to_hex(bytes, sizeof(bytes), token);
    (void)SHA256((const unsigned char *)token, strlen(token), digest);
    to_hex(digest, sizeof(digest), hash);
    if (cli->json)
        (void)printf("{\"bearer\":\"%s\",\"token\":\"sha256:%s\"}\n", token, hash);
    else
        (void)printf("bearer token, for the client:     %s\ntoken, for the configuration:     sha256:%s\n",
                     token, hash);
    return CLI_OK;
}

int cli_hash_password(struct cli *cli)
{
    char password[PASSWORD_MAX + 2] = "", again[PASSWORD_MAX + 2] = "";
    if (cli->token)
        return print_token(cli);
    bool terminal = isatty(STDIN_FILENO) == 1;
    int length = ask("Password: ", password), code;
    if (length > 0 && terminal && ask("Again: ", again) < 0)
        length = -1;
    if (length < 0)
        code = terminal ? CLI_INTERRUPTED : cli_fail(CLI_USAGE, "standard input holds no password");
    else if (length == 0)
        code = cli_fail(CLI_USAGE, "the password is empty");
    else if (length > PASSWORD_MAX || strlen(password) != (size_t)length)
        code = cli_fail(CLI_USAGE, "a password may have at most %d bytes, and no NUL", PASSWORD_MAX);
    else if (terminal && strcmp(password, again) != 0)
        code = cli_fail(CLI_USAGE, "the passwords differ");
    else
        code = print_hash(cli, password);
    OPENSSL_cleanse(password, sizeof(password));
    OPENSSL_cleanse(again, sizeof(again));
    return code;
}
