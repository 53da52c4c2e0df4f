/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How members of a link meet in a folder, and which files they do not touch. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "harness.h"
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MEMBERS 3

static char folder[64];
static uint64_t slept_ns;

/* Replaces the C library's function, so that pauses take no time. */
int nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)left;
    slept_ns += time->tv_sec * UINT64_C(1000000000) + time->tv_nsec;
    return 0;
}

/* The error with which flock() fails; 0: it does not fail. */
static int lock_fails;

/* Replaces the C library's function; calls the kernel. */
int flock(int fd, int operation)
{
    if (lock_fails) {
        errno = lock_fails;
        return -1;
    }
    return syscall(SYS_flock, fd, operation);
}

/* The name of a folder, which a member will create. */
static void begin(void)
{
    snprintf(folder, sizeof(folder), "/tmp/test_folder-XXXXXX");
    REQUIRE(mkdtemp(folder) && !rmdir(folder));
}

static const char *inside(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

/* The folder may contain nothing except the lock. */
static void end(void)
{
    CHECK(!unlink(inside("lock")));
    CHECK(!rmdir(folder));
}

static void count(void *opaque, int sock, const char *name)
{
    (void)name;
    CHECK(sock >= 0);
    ++*(unsigned *)opaque;
    close(sock);
}

/* Joins a member. Returns the number of other members that it finds. */
static unsigned join(LinkFolder *member)
{
    unsigned found = 0;

    REQUIRE(link_folder_join(member, folder, count, &found) == NULL);
    return found;
}

static const char *refusal(const char *path)
{
    LinkFolder member = { 0 };
    unsigned found = 0;

    return link_folder_join(&member, path, count, &found);
}

static void joining_member_finds_all_others(void)
{
    LinkFolder members[MEMBERS];

    begin();
    for (unsigned i = 0; i < MEMBERS; i++) {
        CHECK_EQ(join(&members[i]), i);
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        for (unsigned k = i + 1; k < MEMBERS; k++) {
            int sock = link_folder_accept(&members[i]);

            CHECK(sock >= 0);
            close(sock);
        }
        CHECK(link_folder_accept(&members[i]) < 0);
        link_folder_leave(&members[i]);
    }
    end();
}

typedef struct Missed {
    unsigned times;
    int why;
    char name[64];
} Missed;

static void miss(void *opaque, int sock, const char *name)
{
    Missed *missed = opaque;

    missed->why = errno;
    CHECK(sock < 0);
    missed->times++;
    snprintf(missed->name, sizeof(missed->name), "%s", name);
}

/* Opens connections until the member accepts no more. */
static unsigned fill_backlog(const LinkFolder *member, int *socks, unsigned max)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", member->socket);
    for (unsigned i = 0; i < max; i++) {
        socks[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
        REQUIRE(socks[i] >= 0);
        if (connect(socks[i], (struct sockaddr *)&address, sizeof(address))) {
            CHECK_EQ(errno, EAGAIN);
            return i + 1;
        }
    }
    REQUIRE(false);
    return 0;
}

/* A member is stopped, and its queue of connections is full. */
static void unreachable_member_is_named(void)
{
    LinkFolder busy, member;
    Missed missed = { 0 };
    int socks[200];
    unsigned filled;

    begin();
    CHECK_EQ(join(&busy), 0);
    filled = fill_backlog(&busy, socks, TEST_COUNT(socks));
    CHECK(link_folder_join(&member, folder, miss, &missed) == NULL);
    CHECK_EQ(missed.times, 1);
    CHECK_EQ(missed.why, EAGAIN);
    CHECK(!strcmp(missed.name, strrchr(busy.socket, '/') + 1));
    CHECK(!access(busy.socket, F_OK));
    link_folder_leave(&member);
    link_folder_leave(&busy);
    for (unsigned i = 0; i < filled; i++) {
        close(socks[i]);
    }
    end();
}

/* A socket that a killed member left behind. */
static void leave_socket(const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", inside(name));
    REQUIRE(!bind(sock, (struct sockaddr *)&address, sizeof(address)));
    close(sock);
}

static void sockets_of_dead_members_are_removed(void)
{
    LinkFolder member;

    begin();
    REQUIRE(!mkdir(folder, 0700));
    leave_socket("1-0.member");
    leave_socket("2-0.member");
    CHECK_EQ(join(&member), 0);
    CHECK(access(inside("1-0.member"), F_OK) && errno == ENOENT);
    CHECK(access(inside("2-0.member"), F_OK) && errno == ENOENT);
    link_folder_leave(&member);
    end();
}

/* Other files refuse connections, too, but they must not be removed. */
static void other_files_are_not_removed(void)
{
    LinkFolder member;
    struct stat st;

    begin();
    REQUIRE(!mkdir(folder, 0700));
    close(open(inside("letter.member"), O_CREAT | O_WRONLY, 0600));
    REQUIRE(!symlink("letter.member", inside("sign.member")));
    REQUIRE(!mkdir(inside("house.member"), 0700));
    CHECK_EQ(join(&member), 0);
    CHECK(!lstat(inside("letter.member"), &st) && S_ISREG(st.st_mode));
    CHECK(!lstat(inside("sign.member"), &st) && S_ISLNK(st.st_mode));
    unlink(inside("letter.member"));
    unlink(inside("sign.member"));
    CHECK(!rmdir(inside("house.member")));
    link_folder_leave(&member);
    end();
}

/* A process that may write to the socket can become a peer. */
static void sockets_are_accessible_to_owner_only(void)
{
    LinkFolder member;
    struct stat st;
    mode_t mask = umask(0);

    begin();
    REQUIRE(!mkdir(folder, 0755));
    CHECK_EQ(join(&member), 0);
    umask(mask);
    CHECK(!stat(member.socket, &st) && S_ISSOCK(st.st_mode));
    CHECK_EQ(st.st_mode & (S_IRWXG | S_IRWXO), 0);
    link_folder_leave(&member);
    end();
}

static void unsafe_folders_are_refused(void)
{
    begin();
    REQUIRE(!mkdir(folder, 0700));
    CHECK(!chmod(folder, 0770) && refusal(folder));
    CHECK(!chmod(folder, 0707) && refusal(folder));
    CHECK(!chmod(folder, 0700));
    REQUIRE(!symlink(".", inside("sign")));
    CHECK(refusal(inside("sign")));
    REQUIRE(!unlink(inside("sign")) && !symlink("there", inside("lock")));
    CHECK(refusal(folder));
    CHECK(access(inside("there"), F_OK));
    end();
    CHECK(refusal("/dev/null"));
    CHECK(refusal("/nowhere/at/all"));
}

/* Joining from the monitor stalls the guest, so the wait is limited. */
static void wait_for_lock_ends_after_a_second(void)
{
    const char *why;
    int lock;

    begin();
    REQUIRE(!mkdir(folder, 0700));
    lock = open(inside("lock"), O_CREAT | O_RDWR, 0600);
    REQUIRE(lock >= 0 && !flock(lock, LOCK_EX));
    slept_ns = 0;
    why = refusal(folder);
    CHECK(why && strstr(why, "locked by a member"));
    CHECK_EQ(slept_ns, 1000000000);
    close(lock);
    end();
}

/* On a file system without locks, waiting would be useless. */
static void folder_without_locks_is_refused_at_once(void)
{
    static const int reasons[] = { ENOLCK, EOPNOTSUPP };

    begin();
    for (unsigned i = 0; i < TEST_COUNT(reasons); i++) {
        const char *why;

        slept_ns = 0;
        lock_fails = reasons[i];
        why = refusal(folder);
        CHECK_EQ(errno, reasons[i]);
        lock_fails = 0;
        CHECK(why && strstr(why, "cannot be locked"));
        CHECK_EQ(slept_ns, 0);
    }
    end();
}

/* The caller gets the reason. */
static void folder_that_cannot_be_opened_is_an_error(void)
{
    struct rlimit all, none;
    const char *why;
    int reason;

    begin();
    REQUIRE(!mkdir(folder, 0700));
    REQUIRE(!getrlimit(RLIMIT_NOFILE, &all));
    none = (struct rlimit) { 0, all.rlim_max };
    slept_ns = 0;
    REQUIRE(!setrlimit(RLIMIT_NOFILE, &none));
    why = refusal(folder);
    reason = errno;
    REQUIRE(!setrlimit(RLIMIT_NOFILE, &all));
    CHECK(why && strstr(why, "cannot be opened"));
    CHECK_EQ(reason, EMFILE);
    CHECK_EQ(slept_ns, 0);
    CHECK(!rmdir(folder));
}

/* The folder can be created, but its path leaves no room for a socket. */
static void long_names_are_refused(void)
{
    char path[128], *name = path + 100;
    const char *why;

    begin();
    REQUIRE(!mkdir(folder, 0700));
    memset(path, 'x', 100);
    memcpy(path, inside(""), strlen(inside("")));
    *name = '\0';
    why = refusal(path);
    CHECK(why && strstr(why, "too long"));
    strcpy(name, "/lock");
    CHECK(!unlink(path));
    *name = '\0';
    CHECK(!rmdir(path));
    CHECK(!rmdir(folder));
}

static const Test tests[] = {
    TEST(joining_member_finds_all_others),
    TEST(unreachable_member_is_named),
    TEST(sockets_of_dead_members_are_removed),
    TEST(other_files_are_not_removed),
    TEST(sockets_are_accessible_to_owner_only),
    TEST(unsafe_folders_are_refused),
    TEST(wait_for_lock_ends_after_a_second),
    TEST(folder_without_locks_is_refused_at_once),
    TEST(folder_that_cannot_be_opened_is_an_error),
    TEST(long_names_are_refused),
};

TEST_MAIN(tests)
