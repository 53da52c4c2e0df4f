/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For programs that make mistakes: prints a TAP line per refusal, and whether a
 * group of refusals left an object of the kernel (rdma resource show), pinned
 * memory (VmPin), or an object of the protection domain, which then could not
 * be deallocated.
 */
#ifndef REFUSAL_H
#define REFUSAL_H

#include "verbs_pair.h"

#define PAGE 4096

static unsigned count, bad;
static struct endpoint end;

/* error: what a verb returned, or errno of one that returned NULL. */
static inline void report(const char *name, int error, int wanted)
{
    bool good = error == wanted;

    printf("%sok %u - %s\n", good ? "" : "not ", ++count, name);
    if (!good) {
        printf("# errno %d (%s), wanted %d (%s)\n", error, strerror(error),
               wanted, strerror(wanted));
        bad++;
    }
}

/* For a verb that returns an error number, or -1 and errno. */
#define FAILS(wanted, call) \
    do { \
        int ret_ = (errno = 0, (call)); \
        report(#call, ret_ < 0 ? errno : ret_, wanted); \
    } while (0)

/* For a verb that returns an object. An object made by mistake stays. */
#define MAKES_NOTHING(wanted, call) \
    report(#call, (errno = 0, (call)) ? 0 : errno, wanted)

/* Returns the current objects as text. */
struct belongings {
    char objects[256];
    char pinned[64];
};

static inline void look(struct belongings *now)
{
    char line[256];
    FILE *file;

    memset(now, 0, sizeof(*now));
    snprintf(line, sizeof(line), "rdma resource show %s",
             ibv_get_device_name(end.context->device));
    file = popen(line, "r");
    if (!file || !fgets(now->objects, sizeof(now->objects), file)) {
        die("rdma resource show");
    }
    pclose(file);
    file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof(line), file)) {
        if (!strncmp(line, "VmPin:", 6)) {
            snprintf(now->pinned, sizeof(now->pinned), "%.60s", line);
        }
    }
    fclose(file);
}

/* One of the device's counters. */
static inline uint64_t counter(const char *name)
{
    unsigned long value;
    char path[256];
    FILE *file;

    usleep(50000);              /* the kernel keeps them for 10 ms */
    snprintf(path, sizeof(path),
             "/sys/class/infiniband/%s/hw_counters/%s",
             ibv_get_device_name(end.context->device), name);
    file = fopen(path, "r");
    if (!file || fscanf(file, "%lu", &value) != 1) {
        die("%s", path);
    }
    fclose(file);
    return value;
}

/* Runs a group of refusals with a protection domain of its own. */
static inline void group(const char *name, void (*run)(void))
{
    struct ibv_pd *outer = end.pd;
    struct belongings before, after;

    printf("# %s\n", name);
    look(&before);
    end.pd = ibv_alloc_pd(end.context);
    if (!end.pd) {
        die("ibv_alloc_pd");
    }
    run();
    FAILS(0, ibv_dealloc_pd(end.pd));
    end.pd = outer;
    look(&after);
    report("nothing is left", memcmp(&before, &after, sizeof(before)) ?
           EBUSY : 0, 0);
    if (memcmp(&before, &after, sizeof(before))) {
        printf("# before: %s# after: %s# before: %s# after: %s",
               before.objects, after.objects, before.pinned, after.pinned);
    }
}

#endif
