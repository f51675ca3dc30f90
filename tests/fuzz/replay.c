/* SPDX-License-Identifier: MIT */
/* Runs a fuzz target on files and directories of inputs, with any compiler, so that inputs of earlier crashes
 * are regression tests. No inputs at all are an error, so that a corpus that was moved is noticed. */
#include <dirent.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "tests/fuzz/fuzz.h"

static size_t replay_file(const char *path)
{
    FILE *f = fopen(path, "rbe");
    if (f == NULL) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    struct buffer b = {0};
    char chunk[4096];
    size_t n;
    while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
        buffer_append(&b, chunk, n);
    if (ferror(f) || buffer_failed(&b)) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    (void)fclose(f);
    (void)fprintf(stderr, "%s\n", path); /* after a failure, the last path printed is the failed input */
    (void)LLVMFuzzerTestOneInput(b.data != NULL ? (const uint8_t *)b.data : (const uint8_t *)"", b.length);
    buffer_fini(&b);
    return 1;
}

static size_t replay_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    size_t count = 0;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (entry->d_name[0] == '.')
            continue;
        char file[PATH_MAX];
        (void)snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
        count += replay_file(file);
    }
    (void)closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    for (int i = 1; i < argc; i++) {
        struct stat about;
        if (stat(argv[i], &about) != 0) {
            perror(argv[i]);
            return EXIT_FAILURE;
        }
        count += S_ISDIR(about.st_mode) ? replay_folder(argv[i]) : replay_file(argv[i]);
    }
    (void)printf("%zu inputs\n", count);
    return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
