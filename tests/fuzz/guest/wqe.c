/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Work requests of the fuzz target "guest": see guest.h. */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "guest.h"

/* Puts bytes into a ring, and the producer index into its record. */
static bool queue_put(Nic *n, Queue *q, const void *bytes, size_t len)
{
    if (!q->address || len > (size_t)q->depth * q->entry) {
        return false;
    }
    for (size_t done = 0; done < len; done += q->entry) {
        uint64_t at = q->address + (q->index & (q->depth - 1)) * q->entry;

        memcpy(nic_bytes(n, at, q->entry), (const uint8_t *)bytes + done,
               MIN(len - done, q->entry));
        q->index++;
    }
    stl_le_p(nic_bytes(n, q->address + (uint64_t)q->depth * q->entry, 4),
             q->index);
    return true;
}

static void make_sges(Nic *n, struct fakernic_sge *sge, unsigned count,
                      const FuzzRecord *r)
{
    for (unsigned i = 0; i < count; i++) {
        sge[i].address = LE64(nic_page(n, PAGE_DATA) + (r->g >> 32) % 0x20000 +
                              64 * i);
        sge[i].length = LE32(r->d & 1 ? r->d >> 1 : 8);
        sge[i].lkey = LE32(nic_pick(n, KIND_KEY, r->e >> 8 & 0xff));
    }
}

static void make_av(Nic *peer, unsigned at, struct fakernic_sq_ud *ud,
                    const FuzzRecord *r)
{
    bool ipv6 = qp_is_ipv6(at);

    ud->av.sgid_index = LE16(ipv6);
    ud->av.dmac[0] = 2;
    ud->av.dmac[5] = peer->number;
    if (ipv6) {
        ud->av.dgid[0] = 0xfd;
    } else {
        ud->av.dgid[10] = ud->av.dgid[11] = 0xff;
        ud->av.dgid[12] = 10;
    }
    ud->av.dgid[15] = peer->number;
    ud->dest_qpn = LE32(peer->id[KIND_QP][at]);
    ud->qkey = LE32(r->f & 1 ? 0x80000000 : NIC_QKEY);
    if (r->f & 2) {
        /* An IPv6 group. */
        ud->av.dgid[0] = 0xff;
        ud->av.dgid[1] = 0x0e;
        ud->dest_qpn = LE32(FAKERNIC_QPN_MULTICAST);
    }
}

static void make_reg_mr(Nic *n, struct fakernic_sq_reg_mr *reg,
                        const FuzzRecord *r)
{
    reg->iova = LE64(r->g);
    reg->length = LE64(r->d + 1);
    reg->key = LE32(nic_pick(n, KIND_KEY, r->e & 0xff) + (r->e >> 16 & 1));
    reg->access = LE32(r->f & 0x3f);
    reg->pages.address = LE64(r->f & 64 ? nic_page(n, PAGE_TABLES) :
                              nic_page(n, PAGE_DATA));
    reg->pages.levels = r->f & 64 ? 1 + (r->f >> 7 & 3) : 0;
    reg->pages.page_shift = FAKERNIC_PAGE_SHIFT + (r->f >> 9 & 1);
    reg->pages.page_count =
        LE32(DIV_ROUND_UP((r->g & 0xfff) + r->d + 1, FAKERNIC_PAGE_SIZE) +
             (r->f >> 10 & 3));
}

static void make_bind(Nic *n, struct fakernic_sq_bind_mw *bind,
                      const FuzzRecord *r)
{
    uint32_t key = nic_pick(n, KIND_KEY, r->e & 0xff);

    bind->address = LE64(nic_page(n, PAGE_DATA) + (r->g & 0xffff));
    bind->length = LE64(r->d);
    bind->mw_key = LE32(key);
    bind->new_key = LE32((key & ~0xffU) | ((key + 1) & 0xff));
    bind->mr_key = LE32(nic_pick(n, KIND_KEY, r->e >> 8 & 0xff));
    bind->access = LE32(r->f & 0x2f);
}

/* Makes the segment behind the header. Returns its size. */
static size_t make_segment(Guest *g, Nic *n, unsigned at, uint8_t opcode,
                           uint8_t *to, const FuzzRecord *r)
{
    Nic *peer = &g->nic[n == &g->nic[0]];
    uint64_t remote = nic_page(peer, PAGE_DATA) + (uint32_t)r->g % 0x20000;
    uint32_t rkey = nic_pick(peer, KIND_KEY, r->e & 0xff);
    struct fakernic_sq_atomic *atomic = (void *)to;
    struct fakernic_sq_rdma *rdma = (void *)to;

    switch (opcode) {
    case FAKERNIC_SQ_SEND ... FAKERNIC_SQ_SEND_INV:
        if (n->qp[at].type != FAKERNIC_QP_UD &&
            n->qp[at].type != FAKERNIC_QP_GSI) {
            return 0;
        }
        make_av(peer, at, (void *)to, r);
        return sizeof(struct fakernic_sq_ud);
    case FAKERNIC_SQ_ATOMIC_CMP_SWAP ... FAKERNIC_SQ_ATOMIC_MASKED_FETCH_ADD:
        atomic->remote_address = LE64(r->f & 1 ? remote : remote & ~7ULL);
        atomic->rkey = LE32(rkey);
        atomic->swap_or_add = LE64(r->h);
        if (!(opcode & 1)) {
            atomic->compare = LE64(r->h >> 32);
        }
        if (opcode >= FAKERNIC_SQ_ATOMIC_MASKED_CMP_SWAP) {
            atomic->swap_mask_or_boundary = LE64(r->h << 8);
        }
        return sizeof(*atomic);
    case FAKERNIC_SQ_REG_MR:
        make_reg_mr(n, (void *)to, r);
        return sizeof(struct fakernic_sq_reg_mr);
    case FAKERNIC_SQ_BIND_MW:
        make_bind(n, (void *)to, r);
        return sizeof(struct fakernic_sq_bind_mw);
    case FAKERNIC_SQ_LOCAL_INV:
    case FAKERNIC_SQ_NOP:
        return 0;
    default:
        rdma->remote_address = LE64(remote & ~(opcode ==
                                    FAKERNIC_SQ_ATOMIC_WRITE ? 7ULL : 0));
        rdma->rkey = LE32(rkey);
        if (opcode == FAKERNIC_SQ_FLUSH) {
            rdma->flush = LE32(r->f & 0x13);
        }
        return sizeof(*rdma);
    }
}

static bool uses_imm_or_key(uint8_t opcode)
{
    return opcode == FAKERNIC_SQ_SEND_IMM || opcode == FAKERNIC_SQ_SEND_INV ||
           opcode == FAKERNIC_SQ_RDMA_WRITE_IMM ||
           opcode == FAKERNIC_SQ_RDMA_READ_INV ||
           opcode == FAKERNIC_SQ_LOCAL_INV;
}

/* where: QP; a: opcode; b: flags; d: length; e: keys; f, g, h: by opcode. */
void step_send(Guest *g, Nic *n, const FuzzRecord *r)
{
    QEMU_ALIGNED(8) uint8_t wqe[FAKERNIC_SQ_WQE_SIZE_MAX] = { 0 };
    struct fakernic_sq_hdr *hdr = (void *)wqe;
    unsigned at = r->where % IDS;
    NicQp *qp = &n->qp[at];
    size_t len = sizeof(*hdr);

    hdr->opcode = r->a % (FAKERNIC_SQ_NOP + 2);
    hdr->flags = r->b & (FAKERNIC_SQ_SIGNALED | FAKERNIC_SQ_SOLICITED |
                         FAKERNIC_SQ_FENCE);
    if (qp->type == FAKERNIC_QP_RAW_PACKET &&
        hdr->opcode == FAKERNIC_SQ_SEND) {
        hdr->mss = LE16(r->f & 0xffff);
        hdr->flags |= r->c & (FAKERNIC_SQ_IP_CSUM | FAKERNIC_SQ_L4_CSUM |
                              FAKERNIC_SQ_VLAN);
        hdr->imm_or_key = LE32(hdr->flags & FAKERNIC_SQ_VLAN ? r->e : 0);
    }
    if (uses_imm_or_key(hdr->opcode)) {
        hdr->imm_or_key = LE32(nic_pick(n, KIND_KEY, r->e >> 16 & 0xff));
    }
    if (qp->type == FAKERNIC_QP_XRC_INI) {
        hdr->xrc_srqn = LE32(nic_pick(&g->nic[n == &g->nic[0]], KIND_SRQ,
                                      1 + (r->b >> 7)));
    }
    len += make_segment(g, n, at, hdr->opcode, wqe + len, r);
    if (r->b & 16) {
        hdr->flags |= FAKERNIC_SQ_INLINE;
        hdr->inline_length = LE16(r->d % (sizeof(wqe) - len));
        len += r->d % (sizeof(wqe) - len);
    } else if (hdr->opcode <= FAKERNIC_SQ_FLUSH) {
        hdr->sge_count = r->b & 32 ? r->c % 8 : 1;
        make_sges(n, (void *)(wqe + len), hdr->sge_count, r);
        len += hdr->sge_count * sizeof(struct fakernic_sge);
    }
    hdr->bb_count = DIV_ROUND_UP(len, FAKERNIC_SQ_BB_SIZE);
    guest_patch(g, wqe, sizeof(wqe));
    if (queue_put(n, &qp->sq, wqe, len) && !(r->b & 8)) {
        nic_ring(n, qp->uar, FAKERNIC_DOORBELL_SQ,
                 FAKERNIC_PUT(FAKERNIC_DOORBELL_ID, n->id[KIND_QP][at]) |
                     qp->sq.index);
    }
}

/* where: QP; e: what its SQ's record gets, or how far from the true index. */
void step_sq_record(Nic *n, const FuzzRecord *r)
{
    const Queue *sq = &n->qp[r->where % IDS].sq;
    const uint64_t record = sq->address + (uint64_t)sq->depth * sq->entry;

    if (sq->address) {
        stl_le_p(nic_bytes(n, record, 4),
                 r->b & 1 ? r->e : sq->index + (int8_t)r->e);
    }
}

void step_recv(Guest *g, Nic *n, const FuzzRecord *r)
{
    struct {
        struct fakernic_rq_wqe wqe;
        struct fakernic_sge sge[3];
    } slot = { .wqe = { .tag = LE32(r->f), .sge_count = r->c % 4 } };
    Queue *q = r->b >= 192 ? &n->wq[r->where % IDS]
               : r->where & 64 ? &n->srq[r->where % IDS]
                               : &n->qp[r->where % IDS].rq;

    make_sges(n, slot.sge, slot.wqe.sge_count, r);
    guest_patch(g, &slot, sizeof(slot));
    for (unsigned i = 0; i <= r->a % 8; i++) {
        queue_put(n, q, &slot, MIN(sizeof(slot), q->entry));
    }
}
