/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <jansson.h>
#include "base/clock.h"
#include "deploy/traffic.h"

enum { SCREEN_LINES = 6, BAR_WIDTH = 24, AFTER_FLIP_US = 500000 };

const char *const moment_name[MOMENT_COUNT] = {"not built yet", "steady", "building", "switched"};

static uint64_t load(const uint64_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void figures_add(struct figures *into, const struct figures *from)
{
    for (int m = 0; m < MOMENT_COUNT; m++) {
        histogram_merge(&into->checks[m], &from->checks[m]);
        histogram_merge(&into->adds[m], &from->adds[m]);
    }
    histogram_merge(&into->creations, &from->creations);
    tally(&into->keys_checked, load(&from->keys_checked));
    tally(&into->absent_checked, load(&from->absent_checked));
    tally(&into->absent_maybe, load(&from->absent_maybe));
    tally(&into->denied, load(&from->denied));
    tally(&into->refused, load(&from->refused));
    tally(&into->violations, load(&from->violations));
    tally(&into->healed, load(&from->healed));
}

void totals_take(const struct traffic *t, struct totals *out)
{
    memset(out, 0, sizeof(*out));
    for (unsigned i = 0; i < t->creator_count; i++) {
        figures_add(&out->figures, t->creator[i].figures);
        out->acknowledged += atomic_load(&t->creator[i].acknowledged_count);
    }
    for (unsigned i = 0; i < t->checker_count; i++)
        figures_add(&out->figures, t->checker[i].figures);
}

static uint64_t worst_stall(const struct traffic *t, uint64_t from_us, uint64_t to_us)
{
    uint64_t worst = 0;
    for (unsigned i = 0; i < t->creator_count + t->checker_count; i++) {
        const struct figures *f =
            i < t->creator_count ? t->creator[i].figures : t->checker[i - t->creator_count].figures;
        uint64_t us = stalls_worst(&f->stalls, from_us, to_us);
        if (us > worst)
            worst = us;
    }
    return worst;
}

static void merge_moments(struct histogram *out, const struct histogram *moments)
{
    memset(out, 0, sizeof(*out));
    for (int m = 0; m < MOMENT_COUNT; m++)
        histogram_merge(out, &moments[m]);
}

static double ms(uint64_t us)
{
    return (double)us / 1e3;
}

static void job_line(const struct status *s, unsigned done, unsigned wanted, char *text, size_t size)
{
    char picture[BAR_WIDTH + 1];
    double share = s->job_rows_total == 0 ? 0 : (double)s->job_rows / (double)s->job_rows_total;
    for (int i = 0; i < BAR_WIDTH; i++)
        picture[i] = i < (int)(share * BAR_WIDTH) ? '#' : '.';
    picture[BAR_WIDTH] = '\0';
    unsigned number = done < wanted ? done + 1 : wanted;
    if (strcmp(s->job_state, "running") != 0 && strcmp(s->job_state, "waiting") != 0)
        (void)snprintf(text, size, "rebuild  %u of %u done; no job now", done, wanted);
    else
        (void)snprintf(text, size,
                       "rebuild  %u of %u: %s [%s] %" PRIu64 " of %" PRIu64 " rows, %.0f rows/s%s%s", number,
                       wanted, s->job_step, picture, s->job_rows, s->job_rows_total, s->job_rate,
                       s->job_waiting_for[0] != '\0' ? "; waits for " : "", s->job_waiting_for);
}

/* Rates since the last drawing; only the main thread draws. */
static void rates(const struct totals *now, double *checks, double *adds)
{
    static uint64_t last_us, last_checks, last_adds;
    uint64_t at = clock_mono_us();
    double seconds = (double)(at - last_us) / 1e6;
    *checks = last_us == 0 ? 0 : (double)(now->figures.keys_checked - last_checks) / seconds;
    *adds = last_us == 0 ? 0 : (double)(now->acknowledged - last_adds) / seconds;
    last_us = at;
    last_checks = now->figures.keys_checked;
    last_adds = now->acknowledged;
}

void screen_draw(struct traffic *t, bool terminal)
{
    static struct totals sum; /* too large for a stack */
    static bool drawn;
    struct histogram checks;
    char job[512];
    double check_rate;
    double add_rate;
    totals_take(t, &sum);
    rates(&sum, &check_rate, &add_rate);
    merge_moments(&checks, sum.figures.checks);
    (void)pthread_mutex_lock(&t->lock);
    struct status s = t->status;
    (void)pthread_mutex_unlock(&t->lock);
    if (s.phase[0] == '\0')
        return; /* the watcher has not looked yet */
    job_line(&s, atomic_load(&t->done), t->options.expansions, job, sizeof(job));
    double seconds = (double)(clock_mono_us() - t->start_us) / 1e6;
    if (!terminal) {
        (void)printf("%5.0f s  %-8s generation %" PRIu64
                     "  %.0f checks/s  %.0f adds/s  known keys reported absent %" PRIu64 "  %s\n",
                     seconds, s.phase, s.generation, check_rate, add_rate, sum.figures.denied, job);
        (void)fflush(stdout);
        return;
    }
    if (drawn)
        (void)printf("\033[%dA", SCREEN_LINES);
    drawn = true;
    const char *end = "\033[K\n";
    (void)printf("live       %.0f s%s", seconds, end);
    (void)printf("filter     %s  phase %s  generation %" PRIu64 "%s  epoch %" PRIu64 "  %" PRIu64
                 " items of %" PRIu64 "%s",
                 t->options.filter, s.phase, s.generation,
                 s.built ? "" : " (not built: every check answers maybe)", s.epoch, s.items, s.capacity, end);
    (void)printf("%.110s%s", job, end);
    (void)printf("checks     %.0f keys/s  p50 %.2f ms  p99 %.2f ms  longest %.1f ms%s", check_rate,
                 ms(histogram_quantile(&checks, 0.5)), ms(histogram_quantile(&checks, 0.99)),
                 ms(checks.worst), end);
    (void)printf("adds       %.0f /s  %" PRIu64 " acknowledged, %" PRIu64
                 " healed after a unique violation%s",
                 add_rate, sum.acknowledged, sum.figures.healed, end);
    (void)printf("promises   known keys denied: %" PRIu64 "   error replies: %" PRIu64 "%s",
                 sum.figures.denied, sum.figures.refused, end);
    (void)fflush(stdout);
}

/* All that the report says, worked out once for paper and JSON. */
struct summary {
    struct totals sum;
    struct histogram checks;
    struct histogram adds;
    double seconds;
    double false_positive_rate;
    double false_positive_bound; /* the promised rate and three standard errors of this many trials */
    double rebuild_rate;         /* of the last expansion */
    double bare_rate;
    uint64_t cutover_stall_us[EXPANSIONS_MAX];
    double bits_per_key, bits_per_place;
    bool denied_ok, refused_ok, rate_ok, expansions_ok, rechecked_ok;
};

static double rebuild_rate(const struct expansion *x)
{
    double seconds = (double)(x->scan_over_us - x->scan_first_us) / 1e6;
    return x->scan_over_us > 0 && seconds > 0.1 ? (double)(x->rows - x->rows_before) / seconds : x->rate;
}

static void summarise(const struct traffic *t, struct summary *s)
{
    memset(s, 0, sizeof(*s));
    totals_take(t, &s->sum);
    merge_moments(&s->checks, s->sum.figures.checks);
    merge_moments(&s->adds, s->sum.figures.adds);
    const struct figures *f = &s->sum.figures;
    s->seconds = (double)(t->end_us - t->start_us) / 1e6;
    double trials = (double)f->absent_checked;
    double p = t->options.error_rate;
    s->false_positive_rate = trials > 0 ? (double)f->absent_maybe / trials : 0;
    s->false_positive_bound = trials > 0 ? p + 3 * sqrt(p * (1 - p) / trials) : p;
    unsigned done = atomic_load(&t->done);
    for (unsigned i = 0; i < done && i < EXPANSIONS_MAX; i++) {
        const struct expansion *x = &t->expansion[i];
        s->cutover_stall_us[i] = worst_stall(t, x->before_cutover_us, x->after_cutover_us + AFTER_FLIP_US);
        s->rebuild_rate = rebuild_rate(x);
    }
    s->bare_rate = t->bare_scan.seconds > 0 ? (double)t->bare_scan.rows / t->bare_scan.seconds : 0;
    uint64_t keys = t->loaded_count + s->sum.acknowledged;
    s->bits_per_key = keys > 0 ? (double)t->memory.bytes * 8 / (double)keys : 0;
    s->bits_per_place = t->status.capacity > 0 ? (double)t->memory.bytes * 8 / (double)t->status.capacity : 0;
    s->rechecked_ok = t->rechecked == keys;
    s->denied_ok = f->denied == 0 && t->recheck_absent == 0 && t->loaded_absent == 0;
    s->refused_ok = f->refused == 0;
    s->rate_ok = trials > 0 && s->false_positive_rate <= s->false_positive_bound;
    s->expansions_ok = done >= t->options.expansions && !t->failed;
}

static bool all_ok(const struct summary *s)
{
    return s->denied_ok && s->refused_ok && s->rate_ok && s->expansions_ok && s->rechecked_ok;
}

static const char *verdict(bool ok)
{
    return ok ? "kept" : "BROKEN";
}

/* A promise that no counterexample was found for, but not everything was looked at either. */
static const char *verdict_of_recheck(const struct summary *s, uint64_t absent)
{
    if (absent == 0 && !s->rechecked_ok)
        return "open";
    return verdict(absent == 0);
}

static void print_latencies(const char *what, const struct histogram *moments, const struct histogram *all)
{
    for (int m = 0; m <= MOMENT_COUNT; m++) {
        const struct histogram *h = m < MOMENT_COUNT ? &moments[m] : all;
        if (h->count == 0)
            continue;
        (void)printf("  %-7s %-15s %10" PRIu64 " %9.3f %9.3f %9.3f %10.1f\n", what,
                     m < MOMENT_COUNT ? moment_name[m] : "all", h->count, ms(histogram_quantile(h, 0.5)),
                     ms(histogram_quantile(h, 0.99)), ms(histogram_quantile(h, 0.999)), ms(h->worst));
    }
}

static void print_expansions(const struct traffic *t, const struct summary *s)
{
    unsigned done = atomic_load(&t->done);
    for (unsigned i = 0; i < done && i < EXPANSIONS_MAX; i++) {
        const struct expansion *x = &t->expansion[i];
        (void)printf("  rebuild %u: %.1f s in all; %" PRIu64
                     " rows, %.0f rows/s while scanning; longest stall of any request at "
                     "the cutover %.1f ms\n",
                     i + 1, (double)(x->done_us - x->seen_us) / 1e6, x->rows, rebuild_rate(x),
                     ms(s->cutover_stall_us[i]));
        (void)printf("               reason: %s\n", x->reason);
    }
    if (s->bare_rate > 0)
        (void)printf(
            "  bare keyset scan under the same traffic: %.0f rows/s; the last rebuild ran at %.2f of it\n",
            s->bare_rate, s->rebuild_rate / s->bare_rate);
}

bool report_print(const struct traffic *t)
{
    static struct summary s;
    summarise(t, &s);
    const struct figures *f = &s.sum.figures;
    (void)printf("\nRebuilds, seen from outside\n");
    print_expansions(t, &s);
    (void)printf("\nTraffic for %.1f s: %.0f checks/s, %.0f adds/s; round trips in ms\n", s.seconds,
                 (double)f->keys_checked / s.seconds, (double)s.sum.acknowledged / s.seconds);
    (void)printf("  %-7s %-15s %10s %9s %9s %9s %10s\n", "request", "filter was", "count", "p50", "p99",
                 "p99.9", "longest");
    print_latencies("check", f->checks, &s.checks);
    print_latencies("BF.ADD", f->adds, &s.adds);
    (void)printf("  creation (BEGIN, INSERT, BF.ADD, COMMIT): p50 %.2f, p99 %.2f, longest %.1f\n",
                 ms(histogram_quantile(&f->creations, 0.5)), ms(histogram_quantile(&f->creations, 0.99)),
                 ms(f->creations.worst));
    (void)printf("  unique violations %" PRIu64 ", of these healed %" PRIu64 "\n", f->violations, f->healed);
    if (t->options.nodes > 0)
        (void)printf("\nMemory: %" PRIu64
                     " shards, %.2f MiB in Redis: %.2f bits per key held, %.2f per key planned for\n",
                     t->memory.shards, (double)t->memory.bytes / 1048576, s.bits_per_key, s.bits_per_place);
    (void)printf("\nPromises\n");
    (void)printf("  %-7s keys acknowledged: %" PRIu64
                 "; reported absent when asked again at the end: %" PRIu64 "\n",
                 verdict_of_recheck(&s, t->recheck_absent), s.sum.acknowledged, t->recheck_absent);
    (void)printf("  %-7s rows loaded: %zu; reported absent at the end: %" PRIu64 "\n",
                 verdict_of_recheck(&s, t->loaded_absent), t->loaded_count, t->loaded_absent);
    (void)printf("  %-7s known keys reported absent at any moment: %" PRIu64 " of %" PRIu64 " checks\n",
                 verdict(f->denied == 0), f->denied, f->keys_checked);
    (void)printf("  %-7s false-positive rate: %.6f measured with %" PRIu64 " absent keys, %.6f promised\n",
                 verdict(s.rate_ok), s.false_positive_rate, f->absent_checked, t->options.error_rate);
    (void)printf("  %-7s error replies: %" PRIu64 "\n", verdict(s.refused_ok), f->refused);
    (void)printf("  %-7s rebuilds finished: %u of %u\n", s.expansions_ok ? "kept" : "open",
                 atomic_load(&t->done), t->options.expansions);
    if (t->failed)
        (void)printf("\nIt ended early: %s\n", t->failure);
    return all_ok(&s);
}

/* NULL: no memory. */
static json_t *latencies_json(const struct histogram *moments, const struct histogram *all)
{
    json_t *to = json_object();
    for (int m = 0; m <= MOMENT_COUNT; m++) {
        const struct histogram *h = m < MOMENT_COUNT ? &moments[m] : all;
        json_t *one = json_pack("{s:I, s:I, s:I, s:I, s:I}", "count", (json_int_t)h->count, "p50_us",
                                (json_int_t)histogram_quantile(h, 0.5), "p99_us",
                                (json_int_t)histogram_quantile(h, 0.99), "p999_us",
                                (json_int_t)histogram_quantile(h, 0.999), "longest_us", (json_int_t)h->worst);
        (void)json_object_set_new(to, m < MOMENT_COUNT ? moment_name[m] : "all", one);
    }
    return to;
}

static json_t *expansions_json(const struct traffic *t, const struct summary *s)
{
    json_t *to = json_array();
    unsigned done = atomic_load(&t->done);
    for (unsigned i = 0; i < done && i < EXPANSIONS_MAX; i++) {
        const struct expansion *x = &t->expansion[i];
        json_t *one =
            json_pack("{s:f, s:I, s:f, s:I, s:o*}", "seconds", (double)(x->done_us - x->seen_us) / 1e6,
                      "rows", (json_int_t)x->rows, "rows_per_second", rebuild_rate(x), "cutover_stall_us",
                      (json_int_t)s->cutover_stall_us[i], "reason", json_string(x->reason));
        (void)json_array_append_new(to, one);
    }
    return to;
}

enum err report_write(const struct traffic *t, const char *path, struct error *e)
{
    static struct summary s;
    summarise(t, &s);
    const struct figures *f = &s.sum.figures;
    const struct {
        const char *name;
        uint64_t count;
    } counts[] = {{"keys_checked", f->keys_checked},
                  {"keys_acknowledged", s.sum.acknowledged},
                  {"rows_loaded", t->loaded_count},
                  {"keys_asked_again", t->rechecked},
                  {"acknowledged_absent", t->recheck_absent},
                  {"loaded_absent", t->loaded_absent},
                  {"denied", f->denied},
                  {"error_replies", f->refused},
                  {"unique_violations", f->violations},
                  {"healed", f->healed},
                  {"absent_checked", f->absent_checked},
                  {"expansions_wanted", t->options.expansions}};
    json_t *report =
        json_pack("{s:b, s:o*, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o}", "ok", all_ok(&s), "failure",
                  json_string(t->failure), "seconds", s.seconds, "false_positive_rate", s.false_positive_rate,
                  "false_positive_rate_promised", t->options.error_rate, "bare_scan_rows_per_second",
                  s.bare_rate, "bits_per_key_held", s.bits_per_key, "bits_per_key_planned", s.bits_per_place,
                  "checks", latencies_json(f->checks, &s.checks), "adds", latencies_json(f->adds, &s.adds),
                  "rebuilds", expansions_json(t, &s));
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        (void)json_object_set_new(report, counts[i].name, json_integer((json_int_t)counts[i].count));
    bool written =
        report != NULL && json_dump_file(report, path, JSON_INDENT(2) | JSON_REAL_PRECISION(8)) == 0;
    json_decref(report);
    return written ? ERR_OK : error_set(e, ERR_IO, "%s: cannot be written", path);
}
