/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Makes allocations fail on kernels without fault injection, like
 * /proc/PID/fail-nth and require-start. It can also fail the n-th allocation
 * of softirqs and of kernel threads.
 *
 * Files in /sys/kernel/debug/failing:
 * nth     A write of n makes the n-th allocation from now on fail. A read
 *         returns how many are left; 0: one has failed.
 * times   How many allocations in a row fail.
 * who     Whose allocations count, a sum of 1 for the task that wrote n, 2 for
 *         tasks of programs, 4 for kernel threads, 8 for softirqs.
 * start, end  Only allocations by code between these addresses, and by
 *         functions that it calls, count.
 * spared0_start, spared0_end, ...  Allocations below this code do not count.
 * chance  If it is not 0, that many in a thousand fail at random, and nth has
 *         no effect. seed is that of the random numbers.
 * failed  How many allocations have failed.
 *
 * Of allocations with the same call chain only the first two count, so that a
 * loop fails in its first round and once in a later one. Allocations with
 * __GFP_NOFAIL do not count.
 */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/jhash.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/stacktrace.h>

#define FRAMES 64
#define WAYS_BITS 14
#define EACH 2
#define SPARED 8

enum who { WRITER = 1, TASKS = 2, THREADS = 4, SOFTIRQS = 8 };

static struct dentry *folder;
static u64 start, end;
static u64 spared[SPARED][2];
static u32 who = WRITER;
static struct task_struct *target;
/* Of all below. Lockdep forbids what may be taken in an NMI, which a probe
 * seems to be, but never is: allocations are not made there. */
static arch_spinlock_t lock = __ARCH_SPIN_LOCK_UNLOCKED;
static bool armed;
static u64 left;
static u64 times = 1, rest;
static u32 chance, seed;
static u32 failed;
/* How often each way was taken. */
static u8 taken[1 << WAYS_BITS];

/* What an allocation is made to be instead, or their number. */
static noinline notrace void *give_nothing(void)
{
    return NULL;
}

/* A probe that is a breakpoint (a kernel without the function tracer) counts as
 * an NMI, which counts as an interrupt, too. */
static bool in_interrupt_handler(void)
{
    return hardirq_count() > (in_nmi() ? HARDIRQ_OFFSET : 0);
}

static bool is_asked(void)
{
    u32 asked = READ_ONCE(who);

    if ((!READ_ONCE(armed) && !READ_ONCE(chance)) || in_interrupt_handler()) {
        return false;
    }
    if (in_serving_softirq()) {
        return asked & SOFTIRQS;
    }
    if (asked & WRITER && READ_ONCE(target) == current) {
        return true;
    }
    return asked & (current->flags & PF_KTHREAD ? THREADS : TASKS);
}

static bool is_spared(unsigned long address)
{
    unsigned int i;

    for (i = 0; i < SPARED; i++) {
        if (address >= spared[i][0] && address < spared[i][1]) {
            return true;
        }
    }
    return false;
}

/* The call chain from the driver's outermost function to the allocation; 0: not
 * in the driver, or spared. Code below an interrupt does not count. A
 * breakpoint is such an interrupt itself. Frame pointers from there miss the
 * caller, as the function has not pushed its own yet. */
static u32 find_way(struct pt_regs *regs)
{
    unsigned long frames[FRAMES], *from = frames;
    unsigned int i, deep = 0;
    unsigned int count = stack_trace_save(frames, FRAMES, 0);

    if (in_nmi()) {
        i = filter_irq_stacks(frames, count);
        from += i;
        count -= i;
    }
    count = filter_irq_stacks(from, count);
    if (from > frames) {
        *--from = *(unsigned long *)kernel_stack_pointer(regs);
        count++;
    }
    for (i = 0; i < count; i++) {
        if (is_spared(from[i])) {
            return 0;
        }
        if (from[i] >= start && from[i] < end) {
            deep = i + 1;
        }
    }
    return deep ? jhash(from, deep * sizeof(*from), 0) | 1 : 0;
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

/* Caller holds the lock. */
static bool is_to_fail(u32 way)
{
    if (chance) {
        seed = seed * 1664525 + 1013904223;
        return (seed >> 16) % 1000 < chance;
    }
    if (!armed || (left && (is_taken_often(way) || --left))) {
        return false;
    }
    if (!--rest) {
        WRITE_ONCE(armed, false);
    }
    return true;
}

/* A function that allocates; its argument, from 0 on, that is gfp_t. */
struct place {
    struct kprobe probe;
    unsigned int gfp;
};

static int before(struct kprobe *probe, struct pt_regs *regs)
{
    unsigned int gfp = container_of(probe, struct place, probe)->gfp;
    unsigned long flags;
    bool fails;
    u32 way;

    if (!is_asked() || regs_get_kernel_argument(regs, gfp) & __GFP_NOFAIL) {
        return 0;
    }
    way = find_way(regs);
    if (!way) {
        return 0;
    }
    local_irq_save(flags);
    arch_spin_lock(&lock);
    fails = is_to_fail(way);
    failed += fails;
    arch_spin_unlock(&lock);
    local_irq_restore(flags);
    if (fails) {
        instruction_pointer_set(regs, (unsigned long)give_nothing);
    }
    return fails;
}

/* With a post handler a probe may change where the function continues. */
static void after(struct kprobe *probe, struct pt_regs *regs,
                  unsigned long flags)
{
}

#define PLACE(name, at) { \
    .probe = { .symbol_name = name, .pre_handler = before, \
               .post_handler = after }, \
    .gfp = at }
/* Behind the size there is one of buckets, if they have those. */
#define BUCKET IS_ENABLED(CONFIG_SLAB_BUCKETS)

static struct place places[] = {
    PLACE("__kmalloc_noprof", 1),
    PLACE("__kmalloc_cache_noprof", 1),
    PLACE("__kmalloc_cache_node_noprof", 1),
    PLACE("__kmalloc_node_noprof", 1 + BUCKET),
    PLACE("__kmalloc_node_track_caller_noprof", 1 + BUCKET),
    PLACE("__kvmalloc_node_noprof", 1 + BUCKET),
    PLACE("kmem_cache_alloc_noprof", 1),
    PLACE("kmem_cache_alloc_node_noprof", 1),
    PLACE("kmem_cache_alloc_lru_noprof", 2),
    PLACE("kmem_cache_alloc_bulk_noprof", 1),
    PLACE("__alloc_pages_noprof", 0),
    PLACE("alloc_pages_bulk_noprof", 0),
    PLACE("pcpu_alloc_noprof", 3),
    PLACE("__vmalloc_node_range_noprof", 4),
};

static int nth_set(void *data, u64 value)
{
    local_irq_disable();
    arch_spin_lock(&lock);
    left = value;
    rest = times;
    memset(taken, 0, sizeof(taken));
    WRITE_ONCE(target, value ? current : NULL);
    WRITE_ONCE(armed, value && rest);
    arch_spin_unlock(&lock);
    local_irq_enable();
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
        unregister_kprobe(&places[count].probe);
    }
}

static int __init failing_init(void)
{
    char name[32];
    int i, ret;

    for (i = 0; i < ARRAY_SIZE(places); i++) {
        ret = register_kprobe(&places[i].probe);
        if (ret) {
            pr_err("no %s: %d\n", places[i].probe.symbol_name, ret);
            forget(i);
            return ret;
        }
    }
    folder = debugfs_create_dir("failing", NULL);
    debugfs_create_x64("start", 0600, folder, &start);
    debugfs_create_x64("end", 0600, folder, &end);
    for (i = 0; i < SPARED; i++) {
        snprintf(name, sizeof(name), "spared%d_start", i);
        debugfs_create_x64(name, 0600, folder, &spared[i][0]);
        snprintf(name, sizeof(name), "spared%d_end", i);
        debugfs_create_x64(name, 0600, folder, &spared[i][1]);
    }
    debugfs_create_u32("who", 0600, folder, &who);
    debugfs_create_u64("times", 0600, folder, &times);
    debugfs_create_u32("chance", 0600, folder, &chance);
    debugfs_create_u32("seed", 0600, folder, &seed);
    debugfs_create_u32("failed", 0600, folder, &failed);
    debugfs_create_file("nth", 0600, folder, NULL, &nth_file);
    return 0;
}
module_init(failing_init);

static void __exit failing_exit(void)
{
    debugfs_remove(folder);
    forget(ARRAY_SIZE(places));
}
module_exit(failing_exit);

MODULE_DESCRIPTION("Allocations that fail on request");
MODULE_LICENSE("GPL");
