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
 * fakernic-lab-agent wake SECONDS NANOSECONDS: sets the clock, and mixes the
 * standard input into the kernel's random numbers at once. Machines that start
 * from one snapshot would get equal numbers without it.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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

static void become(char *const argv[])
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
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

/* ---- after the load of a snapshot ---------------------------------------- */

static int wake(char *const now[])
{
    struct timespec clock = { .tv_sec = atoll(now[0]),
                              .tv_nsec = atoll(now[1]) };
    static union {
        struct rand_pool_info info;
        char room[sizeof(struct rand_pool_info) + 256];
    } pool;
    int random = open("/dev/urandom", O_RDWR | O_CLOEXEC);

    pool.info.buf_size = (int)read(0, pool.info.buf, 256);
    pool.info.entropy_count = 8 * pool.info.buf_size;
    if (pool.info.buf_size <= 0 || ioctl(random, RNDADDENTROPY, &pool) ||
        ioctl(random, RNDRESEEDCRNG) ||
        clock_settime(CLOCK_REALTIME, &clock)) {
        perror("fakernic-lab-agent: wake");
        return 1;
    }
    return 0;
}

int main(int argc, char *argv[])
{
    struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };

    if (argc > 3 && !strcmp(argv[1], "serve")) {
        return serve_port(argv + 2);
    }
    if (argc == 4 && !strcmp(argv[1], "wake")) {
        return wake(argv + 2);
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
