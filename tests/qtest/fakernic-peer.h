/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A peer at the other end of the wire, written in the test. A stream socket
 * carries RoCEv2 packets over IPv4 between it and one device. The peer sends a
 * group of packets at once, like a network that was busy.
 */
#ifndef FAKERNIC_PEER_H
#define FAKERNIC_PEER_H

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include "fakernic-setup.h"

/*
 * The opcodes of RC packets that the peer uses (IBTA table 38). PEER_XRC turns
 * them into those of XRC.
 */
enum {
    PEER_SEND_FIRST = 0x00,
    PEER_SEND_LAST = 0x02,
    PEER_SEND_ONLY = 0x04,
    PEER_WRITE_ONLY = 0x0a,
    PEER_READ_REQUEST = 0x0c,
    PEER_READ_FIRST = 0x0d,
    PEER_READ_MIDDLE = 0x0e,
    PEER_READ_LAST = 0x0f,
    PEER_READ_ONLY = 0x10,
    PEER_ACK = 0x11,
    PEER_XRC = 0xa0,
};

/* Syndromes (IBTA table 44): an ACK without credits, NAKs. */
enum {
    PEER_ACKED = 0x1f,
    PEER_NAK_SEQUENCE = 0x60,
    PEER_NAK_INVALID_REQUEST = 0x61,
};

#define PEER_MTU     1024       /* the path MTU of connect_qp() */
#define PEER_PSN     0xfffffe   /* the first one each way in connect_qp() */
#define PEER_QPN     0x100      /* of the peer's first QP */
#define PEER_BTH     42         /* offset of the BTH in a frame */
#define PEER_BYTES   54         /* offset of the first byte behind the BTH */
#define PEER_MAX     (PEER_MTU + 64)
#define PEER_ROUNDS  10         /* of the main loop, then it is idle */
#define PEER_MASK    0xffffff

static const uint8_t peer_mac[6] = { 2, 0, 0, 0, 0, 9 };
static const uint8_t peer_gid[16] = { [10] = 0xff, 0xff, 10, 0, 0, 9 };

typedef struct Packet {
    uint8_t opcode;
    bool asks;                  /* requests an acknowledgement */
    bool mig_req;
    uint32_t qpn, psn;
    size_t len;
    uint8_t bytes[PEER_MAX];    /* behind the BTH; no ICRC */
} Packet;

typedef struct Peer {
    Machine m;
    Nic n;
    Setup s;
    int wire;
    GByteArray *out;            /* frames to send */
} Peer;

/* ---- packets ------------------------------------------------------------- */

static inline Packet packet_of(uint8_t opcode, uint32_t qpn, uint32_t psn)
{
    return (Packet) { .opcode = opcode, .qpn = qpn, .psn = psn & PEER_MASK };
}

/* Appends a number of 'size' bytes to a header. */
static inline void packet_number(Packet *packet, uint64_t value, size_t size)
{
    while (size-- > 0) {
        packet->bytes[packet->len++] = value >> 8 * size;
    }
}

static inline void packet_data(Packet *packet, uint8_t byte, size_t len)
{
    g_assert_cmpuint(packet->len + len, <=, PEER_MAX);
    memset(packet->bytes + packet->len, byte, len);
    packet->len += len;
}

static inline Packet packet_answer(uint8_t opcode, uint32_t qpn, uint32_t psn,
                                   uint8_t syndrome)
{
    Packet packet = packet_of(opcode, qpn, psn);

    packet_number(&packet, (uint32_t)syndrome << 24, 4);
    return packet;
}

/* Address, key and length of a WRITE or READ. */
static inline void packet_reth(Packet *packet, uint64_t address, uint32_t key,
                               uint32_t length)
{
    packet_number(packet, address, 8);
    packet_number(packet, key, 4);
    packet_number(packet, length, 4);
}

static inline bool packet_is_read_answer(const Packet *packet)
{
    return packet->opcode >= PEER_READ_FIRST &&
           packet->opcode <= PEER_READ_ONLY;
}

/* ---- frames -------------------------------------------------------------- */

static inline uint32_t peer_crc(uint32_t crc, const uint8_t *bytes, size_t len)
{
    static uint32_t table[256];

    for (uint32_t i = 0; !table[255] && i < 256; i++) {
        uint32_t value = i;

        for (unsigned bit = 0; bit < 8; bit++) {
            value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
        }
        table[i] = value;
    }
    while (len-- > 0) {
        crc = table[(crc ^ *bytes++) & 0xff] ^ crc >> 8;
    }
    return crc;
}

/*
 * The ICRC of a frame without one (IBTA A17.3.3). Fields that routers may
 * change count as ones.
 */
static inline uint32_t peer_icrc(const uint8_t *frame, size_t len)
{
    static const uint8_t changing[] = { 15, 22, 24, 25, 40, 41, PEER_BTH + 4 };
    uint8_t head[8 + PEER_BYTES - 14];
    uint32_t crc;

    memset(head, 0xff, 8);
    memcpy(head + 8, frame + 14, PEER_BYTES - 14);
    for (unsigned i = 0; i < ARRAY_SIZE(changing); i++) {
        head[8 + changing[i] - 14] = 0xff;
    }
    crc = peer_crc(~0u, head, sizeof(head));
    return ~peer_crc(crc, frame + PEER_BYTES, len - PEER_BYTES);
}

/* Makes the frame of a packet; its length. */
static inline size_t peer_frame(const Packet *packet, uint8_t *frame)
{
    const size_t len = PEER_BYTES + packet->len;
    uint32_t sum = 0;

    memset(frame, 0, PEER_BYTES);
    memcpy(frame, nic_mac, 6);
    memcpy(frame + 6, peer_mac, 6);
    stw_be_p(frame + 12, 0x0800);
    frame[14] = 0x45;
    stw_be_p(frame + 16, len + 4 - 14);
    frame[22] = 64;
    frame[23] = 17;
    memcpy(frame + 26, peer_gid + 12, 4);
    memcpy(frame + 30, own_gid + 12, 4);
    for (unsigned i = 14; i < 34; i += 2) {
        sum += lduw_be_p(frame + i);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    stw_be_p(frame + 24, ~(sum + (sum >> 16)));
    stw_be_p(frame + 34, 0xc000);
    stw_be_p(frame + 36, 4791);
    stw_be_p(frame + 38, len + 4 - 34);
    frame[PEER_BTH] = packet->opcode;
    frame[PEER_BTH + 1] = packet->mig_req ? 0x40 : 0;
    stw_be_p(frame + PEER_BTH + 2, 0xffff);
    stl_be_p(frame + PEER_BTH + 4, packet->qpn);
    stl_be_p(frame + PEER_BTH + 8,
             packet->psn | (packet->asks ? 0x80000000 : 0));
    memcpy(frame + PEER_BYTES, packet->bytes, packet->len);
    stl_le_p(frame + len, peer_icrc(frame, len));
    return len + 4;
}

/* Parses a frame of the device, which sends only RoCEv2 in these tests. */
static inline void peer_parse(const uint8_t *frame, size_t len, Packet *packet)
{
    g_assert_cmpuint(len, >=, PEER_BYTES + 4);
    len -= 4;
    g_assert_cmpuint(len - PEER_BYTES, <=, PEER_MAX);
    g_assert_cmpmem(frame, 6, peer_mac, 6);
    g_assert_cmphex(lduw_be_p(frame + 36), ==, 4791);
    g_assert_cmphex((uint32_t)ldl_le_p(frame + len), ==,
                    peer_icrc(frame, len));
    *packet = packet_of(frame[PEER_BTH],
                        ldl_be_p(frame + PEER_BTH + 4) & PEER_MASK,
                        ldl_be_p(frame + PEER_BTH + 8));
    packet->asks = frame[PEER_BTH + 8] & 0x80;
    packet->len = len - PEER_BYTES;
    memcpy(packet->bytes, frame + PEER_BYTES, packet->len);
}

/* ---- the wire ------------------------------------------------------------ */

static inline void peer_stop(Peer *p)
{
    g_byte_array_unref(p->out);
    g_free(p->n.pci);
    machine_stop(&p->m);
    close(p->wire);
}

/* A QP of the device, connected to the peer's number PEER_QPN + i. */
static inline void peer_connect(Peer *p, Qp *qp, unsigned i)
{
    qp_create(&p->n, qp, FAKERNIC_QP_RC, p->s.pd, &p->s.cq, 0);
    rc_connect(&p->n, qp->qpn, PEER_QPN + i, peer_gid, peer_mac);
}

static inline void peer_put(Peer *p, const Packet *packet)
{
    uint8_t frame[4 + PEER_BYTES + PEER_MAX + 4];
    size_t len = peer_frame(packet, frame + 4);

    stl_be_p(frame, len);
    g_byte_array_append(p->out, frame, 4 + len);
}

static inline void peer_rounds(Peer *p, unsigned count)
{
    main_loop_turns(&p->m, count);
}

/*
 * Sends the packets of peer_put() and waits until the device has received them.
 * The monitor must answer in time while it does.
 */
static inline void peer_send(Peer *p)
{
    const uint64_t since = main_cpu_us(&p->m);
    int left = 1;

    g_assert_cmpint(send(p->wire, p->out->data, p->out->len, 0), ==,
                    p->out->len);
    g_byte_array_set_size(p->out, 0);
    for (unsigned tries = 0; left > 0; tries++) {
        g_assert_cmpuint(tries, <, 500000);
        g_assert_cmpint(ioctl(p->wire, SIOCOUTQ, &left), ==, 0);
        if (left > 0) {
            g_usleep(10);
        }
    }
    main_loop_turns_since(&p->m, 1, since);
}

/*
 * MORE: options of the device, which begin with a comma, or "". QUEUE: bytes
 * that the wire takes from the device before the peer reads them; 0: default.
 */
static inline void peer_start(Peer *p, const char *more, unsigned queue)
{
    uint8_t frame[4 + 64] = { [3] = 64 };
    int fds[2];

    g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
    if (queue) {
        g_assert_cmpint(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &queue,
                                   sizeof(queue)), ==, 0);
    }
    machine_start(&p->m, "-netdev stream,id=n0,addr.type=fd,addr.str=%d "
                  "%s,netdev=n0%s", fds[1], DEVICE, more);
    close(fds[1]);
    p->wire = fds[0];
    p->out = g_byte_array_new();
    nic_find(&p->n, &p->m, SLOT);
    nic_bringup(&p->n);
    setup(&p->n, &p->s);
    /* QEMU opens the wire at some time. Once it reads a frame, it has. */
    frame_make(frame + 4, nic_mac, 64);
    g_byte_array_append(p->out, frame, sizeof(frame));
    peer_send(p);
}

static inline void peer_read(Peer *p, uint8_t *bytes, size_t len)
{
    while (len > 0) {
        const ssize_t got = wire_receive(p->wire, bytes, len);

        g_assert_cmpint(got, >, 0);
        bytes += got;
        len -= got;
    }
}

/* QEMU announces a machine that has moved by RARP, at times of its own. */
static inline bool peer_is_announcement(const uint8_t *frame, size_t len)
{
    return len >= 14 && lduw_be_p(frame + 12) == 0x8035;
}

/* Takes a packet, if there is one now. */
static inline bool peer_take(Peer *p, Packet *packet)
{
    uint8_t frame[PEER_BYTES + PEER_MAX + 4], size[4];
    ssize_t got = recv(p->wire, size, sizeof(size), MSG_DONTWAIT);

    if (got <= 0) {
        return false;
    }
    peer_read(p, size + got, sizeof(size) - got);
    g_assert_cmpuint(ldl_be_p(size), <=, sizeof(frame));
    peer_read(p, frame, ldl_be_p(size));
    if (peer_is_announcement(frame, ldl_be_p(size))) {
        return peer_take(p, packet);
    }
    peer_parse(frame, ldl_be_p(size), packet);
    return true;
}

/* Takes the next packet. False: the device sends no more by itself. */
static inline bool peer_next(Peer *p, Packet *packet)
{
    for (unsigned i = 0; i < PEER_ROUNDS; i++) {
        if (peer_take(p, packet)) {
            return true;
        }
        peer_rounds(p, 1);
    }
    return peer_take(p, packet);
}

#endif
