/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Compares what librpma writes, flushes and reads: rpma_verify [-c] ADDRESS.
 *
 * The server registers memory and listens at ADDRESS. The client (-c) writes
 * each size there, flushes it for global visibility, writes its first eight
 * bytes by ATOMIC WRITE, and reads all of it back. librpma falls back to READ
 * and WRITE on a device without FLUSH and ATOMIC WRITE, so the client also
 * checks the opcodes of the completions. In the end the server compares its
 * memory with what the client wrote last.
 */
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT "18519"
#define MEMORY (1 << 20)
#define CONNECT_MS 20000
#define ATOMIC RPMA_ATOMIC_WRITE_ALIGNMENT

static const size_t sizes[] = { 64, 1000, 4096, 65536, MEMORY };

static struct rpma_peer *peer;
static long compared;

static void must(int ret, const char *what)
{
    if (ret) {
        fprintf(stderr, "%s: %s\n", what, rpma_err_2str(ret));
        exit(1);
    }
}

static unsigned char *allocate(void)
{
    unsigned char *memory = aligned_alloc(4096, MEMORY);

    if (!memory) {
        perror("memory");
        exit(1);
    }
    memset(memory, 0, MEMORY);
    return memory;
}

static unsigned char pattern(size_t at, size_t size)
{
    return at * 7 + size / 3 + (at >> 8) * 13;
}

static void atomic_value(char value[ATOMIC], size_t size)
{
    snprintf(value, ATOMIC, "%07zu", size);
}

/* The first bytes are the atomic value, the rest is the pattern of SIZE. */
static void compare(const unsigned char *data, size_t size)
{
    char value[ATOMIC];

    atomic_value(value, size);
    for (size_t at = 0; at < size; at++) {
        unsigned char right = at < ATOMIC ? (unsigned char)value[at]
                                          : pattern(at, size);

        if (data[at] != right) {
            fprintf(stderr, "byte %zu is %02x and not %02x, of %zu\n", at,
                    data[at], right, size);
            exit(1);
        }
        compared++;
    }
}

static void expect_event(struct rpma_conn *conn, enum rpma_conn_event wanted)
{
    enum rpma_conn_event event;

    must(rpma_conn_next_event(conn, &event), "connection event");
    if (event != wanted) {
        fprintf(stderr, "%s instead of %s\n",
                rpma_utils_conn_event_2str(event),
                rpma_utils_conn_event_2str(wanted));
        exit(1);
    }
}

static void open_peer(const char *address,
                      enum rpma_util_ibv_context_type type)
{
    struct ibv_context *context;

    must(rpma_utils_get_ibv_context(address, type, &context), "device");
    must(rpma_peer_new(context, &peer), "peer");
}

static struct rpma_mr_local *reg(void *memory, int usage)
{
    struct rpma_mr_local *mr;

    must(rpma_mr_reg(peer, memory, MEMORY, usage, &mr), "registration");
    return mr;
}

static void serve(const char *address)
{
    unsigned char descriptor[255], *memory = allocate();
    struct rpma_conn_private_data told = { descriptor, 0 };
    struct rpma_conn_req *request;
    struct rpma_mr_local *mr;
    struct rpma_conn *conn;
    struct rpma_ep *ep;
    size_t size;

    open_peer(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
    mr = reg(memory, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC |
                         RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
    must(rpma_mr_get_descriptor_size(mr, &size), "descriptor size");
    must(size > sizeof(descriptor) ? RPMA_E_INVAL : 0, "descriptor size");
    must(rpma_mr_get_descriptor(mr, descriptor), "descriptor");
    told.len = size;
    must(rpma_ep_listen(peer, address, PORT, &ep), "listen");
    must(rpma_ep_next_conn_req(ep, NULL, &request), "request");
    must(rpma_conn_req_connect(&request, &told, &conn), "accept");
    expect_event(conn, RPMA_CONN_ESTABLISHED);
    expect_event(conn, RPMA_CONN_CLOSED);
    compare(memory, MEMORY);
    printf("%ld bytes of the server's memory compared\n", compared);
    rpma_conn_disconnect(conn);
    must(rpma_conn_delete(&conn), "end of the connection");
    must(rpma_ep_shutdown(&ep), "end of the endpoint");
    must(rpma_mr_dereg(&mr), "deregistration");
    must(rpma_peer_delete(&peer), "end of the peer");
}

static void await(struct rpma_conn *conn, enum ibv_wc_opcode wanted,
                  const char *what)
{
    struct rpma_cq *cq;
    struct ibv_wc wc;
    int ret;

    must(rpma_conn_get_cq(conn, &cq), "cq");
    while ((ret = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION) {
        must(rpma_cq_wait(cq), "wait");
    }
    must(ret, "completion");
    if (wc.status != IBV_WC_SUCCESS || wc.opcode != wanted) {
        fprintf(stderr, "%s: %s, opcode %d instead of %d\n", what,
                ibv_wc_status_str(wc.status), wc.opcode, wanted);
        exit(1);
    }
}

static struct rpma_conn *join(const char *address,
                              struct rpma_mr_remote **remote)
{
    struct rpma_conn_private_data told;
    struct rpma_conn_req *request;
    struct rpma_conn_cfg *cfg;
    struct rpma_conn *conn;

    open_peer(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
    must(rpma_conn_cfg_new(&cfg), "configuration");
    must(rpma_conn_cfg_set_timeout(cfg, CONNECT_MS), "time limit");
    must(rpma_conn_req_new(peer, address, PORT, cfg, &request), "request");
    must(rpma_conn_req_connect(&request, NULL, &conn), "connect");
    expect_event(conn, RPMA_CONN_ESTABLISHED);
    must(rpma_conn_get_private_data(conn, &told), "private data");
    must(rpma_mr_remote_from_descriptor(told.ptr, told.len, remote),
         "descriptor");
    rpma_conn_cfg_delete(&cfg);
    return conn;
}

static void use(const char *address)
{
    unsigned char *out = allocate(), *in = allocate();
    struct rpma_mr_local *source, *target;
    struct rpma_mr_remote *remote;
    struct rpma_conn *conn = join(address, &remote);
    const int done = RPMA_F_COMPLETION_ALWAYS;

    source = reg(out, RPMA_MR_USAGE_WRITE_SRC);
    target = reg(in, RPMA_MR_USAGE_READ_DST);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        size_t size = sizes[i];
        char value[ATOMIC];

        for (size_t at = 0; at < size; at++) {
            out[at] = pattern(at, size);
        }
        must(rpma_write(conn, remote, 0, source, 0, size,
                        RPMA_F_COMPLETION_ON_ERROR, NULL),
             "write");
        must(rpma_flush(conn, remote, 0, size, RPMA_FLUSH_TYPE_VISIBILITY,
                        done, NULL),
             "flush");
        await(conn, IBV_WC_FLUSH, "flush");
        atomic_value(value, size);
        must(rpma_atomic_write(conn, remote, 0, value, done, NULL),
             "atomic write");
        await(conn, IBV_WC_ATOMIC_WRITE, "atomic write");
        must(rpma_read(conn, target, 0, remote, 0, size, done, NULL), "read");
        await(conn, IBV_WC_RDMA_READ, "read");
        compare(in, size);
    }
    printf("%ld bytes compared, by FLUSH and ATOMIC WRITE\n", compared);
    must(rpma_mr_remote_delete(&remote), "end of the remote memory");
    must(rpma_conn_disconnect(conn), "disconnect");
    expect_event(conn, RPMA_CONN_CLOSED);
    must(rpma_conn_delete(&conn), "end of the connection");
    must(rpma_mr_dereg(&source), "deregistration");
    must(rpma_mr_dereg(&target), "deregistration");
    must(rpma_peer_delete(&peer), "end of the peer");
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "-c")) {
        use(argv[2]);
    } else if (argc == 2) {
        serve(argv[1]);
    } else {
        fprintf(stderr, "usage: rpma_verify [-c] ADDRESS\n");
        return 2;
    }
    return 0;
}
