/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Histories by seed: each class of them draws its options from the seed.
 *
 *   swarm [--class NAME] [--seed N] [--histories N] [--seconds S]
 *         [--set OPTION=VALUE]... [--seeds FILE] [--verbose] [--twice] [--list]
 *
 * With --seed one history runs. Otherwise seeds count up from --first (default
 * 1), class by class, until the count or the time is used up. TAP: one line per
 * class; a failed history prints its seed, options, the last events and the
 * command that repeats it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim.h"

typedef struct SwarmClass {
    const char *name;
    void (*draw)(SimOptions *o, Rng *r);
} SwarmClass;

typedef struct SwarmArgs {
    const char *class_name, *seeds_file, *program;
    uint64_t seed, first;
    bool one, verbose, twice;
    unsigned long histories, seconds;
    const char *set[32];
    unsigned set_count;
} SwarmArgs;

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

/* ---- classes ------------------------------------------------------------- */

static void draw_shape(SimOptions *o, Rng *r)
{
    o->hosts = rng_pct(r, 75) ? 2 : rng_range(r, 1, 4);
    o->conns = rng_range(r, 1, rng_pct(r, 70) ? 2 : 5);
    o->loopback_pct = rng_pct(r, 20) ? 50 : 0;
    o->sends = rng_range(r, 1, 24);
    o->max_size = rng_pct(r, 6) ? 65536 : rng_pct(r, 50) ? 8192 : 2048;
    o->max_sends = 1u << rng_range(r, 0, 6);
    o->vlan_pct = rng_pct(r, 20) ? 50 : 0;
    o->delay_ns = rng_range(r, 0, 20000);
    o->jitter_ns = rng_pct(r, 30) ? rng_range(r, 0, 20000) : 0;
    o->rate_mbps = rng_pct(r, 40) ? rng_range(r, 1000, 40000) : 0;
    o->tx_burst = rng_pct(r, 50) ? rng_range(r, 1, 4) : 0;
    o->tick_late_ns = rng_pct(r, 30) ? rng_range(r, 0, 500000) : 0;
    o->post_gap_us = rng_pct(r, 50) ? rng_range(r, 0, 5)
                                    : rng_range(r, 5, 200);
    o->rd_atomic = rng_pct(r, 40) ? 1 : rng_range(r, 1, 16);
    o->unsignaled_pct = rng_pct(r, 60) ? rng_range(r, 0, 90) : 0;
    o->fence_pct = rng_pct(r, 40) ? rng_range(r, 0, 60) : 0;
    o->srq_pct = rng_pct(r, 15) ? 60 : 0;
    o->pad_ppm = rng_pct(r, 20) ? 300000 : 0;
    if (rng_pct(r, 20)) {
        o->send_weight = rng_range(r, 0, 4) + 1;
        o->read_weight = rng_range(r, 0, 8);
        o->write_weight = rng_range(r, 0, 4);
        o->atomic_weight = rng_range(r, 0, 8);
    }
    o->lease_pct = rng_pct(r, 20) ? rng_range(r, 5, 50) : 0;
    o->lives = rng_pct(r, 15) ? 2 : 1;
    o->nop_pct = rng_pct(r, 20) ? rng_range(r, 1, 40) : 0;
    o->pause_pct = rng_pct(r, 20) ? 60 : 0;
    o->timeout = 18;
}

static void draw_faults(SimOptions *o, Rng *r)
{
    o->faults_ms = rng_range(r, 1, 200);
    o->timeout = rng_range(r, 7, 12);
    o->loss_ppm = rng_pct(r, 70) ? rng_range(r, 0, rng_pct(r, 20) ? 300000
                                                                  : 80000) : 0;
    if (rng_pct(r, 20)) {
        o->burst_ppm = rng_range(r, 1000, 20000);
        o->burst_len = rng_range(r, 1, 20);
    }
    o->dup_ppm = rng_pct(r, 50) ? rng_range(r, 0, 200000) : 0;
    if (rng_pct(r, 50)) {
        o->reorder_ppm = rng_range(r, 0, 200000);
        o->reorder_us = rng_range(r, 1, rng_pct(r, 20) ? 2000 : 100);
    }
    o->corrupt_ppm = rng_pct(r, 40) ? rng_range(r, 0, 60000) : 0;
    o->truncate_ppm = rng_pct(r, 30) ? rng_range(r, 0, 40000) : 0;
}

static void draw_rnr(SimOptions *o, Rng *r)
{
    o->late_recv_pct = rng_range(r, 30, 100);
    o->late_recv_us = rng_range(r, 10, 5000);
    o->rnr_timer = rng_range(r, 1, 12);
}

static void draw_clean(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
}

static void draw_lossy(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    draw_faults(o, r);
}

static void draw_rnr_clean(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    draw_rnr(o, r);
}

static void draw_rnr_lossy(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    draw_faults(o, r);
    draw_rnr(o, r);
}

static void draw_datagram(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    o->conns = rng_below(r, 2);
    o->datagrams = rng_range(r, 1, 60);
    o->gsi_pct = rng_pct(r, 30) ? 60 : 0;
    if (rng_pct(r, 60)) {
        draw_faults(o, r);
        o->ud_no_recv_pct = rng_pct(r, 50) ? rng_below(r, 60) : 0;
    }
    o->error_pct = rng_pct(r, 30) ? 50 : 0;
    o->lives = rng_range(r, 1, 2);
}

static void draw_errors(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    o->error_pct = 90;
    o->timeout = 12;
}

static void draw_errors_lossy(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    draw_faults(o, r);
    if (rng_pct(r, 30)) {
        draw_rnr(o, r);
    }
    o->error_pct = 90;
}

static void draw_teardown(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    if (rng_pct(r, 60)) {
        draw_faults(o, r);
    }
    if (rng_pct(r, 30)) {
        draw_rnr(o, r);
    }
    o->timeout = rng_range(r, 7, 12);
    o->inject_pct = 80;
}

static void draw_harsh(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    draw_faults(o, r);
    draw_rnr(o, r);
    o->harsh = 1;
    o->mercy = 0;
    o->retry_cnt = rng_range(r, 0, 3);
    o->rnr_retry = rng_range(r, 0, 6);
    if (rng_pct(r, 30)) {
        o->error_pct = 50;
    }
}

/* Long messages: windows full, ACKs asked for in their middle. */
static void draw_bulk(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    o->conns = rng_range(r, 1, 2);
    o->sends = rng_range(r, 1, 4);
    o->max_size = rng_range(r, 100000, 1000000);
    if (rng_pct(r, 60)) {
        draw_faults(o, r);
        o->loss_ppm /= 10;
        o->reorder_ppm /= 10;
        o->burst_ppm /= 10;
        /* Longer than a message takes on the slowest wire here, or the
         * requester repeats what is merely on its way. */
        o->timeout = rng_range(r, 13, 16);
    }
}

/* Many QPs share the wire. */
static void draw_crowd(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    o->conns = rng_range(r, 10, SIM_CONNS);
    o->sends = rng_range(r, 1, 8);
    o->max_size = 4096;
    o->lease_pct = 0;
    if (rng_pct(r, 50)) {
        draw_faults(o, r);
    }
}

static void draw_uc(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    o->uc_pct = 80;
    if (rng_pct(r, 60)) {
        draw_faults(o, r);
    }
}

static void draw_hostile(SimOptions *o, Rng *r)
{
    draw_shape(o, r);
    if (rng_pct(r, 50)) {
        draw_faults(o, r);
    }
    if (rng_pct(r, 30)) {
        draw_rnr(o, r);
    }
    o->faults_ms = rng_range(r, 1, 200);
    o->timeout = rng_range(r, 7, 12);
    o->datagrams = rng_below(r, 10);
    o->uc_pct = 20;
    o->harsh = 1;
    o->retry_cnt = rng_range(r, 0, 7);
    o->lease_pct = 0;
    o->hostile_ppm = rng_range(r, 1000, 300000);
}

static const SwarmClass classes[] = {
    { "clean", draw_clean },
    { "lossy", draw_lossy },
    { "rnr", draw_rnr_clean },
    { "rnr-lossy", draw_rnr_lossy },
    { "datagram", draw_datagram },
    { "errors", draw_errors },
    { "errors-lossy", draw_errors_lossy },
    { "teardown", draw_teardown },
    { "harsh", draw_harsh },
    { "bulk", draw_bulk },
    { "crowd", draw_crowd },
    { "uc", draw_uc },
    { "hostile", draw_hostile },
};
#define CLASS_COUNT (sizeof(classes) / sizeof(classes[0]))

/* ---- one history --------------------------------------------------------- */

static void history_options(const SwarmArgs *a, const SwarmClass *class,
                            uint64_t seed, SimOptions *o)
{
    uint64_t mixed = seed;
    Rng r;

    /* The class is part of the seed: equal seeds are not equal shapes. */
    for (const char *p = class->name; *p; p++) {
        mixed = mixed * 131 + (uint8_t)*p;
    }
    rng_seed(&r, mixed);
    options_default(o);
    class->draw(o, &r);
    for (unsigned i = 0; i < a->set_count; i++) {
        if (!options_set(o, a->set[i])) {
            fprintf(stderr, "swarm: no option %s\n", a->set[i]);
            exit(2);
        }
    }
}

static void print_failure(const SwarmArgs *a, const SwarmClass *class,
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
    printf(" --verbose\n");
}

static bool run_history(const SwarmArgs *a, const SwarmClass *class,
                        uint64_t seed, uint64_t *digest, uint64_t *done)
{
    SimOptions o;
    World *w;
    bool ok;

    history_options(a, class, seed, &o);
    sim_verbose = a->verbose;
    w = world_new(&o, seed);
    workload_build(w);
    ok = world_history(w);
    if (!ok) {
        print_failure(a, class, seed, w);
    }
    *digest = w->digest;
    *done += w->completions;
    world_free(w);
    return ok;
}

/* ---- many ---------------------------------------------------------------- */

static double seconds_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static const SwarmClass *find_class(const char *name)
{
    for (unsigned i = 0; i < CLASS_COUNT; i++) {
        if (strcmp(classes[i].name, name) == 0) {
            return &classes[i];
        }
    }
    fprintf(stderr, "swarm: no class %s\n", name);
    exit(2);
}

/* Wall-clock time decides how many histories run, never what one does. */
static unsigned run_class(const SwarmArgs *a, const SwarmClass *class,
                          unsigned number, double budget)
{
    double end = seconds_now() + budget;
    uint64_t seed = a->first, digest, again, done = 0;
    unsigned long count = 0;
    bool ok = true;

    while (ok && (a->histories ? count < a->histories : seconds_now() < end)) {
        ok = run_history(a, class, seed, &digest, &done);
        /* Every 64th runs twice: one seed, one history. */
        if (ok && (a->twice || count % 64 == 0)) {
            ok = run_history(a, class, seed, &again, &done);
            if (ok && digest != again) {
                printf("# class %s seed %llu is not deterministic\n",
                       class->name, (unsigned long long)seed);
                ok = false;
            }
        }
        seed++;
        count++;
    }
    printf("%sok %u - sim swarm %s: %lu histories, %llu completions\n",
           ok ? "" : "not ", number, class->name, count,
           (unsigned long long)done);
    fflush(stdout);
    return !ok;
}

/* Lines "CLASS SEED"; # begins a comment. */
static unsigned run_seeds(const SwarmArgs *a, unsigned *number)
{
    FILE *file = fopen(a->seeds_file, "r");
    uint64_t digest, done = 0;
    unsigned failed = 0, run = 0;
    char line[128], name[32];
    unsigned long long seed;

    if (!file) {
        perror(a->seeds_file);
        exit(2);
    }
    while (fgets(line, sizeof(line), file)) {
        if (line[0] == '#' || line[0] == '\n') {
            continue;
        }
        if (sscanf(line, "%31s %llu", name, &seed) != 2) {
            fprintf(stderr, "swarm: bad line in %s: %s", a->seeds_file, line);
            exit(2);
        }
        failed += !run_history(a, find_class(name), seed, &digest, &done);
        run++;
    }
    fclose(file);
    printf("%sok %u - sim seeds: %u that once failed\n", failed ? "not " : "",
           ++*number, run);
    return failed;
}

static int run_one(const SwarmArgs *a)
{
    const SwarmClass *class = a->class_name
                              ? find_class(a->class_name)
                              : &classes[a->seed % CLASS_COUNT];
    uint64_t digest, done = 0;
    bool ok = run_history(a, class, a->seed, &digest, &done);

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
            for (unsigned k = 0; k < CLASS_COUNT; k++) {
                printf("%s\n", classes[k].name);
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

static bool class_runs(const SwarmArgs *a, const SwarmClass *class)
{
    if (a->class_name) {
        return strcmp(a->class_name, class->name) == 0;
    }
    return class->draw != draw_uc || sim_caps[SIM_CAP_UC].present;
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
    if (a.one) {
        return run_one(&a);
    }
    for (unsigned i = 0; i < CLASS_COUNT; i++) {
        runs += class_runs(&a, &classes[i]);
    }
    for (unsigned i = 0; i < CLASS_COUNT; i++) {
        if (class_runs(&a, &classes[i])) {
            failed += run_class(&a, &classes[i], ++number,
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
