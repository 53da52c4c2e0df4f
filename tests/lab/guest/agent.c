/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fakernic-lab-agent: runs the host's commands in a guest.
 *
 * Serves every virtio port named org.fakernic.lab.N with a process of its own,
 * which runs one command at a time. Host and agent exchange lines of text:
 *
 *   from the host  hello NONCE         start a new session; kill a running command
 *                  run ARGV            start a command
 *                  pty ROWS COLS ARGV  start it at a terminal
 *                  in DATA             write to its standard input; without
 *                                      DATA: close that
 *                  size ROWS COLS      set the size of its terminal
 *   to the host    hello NONCE
 *                  pid NUMBER          the command has started
 *                  out DATA, err DATA  its output
 *                  exit CODE           it has ended; 128 + the signal
 *
 * DATA is base64. ARGV is the base64 of strings that each end with a NUL byte.
 * If the host disconnects, the command is killed with its process group.
 *
 * fakernic-lab-agent serve PORT PROGRAM ARG...: runs the program for each TCP
 * connection to this port, which is its standard input and output, as inetd
 * does: sshd costs a guest nothing until a client connects. Returns when it
 * listens.
 *
 * fakernic-lab-agent set-up STEP WORD... STEP WORD...: carries out steps of the
 * set-up of a machine that starts from a snapshot, in one process, until one
 * fails. The table "steps" lists them. As a command of the host it starts no
 * program: emulated, each program costs more than all the steps.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/if_addr.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PORTS "/sys/class/virtio-ports"
#define PREFIX "org.fakernic.lab."
#define PORTS_MAX 32
#define LINE_SIZE (512 * 1024)
#define CHUNK 12288 /* bytes of output in a line, which has 4/3 of that */
#define ARGS_MAX 1024
#define END_OF_FILE 4 /* Ctrl-D, to a terminal */

#define NAME "fakernic-lab-agent"
#define SET_UP "set-up"
#define INFINIBAND "/sys/class/infiniband"
#define PCI "/sys/bus/pci"
#define CARD_MS 20000    /* the longest wait for the card */
#define WAIT_MS 60000    /* the longest other wait of a step */
#define ASK_MS 20        /* the first wait for a peer's answer; each doubles */
#define LOOK_US 1000     /* between two looks at it */
#define GIDS_MAX 16      /* looked at: the addresses are among the first */

static const char digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static struct {
    int port;
    pid_t pid;      /* of the command; 0 if none runs */
    int input;      /* its standard input; -1 if closed */
    int source[2];  /* its standard output and error; -1 if closed */
    int terminal;   /* its terminal, which input and source[0] are; or -1 */
    char *line;     /* received bytes that are not processed yet */
    size_t line_size;
    char *pending;  /* bytes not yet written to its standard input */
    size_t pending_size, pending_done;
    bool ending;    /* close its standard input after them */
    char out[4 * CHUNK];
    size_t out_size;
} s;

/* ---- base64 -------------------------------------------------------------- */

static size_t encode(char *to, const unsigned char *from, size_t size)
{
    size_t length = 0;

    for (size_t i = 0; i < size; i += 3) {
        unsigned left = size - i;
        unsigned word = from[i] << 16 | (left > 1 ? from[i + 1] << 8 : 0) |
                        (left > 2 ? from[i + 2] : 0);

        to[length++] = digits[word >> 18];
        to[length++] = digits[word >> 12 & 63];
        to[length++] = left > 1 ? digits[word >> 6 & 63] : '=';
        to[length++] = left > 2 ? digits[word & 63] : '=';
    }
    return length;
}

/* Decodes in place. Stops at the first byte that is not a digit of base64. */
static size_t decode(char *text)
{
    size_t length = 0;
    unsigned word = 0;
    int bits = 0;

    for (char *from = text; *from; from++) {
        const char *digit = strchr(digits, *from);

        if (!digit) {
            break;
        }
        word = word << 6 | (unsigned)(digit - digits);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            text[length++] = (char)(word >> bits & 255);
        }
    }
    return length;
}

/* ---- to the host --------------------------------------------------------- */

static void flush_out(void)
{
    while (s.out_size) {
        ssize_t sent = write(s.port, s.out, s.out_size);

        if (sent <= 0) {
            return;
        }
        s.out_size -= (size_t)sent;
        memmove(s.out, s.out + sent, s.out_size);
    }
}

static bool has_room(void)
{
    return s.out_size + 2 * CHUNK < sizeof(s.out);
}

/* Adds a short line. forward() always leaves room for it: has_room(). */
static void say(const char *word, const char *value)
{
    s.out_size += (size_t)snprintf(s.out + s.out_size, 128, "%s %.100s\n", word,
                                   value);
}

static void say_number(const char *word, long value)
{
    char text[24];

    snprintf(text, sizeof(text), "%ld", value);
    say(word, text);
}

/* ---- the command --------------------------------------------------------- */

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

static void close_input(void)
{
    if (s.terminal < 0) {
        close_fd(&s.input);
    }
    s.input = -1;
    s.pending_size = s.pending_done = 0;
    s.ending = false;
}

static void close_source(int *source)
{
    if (s.terminal < 0) {
        close_fd(source);
    }
    *source = -1;
}

static void close_all(void)
{
    close_input();
    close_source(&s.source[0]);
    close_source(&s.source[1]);
    close_fd(&s.terminal);
}

static void end_command(void)
{
    if (s.pid) {
        kill(-s.pid, SIGKILL);
        kill(s.pid, SIGKILL);
        waitpid(s.pid, NULL, 0);
        s.pid = 0;
    }
    close_all();
}

/* Sends output of the command to the host. False: there is none now. */
static bool forward(int *source, const char *word)
{
    unsigned char data[CHUNK];
    ssize_t size = read(*source, data, sizeof(data));

    if (size <= 0) {
        if (size == 0 || errno != EAGAIN) {
            close_source(source);
        }
        return false;
    }
    memcpy(s.out + s.out_size, word, 4);
    s.out_size += 4;
    s.out_size += encode(s.out + s.out_size, data, (size_t)size);
    s.out[s.out_size++] = '\n';
    return true;
}

/* Sends the output that is left when the command has ended. Its children may
 * still run and keep the pipes open, so do not wait for their end. */
static void drain(void)
{
    static const char *const words[] = { "out ", "err " };

    for (int i = 0; i < 2; i++) {
        while (s.source[i] >= 0 && forward(&s.source[i], words[i])) {
            for (int tries = 0; !has_room() && tries < 1000; tries++) {
                struct pollfd room = { .fd = s.port, .events = POLLOUT };

                poll(&room, 1, 10);
                flush_out();
            }
            if (!has_room()) {
                return;
            }
        }
    }
}

static void look_for_end(void)
{
    int status;

    if (!s.pid || waitpid(s.pid, &status, WNOHANG) != s.pid) {
        return;
    }
    s.pid = 0;
    drain();
    close_all();
    say_number("exit", WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                           : WEXITSTATUS(status));
}

static char **split(char *text, size_t size)
{
    static char *argv[ARGS_MAX + 1];
    int count = 0;

    for (size_t i = 0; i < size && count < ARGS_MAX;) {
        argv[count++] = text + i;
        i += strlen(text + i) + 1;
    }
    argv[count] = NULL;
    return argv;
}

static int set_up(char *const argv[]);

static void become(char *const argv[])
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (!strcmp(argv[0], NAME) && argv[1] && !strcmp(argv[1], SET_UP)) {
        close_range(3, ~0U, 0); /* as if a program started */
        _exit(set_up(argv + 2));
    }
    execvp(argv[0], argv);
    dprintf(2, "fakernic-lab-agent: %s: %s\n", argv[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

static pid_t start_at_pipes(char *const argv[])
{
    int in[2], out[2], err[2];

    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) ||
        pipe2(err, O_CLOEXEC)) {
        return -1;
    }
    pid_t pid = fork();

    if (pid == 0) {
        setsid();
        dup2(in[0], 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        become(argv);
    }
    close(in[0]);
    close(out[1]);
    close(err[1]);
    s.input = in[1];
    s.source[0] = out[0];
    s.source[1] = err[0];
    fcntl(s.source[1], F_SETFL, O_NONBLOCK);
    return pid;
}

static pid_t start_at_terminal(char *const argv[], struct winsize *size)
{
    pid_t pid = forkpty(&s.terminal, NULL, NULL, size);

    if (pid == 0) {
        become(argv);
    }
    fcntl(s.terminal, F_SETFD, FD_CLOEXEC);
    s.input = s.source[0] = s.terminal;
    return pid;
}

static void start(char *text, struct winsize *size)
{
    char **argv = split(text, decode(text));
    pid_t pid;

    end_command();
    if (!argv[0]) {
        say_number("exit", 127);
        return;
    }
    pid = size ? start_at_terminal(argv, size) : start_at_pipes(argv);
    if (pid < 0) {
        close_all();
        say_number("exit", 126);
        return;
    }
    fcntl(s.input, F_SETFL, O_NONBLOCK);
    fcntl(s.source[0], F_SETFL, O_NONBLOCK);
    s.pid = pid;
    say_number("pid", pid);
}

/* ---- from the host ------------------------------------------------------- */

static void feed(void)
{
    while (s.pending_done < s.pending_size) {
        ssize_t size = write(s.input, s.pending + s.pending_done,
                             s.pending_size - s.pending_done);

        if (size < 0 && errno == EAGAIN) {
            return;
        }
        if (size <= 0) {
            close_input();
            return;
        }
        s.pending_done += (size_t)size;
    }
    s.pending_size = s.pending_done = 0;
    if (s.ending) {
        close_input();
    }
}

static void take_input(char *text)
{
    if (s.input < 0) {
        return;
    }
    s.ending = !*text && s.terminal < 0;
    s.pending_size = decode(text);
    s.pending_done = 0;
    memcpy(s.pending, text, s.pending_size);
    if (!s.pending_size && s.terminal >= 0) {
        s.pending[s.pending_size++] = END_OF_FILE;
    }
    feed();
}

static void obey(char *line)
{
    struct winsize size = { 0 };
    int at = 0;

    if (!strncmp(line, "hello ", 6)) {
        end_command();
        s.out_size = 0;
        say("\nhello", line + 6);
    } else if (!strncmp(line, "run ", 4)) {
        start(line + 4, NULL);
    } else if (sscanf(line, "pty %hu %hu %n", &size.ws_row, &size.ws_col,
                      &at) == 2 && at) {
        start(line + at, &size);
    } else if (sscanf(line, "size %hu %hu", &size.ws_row, &size.ws_col) == 2) {
        if (s.terminal >= 0) {
            ioctl(s.terminal, TIOCSWINSZ, &size);
        }
    } else if (!strncmp(line, "in", 2)) {
        take_input(line + (line[2] ? 3 : 2));
    }
}

/* Obeys complete lines. Stops while input is pending: there is only one buffer
 * for bytes that the command has not read. */
static void obey_lines(void)
{
    char *end;

    while (!s.pending_size && (end = memchr(s.line, '\n', s.line_size))) {
        size_t size = (size_t)(end - s.line) + 1;

        *end = '\0';
        obey(s.line);
        s.line_size -= size;
        memmove(s.line, s.line + size, s.line_size);
    }
    if (s.line_size == LINE_SIZE) {
        s.line_size = 0;
    }
}

/* Reads from the port. False: no host is connected. */
static bool listen_to_host(void)
{
    ssize_t size = read(s.port, s.line + s.line_size, LINE_SIZE - s.line_size);

    if (size == 0) {
        end_command();
        s.line_size = s.out_size = 0;
        return false;
    }
    if (size > 0) {
        s.line_size += (size_t)size;
    }
    return true;
}

/* Waits at most 1 s for work. False: no host is connected. */
static bool wait_for_work(bool host)
{
    struct timespec soon = { .tv_sec = 1 };
    struct pollfd fds[4] = {
        { .fd = host ? s.port : -1,
          .events = (short)((s.pending_size ? 0 : POLLIN) |
                            (s.out_size ? POLLOUT : 0)) },
        { .fd = has_room() ? s.source[0] : -1, .events = POLLIN },
        { .fd = has_room() ? s.source[1] : -1, .events = POLLIN },
        { .fd = s.pending_size ? s.input : -1, .events = POLLOUT },
    };
    sigset_t none;

    sigemptyset(&none);
    if (ppoll(fds, 4, &soon, &none) < 0) {
        return true;
    }
    return !(fds[0].revents & POLLHUP);
}

static void nothing(int number)
{
    (void)number;
}

/* Unblocks signals only in wait_for_work(): SIGCHLD, and SIGIO, with which the
 * port reports that a host has connected. */
static void hear_signals(void)
{
    sigset_t all;

    signal(SIGCHLD, nothing);
    signal(SIGIO, nothing);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&all);
    sigaddset(&all, SIGCHLD);
    sigaddset(&all, SIGIO);
    sigprocmask(SIG_BLOCK, &all, NULL);
    fcntl(s.port, F_SETOWN, getpid());
    fcntl(s.port, F_SETFL, O_NONBLOCK | O_ASYNC);
}

static void serve(const char *path)
{
    bool host = true;

    s.port = open(path, O_RDWR | O_CLOEXEC);
    s.input = s.source[0] = s.source[1] = s.terminal = -1;
    s.line = malloc(LINE_SIZE + 1);
    s.pending = malloc(LINE_SIZE);
    if (s.port < 0 || !s.line || !s.pending) {
        _exit(1);
    }
    hear_signals();
    for (;;) {
        if (!wait_for_work(host) || !s.pending_size) {
            host = listen_to_host();
        }
        obey_lines();
        if (s.pending_size) {
            feed();
        }
        for (int i = 0; i < 2; i++) {
            if (s.source[i] >= 0 && has_room()) {
                forward(&s.source[i], i ? "err " : "out ");
            }
        }
        look_for_end();
        flush_out();
    }
}

/* ---- the ports ----------------------------------------------------------- */

static bool is_ours(const char *port)
{
    char path[300], name[sizeof(PREFIX)] = "";
    FILE *file;

    snprintf(path, sizeof(path), PORTS "/%s/name", port);
    file = fopen(path, "re");
    if (!file) {
        return false;
    }
    bool found = fgets(name, sizeof(name), file) && !strcmp(name, PREFIX);

    fclose(file);
    return found;
}

/* Serves the ports that are not served yet. Returns the number of served
 * ports. */
static int serve_ports(void)
{
    static char served[PORTS_MAX][32];
    static int count;
    DIR *folder = opendir(PORTS);
    struct dirent *entry;

    while (folder && (entry = readdir(folder)) && count < PORTS_MAX) {
        char path[300];
        bool known = entry->d_name[0] == '.' || strlen(entry->d_name) > 31;

        for (int i = 0; i < count; i++) {
            known = known || !strcmp(served[i], entry->d_name);
        }
        if (known || !is_ours(entry->d_name)) {
            continue;
        }
        strcpy(served[count++], entry->d_name);
        snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
        if (!fork()) {
            serve(path);
        }
    }
    if (folder) {
        closedir(folder);
    }
    return count;
}

/* ---- programs for connections -------------------------------------------- */

/* A socket for both families, or for IPv4 if the kernel has no other. */
static int listen_at(unsigned short port)
{
    struct sockaddr_in6 both = { .sin6_family = AF_INET6,
                                 .sin6_port = htons(port) };
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port) };
    const struct sockaddr *address = (const struct sockaddr *)&both;
    socklen_t size = sizeof(both);
    const int on = 1, off = 0;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    } else {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        address = (const struct sockaddr *)&four;
        size = sizeof(four);
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, address, size) || listen(fd, SOMAXCONN)) {
        return -1;
    }
    return fd;
}

static void serve_connections(int listener, char *const argv[])
{
    int none = open("/dev/null", O_RDWR | O_CLOEXEC);

    setsid();
    for (int fd = 0; fd < 3; fd++) {
        dup2(none, fd);
    }
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (connection >= 0 && !fork()) {
            signal(SIGCHLD, SIG_DFL);
            dup2(connection, 0);
            dup2(connection, 1);
            become(argv);
        }
        if (connection >= 0) {
            close(connection);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            usleep(100000);
        }
    }
}

static int serve_port(char *const argv[])
{
    int listener = listen_at((unsigned short)atoi(argv[0]));

    if (listener < 0) {
        fprintf(stderr, "fakernic-lab-agent: port %s: %s\n", argv[0],
                strerror(errno));
        return 1;
    }
    if (!fork()) {
        serve_connections(listener, argv + 1);
    }
    return 0;
}

/* ---- the set-up after the load of a snapshot ----------------------------- */

/* A step returns 0, or -1 with errno. */

/* MODE PATH TEXT: writes a file. */
static int write_file(char *const words[])
{
    const size_t size = strlen(words[2]);
    int fd = open(words[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                  (mode_t)strtoul(words[0], NULL, 8));

    if (fd < 0) {
        return -1;
    }
    bool done = write(fd, words[2], size) == (ssize_t)size;

    return close(fd) || !done ? -1 : 0;
}

/* TEXT: mixes it into the kernel's random numbers at once. Machines that start
 * from one snapshot would get equal numbers without it. */
static int mix(char *const words[])
{
    static union {
        struct rand_pool_info info;
        char room[sizeof(struct rand_pool_info) + 256];
    } pool;
    int random = open("/dev/urandom", O_RDWR | O_CLOEXEC);

    pool.info.buf_size = (int)strnlen(words[0], 256);
    pool.info.entropy_count = 8 * pool.info.buf_size;
    memcpy(pool.info.buf, words[0], (size_t)pool.info.buf_size);
    if (random < 0 || ioctl(random, RNDADDENTROPY, &pool) ||
        ioctl(random, RNDRESEEDCRNG)) {
        return -1;
    }
    return close(random);
}

/* SECONDS NANOSECONDS: sets the clock. */
static int set_clock(char *const words[])
{
    struct timespec now = { .tv_sec = atoll(words[0]),
                            .tv_nsec = atoll(words[1]) };

    return clock_settime(CLOCK_REALTIME, &now);
}

/* Lets drivers bind to the PCI devices without one, and to later devices. */
static int probe(char *const words[])
{
    char *again[] = { "0", PCI "/drivers_autoprobe", "1" };
    DIR *folder = opendir(PCI "/devices");
    struct dirent *entry;

    (void)words;
    if (!folder || write_file(again)) {
        return -1;
    }
    while ((entry = readdir(folder))) {
        char path[300];
        char *one[] = { "0", PCI "/drivers_probe", entry->d_name };

        snprintf(path, sizeof(path), PCI "/devices/%s/driver", entry->d_name);
        if (entry->d_name[0] != '.' && access(path, F_OK) && write_file(one)) {
            return -1;
        }
    }
    return closedir(folder);
}

/* TAG FOLDER HOW OPTIONS: mounts a folder of the host, HOW "ro" or "rw". */
static int mount_folder(char *const words[])
{
    char *path = words[1];

    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0755);
        *at = '/';
    }
    mkdir(path, 0755);          /* mount() reports what is missing */
    return mount(words[0], path, "9p", strcmp(words[2], "ro") ? 0 : MS_RDONLY,
                 words[3]);
}

/* A request to the kernel's network configuration. */
typedef union Request {
    struct nlmsghdr head;
    char bytes[256];
} Request;

static void append(Request *r, const void *data, size_t size)
{
    memcpy(r->bytes + NLMSG_ALIGN(r->head.nlmsg_len), data, size);
    r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) + (unsigned)size;
}

static void append_attribute(Request *r, unsigned short type, const void *data,
                             size_t size)
{
    struct rtattr head = { .rta_len = (unsigned short)RTA_LENGTH(size),
                           .rta_type = type };

    append(r, &head, sizeof(head));
    append(r, data, size);
}

static int ask_kernel(Request *r)
{
    struct {
        struct nlmsghdr head;
        struct nlmsgerr error;
        char room[256];
    } answer;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

    r->head.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
    if (fd < 0 || send(fd, r, r->head.nlmsg_len, 0) < 0 ||
        recv(fd, &answer, sizeof(answer), 0) <
            (ssize_t)NLMSG_LENGTH(sizeof(int))) {
        return -1;
    }
    close(fd);
    errno = -answer.error.error;
    return errno ? -1 : 0;
}

static int start_interface(unsigned index, unsigned mtu)
{
    struct ifinfomsg link = { .ifi_index = (int)index, .ifi_flags = IFF_UP,
                              .ifi_change = IFF_UP };
    Request r = { .head = { .nlmsg_len = NLMSG_HDRLEN,
                            .nlmsg_type = RTM_NEWLINK } };

    append(&r, &link, sizeof(link));
    if (mtu) {
        append_attribute(&r, IFLA_MTU, &mtu, sizeof(mtu));
    }
    return ask_kernel(&r);
}

/* No other machine has the address, so it is not checked for duplicates. */
static int add_address(unsigned index, int family, const char *text,
                       unsigned char prefix)
{
    struct ifaddrmsg message = { .ifa_family = (unsigned char)family,
                                 .ifa_prefixlen = prefix,
                                 .ifa_flags = IFA_F_NODAD,
                                 .ifa_index = index };
    Request r = { .head = { .nlmsg_len = NLMSG_HDRLEN,
                            .nlmsg_type = RTM_NEWADDR,
                            .nlmsg_flags = NLM_F_CREATE | NLM_F_REPLACE } };
    const size_t size = family == AF_INET ? 4 : 16;
    unsigned char address[16];

    if (inet_pton(family, text, address) != 1) {
        errno = EINVAL;
        return -1;
    }
    if (family == AF_INET) {
        message.ifa_flags = 0;
    }
    append(&r, &message, sizeof(message));
    append_attribute(&r, IFA_LOCAL, address, size);
    append_attribute(&r, IFA_ADDRESS, address, size);
    return ask_kernel(&r);
}

/* The first entry of a folder. */
static bool first_of(const char *path, char name[64])
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    bool found = false;

    while (folder && !found && (entry = readdir(folder))) {
        found = entry->d_name[0] != '.' && strlen(entry->d_name) < 64;
        if (found) {
            strcpy(name, entry->d_name);
        }
    }
    if (folder) {
        closedir(folder);
    }
    return found;
}

static bool has_card(char ibdev[64], char netdev[64])
{
    char path[200];

    if (!first_of(INFINIBAND, ibdev)) {
        return false;
    }
    snprintf(path, sizeof(path), INFINIBAND "/%s/device/net", ibdev);
    return first_of(path, netdev);
}

/* The number of RoCEv2 GIDs. */
static int gids(const char *ibdev)
{
    int found = 0;

    for (int i = 0; i < GIDS_MAX; i++) {
        char path[200], type[32] = "";
        int fd;

        snprintf(path, sizeof(path),
                 INFINIBAND "/%s/ports/1/gid_attrs/types/%d", ibdev, i);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            found += read(fd, type, sizeof(type) - 1) > 0 && strstr(type, "v2");
            close(fd);
        }
    }
    return found;
}

/* Milliseconds since the boot. */
static long long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1000LL * now.tv_sec + now.tv_nsec / 1000000;
}

/* Connects to a TCP port, which need not be open: a refusal is an answer, too.
 * Returns an error number. */
static int ask_peer(int family, const struct sockaddr *address, socklen_t size,
                    int wait_ms)
{
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pollfd room = { .fd = fd, .events = POLLOUT };
    int error = connect(fd, address, size) ? errno : 0;
    socklen_t length = sizeof(error);

    if (error == EINPROGRESS) {
        error = ETIMEDOUT;
        if (poll(&room, 1, wait_ms) == 1) {
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
        }
    }
    close(fd);
    return error == ECONNREFUSED ? 0 : error;
}

/* ADDRESS: waits until another machine answers. */
static int reach(char *const words[])
{
    const int family = strchr(words[0], ':') ? AF_INET6 : AF_INET;
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(1) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6,
                                .sin6_port = htons(1) };
    const bool is_six = family == AF_INET6;
    const struct sockaddr *address = is_six ? (struct sockaddr *)&six
                                            : (struct sockaddr *)&four;
    const socklen_t size = is_six ? sizeof(six) : sizeof(four);
    const long long end = now_ms() + WAIT_MS;
    int wait_ms = ASK_MS;

    if (inet_pton(family, words[0], is_six ? (void *)&six.sin6_addr
                                           : (void *)&four.sin_addr) != 1) {
        errno = EINVAL;
        return -1;
    }
    while (now_ms() < end) {
        if (!ask_peer(family, address, size, wait_ms)) {
            return 0;
        }
        usleep(LOOK_US);
        wait_ms = wait_ms < WAIT_MS ? 2 * wait_ms : WAIT_MS;
    }
    errno = EHOSTUNREACH;
    return -1;
}

/* IP4 IP6 MTU: gives the card's interface these addresses, and an MTU unless
 * that is 0. Prints the RDMA device, the interface, and the number of their
 * GIDs, with that of the link-local address: one if the kernel has no IPv6. */
static int bring_up(char *const words[])
{
    const bool six = !access("/proc/net/if_inet6", F_OK);
    long long end = now_ms() + CARD_MS;
    const int wanted = six ? 3 : 1;
    char ibdev[64], netdev[64];
    unsigned index;

    while (!has_card(ibdev, netdev)) {
        if (now_ms() > end) {
            dprintf(2, "no RDMA device with a network interface\n");
            errno = ENODEV;
            return -1;
        }
        usleep(LOOK_US);
    }
    index = if_nametoindex(netdev);
    if (!index || start_interface(index, (unsigned)atoi(words[2])) ||
        add_address(index, AF_INET, words[0], 24) ||
        (six && add_address(index, AF_INET6, words[1], 64))) {
        return -1;
    }
    /* The kernel takes a moment until an IPv6 address can be used. */
    if (six && reach(words + 1)) {
        return -1;
    }
    end = now_ms() + WAIT_MS;
    while (gids(ibdev) < wanted) {
        if (now_ms() > end) {
            errno = ETIMEDOUT;
            return -1;
        }
        usleep(LOOK_US);
    }
    dprintf(1, "%s %s %d\n", ibdev, netdev, wanted);
    return 0;
}

/* PROGRAM CONFIGURATION: serves the port of ssh, if the machine has sshd. */
static int serve_ssh(char *const words[])
{
    char *argv[] = { "22", words[0], "-i", "-f", words[1], NULL };

    return !access(words[0], X_OK) && serve_port(argv) ? -1 : 0;
}

/* Gives a call of fakernic-wait its answer. LINE is "ID ANSWER". */
static void answer_call(const char *folder, char *line)
{
    char *answer = strchr(line, ' ');
    struct stat found;
    char path[300];
    int fd;

    if (!answer) {
        return;
    }
    *answer++ = '\0';
    snprintf(path, sizeof(path), "%s/%.40s", folder, line);
    if (line[strspn(line, "0123456789.")] || lstat(path, &found) ||
        !S_ISFIFO(found.st_mode)) {
        return;                 /* the call has ended */
    }
    /* Any program can fill a pipe here. Its own answer is lost then. */
    fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        dprintf(fd, "%s\n", answer);
        close(fd);
    }
}

/* Reads from the host. False: it has closed the input. */
static bool answer_calls(const char *folder)
{
    static char text[1024];
    static size_t size;
    ssize_t more = read(0, text + size, sizeof(text) - size);
    char *end;

    size += more > 0 ? (size_t)more : 0;
    while ((end = memchr(text, '\n', size))) {
        *end++ = '\0';
        answer_call(folder, text);
        size -= (size_t)(end - text);
        memmove(text, end, size);
    }
    size = size < sizeof(text) ? size : 0;
    return more > 0;
}

/* FOLDER: the listener of fakernic-wait (../fakernic_lab/meeting.py), until the
 * host closes its input. It keeps the pipe "calls" open: no writer blocks. */
static int listen_for_calls(char *const words[])
{
    char path[300], data[PIPE_BUF];
    int calls;

    umask(0);
    snprintf(path, sizeof(path), "%s/calls", words[0]);
    if (mkdir(words[0], 0777) || mkfifo(path, 0666)) {
        return -1;
    }
    calls = open(path, O_RDWR | O_CLOEXEC);
    dprintf(1, "ready\n");
    for (;;) {
        struct pollfd fds[2] = { { .fd = calls, .events = POLLIN },
                                 { .fd = 0, .events = POLLIN } };

        if (poll(fds, 2, -1) < 0) {
            continue;           /* a signal */
        }
        if (fds[0].revents) {
            ssize_t size = read(calls, data, sizeof(data));

            if (size <= 0 || write(1, data, (size_t)size) != size) {
                return -1;
            }
        }
        if (fds[1].revents && !answer_calls(words[0])) {
            return 0;
        }
    }
}

static const struct {
    const char *name;
    int words;
    int (*run)(char *const words[]);
} steps[] = {
    { "write", 3, write_file },
    { "seed", 1, mix },
    { "clock", 2, set_clock },
    { "probe", 0, probe },
    { "mount", 4, mount_folder },
    { "up", 3, bring_up },
    { "reach", 1, reach },
    { "ssh", 2, serve_ssh },
    { "listen", 1, listen_for_calls },
};

static int set_up(char *const argv[])
{
    while (*argv) {
        const char *name = *argv++;
        const size_t count = sizeof(steps) / sizeof(steps[0]);
        size_t i = 0;

        while (i < count && strcmp(steps[i].name, name)) {
            i++;
        }
        for (int word = 0; i < count && word < steps[i].words; word++) {
            i = argv[word] ? i : count;
        }
        if (i == count) {
            dprintf(2, NAME ": no step '%s', or a word is missing\n", name);
            return 2;
        }
        if (steps[i].run(argv)) {
            dprintf(2, NAME ": %s %.100s: %s\n", name,
                    steps[i].words ? argv[0] : "", strerror(errno));
            return 1;
        }
        argv += steps[i].words;
    }
    return 0;
}

int main(int argc, char *argv[])
{
    struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

    if (argc > 3 && !strcmp(argv[1], "serve")) {
        return serve_port(argv + 2);
    }
    if (argc > 1 && !strcmp(argv[1], SET_UP)) {
        return set_up(argv + 2);
    }
    setrlimit(RLIMIT_MEMLOCK, &unlimited);
    setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", 0);
    setenv("HOME", "/root", 0);
    setenv("LANG", "C.UTF-8", 0);
    setenv("TERM", "linux", 0);
    if (chdir(getenv("HOME"))) {
        perror("fakernic-lab-agent: home folder");
    }
    for (;;) {
        usleep(serve_ports() ? 1000000 : 50000);
    }
}
