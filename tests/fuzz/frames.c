/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fuzz target "frames": bytes from the wire go into the engine, among
 * posts, time steps and changes by the control plane. An input is a list of
 * records (see records.h). The first one configures the world. Each other one
 * is a step: a packet for a QP of either side, raw bytes, frames of the other
 * side with a fate each, an old frame. Packets have a valid ICRC, so that the
 * engine does not drop them, unless a patch corrupts it.
 *
 * Errors are those that the sanitizers find, the rules of host.h, and each
 * FUZZ_CHECK here.
 */
#include "frames.h"

#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "icrc.h"

#define FRAMES_PER_STEP 32u
#define FRAMES_IN_DRAIN 2000u
#define DEADLINES_IN_DRAIN 64u
/*
 * The limit of steps of one call of the data plane: its budget, and one step
 * beyond it. Such a step may flush a QP's batches, deliver a frame to a whole
 * group, or check the pages of one turn of a FLUSH.
 */
#define FRAMES_WORK (ROCE_STEPS_PER_TICK > ROCE_STEPS_PER_OUTPUT ? \
                     ROCE_STEPS_PER_TICK : ROCE_STEPS_PER_OUTPUT)
#define FRAMES_STEP 256u

/* ---- frames -------------------------------------------------------------- */

static uint16_t frame_be16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static void frame_put_be16(uint8_t *at, size_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* Fixes lengths, the IPv4 header's checksum and the ICRC. */
static void frame_fix(uint8_t *frame, size_t len)
{
    size_t ip = 14, ip_size, sum = 0, i;
    uint32_t icrc;

    if (len >= 18 && frame_be16(frame + 12) == 0x8100) {
        ip = 18;
    }
    ip_size = frame_be16(frame + ip - 2) == 0x86dd ? 40 : 20;
    if (len < ip + ip_size + 8 + 12 + ROCE_ICRC_SIZE) {
        return;
    }
    frame_put_be16(frame + ip + ip_size + 4, len - ip - ip_size);
    if (ip_size == 40) {
        frame_put_be16(frame + ip + 4, len - ip - ip_size);
    } else {
        frame_put_be16(frame + ip + 2, len - ip);
        frame_put_be16(frame + ip + 10, 0);
        for (i = 0; i < 20; i += 2) {
            sum += frame_be16(frame + ip + i);
        }
        sum = (sum & 0xffff) + (sum >> 16);
        frame_put_be16(frame + ip + 10, ~(sum + (sum >> 16)));
    }
    icrc = roce_icrc(frame + ip, ip_size, len - ip - ROCE_ICRC_SIZE);
    for (i = 0; i < ROCE_ICRC_SIZE; i++) {
        frame[len - ROCE_ICRC_SIZE + i] = (uint8_t)(icrc >> 8 * i);
    }
}

/* Changes a frame in place. Returns its length, at most ROCE_FRAME_MAX. */
static size_t frame_patch(Patch *patch, uint8_t *frame, size_t len)
{
    size_t i;

    if (!patch->armed) {
        return len;
    }
    patch->armed = false;
    for (i = 0; i < 8; i++) {
        if (patch->offset + i < len) {
            frame[patch->offset + i] ^= (uint8_t)(patch->bits >> 8 * i);
        }
    }
    if (patch->longer < 0) {
        size_t less = (size_t)-patch->longer;

        len = less < len ? len - less : 0;
    } else if (len + (size_t)patch->longer <= ROCE_FRAME_MAX) {
        memset(frame + len, 0x5a, (size_t)patch->longer);
        len += (size_t)patch->longer;
    }
    if (patch->fix) {
        frame_fix(frame, len);
    }
    return len;
}

/* The work of a call since 'before' must stay within its limit. */
static void frame_check_work(const Roce *r, uint64_t before)
{
    FUZZ_CHECK(roce_work(r) - before <= FRAMES_WORK + FRAMES_STEP);
}

/* Delivers a copy of exact size, so that a read behind its end is found. */
static void frame_deliver(World *w, Side *to, const uint8_t *frame, size_t len)
{
    const uint64_t before = roce_work(to->r);
    uint8_t *copy;

    if (len < 14) {
        return;             /* the host drops it: roce.h */
    }
    copy = malloc(len);
    FUZZ_CHECK(copy != NULL);
    memcpy(copy, frame, len);
    if (roce_input(to->r, w->now, copy, len) == ROCE_INPUT_ETHERNET &&
        to->qpn[SLOT_RAW]) {
        roce_input_ethernet(to->r, w->now, to->qpn[SLOT_RAW], copy, len, false);
    }
    frame_check_work(to->r, before);
    free(copy);
}

/* ---- output -------------------------------------------------------------- */

/* The engine must be able to decode its own frames. */
static void frame_check(const Frames *f, const uint8_t *frame, size_t len)
{
    enum fakernic_stat drop;
    RocePacket packet;

    FUZZ_CHECK(len >= 14 && len <= ROCE_FRAME_MAX);
    FUZZ_CHECK(f->raw_sent || roce_wire_decode(frame, len, &packet, &drop) ==
                                  ROCE_DECODE_OK);
}

enum { FATE_DELIVER, FATE_DROP, FATE_TWICE, FATE_KEEP };

/* Moves one frame of a side. False: it has none. */
static bool frame_move(Frames *f, Side *from, unsigned fate)
{
    static uint8_t buf[ROCE_FRAME_MAX];
    Side *to = &f->w.side[from == &f->w.side[0]];
    const uint64_t before = roce_work(from->r);
    bool loopback = false;
    size_t len = roce_output(from->r, f->w.now, buf, &loopback);

    frame_check_work(from->r, before);
    if (len == 0) {
        return false;
    }
    frame_check(f, buf, len);
    len = frame_patch(&f->patch, buf, len);
    if (fate == FATE_KEEP) {
        memcpy(f->kept, buf, len);
        f->kept_len = len;
    }
    if (fate != FATE_DROP) {
        frame_deliver(&f->w, loopback ? from : to, buf, len);
    }
    if (fate == FATE_TWICE) {
        frame_deliver(&f->w, loopback ? from : to, buf, len);
    }
    return true;
}

static void frames_run(Frames *f, unsigned count, uint64_t fates)
{
    unsigned i;

    for (i = 0; i < count; i++, fates = fates >> 2 | fates << 62) {
        bool a = frame_move(f, &f->w.side[0], fates & 3);
        bool b = frame_move(f, &f->w.side[1], fates & 3);

        if (!a && !b) {
            return;
        }
    }
}

/* The medium ends one job, with or without success, and begins another. */
static void frames_flushed(Side *side)
{
    const uint64_t ticket = side->host.flush_ticket;

    side->host.flush_ticket = 0;
    if (ticket) {
        roce_flush_ended(side->r, side->host.flush_qpn, ticket, ticket % 8);
    }
    roce_flush_resume(side->r);
}

/* Moves the time to a deadline, or part of the way. The engine must then have a
 * later deadline. */
static void frames_time(Frames *f, RoceTime until)
{
    unsigned i, tries;

    if (until > f->w.now) {
        f->w.now = until;
    }
    for (i = 0; i < WORLD_SIDES; i++) {
        Roce *r = f->w.side[i].r;
        uint64_t before;

        frames_flushed(&f->w.side[i]);
        for (tries = 0; roce_deadline(r) <= f->w.now; tries++) {
            FUZZ_CHECK(tries < FRAMES_IN_DRAIN);
            before = roce_work(r);
            roce_tick(r, f->w.now);
            frame_check_work(r, before);
            frame_move(f, &f->w.side[i], FATE_DELIVER);
        }
    }
}

static RoceTime frames_deadline(const Frames *f)
{
    RoceTime a = roce_deadline(f->w.side[0].r);
    RoceTime b = roce_deadline(f->w.side[1].r);

    return a < b ? a : b;
}

/* ---- packets of the fuzzer ----------------------------------------------- */

/* The BTH opcode: one of the QP's service, or any. */
static uint8_t packet_opcode(uint8_t type, uint8_t choice, uint8_t any)
{
    static const uint8_t services[] = {
        [FAKERNIC_QP_RC] = ROCE_BTH_RC,
        [FAKERNIC_QP_UC] = ROCE_BTH_UC,
        [FAKERNIC_QP_UD] = ROCE_BTH_UD,
        [FAKERNIC_QP_GSI] = ROCE_BTH_UD,
        [FAKERNIC_QP_RAW_PACKET] = ROCE_BTH_UD,
        [FAKERNIC_QP_XRC_INI] = ROCE_BTH_XRC,
        [FAKERNIC_QP_XRC_TGT] = ROCE_BTH_XRC,
    };

    if (choice & 0x80) {
        return any;
    }
    if (choice >= 0x7e) {
        return ROCE_BTH_CNP;
    }
    if (choice >= 0x7c) {
        uint8_t masked = choice & 1 ? ROCE_BTH_MASKED_CMP_SWAP
                                    : ROCE_BTH_MASKED_FETCH_ADD;

        return (uint8_t)(masked | (services[type] == ROCE_BTH_XRC ? 0x20 : 0));
    }
    return (uint8_t)(services[type] | (choice & 0x1f));
}

static void packet_addresses(Frames *f, Side *to, Slot slot,
                             const FuzzRecord *r, RocePacket *p)
{
    /* The QP's path, or its possible alternate path. */
    uint16_t gid = (r->b & 64) && (r->f >> 27 & 1) ? 1 : world_gid_index(slot);
    Slot peer_slot = slot;
    Side *peer = world_peer(&f->w, to, &peer_slot);

    p->network_type = to->gid[gid].type;
    memcpy(p->sgid, peer->gid[gid].gid, sizeof(p->sgid));
    memcpy(p->dgid, to->gid[gid].gid, sizeof(p->dgid));
    memcpy(p->smac, peer->gid[gid].mac, sizeof(p->smac));
    memcpy(p->dmac, to->gid[gid].mac, sizeof(p->dmac));
    if (to->gid[gid].vlan != FAKERNIC_VLAN_NONE) {
        p->has_vlan = true;
        p->vlan_tci = to->gid[gid].vlan;
    }
    p->hop_limit = 64;
    p->udp_sport = 0xc000;
    p->pkey = 0xffff;
    p->mig_req = true;
    p->dest_qpn = to->qpn[slot];
    p->deth.qkey = slot == SLOT_GSI ? 0x80010000 : WORLD_QKEY;
    p->deth.src_qpn = peer->qpn[peer_slot];
    if (world_type(slot) == FAKERNIC_QP_XRC_TGT) {
        p->xrceth.srqn = WORLD_XRC_SRQ;
    }
}

static void packet_flags(RocePacket *p, const FuzzRecord *r)
{
    p->ack_req = r->b & 1;
    p->solicited = r->b & 2;
    p->mig_req = !(r->b & 4);
    p->fecn = r->b & 8;
    p->becn = r->b & 16;
    p->traffic_class = r->b & 32 ? 3 : 0;
    if (r->b & 64) {
        /* Rare changes; the number selects one. */
        switch (r->f >> 24 & 15) {
        case 0:
            p->pkey = (uint16_t)r->f;
            break;
        case 1:
            p->deth.qkey ^= 1;
            break;
        case 2:
            p->xrceth.srqn = r->f & 0xffffff;
            break;
        case 3:
            p->dest_qpn = r->f & 0xffffff;
            break;
        case 4:
            p->sgid[15] ^= (uint8_t)r->f;
            break;
        case 5:
            memcpy(p->dgid, world_group[p->network_type == FAKERNIC_GID_IPV4],
                   sizeof(p->dgid));
            p->dest_qpn = FAKERNIC_QPN_MULTICAST;
            break;
        case 6:
            p->ieth_rkey ^= r->f;
            break;
        default:
            p->hop_limit = (uint8_t)r->f;
            break;
        }
    }
}

/* Sequence numbers around those the QP expects. */
static uint32_t packet_psn(Side *to, Slot slot, uint8_t opcode, int8_t delta)
{
    RoceQpAttr attr = { .state = 0 };
    uint32_t psn;

    roce_qp_query(to->r, to->qpn[slot], &attr);
    psn = roce_opcode_info(opcode)->flags & ROCE_RESPONSE ? attr.sq_psn - 1
                                                          : attr.rq_psn;
    return (psn + (uint32_t)(int32_t)delta) & 0xffffff;
}

static size_t packet_length(const Frames *f, const FuzzRecord *r)
{
    size_t mtu = 128u << f->w.config.mtu;

    switch (r->d & 7) {
    case 0:
    case 1:
        return mtu;
    case 2:
        return 0;
    case 3:
        return mtu - 1;
    case 4:
        return mtu + 1;
    case 5:
        return 8;
    default:
        return (r->d >> 3) % (mtu + 8);
    }
}

static uint32_t request_length(const Frames *f, const FuzzRecord *r,
                               size_t payload)
{
    uint32_t mtu = 128u << f->w.config.mtu;

    switch (r->d >> 3 & 7) {
    case 0:
    case 1:
        return (uint32_t)payload;
    case 2:
        return 2 * mtu;
    case 3:
        return 3 * mtu - 1;
    case 4:
        return r->d >> 6;
    case 5:
        return HOST_MEMORY;
    case 6:
        return 0x80000000u + (r->d >> 15);
    default:
        return r->f;
    }
}

/* a: opcode; b: flags; c: PSN, key; d: lengths; f: depends on flags;
 * g, h: addresses and operands. */
static void step_packet(Frames *f, Side *to, Slot slot, const FuzzRecord *r)
{
    static uint8_t buf[ROCE_FRAME_MAX];
    const WorldKey *key = &to->key[(r->c >> 8) % WORLD_KEYS];
    uint8_t opcode = packet_opcode(world_type(slot), r->a,
                                   (uint8_t)(r->h >> 56));
    RocePacket p = { .opcode = opcode };
    size_t at, len;

    if (roce_opcode_info(opcode)->service == ROCE_SERVICE_NONE) {
        p.opcode = ROCE_BTH_RC | ROCE_BTH_SEND_ONLY;
    }
    packet_addresses(f, to, slot, r, &p);
    p.psn = packet_psn(to, slot, p.opcode, (int8_t)r->c);
    p.payload_len = packet_length(f, r);
    p.reth.address = p.atomic_eth.address = key->iova + r->g % HOST_MEMORY;
    p.reth.rkey = p.atomic_eth.rkey = p.ieth_rkey = key->key;
    p.reth.length = request_length(f, r, p.payload_len);
    p.atomic_eth.swap_or_add = p.atomic_ack = r->h;
    p.atomic_eth.compare = r->h >> 32;
    p.aeth.syndrome = (uint8_t)r->h;
    p.aeth.msn = r->f & 0xffffff;
    p.imm = r->f;
    p.feth = r->f & 0x3f;
    packet_flags(&p, r);
    if (!(roce_opcode_info(p.opcode)->flags & ROCE_HAS_PAYLOAD)) {
        p.payload_len = r->b & 128 ? p.payload_len : 0;
    }
    at = roce_wire_encode(buf, &p);
    FUZZ_CHECK(at <= ROCE_HEADERS_MAX);
    memset(buf + at, (int)r->g, p.payload_len);
    len = roce_wire_finish(buf, at, p.payload_len);
    if (p.opcode != opcode) {
        /* A reserved opcode, which the encoder refuses. */
        buf[at - 12] = opcode;
        frame_fix(buf, len);
    }
    len = frame_patch(&f->patch, buf, len);
    frame_deliver(&f->w, to, buf, len);
}

/* ---- other steps of the wire --------------------------------------------- */

/* Delivers the bytes of the following records. */
static void step_bytes(Frames *f, Side *to, const FuzzRecord *r)
{
    uint8_t bytes[16 * sizeof(FuzzRecord)];
    size_t len = 0;
    unsigned i;
    FuzzRecord next;

    for (i = 0; i <= r->a % 16u && fuzz_next(&f->input, &next); i++) {
        memcpy(bytes + len, &next, sizeof(next));
        len += sizeof(next);
    }
    len -= len >= r->b % 32u ? r->b % 32u : len;
    if (r->c & 1 && len >= 14) {
        frame_put_be16(bytes + 12, r->c & 2 ? 0x86dd : 0x0800);
    }
    if (r->c & 4) {
        frame_fix(bytes, len);
    }
    frame_deliver(&f->w, to, bytes, len);
}

static void step_patch(Frames *f, const FuzzRecord *r)
{
    f->patch = (Patch) {
        .armed = true,
        .fix = !(r->a & 1),
        .offset = r->b & 128 ? r->c : r->c % 96u,
        .longer = r->b & 64 ? (int)(r->d % 4200) - 200
                            : r->b & 32 ? (int)(r->d % 9) - 4 : 0,
        .bits = r->g,
    };
}

static void step_time(Frames *f, const FuzzRecord *r)
{
    RoceTime deadline = frames_deadline(f);

    if (r->a & 1) {
        /* Not more than 208 days at a time. */
        if (deadline < f->w.now + (1ll << 54)) {
            frames_time(f, deadline);
        }
    } else {
        frames_time(f, f->w.now + (1ll << r->b % 34u));
    }
}

/* The hosts answer page requests. */
static void frames_page(Frames *f, const FuzzRecord *r)
{
    const WorldPaging paging = f->w.config.paging;
    RocePages state = ROCE_PAGES_WRITABLE;
    unsigned i;

    if (paging == PAGING_NEVER || (paging == PAGING_LATE && r->op % 16u != 8)) {
        return;
    }
    if (paging == PAGING_WRONG) {
        state = r->where & 32 ? ROCE_PAGES_REFUSED : ROCE_PAGES_READABLE;
    }
    for (i = 0; i < WORLD_SIDES; i++) {
        world_answer(&f->w.side[i], state, true);
    }
}

void frames_step(Frames *f, const FuzzRecord *r)
{
    Side *side = &f->w.side[r->where >> 7];
    Slot slot = r->where % SLOTS;

    switch (r->op % 16u) {
    case 0:
    case 1:
    case 2:
        step_packet(f, side, slot, r);
        break;
    case 3:
        step_bytes(f, side, r);
        break;
    case 4:
        step_patch(f, r);
        break;
    case 5:
    case 6:
        frames_run(f, r->a % FRAMES_PER_STEP + 1, r->b & 1 ? r->g : 0);
        break;
    case 7:
        frame_deliver(&f->w, side, f->kept, f->kept_len);
        break;
    case 8:
        step_time(f, r);
        break;
    default:
        frames_control(f, side, slot, r);
        break;
    }
    frames_page(f, r);
}

/* The wire becomes silent and time passes: nothing may hang or grow. */
static void frames_drain(Frames *f)
{
    unsigned i;

    for (i = 0; i < DEADLINES_IN_DRAIN; i++) {
        RoceTime deadline;

        frames_run(f, FRAMES_IN_DRAIN / DEADLINES_IN_DRAIN, 0);
        frames_page(f, &(FuzzRecord) { .op = 8 });
        deadline = frames_deadline(f);
        if (deadline >= f->w.now + (1ll << 54)) {
            return;
        }
        frames_time(f, deadline);
    }
}

/* Without page requests no QP may wait for a page. */
static void frames_check_waits(Frames *f)
{
    unsigned i;
    uint32_t qpn;

    for (i = 0; i < WORLD_SIDES; i++) {
        const Side *side = &f->w.side[i];

        if (side->host.wants > 0 || side->host.want_lost) {
            continue;
        }
        for (qpn = 0; qpn < HOST_QPS; qpn++) {
            const RoceQp *qp = side->r->qps[qpn];

            FUZZ_CHECK(!qp || qp->attr.state != FAKERNIC_QPS_RTS ||
                       (qp->retry.mode != ROCE_RETRY_WAIT_PAGES &&
                        !qp->rs.pages_awaited));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static Frames f;
    unsigned steps = 0;
    FuzzRecord r;

    f.input = (FuzzInput) { data, size, 0 };
    f.patch.armed = false;
    f.kept_len = 0;
    f.raw_sent = false;
    fuzz_next(&f.input, &r);
    world_init(&f.w, &r);
    while (steps++ < FUZZ_RECORDS_MAX && fuzz_next(&f.input, &r)) {
        frames_step(&f, &r);
    }
    frames_save(&f);
    frames_drain(&f);
    frames_check_waits(&f);
    world_free(&f.w);
    return 0;
}
