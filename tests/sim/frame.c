/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An independent parser of RoCEv2 frames (IBTA annex A17, 9.2 to 9.4).
 *
 * It checks every frame of an engine before the switch forwards it. It shares
 * no code with the engine's wire.c: it checks lengths, checksum, ICRC, pad,
 * header sizes and the path MTU a second time. Never "fix" it by looking at the
 * engine.
 */
#include <libdeflate.h>
#include <string.h>

#include "sim.h"

#define RC_NAMES 24
#define FRAME_CNP 0x81

/* Extended header bytes by the low five bits of the opcode; 0xff: reserved. */
static const uint8_t rc_header[32] = {
    0, 0, 0, 4, 0, 4,           /* SEND first .. only with immediate */
    16, 0, 0, 4, 16, 20,        /* WRITE first .. only with immediate */
    16, 4, 0, 4, 4,             /* READ request, responses */
    4, 12, 28, 28, 0xff, 4, 4,  /* ACK, atomic ACK, atomics, SEND_INV */
    0xff, 0xff, 0xff, 0xff, 20, 24, 0xff, 0xff,
};

static const char *const rc_name[RC_NAMES] = {
    "SEND_FIRST", "SEND_MIDDLE", "SEND_LAST", "SEND_LAST_IMM", "SEND_ONLY",
    "SEND_ONLY_IMM", "WRITE_FIRST", "WRITE_MIDDLE", "WRITE_LAST",
    "WRITE_LAST_IMM", "WRITE_ONLY", "WRITE_ONLY_IMM", "READ_REQ", "RESP_FIRST",
    "RESP_MIDDLE", "RESP_LAST", "RESP_ONLY", "ACK", "ATOMIC_ACK", "CMP_SWAP",
    "FETCH_ADD", "?", "SEND_LAST_INV", "SEND_ONLY_INV",
};

const char *frame_opcode_name(uint8_t opcode)
{
    unsigned operation = opcode & 0x1f;

    if (opcode == FRAME_CNP) {
        return "CNP";
    }
    return operation < RC_NAMES ? rc_name[operation]
           : operation == 0x1c ? "FLUSH"
           : operation == 0x1d ? "ATOMIC_WRITE" : "?";
}

static uint32_t be16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t be24(const uint8_t *p)
{
    return (uint32_t)p[0] << 16 | be16(p + 1);
}

/* IBTA A17.3.3.1: variant fields count as ones, 64 one-bits come first. */
static uint32_t frame_icrc(const uint8_t *ip, bool v6, size_t covered)
{
    uint8_t head[8 + 40 + 8 + 12];
    size_t ip_len = v6 ? 40 : 20, head_len = 8 + ip_len + 8 + 12;
    uint8_t *p = head + 8;
    uint32_t crc;

    memset(head, 0xff, 8);
    memcpy(p, ip, head_len - 8);
    if (v6) {
        p[0] |= 0x0f;           /* traffic class and flow label */
        p[1] = p[2] = p[3] = 0xff;
        p[7] = 0xff;            /* hop limit */
    } else {
        p[1] = 0xff;            /* type of service */
        p[8] = 0xff;            /* TTL */
        p[10] = p[11] = 0xff;   /* header checksum */
    }
    p[ip_len + 6] = p[ip_len + 7] = 0xff;       /* UDP checksum */
    p[ip_len + 8 + 4] = 0xff;   /* BTH reserved byte with FECN and BECN */
    crc = libdeflate_crc32(0, head, head_len);
    return libdeflate_crc32(crc, ip + head_len - 8, covered - (head_len - 8));
}

bool frame_is_raw(const uint8_t *frame)
{
    return be16(frame + 12) == 0x88b5;
}

void frame_group_mac(const uint8_t gid[16], uint8_t mac[6])
{
    if (gid[0] == 0xff) {
        mac[0] = mac[1] = 0x33;
        memcpy(mac + 2, gid + 12, 4);
        return;
    }
    mac[0] = 0x01;
    mac[1] = 0x00;
    mac[2] = 0x5e;
    mac[3] = gid[13] & 0x7f;
    memcpy(mac + 4, gid + 14, 2);
}

static void ip_checksum(uint8_t *ip)
{
    uint32_t sum = 0;

    ip[10] = ip[11] = 0;
    for (unsigned i = 0; i < 20; i += 2) {
        sum += be16(ip + i);
    }
    sum = ~((sum & 0xffff) + (sum >> 16));
    ip[10] = (uint8_t)(sum >> 8);
    ip[11] = (uint8_t)sum;
}

bool frame_mark(uint8_t *frame)
{
    uint8_t *ip = frame + (frame[12] == 0x81 ? 18 : 14);

    if (frame_is_raw(frame)) {
        return false;
    }
    if (ip[0] >> 4 == 6) {
        if (!(ip[1] & 0x30)) {
            return false;
        }
        ip[1] |= 0x30;
        return true;
    }
    if (!(ip[1] & 3)) {
        return false;
    }
    ip[1] |= 3;
    ip_checksum(ip);
    return true;
}

void frame_seal(uint8_t *frame, size_t len)
{
    uint8_t *ip = frame + (frame[12] == 0x81 ? 18 : 14), *udp;
    bool v6 = ip[0] >> 4 == 6;
    size_t total = len - (size_t)(ip - frame), udp_len;
    uint32_t icrc;

    udp = ip + (v6 ? 40 : 20);
    udp_len = total - (size_t)(udp - ip);
    udp[4] = (uint8_t)(udp_len >> 8);
    udp[5] = (uint8_t)udp_len;
    if (v6) {
        ip[4] = udp[4];
        ip[5] = udp[5];
    } else {
        ip[2] = (uint8_t)(total >> 8);
        ip[3] = (uint8_t)total;
        ip_checksum(ip);
    }
    icrc = frame_icrc(ip, v6, total - 4);
    for (unsigned i = 0; i < 4; i++) {
        ip[total - 4 + i] = (uint8_t)(icrc >> 8 * i);
    }
}

static const char *frame_ip(const uint8_t *ip, size_t len, bool v6,
                            size_t *ip_len)
{
    uint32_t sum = 0;

    if (v6) {
        if (len < 40 || ip[0] >> 4 != 6 || ip[6] != 17) {
            return "IPv6 header";
        }
        if (be16(ip + 4) + 40 != len) {
            return "IPv6 payload length";
        }
        *ip_len = 40;
        return ip[7] ? NULL : "hop limit 0";
    }
    if (len < 20 || ip[0] != 0x45 || ip[9] != 17) {
        return "IPv4 header";
    }
    if (be16(ip + 2) != len) {
        return "IPv4 total length";
    }
    if (be16(ip + 6) & 0x3fff) {
        return "IPv4 fragment";
    }
    for (unsigned i = 0; i < 20; i += 2) {
        sum += be16(ip + i);
    }
    if ((sum & 0xffff) + (sum >> 16) != 0xffff) {
        return "IPv4 checksum";
    }
    *ip_len = 20;
    return ip[8] ? NULL : "TTL 0";
}

/* READ and atomic responses, ACKs. */
static bool frame_is_answer(uint8_t opcode)
{
    uint8_t operation = opcode & 0x1f;

    return operation >= 0x0d && operation <= 0x12 && opcode != FRAME_CNP;
}

/* A congestion notification has only BECN and 16 zero bytes. */
static const char *frame_cnp(const uint8_t *bth, size_t len, SimFrame *out)
{
    static const uint8_t zeros[16];

    out->payload = sizeof(zeros);
    return len != 12 + sizeof(zeros) || bth[1] || be16(bth + 2) != 0xffff ||
                   bth[4] != 0x40 || bth[8] || be24(bth + 9) ||
           memcmp(bth + 12, zeros, sizeof(zeros)) ? "CNP" : NULL;
}

static const char *frame_bth(const uint8_t *bth, size_t len, SimFrame *out)
{
    uint8_t service = bth[0] >> 5, operation = bth[0] & 0x1f;
    uint8_t pad = bth[1] >> 4 & 3, header = rc_header[operation];

    out->opcode = bth[0];
    out->solicited = bth[1] >> 7;
    out->mig_req = bth[1] >> 6 & 1;
    out->dest_qpn = be24(bth + 5);
    out->ack_req = bth[8] >> 7;
    out->psn = be24(bth + 9);
    if (bth[0] == FRAME_CNP) {
        return frame_cnp(bth, len, out);
    }
    switch (service) {
    case 0:                     /* RC */
    case 1:                     /* UC */
        break;
    case 3:                     /* UD */
        header = operation == 4 ? 8 : operation == 5 ? 12 : 0xff;
        break;
    case 5:                     /* XRC: XRCETH in requests (IBTA A14) */
        header += header == 0xff || frame_is_answer(out->opcode) ? 0 : 4;
        break;
    case 6:                     /* masked atomics, RC and XRC */
    case 7:
        header = operation == 0x13 || operation == 0x14
                 ? 44 + 4 * (service == 7) : 0xff;
        break;
    default:
        return "service";
    }
    if (header == 0xff) {
        return "reserved opcode";
    }
    if (bth[1] & 0x0f) {
        return "BTH version";
    }
    if (be16(bth + 2) != 0xffff) {
        return "P_Key";
    }
    if ((bth[4] & 0x3f) || (bth[8] & 0x7f)) {
        return "BTH reserved bits";
    }
    if (len < 12u + header + pad || (len - 12) % 4) {
        return "length or pad";
    }
    if (service == 3) {
        out->src_qpn = be24(bth + 17);
    }
    if (operation == 0x11 || operation == 0x12 ||
        (operation >= 0x0d && operation <= 0x10 && operation != 0x0e)) {
        out->has_aeth = true;
        out->syndrome = bth[12];
        out->msn = be24(bth + 13);
    }
    if (operation == 0x0c) {
        const uint8_t *length = bth + 12 + 4 * (service == 5) + 12;

        out->read = (uint32_t)be16(length) << 16 | be16(length + 2);
    }
    out->payload = (uint32_t)(len - 12 - header - pad);
    if (out->payload == 0 && pad) {
        return "pad without payload";
    }
    return NULL;
}

const char *frame_parse(const uint8_t *frame, size_t len, SimFrame *out)
{
    size_t offset = 12, ip_len, ip_total;
    const uint8_t *ip, *udp;
    const char *wrong;
    bool v6;

    *out = (SimFrame) { .syndrome = 0 };
    if (len < 14 + 20 + 8 + 12 + 4 || len > ROCE_FRAME_MAX) {
        return "frame length";
    }
    if (be16(frame + offset) == 0x8100) {
        offset += 4;
        out->tagged = true;
    }
    if (be16(frame + offset) != 0x0800 && be16(frame + offset) != 0x86dd) {
        return "EtherType";
    }
    v6 = be16(frame + offset) == 0x86dd;
    ip = frame + offset + 2;
    ip_total = len - offset - 2;
    wrong = frame_ip(ip, ip_total, v6, &ip_len);
    if (wrong) {
        return wrong;
    }
    udp = ip + ip_len;
    if (be16(udp + 2) != 4791) {
        return "UDP destination port";
    }
    if (be16(udp) < 0xc000) {
        return "UDP source port";
    }
    if (be16(udp + 4) != ip_total - ip_len) {
        return "UDP length";
    }
    if (frame_icrc(ip, v6, ip_total - 4) !=
        ((uint32_t)ip[ip_total - 1] << 24 | (uint32_t)ip[ip_total - 2] << 16 |
         (uint32_t)ip[ip_total - 3] << 8 | ip[ip_total - 4])) {
        return "ICRC";
    }
    return frame_bth(udp + 8, ip_total - ip_len - 8 - 4, out);
}

/* 0: any payload up to the MTU; 1: a full one; 2: none; 3: at least 1 byte. */
static unsigned frame_payload_rule(uint8_t opcode)
{
    if (opcode == FRAME_CNP) {
        return 0;
    }
    switch (opcode & 0x1f) {
    case 0x00: case 0x01: case 0x06: case 0x07: case 0x0d: case 0x0e:
        return 1;
    case 0x0c: case 0x11: case 0x12: case 0x13: case 0x14: case 0x1c:
        return 2;
    case 0x02: case 0x03: case 0x08: case 0x09: case 0x0f: case 0x16:
        return 3;
    default:
        return 0;
    }
}

/* A raw frame must equal the next one posted to its QP. */
static void frame_check_raw(World *w, unsigned from, const uint8_t *frame,
                            size_t len)
{
    SimQp *qp = from < w->everybody.count ? w->everybody.member[from] : NULL;

    if (!qp || !qp->fetched ||
        qp->send[qp->fetched - 1].length != len ||
        memcmp(qp->send[qp->fetched - 1].data, frame, len) != 0) {
        world_fail(w, "host %u sent an unexpected raw frame", from);
    } else {
        ledger_rate(qp, len);
    }
}

static void frame_check_datagram(World *w, unsigned from, int to,
                                 const SimFrame *f, size_t len)
{
    SimQp *src;

    if (to < 0 && (f->opcode >> 5 != 3 || f->dest_qpn != 0xffffff)) {
        world_fail(w, "host %u sent %s for QP %x to a group", from,
                   frame_opcode_name(f->opcode), f->dest_qpn);
    }
    src = host_find_qp(w->host[from], f->src_qpn);
    if (!src || src->conn) {
        world_fail(w, "host %u sent a datagram of QP %u", from, f->src_qpn);
    } else if (to >= 0) {
        ledger_rate(src, len);
    }
    if (f->payload > 4096) {
        world_fail(w, "host %u sent a datagram of %u bytes", from, f->payload);
    }
}

static void frame_check_connected(World *w, unsigned from, const SimQp *qp,
                                  const SimFrame *f)
{
    const char *wrong = NULL;
    uint32_t mtu = mtu_bytes(qp->mtu);

    if (qp->peer && qp->peer->drained &&
        qp->peer->drained_step != w->steps && !frame_is_answer(f->opcode) &&
        f->opcode != FRAME_CNP) {
        world_fail(w, "host %u: a request from QP %u, which is drained", from,
                   qp->peer->qpn);
    }
    switch (frame_payload_rule(f->opcode)) {
    case 0:
        wrong = f->payload > mtu ? "more than the path MTU" : NULL;
        break;
    case 1:
        wrong = f->payload != mtu ? "first or middle not of MTU size" : NULL;
        break;
    case 2:
        wrong = f->payload ? "payload where none belongs" : NULL;
        break;
    case 3:
        wrong = !f->payload || f->payload > mtu ? "last not 1..MTU" : NULL;
        break;
    }
    if (wrong) {
        world_fail(w, "host %u sent %s with %u bytes, path MTU %u: %s", from,
                   frame_opcode_name(f->opcode), f->payload, mtu, wrong);
    }
}

/* A frame of a connection, to this QP. */
static void frame_account(SimQp *qp, const SimFrame *f, size_t len)
{
    bool answer = frame_is_answer(f->opcode);

    /* IBTA 17.2.8.1: a QP sends 0 while it is in REARM or ARMED. */
    if (f->mig_req != !(qp->peer->apm && !qp->peer->migrated) &&
        f->opcode != FRAME_CNP) {
        world_fail(qp->world, "QP %u sent MigReq %u", qp->peer->qpn,
                   f->mig_req);
    }
    if (f->opcode == FRAME_CNP) {
        ledger_cnp(qp->peer);
        return;
    }
    /* Rates do not apply to ACKs and atomic responses. */
    if (!answer || f->payload) {
        ledger_rate(qp->peer, len);
    }
    if (f->opcode >> 5 == 1) {
        return;                 /* UC */
    }
    if (answer) {
        ledger_answer(qp, f);
    } else {
        ledger_request(qp->peer, f);
    }
}

void frame_check(World *w, unsigned from, int to, const uint8_t *frame,
                 size_t len)
{
    const char *wrong;
    SimQp *qp;
    SimFrame f;

    if (memcmp(frame + 6, w->host[from]->mac, 6) != 0) {
        world_fail(w, "host %u sent from a foreign MAC", from);
    }
    if (frame_is_raw(frame)) {
        frame_check_raw(w, from, frame, len);
        return;
    }
    wrong = frame_parse(frame, len, &f);
    if (wrong) {
        world_fail(w, "host %u made a bad frame of %zu bytes: %s", from, len,
                   wrong);
        return;
    }
    w->wraps += f.psn == 0 && !frame_is_answer(f.opcode) &&
                f.opcode != FRAME_CNP;
    if (!f.mig_req && f.opcode >> 5 == 3) {
        world_fail(w, "host %u: a datagram with MigReq 0", from);
    }
    if (f.opcode >> 5 == 3 || to < 0) {
        frame_check_datagram(w, from, to, &f, len);
        return;
    }
    qp = host_find_qp(w->host[to], f.dest_qpn);
    if (w->options.tenants && !qp) {
        tenant_frame(w->host[to], &f, frame, len);
        return;
    }
    if (w->options.hostile_ppm && !qp) {
        return;                 /* a response without a request */
    }
    if (!qp) {
        world_fail(w, "host %u sent to QP %u, which never was", from,
                   f.dest_qpn);
        return;
    }
    frame_check_connected(w, from, qp, &f);
    if (qp->peer && !w->options.hostile_ppm) {
        frame_account(qp, &f, len);
    }
}
