/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A server with two clients on a hub: one READs, the other WRITEs. The server
 * is slow: it alternates between receiving all frames and sending a limited
 * number. Clients do their work at once. No client may wait until the other's
 * work ends. The test counts frames, not time.
 */
#include "pair.h"

#define READERS      8
#define READ_PACKETS 256

typedef struct Hub {
    Pair p;                     /* a WRITEs, b is the server */
    PairHost reader;
    uint32_t qpn[READERS];      /* at the reader */
    struct {
        uint8_t *frame;
        size_t len;
    } in[8192];                 /* frames that the server has not received */
    unsigned in_count;
} Hub;

/* Queues all frames of a client for the server. */
static void client_sends(Hub *hub, PairHost *client)
{
    uint8_t buf[ROCE_FRAME_MAX];
    bool loopback;
    size_t len;

    while ((len = roce_output(client->r, hub->p.now, buf, &loopback)) > 0) {
        REQUIRE(hub->in_count < TEST_COUNT(hub->in));
        hub->in[hub->in_count].frame = malloc(len);
        memcpy(hub->in[hub->in_count].frame, buf, len);
        hub->in[hub->in_count++].len = len;
    }
}

static void server_takes(Hub *hub)
{
    for (unsigned i = 0; i < hub->in_count; i++) {
        CHECK_EQ(roce_input(hub->p.b.r, hub->p.now, hub->in[i].frame,
                            hub->in[i].len), ROCE_INPUT_TAKEN);
        free(hub->in[i].frame);
    }
    hub->in_count = 0;
}

/* The server sends up to 'turn' frames to its clients. Returns their number. */
static unsigned server_sends(Hub *hub, unsigned turn)
{
    uint8_t buf[ROCE_FRAME_MAX];
    unsigned frames = 0;
    bool loopback;
    size_t len;

    while (frames < turn && (len = roce_output(hub->p.b.r, hub->p.now, buf,
                                               &loopback)) > 0) {
        frames++;
        roce_input(hub->p.a.r, hub->p.now, buf, len);
        roce_input(hub->reader.r, hub->p.now, buf, len);
    }
    return frames;
}

static void hub_post(Hub *hub, PairHost *from, uint8_t opcode, unsigned count,
                     unsigned packets)
{
    while (count--) {
        RoceSendWr wr = pair_rdma_wr(from, &hub->p.b, count, opcode, 0,
                                     packets * PAIR_MTU);

        pair_send(&hub->p, from, &wr);
    }
}

static Hub *hub_new(unsigned readers)
{
    Hub *hub = calloc(1, sizeof(*hub));
    PairHost server;

    pair_init(&hub->p, FAKERNIC_QP_RC);
    pair_host_init(&hub->reader, 3);
    server = hub->p.b;
    for (unsigned i = 0; i < readers; i++) {
        pair_create(&hub->reader, FAKERNIC_QP_RC);
        pair_create(&server, FAKERNIC_QP_RC);
        pair_connect(&hub->reader, &server, FAKERNIC_QP_RC);
        pair_connect(&server, &hub->reader, FAKERNIC_QP_RC);
        hub->qpn[i] = hub->reader.qpn;
    }
    return hub;
}

static void hub_free(Hub *hub)
{
    pair_free(&hub->p);
    roce_free(hub->reader.r);
    fake_host_free(hub->reader.host);
    free(hub);
}

static unsigned good(PairHost *h)
{
    const RoceCompletion *c;
    unsigned count = 0;

    while ((c = fake_next_completion(h->host))) {
        CHECK_EQ(c->status, FAKERNIC_WC_SUCCESS);
        count++;
    }
    fake_clear_logs(h->host);
    return count;
}

/*
 * Both clients have more work than the server can do. The server sends 'turn'
 * frames before it receives again. At least one packet must be written per
 * 'ratio' frames that it sends, and half of these frames must be READ data.
 */
static void shares(unsigned readers, unsigned turn, unsigned ratio)
{
    const unsigned enough = 40000;
    Hub *hub = hub_new(readers);
    unsigned sent = 0, reads = 0, writes = 0;

    hub_post(hub, &hub->p.a, FAKERNIC_SQ_RDMA_WRITE, 200, READ_PACKETS);
    for (unsigned i = 0; i < readers; i++) {
        hub->reader.qpn = hub->qpn[i];
        hub_post(hub, &hub->reader, FAKERNIC_SQ_RDMA_READ, 250, READ_PACKETS);
    }
    while (sent < enough) {
        client_sends(hub, &hub->reader);
        client_sends(hub, &hub->p.a);
        server_takes(hub);
        sent += server_sends(hub, turn);
        writes += good(&hub->p.a);
        reads += good(&hub->reader);
        fake_clear_logs(hub->p.b.host);
    }
    writes *= READ_PACKETS;
    reads *= READ_PACKETS;
    printf("# %u QPs that READ, turns of %u: %u packets written beside %u "
           "read\n", readers, turn, writes, reads);
    CHECK(writes >= enough / ratio);
    CHECK(reads >= enough / 2);
    server_takes(hub);
    hub_free(hub);
}

/* As in the device: work beyond the budget of a turn waits for the next one. */
static void writes_get_their_share_with_turns(void)
{
    shares(1, 256, 3);
    shares(READERS, 256, 3);
}

/* Without turns the window of the READs still limits the wait of a WRITE. */
static void writes_get_their_share_without_turns(void)
{
    shares(1, UINT32_MAX, 6);
}

static const Test tests[] = {
    TEST(writes_get_their_share_with_turns),
    TEST(writes_get_their_share_without_turns),
};

TEST_MAIN(tests)
