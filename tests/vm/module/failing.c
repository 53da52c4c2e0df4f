/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lets an allocation of a task fail, on kernels that are built without fault
 * injection: what /proc/PID/fail-nth and require-start are on those that are.
 *
 * In /sys/kernel/debug/failing: whoever writes n to "nth" has the n-th
 * allocation fail that it makes from now on, and as many as "times" says with
 * it; read, it is how many are left, 0 once one has failed. Only those count
 * that are made by code between the addresses "start" and "end", or by what
 * that has called, but not below "spared_start" to "spared_end"; and of those that are made in the same way, from there on,
 * the first two: a loop fails in its first round, and once in a later one.
 */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/jhash.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/stacktrace.h>

#define FRAMES 48
#define WAYS_BITS 14
#define EACH 2

static struct dentry *folder;
static u64 start, end;
static u64 spared_start, spared_end;
static struct task_struct *target;
static u64 left;
static u64 times = 1, rest;
/* How often each way was taken. */
static u8 taken[1 << WAYS_BITS];

/* What an allocation is made to be instead. */
static noinline notrace void *give_nothing(void)
{
    return NULL;
}

/* From the driver's outermost function down to the allocation; 0: it is not in
 * there, or is spared. */
static u32 find_way(void)
{
    unsigned long frames[FRAMES];
    unsigned int i, deep = 0;
    unsigned int count = stack_trace_save(frames, FRAMES, 0);

    for (i = 0; i < count; i++) {
        if (frames[i] >= spared_start && frames[i] < spared_end) {
            return 0;
        }
        if (frames[i] >= start && frames[i] < end) {
            deep = i + 1;
        }
    }
    return deep ? jhash(frames, deep * sizeof(frames[0]), 0) | 1 : 0;
}

static bool is_taken_often(u32 way)
{
    u8 *count = &taken[way >> (32 - WAYS_BITS)];

    if (*count == EACH) {
        return true;
    }
    ++*count;
    return false;
}

static int before(struct kprobe *probe, struct pt_regs *regs)
{
    u32 way;

    if (READ_ONCE(target) != current || !in_task()) {
        return 0;
    }
    way = find_way();
    if (!way || (left && (is_taken_often(way) || --left))) {
        return 0;
    }
    if (!--rest) {
        WRITE_ONCE(target, NULL);
    }
    instruction_pointer_set(regs, (unsigned long)give_nothing);
    return 1;
}

/* With one, a probe may say where the function goes on. */
static void after(struct kprobe *probe, struct pt_regs *regs,
                  unsigned long flags)
{
}

#define PROBE(name) { \
    .symbol_name = name, .pre_handler = before, .post_handler = after }

static struct kprobe probes[] = {
    PROBE("__kmalloc_noprof"),
    PROBE("__kmalloc_cache_noprof"),
    PROBE("__kmalloc_cache_node_noprof"),
    PROBE("__kmalloc_node_noprof"),
    PROBE("__kmalloc_node_track_caller_noprof"),
    PROBE("__kvmalloc_node_noprof"),
    PROBE("kmem_cache_alloc_noprof"),
    PROBE("kmem_cache_alloc_node_noprof"),
    PROBE("kmem_cache_alloc_lru_noprof"),
    PROBE("__alloc_pages_noprof"),
    PROBE("pcpu_alloc_noprof"),
    PROBE("__vmalloc_node_range_noprof"),
};

static int nth_set(void *data, u64 value)
{
    WRITE_ONCE(target, NULL);
    left = value;
    rest = times;
    memset(taken, 0, sizeof(taken));
    if (value && rest) {
        WRITE_ONCE(target, current);
    }
    return 0;
}

static int nth_get(void *data, u64 *value)
{
    *value = left;
    return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(nth_file, nth_get, nth_set, "%llu\n");

static void forget(int count)
{
    while (count--) {
        unregister_kprobe(&probes[count]);
    }
}

static int __init failing_init(void)
{
    int i, ret;

    for (i = 0; i < ARRAY_SIZE(probes); i++) {
        ret = register_kprobe(&probes[i]);
        if (ret) {
            pr_err("no %s: %d\n", probes[i].symbol_name, ret);
            forget(i);
            return ret;
        }
    }
    folder = debugfs_create_dir("failing", NULL);
    debugfs_create_x64("start", 0600, folder, &start);
    debugfs_create_x64("end", 0600, folder, &end);
    debugfs_create_x64("spared_start", 0600, folder, &spared_start);
    debugfs_create_x64("spared_end", 0600, folder, &spared_end);
    debugfs_create_u64("times", 0600, folder, &times);
    debugfs_create_file("nth", 0600, folder, NULL, &nth_file);
    return 0;
}
module_init(failing_init);

static void __exit failing_exit(void)
{
    debugfs_remove(folder);
    forget(ARRAY_SIZE(probes));
}
module_exit(failing_exit);

MODULE_DESCRIPTION("Allocations that fail on request");
MODULE_LICENSE("GPL");
