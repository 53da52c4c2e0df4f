/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Compares every byte that UCX moves: ucx_verify [-s] [HOST].
 *
 * Messages of growing size go to the server, which answers each with inverted
 * bytes. Then the same sizes are put into the server's memory and read back.
 * Finally there are atomic operations. With -s both sides sleep for events,
 * otherwise they poll. UCX_TLS and UCX_NET_DEVICES select transport and device.
 */
#include "../meet.h"

#include <ucp/api/ucp.h>

#define PORT "18517"
#define SIZE_MAX_BYTES (1 << 20)
#define ADDRESS_MAX 4096
#define ROUNDS 4

static const size_t sizes[] = { 1, 64, 1000, 4096, 65536, SIZE_MAX_BYTES };

/* What the sides exchange, of fixed length. */
struct card {
    uint64_t address_length, key_length, memory;
    unsigned char address[ADDRESS_MAX], key[ADDRESS_MAX];
};

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h peer;
static bool sleeps;
static unsigned char *window, *out, *in;

static void must(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
        exit(1);
    }
}

static void progress(void)
{
    if (!ucp_worker_progress(worker) && sleeps) {
        must(ucp_worker_wait(worker), "wait");
    }
}

static void finish(ucs_status_ptr_t request, const char *what)
{
    ucs_status_t status = UCS_PTR_STATUS(request);

    if (UCS_PTR_IS_PTR(request)) {
        while ((status = ucp_request_check_status(request)) ==
               UCS_INPROGRESS) {
            progress();
        }
        ucp_request_free(request);
    }
    must(status, what);
}

static void send_message(const void *data, size_t size)
{
    ucp_request_param_t none = { 0 };

    finish(ucp_tag_send_nbx(peer, data, size, 1, &none), "send");
}

static void receive_message(void *data, size_t size)
{
    ucp_request_param_t none = { 0 };

    finish(ucp_tag_recv_nbx(worker, data, size, 1, ~0ULL, &none), "receive");
}

static unsigned char pattern(size_t at, size_t size, int round)
{
    return at * 7 + size / 3 + round * 31 + (at >> 8) * 13;
}

static void fill(unsigned char *data, size_t size, int round)
{
    for (size_t at = 0; at < size; at++) {
        data[at] = pattern(at, size, round);
    }
}

/* MASK is 0, or 0xff for bytes that were turned over. */
static void compare(const unsigned char *data, size_t size, int round,
                    unsigned char mask)
{
    for (size_t at = 0; at < size; at++) {
        if (data[at] != (pattern(at, size, round) ^ mask)) {
            fprintf(stderr, "byte %zu is %02x and not %02x, of %zu\n", at,
                    data[at], pattern(at, size, round) ^ mask, size);
            exit(1);
        }
    }
}

static void open_ucx(struct card *card)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA |
                    UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64 |
                    (sleeps ? UCP_FEATURE_WAKEUP : 0),
    };
    ucp_worker_params_t alone = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    ucp_mem_map_params_t map = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                      UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = window, .length = SIZE_MAX_BYTES,
    };
    ucp_address_t *address;
    ucp_mem_h memory;
    void *key;

    must(ucp_init(&params, NULL, &context), "ucp_init");
    must(ucp_worker_create(context, &alone, &worker), "worker");
    must(ucp_worker_get_address(worker, &address, &card->address_length),
         "address");
    must(ucp_mem_map(context, &map, &memory), "memory");
    must(ucp_rkey_pack(context, memory, &key, &card->key_length), "key");
    card->memory = (uintptr_t)window;
    if (card->address_length > ADDRESS_MAX || card->key_length > ADDRESS_MAX) {
        must(UCS_ERR_BUFFER_TOO_SMALL, "address");
    }
    memcpy(card->address, address, card->address_length);
    memcpy(card->key, key, card->key_length);
}

/* The window of the peer, and what its first SIZE bytes are. */
struct counter {
    const struct card *card;
    ucp_rkey_h key;
    size_t size;
    uint64_t value;
};

static uint64_t result(ucp_atomic_op_t op, uint64_t value, uint64_t operand)
{
    switch (op) {
    case UCP_ATOMIC_OP_ADD:
        return value + operand;
    case UCP_ATOMIC_OP_AND:
        return value & operand;
    case UCP_ATOMIC_OP_OR:
        return value | operand;
    case UCP_ATOMIC_OP_XOR:
        return value ^ operand;
    default:
        return operand;
    }
}

/* One operation. THEN is what CSWAP stores, if it finds OPERAND. */
static void atomic(struct counter *counter, ucp_atomic_op_t op,
                   uint64_t operand, uint64_t then)
{
    uint64_t mask = counter->size == 8 ? ~0ULL : 0xffffffff, reply = then;
    uint64_t value = counter->value;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE |
                        UCP_OP_ATTR_FIELD_REPLY_BUFFER,
        .datatype = ucp_dt_make_contig(counter->size),
        .reply_buffer = &reply,
    };

    finish(ucp_atomic_op_nbx(peer, op, &operand, 1, counter->card->memory,
                             counter->key, &param),
           "atomic operation");
    if (((reply ^ value) & mask) != 0) {
        fprintf(stderr, "operation %d of %zu bytes found %#llx and not %#llx\n",
                op, counter->size, (unsigned long long)(reply & mask),
                (unsigned long long)(value & mask));
        exit(1);
    }
    if (op == UCP_ATOMIC_OP_CSWAP) {
        operand = (operand ^ value) & mask ? value : then;
    }
    counter->value = (result(op, value, operand) & mask) | (value & ~mask);
}

/* Each of them; what is then in the window goes to the server. */
static void ask_atomics(const struct card *card, ucp_rkey_h key, size_t size)
{
    struct counter counter = { card, key, size, 0x11223344fffffff0 };
    ucp_request_param_t none = { 0 };

    finish(ucp_put_nbx(peer, &counter.value, sizeof(counter.value),
                       card->memory, key, &none),
           "put");
    finish(ucp_ep_flush_nbx(peer, &none), "flush");
    /* Into the upper half, if that is part of it. */
    atomic(&counter, UCP_ATOMIC_OP_ADD, 0x25, 0);
    atomic(&counter, UCP_ATOMIC_OP_OR, 0xff00ff00, 0);
    atomic(&counter, UCP_ATOMIC_OP_XOR, 0x0ff00ff0, 0);
    atomic(&counter, UCP_ATOMIC_OP_AND, ~0xf0ULL, 0);
    atomic(&counter, UCP_ATOMIC_OP_CSWAP, counter.value, 77);
    atomic(&counter, UCP_ATOMIC_OP_CSWAP, counter.value + 1, 78);
    atomic(&counter, UCP_ATOMIC_OP_SWAP, 0xabcdef1234, 0);
    atomic(&counter, UCP_ATOMIC_OP_ADD, ~0ULL, 0);
    send_message(&counter.value, sizeof(counter.value));
    receive_message(in, 1);
}

static void serve_atomics(void)
{
    uint64_t value;

    receive_message(&value, sizeof(value));
    if (memcmp(window, &value, sizeof(value))) {
        fprintf(stderr, "wrong bytes after atomic operations\n");
        exit(1);
    }
    send_message(in, 1);
}

static void serve(void)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        for (int round = 0; round < ROUNDS; round++) {
            receive_message(in, sizes[i]);
            compare(in, sizes[i], round, 0);
            for (size_t at = 0; at < sizes[i]; at++) {
                in[at] ^= 0xff;
            }
            send_message(in, sizes[i]);
        }
        /* The client has put as much into the window. */
        receive_message(in, 1);
        compare(window, sizes[i], ROUNDS, 0);
        send_message(in, 1);
    }
    serve_atomics();
    serve_atomics();
}

static void ask(const struct card *card)
{
    ucp_request_param_t none = { 0 };
    ucp_rkey_h key;

    must(ucp_ep_rkey_unpack(peer, card->key, &key), "key of the peer");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        for (int round = 0; round < ROUNDS; round++) {
            fill(out, sizes[i], round);
            send_message(out, sizes[i]);
            receive_message(in, sizes[i]);
            compare(in, sizes[i], round, 0xff);
        }
        fill(out, sizes[i], ROUNDS);
        finish(ucp_put_nbx(peer, out, sizes[i], card->memory, key, &none),
               "put");
        finish(ucp_ep_flush_nbx(peer, &none), "flush");
        memset(in, 0, sizes[i]);
        finish(ucp_get_nbx(peer, in, sizes[i], card->memory, key, &none),
               "get");
        compare(in, sizes[i], ROUNDS, 0);
        send_message(out, 1);
        receive_message(in, 1);
    }
    ask_atomics(card, key, 4);
    ask_atomics(card, key, 8);
}

int main(int argc, char **argv)
{
    static struct card own, theirs;
    ucp_ep_params_t end = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
        .address = (void *)theirs.address,
    };
    const char *host;
    int sock;

    sleeps = argc > 1 && !strcmp(argv[1], "-s");
    host = argv[1 + sleeps];
    window = malloc(SIZE_MAX_BYTES);
    out = malloc(SIZE_MAX_BYTES);
    in = malloc(SIZE_MAX_BYTES);
    if (!window || !out || !in) {
        must(UCS_ERR_NO_MEMORY, "buffers");
    }
    open_ucx(&own);
    sock = meet(host, PORT);
    swap(sock, &own, &theirs, sizeof(own));
    must(ucp_ep_create(worker, &end, &peer), "end point");
    if (host) {
        ask(&theirs);
    } else {
        serve();
    }
    /* What UCX has still to acknowledge goes before its peer does. */
    {
        ucp_request_param_t none = { 0 };

        finish(ucp_ep_flush_nbx(peer, &none), "flush");
    }
    swap(sock, &own, &theirs, 1);
    return 0;
}
