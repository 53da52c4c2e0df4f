/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Histories by seed: each class of them draws its options from the seed.
 *
 *   swarm [--class NAME] [--seed N] [--histories N] [--seconds S]
 *         [--set OPTION=VALUE]... [--fault [HOST:]RULE]... [--sweep RULE]
 *         [--seeds FILE] [--verbose] [--twice] [--list]
 *
 * With --seed one history runs. Otherwise seeds count up from --first (default
 * 1), class by class, until the count or the CPU time is used up. TAP: one line
 * per class. A failed history prints its seed, its options, the last events and
 * the command that repeats it.
 *
 * Fault rules (rules.c) apply to every history. If no rule ever hits, the run
 * fails. A sweep runs a history once without the rule, then once for each frame
 * of each host, with "at=tx nth=N RULE": --sweep do=drop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim.h"

typedef struct SwarmArgs {
    const char *class_name, *seeds_file, *program;
    uint64_t seed, first;
    bool one, verbose, twice;
    unsigned long histories, seconds;
    const char *set[32];
    unsigned set_count;
    const char *fault[8], *sweep;
    unsigned fault_count;
} SwarmArgs;

/* Totals of all histories. */
typedef struct SwarmSum {
    uint64_t completions, hits, saves;
} SwarmSum;

/* ---- options ------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t offset;
    uint32_t value;
} option_table[] = {
#define OPTION_ROW(n, v) { #n, offsetof(SimOptions, n), v },
    SIM_OPTIONS(OPTION_ROW)
#undef OPTION_ROW
};
#define OPTION_COUNT (sizeof(option_table) / sizeof(option_table[0]))

static uint32_t *option_at(SimOptions *o, unsigned i)
{
    return (uint32_t *)(void *)((char *)o + option_table[i].offset);
}

static void options_default(SimOptions *o)
{
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        *option_at(o, i) = option_table[i].value;
    }
}

static void options_print(SimOptions *o)
{
    printf("# options:");
    for (unsigned i = 0; i < OPTION_COUNT; i++) {
        printf(" %s=%u", option_table[i].name, *option_at(o, i));
    }
    printf("\n");
}

static bool options_set(SimOptions *o, const char *text)
{
    const char *equal = strchr(text, '=');

    for (unsigned i = 0; equal && i < OPTION_COUNT; i++) {
        if (strlen(option_table[i].name) == (size_t)(equal - text) &&
            memcmp(option_table[i].name, text, (size_t)(equal - text)) == 0) {
            *option_at(o, i) = (uint32_t)strtoul(equal + 1, NULL, 0);
            return true;
        }
    }
    return false;
}

/* ---- one history --------------------------------------------------------- */

static void history_options(const SwarmArgs *a, const SimClass *class,
                            uint64_t seed, SimOptions *o)
{
    uint64_t mixed = seed;
    Rng r;

    /* The class is part of the seed: classes differ with equal seeds. */
    for (const char *p = class->name; *p; p++) {
        mixed = mixed * 131 + (uint8_t)*p;
    }
    rng_seed(&r, mixed);
    options_default(o);
    class->draw(o, &r);
    /* Another generator, so that the other options of a seed do not change. */
    rng_seed(&r, mixed ^ 0x0dd9a9edull);
    if (!o->odp_pct && rng_pct(&r, 25)) {
        class_paging(o, &r);
    }
    o->change_pct = rng_pct(&r, 30) ? rng_range(&r, 10, 100) : 0;
    for (unsigned i = 0; i < a->set_count; i++) {
        if (!options_set(o, a->set[i])) {
            fprintf(stderr, "swarm: no option %s\n", a->set[i]);
            exit(2);
        }
    }
}

static void print_failure(const SwarmArgs *a, const SimClass *class,
                          uint64_t seed, World *w)
{
    printf("# FAILED: class %s seed %llu at %.3f us: %s\n", class->name,
           (unsigned long long)seed, (double)w->now / 1000, w->failure);
    options_print(&w->options);
    if (!a->verbose) {
        world_print_log(w, 200);
    }
    printf("# %s\n# reproduce: %s --class %s --seed %llu", w->failure,
           a->program, class->name, (unsigned long long)seed);
    for (unsigned i = 0; i < a->set_count; i++) {
        printf(" --set %s", a->set[i]);
    }
    for (unsigned i = 0; i < a->fault_count; i++) {
        printf(" --fault '%s'", a->fault[i]);
    }
    printf(" --verbose\n");
}

static void arm(const SwarmArgs *a, World *w)
{
    char error[ROCE_FAULT_ERROR];

    for (unsigned i = 0; i < a->fault_count; i++) {
        if (!rules_add(w, a->fault[i], error)) {
            fprintf(stderr, "swarm: fault rule: %s\n", error);
            exit(2);
        }
    }
}

static bool run_options(const SwarmArgs *a, const SimClass *class,
                        uint64_t seed, const SimOptions *o, uint64_t *digest,
                        SwarmSum *sum)
{
    World *w;
    bool ok;

    sim_verbose = a->verbose;
    w = world_new(o, seed);
    arm(a, w);
    workload_build(w);
    ok = world_history(w);
    if (!ok) {
        print_failure(a, class, seed, w);
    }
    *digest = w->digest;
    sum->completions += w->completions;
    sum->hits += rules_hits(w);
    sum->saves += w->saves;
    world_free(w);
    return ok;
}

/*
 * A history whose engines are saved and loaded has the same events as without.
 * Only pages of on-demand regions are not saved.
 */
static bool run_history(const SwarmArgs *a, const SimClass *class,
                        uint64_t seed, uint64_t *digest, SwarmSum *sum)
{
    SimOptions o;
    uint64_t other;

    history_options(a, class, seed, &o);
    if (!run_options(a, class, seed, &o, digest, sum)) {
        return false;
    }
    if (!o.save_every || o.odp_pct) {
        return true;
    }
    o.save_every = 0;
    if (!run_options(a, class, seed, &o, &other, sum)) {
        return false;
    }
    if (*digest != other) {
        printf("# class %s seed %llu: a load has changed the history; compare "
               "--verbose with and without --set save_every=0\n",
               class->name, (unsigned long long)seed);
    }
    return *digest == other;
}

/* ---- many ---------------------------------------------------------------- */

/* CPU time, so that a busy machine runs as many histories. */
static double seconds_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static const SimClass *find_class(const char *name)
{
    for (unsigned i = 0; i < sim_class_count; i++) {
        if (strcmp(sim_classes[i].name, name) == 0) {
            return &sim_classes[i];
        }
    }
    fprintf(stderr, "swarm: no class %s\n", name);
    exit(2);
}

/* Time limits the number of histories, and never changes one. */
static unsigned run_class(const SwarmArgs *a, const SimClass *class,
                          unsigned number, double budget)
{
    double end = seconds_now() + budget;
    uint64_t seed = a->first, digest, again;
    SwarmSum sum = { 0 };
    unsigned long count = 0;
    bool ok = true;

    while (ok && (a->histories ? count < a->histories : seconds_now() < end)) {
        ok = run_history(a, class, seed, &digest, &sum);
        /* Every 64th history runs twice: both runs must be equal. */
        if (ok && (a->twice || count % 64 == 0)) {
            ok = run_history(a, class, seed, &again, &sum);
            if (ok && digest != again) {
                printf("# class %s seed %llu is not deterministic\n",
                       class->name, (unsigned long long)seed);
                ok = false;
            }
        }
        seed++;
        count++;
    }
    if (ok && a->fault_count && !sum.hits) {
        printf("# nothing has hit a fault rule\n");
        ok = false;
    }
    printf("%sok %u - sim swarm %s: %lu histories, %llu completions\n",
           ok ? "" : "not ", number, class->name, count,
           (unsigned long long)sum.completions);
    fflush(stdout);
    return !ok;
}

/* "CLASS SEED [OPTION=VALUE]...". True: the history passed. */
static bool run_seed(const SwarmArgs *a, char *line)
{
    SwarmArgs one = *a;
    const char *name = strtok(line, " \n"), *seed = strtok(NULL, " \n");
    SwarmSum sum = { 0 };
    const char *word;
    uint64_t digest;

    if (!name || !seed || !strtoull(seed, NULL, 0)) {
        fprintf(stderr, "swarm: bad line in %s: %s\n", a->seeds_file, line);
        exit(2);
    }
    while ((word = strtok(NULL, " \n")) && one.set_count < 32) {
        one.set[one.set_count++] = word;
    }
    return run_history(&one, find_class(name), strtoull(seed, NULL, 0),
                       &digest, &sum);
}

/* One history per line; # begins a comment. */
static unsigned run_seeds(const SwarmArgs *a, unsigned *number)
{
    FILE *file = fopen(a->seeds_file, "r");
    unsigned failed = 0, run = 0;
    char line[256];

    if (!file) {
        perror(a->seeds_file);
        exit(2);
    }
    while (fgets(line, sizeof(line), file)) {
        if (line[0] == '#' || line[0] == '\n') {
            continue;
        }
        failed += !run_seed(a, line);
        run++;
    }
    fclose(file);
    printf("%sok %u - sim seeds: %u that once failed\n", failed ? "not " : "",
           ++*number, run);
    return failed;
}

/* ---- sweeps -------------------------------------------------------------- */

/* Runs a history with one more rule. Returns its hits, or -1 for a failure. */
static int64_t sweep_once(const SwarmArgs *a, const SimClass *class,
                          uint64_t seed, const char *rule)
{
    SwarmArgs one = *a;
    SwarmSum sum = { 0 };
    uint64_t digest;

    one.fault[0] = rule;
    one.fault_count = 1;
    return run_history(&one, class, seed, &digest, &sum) ? (int64_t)sum.hits
                                                         : -1;
}

/* One history for each frame of a host. -1: one of them failed. */
static int64_t sweep_host(const SwarmArgs *a, const SimClass *class,
                          uint64_t seed, unsigned host)
{
    char rule[ROCE_FAULT_TEXT];
    int64_t frames;

    snprintf(rule, sizeof(rule), "%u:at=tx times=0 do=count", host);
    frames = sweep_once(a, class, seed, rule);
    for (int64_t n = 1; n <= frames; n++) {
        int64_t hits;

        snprintf(rule, sizeof(rule), "%u:at=tx nth=%lld %s", host,
                 (long long)n, a->sweep);
        hits = sweep_once(a, class, seed, rule);
        if (hits != 1) {
            printf("# %s: %lld hits\n", rule, (long long)hits);
            return -1;
        }
    }
    return frames;
}

static int run_sweep(const SwarmArgs *a)
{
    const SimClass *class = find_class(a->class_name ? a->class_name : "clean");
    uint64_t seed = a->seed ? a->seed : a->first;
    const uint64_t end = seed + (a->histories ? a->histories : 1);
    int64_t frames = 0;

    for (bool ok = true; ok && seed < end; seed++) {
        SimOptions o;

        history_options(a, class, seed, &o);
        for (unsigned host = 0; ok && host < o.hosts; host++) {
            const int64_t of_host = sweep_host(a, class, seed, host);

            ok = of_host >= 0;
            frames = ok ? frames + of_host : -1;
        }
    }
    printf("%sok 1 - sim sweep %s, %s: %lld frames\n1..1\n",
           frames > 0 ? "" : "not ", class->name, a->sweep, (long long)frames);
    return frames <= 0;
}

static int run_one(const SwarmArgs *a)
{
    const SimClass *class = a->class_name
                                ? find_class(a->class_name)
                                : &sim_classes[a->seed % sim_class_count];
    SwarmSum sum = { 0 };
    uint64_t digest;
    bool ok = run_history(a, class, a->seed, &digest, &sum);

    if (ok && a->fault_count && !sum.hits) {
        printf("# nothing has hit a fault rule\n");
        ok = false;
    }
    printf("%sok 1 - class %s seed %llu, digest %016llx\n1..1\n",
           ok ? "" : "not ", class->name, (unsigned long long)a->seed,
           (unsigned long long)digest);
    return !ok;
}

static void parse_args(SwarmArgs *a, int argc, char **argv)
{
    a->program = argv[0];
    a->first = 1;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (!strcmp(argv[i], "--verbose")) {
            a->verbose = true;
            continue;
        } else if (!strcmp(argv[i], "--twice")) {
            a->twice = true;
            continue;
        } else if (!strcmp(argv[i], "--list")) {
            for (unsigned k = 0; k < sim_class_count; k++) {
                printf("%s\n", sim_classes[k].name);
            }
            exit(0);
        } else if (!strcmp(argv[i], "--class")) {
            a->class_name = value;
        } else if (!strcmp(argv[i], "--seeds")) {
            a->seeds_file = value;
        } else if (!strcmp(argv[i], "--seed")) {
            a->seed = strtoull(value, NULL, 0);
            a->one = true;
        } else if (!strcmp(argv[i], "--first")) {
            a->first = strtoull(value, NULL, 0);
        } else if (!strcmp(argv[i], "--histories")) {
            a->histories = strtoul(value, NULL, 0);
        } else if (!strcmp(argv[i], "--seconds")) {
            a->seconds = strtoul(value, NULL, 0);
        } else if (!strcmp(argv[i], "--sweep")) {
            a->sweep = value;
        } else if (!strcmp(argv[i], "--fault") && a->fault_count < 8) {
            a->fault[a->fault_count++] = value;
        } else if (!strcmp(argv[i], "--set") && a->set_count < 32) {
            a->set[a->set_count++] = value;
        } else {
            fprintf(stderr, "swarm: unknown argument %s\n", argv[i]);
            exit(2);
        }
        if (++i >= argc) {
            fprintf(stderr, "swarm: %s wants a value\n", argv[i - 1]);
            exit(2);
        }
    }
    if (!a->histories && !a->seconds) {
        a->seconds = 10;
    }
}

static bool class_runs(const SwarmArgs *a, const SimClass *class)
{
    return !a->class_name || strcmp(a->class_name, class->name) == 0;
}

int main(int argc, char **argv)
{
    SwarmArgs a = { .one = false };
    unsigned failed = 0, number = 0, runs = 0;

    parse_args(&a, argc, argv);
    if (!sim_caps_probe()) {
        printf("not ok 1 - sim: a required capability is missing\n1..1\n");
        return 1;
    }
    if (a.sweep) {
        return run_sweep(&a);
    }
    if (a.one) {
        return run_one(&a);
    }
    for (unsigned i = 0; i < sim_class_count; i++) {
        runs += class_runs(&a, &sim_classes[i]);
    }
    for (unsigned i = 0; i < sim_class_count; i++) {
        if (class_runs(&a, &sim_classes[i])) {
            failed += run_class(&a, &sim_classes[i], ++number,
                                (double)a.seconds / runs);
        }
    }
    if (a.class_name && !runs) {
        find_class(a.class_name);
    }
    if (a.seeds_file) {
        failed += run_seeds(&a, &number);
    }
    printf("1..%u\n", number);
    return failed != 0;
}
