/* SPDX-License-Identifier: MIT */
#include "base/glob.h"

#include <ctype.h>
#include <string.h>

/* Maps a character to the form in which it is compared. */
typedef int fold_fn(int c);

static int as_it_is(int c)
{
    return c;
}

static int fold_char(fold_fn *fold, char c)
{
    return fold((unsigned char)c);
}

/* @p points behind a '['. Returns what follows the set; *@in: whether @c is in the set. A set that is not
 * closed ends with the pattern. */
static const char *match_set(const char *p, const char *end, char c, fold_fn *fold, bool *in)
{
    bool negated = p < end && *p == '^';
    bool found = false;
    p += negated;
    while (p < end && *p != ']') {
        if (*p == '\\' && p + 1 < end)
            p++;
        int from = fold_char(fold, *p), to = from;
        if (end - p > 2 && p[1] == '-' && p[2] != ']') {
            to = fold_char(fold, p[2]);
            p += 2;
        }
        found |= (from <= fold_char(fold, c) && fold_char(fold, c) <= to) ||
                 (to <= fold_char(fold, c) && fold_char(fold, c) <= from);
        p++;
    }
    *in = found != negated;
    return p < end ? p + 1 : p;
}

/* Compare one character of @text with the piece of the pattern at @p, which is not a star. Returns the
 * pattern behind that piece; NULL: they differ. */
static const char *match_one(const char *p, const char *end, char c, fold_fn *fold)
{
    bool in;
    if (*p == '?')
        return p + 1;
    if (*p == '[') {
        p = match_set(p + 1, end, c, fold, &in);
        return in ? p : NULL;
    }
    if (*p == '\\' && p + 1 < end)
        p++;
    return fold_char(fold, *p) == fold_char(fold, c) ? p + 1 : NULL;
}

static bool match(const char *pattern, size_t pattern_length, const char *text, size_t text_length,
                  fold_fn *fold)
{
    const char *p = pattern, *p_end = pattern + pattern_length, *t = text, *t_end = text + text_length;
    const char *star = NULL, *retry = NULL; /* pattern behind the last star; end of what it takes */
    while (t < t_end) {
        const char *next = p < p_end && *p != '*' ? match_one(p, p_end, *t, fold) : NULL;
        if (next != NULL) {
            p = next;
            t++;
        } else if (p < p_end && *p == '*') {
            star = ++p;
            retry = t;
        } else if (star != NULL) { /* let the last star take one character more */
            p = star;
            t = ++retry;
        } else {
            return false;
        }
    }
    while (p < p_end && *p == '*')
        p++;
    return p == p_end;
}

bool glob_match(const char *pattern, size_t pattern_length, const char *text, size_t text_length)
{
    return match(pattern, pattern_length, text, text_length, tolower);
}

bool glob_match_case(const char *pattern, size_t pattern_length, const char *text, size_t text_length)
{
    return match(pattern, pattern_length, text, text_length, as_it_is);
}

size_t glob_distance(const char *a, const char *b)
{
    enum { LONGEST = 32 };
    size_t n = strlen(a);
    size_t m = strlen(b);
    if (n > LONGEST || m > LONGEST)
        return SIZE_MAX;
    size_t d[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= n; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= m; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = best < d[i - 1][j] + 1 ? best : d[i - 1][j] + 1;
            best = best < d[i][j - 1] + 1 ? best : d[i][j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m];
}
