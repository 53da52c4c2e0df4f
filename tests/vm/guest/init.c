/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Process 1 of a test guest, from the initrd on.
 *
 * Loads the modules named in /modules/order, mounts base (vda) and payload
 * (vdb), the kernel's own disk (vdc) if the initrd has a place for it, and the
 * disk that fakernic_tests= of the command line names, with a tmpfs over them
 * as the root, runs /usr/share/fakernic/boot.sh there, and then only reaps:
 * what a test starts is never its child's problem. CONSOLE is the serial port
 * of the architecture (-DCONSOLE="/dev/ttyS0"). Any failure panics the
 * guest (panic=-1 makes QEMU exit), with the reason on the console.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICE_WAIT_MS 20000

static void fail(const char *what)
{
    fprintf(stderr, "init: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void mount_or_fail(const char *source, const char *target,
                          const char *type, unsigned long flags,
                          const char *options)
{
    if (mount(source, target, type, flags, options)) {
        fail(target);
    }
}

static void load_module(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        fail(path);
    }
    if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST) {
        fail(path);
    }
    close(fd);
}

static void load_modules(void)
{
    char line[256];
    FILE *order = fopen("/modules/order", "r");

    if (!order) {
        fail("/modules/order");
    }
    while (fgets(line, sizeof(line), order)) {
        line[strcspn(line, "\n")] = '\0';
        load_module(line);
    }
    fclose(order);
}

static void wait_for(const char *path)
{
    for (int waited_ms = 0; waited_ms < DEVICE_WAIT_MS; waited_ms += 10) {
        if (!access(path, F_OK)) {
            return;
        }
        usleep(10000);
    }
    fail(path);
}

static void mount_disk(const char *disk, const char *target)
{
    wait_for(disk);
    mount_or_fail(disk, target, "erofs", MS_RDONLY, NULL);
}

static void enter_root(void)
{
    char disk[32] = "/dev/", options[128];
    const char *kernel = "", *tests = getenv("fakernic_tests");

    mount_disk("/dev/vda", "/base");
    mount_disk("/dev/vdb", "/payload");
    if (!access("/kernel", F_OK)) {
        mount_disk("/dev/vdc", "/kernel");
        kernel = "/kernel:";
    }
    if (tests) {
        mount_disk(strncat(disk, tests, 8), "/tests");
    }
    snprintf(options, sizeof(options), "lowerdir=%s/payload:%s/base,"
             "upperdir=/tmpfs/upper,workdir=/tmpfs/work", kernel,
             tests ? "/tests:" : "");
    mount_or_fail("tmpfs", "/tmpfs", "tmpfs", 0, "mode=755");
    if (mkdir("/tmpfs/upper", 0755) || mkdir("/tmpfs/work", 0755)) {
        fail("/tmpfs");
    }
    mount_or_fail("overlay", "/root", "overlay", 0, options);
    mount_or_fail("/dev", "/root/dev", NULL, MS_MOVE, NULL);
    mount_or_fail("/proc", "/root/proc", NULL, MS_MOVE, NULL);
    if (chdir("/root") || mount(".", "/", NULL, MS_MOVE, NULL) ||
        chroot(".") || chdir("/")) {
        fail("root");
    }
}

/* A child with TTY as its controlling terminal and standard files. */
static void spawn(const char *tty, char *const argv[])
{
    if (fork()) {
        return;
    }
    setsid();
    int fd = open(tty, O_RDWR);

    if (fd < 0) {
        fail(tty);
    }
    ioctl(fd, TIOCSCTTY, 1);
    dup2(fd, 0);
    dup2(fd, 1);
    dup2(fd, 2);
    if (fd > 2) {
        close(fd);
    }
    execv(argv[0], argv);
    fail(argv[0]);
}

int main(void)
{
    char *const boot[] = { "/bin/sh", "/usr/share/fakernic/boot.sh", NULL };

    mount_or_fail("proc", "/proc", "proc", 0, NULL);
    if (mount("dev", "/dev", "devtmpfs", 0, NULL) && errno != EBUSY) {
        fail("/dev");
    }
    load_modules();
    enter_root();

    clearenv();
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", 1);
    setenv("HOME", "/root", 1);
    setenv("TERM", "xterm-256color", 1);
    setenv("LANG", "C.UTF-8", 1);
    spawn(CONSOLE, boot);
    for (;;) {
        if (wait(NULL) < 0) {
            sleep(1);
        }
    }
}
