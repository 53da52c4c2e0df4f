/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A second, hostile tenant: another process on the same hosts, with its own
 * PDs, queue pairs, SRQs and regions. It tries to harm the first tenant:
 * requests with foreign keys, local and remote; invalidations, registrations
 * and binds of foreign keys; malformed WQEs; a flood of pages on demand, also
 * in a region that the first tenant lent it; objects that are destroyed and
 * created with the same numbers; repeated old requests with a key of the
 * number's next owner.
 *
 * A request with a key of another PD must not succeed. Nothing may be read or
 * written in a vault, whose key has all rights, while the engine has none. The
 * first tenant is not involved: its programs, and the checks of model.c, are
 * those of a clean link.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define PAIRS 4
#define WRS 8u                          /* posted and not completed, per QP */
#define RECVS 16u                       /* all receives of a QP */
#define LENGTH 16384u                   /* of a region */
#define REGIONS 2
#define SRQN 60u                        /* the only XRC SRQ of a host */
#define XRCD (SIM_XRCD + 1)
#define CQN 0x70000000u
#define TAG_FOREIGN 0x80000000u         /* a receive with a foreign key */
#define XRC_READ 0xacu
#define SPARSE (1ull << 40)             /* regions that only use chunks */

typedef struct Work {
    RoceSendWr wr;
    bool forbidden;                     /* must not succeed */
} Work;

typedef struct Side {
    SimQp qp;
    uint32_t done;
    uint32_t recvs;
    Work work[WRS];
} Side;

typedef struct Pair {
    bool alive, failed;
    SimConn conn;
    Side side[2];
} Pair;

typedef struct Domain {
    uint32_t generation;
    SimMr *region[REGIONS];
    uint32_t window;
} Domain;

struct SimTenant {
    Domain domain[SIM_TENANT_PDS];
    SimMr *vault;                       /* the first tenant's */
    SimMr *heir;                        /* of the number's next owner */
    uint32_t sparse;                    /* keys */
    uint32_t lent;
    uint64_t sparse_next;
    uint64_t srq;                       /* serial */
    uint8_t read[ROCE_FRAME_MAX];       /* the last READ to an XRC target */
    size_t read_len;
    uint32_t recycled;
};

struct SimTenants {
    bool over;
    Pair pair[PAIRS];
};

static RocePd pd_of(const Host *h, unsigned number)
{
    return ROCE_PD(SIM_PD_TENANT + number,
                   h->tenant->domain[number].generation);
}

/* ---- look-ups ------------------------------------------------------------ */

static Side *find_side(const Host *h, uint32_t qpn, Pair **pair)
{
    struct SimTenants *t = h->world->tenants;

    for (unsigned i = 0; t && i < 2 * PAIRS; i++) {
        Side *side = &t->pair[i / 2].side[i % 2];

        if (t->pair[i / 2].alive && side->qp.host == h &&
            side->qp.qpn == qpn) {
            *pair = &t->pair[i / 2];
            return side;
        }
    }
    return NULL;
}

bool tenant_has(const Host *h, uint32_t qpn)
{
    Pair *pair;

    return find_side(h, qpn, &pair) != NULL;
}

/* A region of another PD, of either tenant; vaults are more likely. */
static const SimMr *foreign(Host *h, RocePd pd)
{
    Rng *r = &h->world->rng;
    uint32_t start = rng_below(r, h->mr_count);

    if (h->tenant->heir && rng_pct(r, 20)) {
        return h->tenant->heir;
    }
    for (uint32_t i = 0; i < h->mr_count && rng_pct(r, 75); i++) {
        const SimMr *mr = &h->mr[(start + i) % h->mr_count];

        if (mr->alive && mr->pd != pd && mr->page_count) {
            return mr;
        }
    }
    return h->tenant->vault;
}

/* A key that work requests of the first tenant change. */
static uint32_t foreign_key(Host *h)
{
    World *w = h->world;
    const SimQp *qp = &w->qp[rng_below(&w->rng, w->qp_count)];

    for (uint32_t i = qp->fetched; i && qp->host == h; i--) {
        if (qp->send[i - 1].mr) {
            return qp->send[i - 1].mr->key;
        }
    }
    return h->tenant->vault->key;
}

/* ---- objects ------------------------------------------------------------- */

static void domain_open(Host *h, unsigned number)
{
    Domain *d = &h->tenant->domain[number];
    RocePd pd = pd_of(h, number);

    for (unsigned i = 0; i < REGIONS; i++) {
        d->region[i] = host_mr_new(h, LENGTH,
                                   FAKERNIC_ACCESS_LOCAL_WRITE | SIM_REMOTE,
                                   pd);
    }
    if (roce_mw_create(h->roce, FAKERNIC_MW_TYPE_2B, 1, pd, &d->window)) {
        world_fail(h->world, "a tenant's window is refused");
    }
}

static void domain_close(Host *h, unsigned number)
{
    Domain *d = &h->tenant->domain[number];

    /* This includes the region of all addresses. */
    for (uint32_t i = 0; i < h->mr_count; i++) {
        if (h->mr[i].alive && h->mr[i].pd == pd_of(h, number)) {
            host_mr_destroy(&h->mr[i]);
        }
    }
    if (roce_mw_destroy(h->roce, d->window) ||
        roce_pd_users(h->roce, pd_of(h, number))) {
        world_fail(h->world, "host %u: a tenant's PD stays busy", h->number);
    }
    d->generation++;
}

static void sparse_open(Host *h, RocePd pd, uint32_t *key)
{
    RoceMrInit init = { .type = FAKERNIC_MR_ON_DEMAND, .page_shift = 12,
                        .access = FAKERNIC_ACCESS_ON_DEMAND |
                                  FAKERNIC_ACCESS_LOCAL_WRITE,
                        .iova = SPARSE, .length = SPARSE, .pd = pd };

    if (h->world->options.odp_pct && roce_mr_create(h->roce, &init, key)) {
        world_fail(h->world, "a tenant's large region is refused");
    }
}

static void side_open(Pair *p, Side *side, Host *h, uint8_t type)
{
    World *w = h->world;
    bool xrc = type != FAKERNIC_QP_RC;
    RoceQpInit init = { .type = type, .send_cqn = CQN, .recv_cqn = CQN,
                        .has_sq = type != FAKERNIC_QP_XRC_TGT,
                        .has_rq = !xrc };

    init.pd = pd_of(h, xrc ? 0 : rng_below(&w->rng, SIM_TENANT_PDS));
    init.xrcdn = type == FAKERNIC_QP_XRC_TGT ? XRCD : 0;
    memset(side, 0, sizeof(*side));
    side->qp = (SimQp){ .world = w, .host = h, .conn = &p->conn, .pd = init.pd,
                        .type = type, .mtu = FAKERNIC_MTU_1024,
                        .sq_psn = (uint32_t)rng_next(&w->rng) & 0xffffff };
    if (roce_qp_create(h->roce, &init, &side->qp.qpn)) {
        world_fail(w, "a tenant's QP is refused");
    }
}

static void pair_open(World *w, unsigned number)
{
    Pair *p = &w->tenants->pair[number];
    bool xrc = number == 0;
    uint32_t hosts = w->options.hosts;
    Host *a = w->host[rng_below(&w->rng, hosts)];
    Host *b = w->host[rng_below(&w->rng, hosts)];
    SimQp *one = &p->side[0].qp, *two = &p->side[1].qp;

    side_open(p, &p->side[0], a, xrc ? FAKERNIC_QP_XRC_INI : FAKERNIC_QP_RC);
    side_open(p, &p->side[1], b, xrc ? FAKERNIC_QP_XRC_TGT : FAKERNIC_QP_RC);
    p->alive = true;
    p->failed = false;
    if (!w->failed) {
        one->peer = two;
        two->peer = one;
        host_connect(one, two, two->sq_psn);
        host_connect(two, one, one->sq_psn);
    }
}

static void pair_close(World *w, Pair *p)
{
    for (unsigned i = 0; p->alive && i < 2; i++) {
        SimQp *qp = &p->side[i].qp;

        if (roce_qp_destroy(qp->host->roce, qp->qpn)) {
            world_fail(w, "a tenant's QP is not destroyed");
        }
    }
    p->alive = false;
}

/* Repeats a READ that was answered in a PD that no longer exists, with a key
 * of the number's next owner. */
static void say_again(Host *h)
{
    struct SimTenant *t = h->tenant;
    SimEvent *ev;
    uint8_t *rkey;

    if (!t->read_len) {
        return;
    }
    rkey = frame_payload(t->read) + 4 + 8;      /* XRCETH, address */
    for (unsigned i = 0; i < 4; i++) {
        rkey[i] = (uint8_t)(t->heir->key >> (24 - 8 * i));
    }
    frame_seal(t->read, t->read_len);
    ev = world_schedule(h->world, h->world->now + 1, EV_FRAME, h->number);
    ev->frame = malloc(t->read_len);
    memcpy(ev->frame, t->read, t->read_len);
    ev->frame_len = t->read_len;
    h->world->link.in_flight++;
    t->read_len = 0;
}

/* Frees a PD with all its objects, but keeps the last READ to a target. */
static void recycle(Host *h, unsigned number)
{
    struct SimTenants *all = h->world->tenants;
    struct SimTenant *t = h->tenant;
    uint64_t iova = t->domain[number].region[0]->iova;

    for (unsigned i = number ? 1 : 0; i < PAIRS; i++) {
        pair_close(h->world, &all->pair[i]);
    }
    if (t->heir) {
        host_mr_destroy(t->heir);
    }
    if (number == 0 && t->sparse) {
        roce_mr_destroy(h->roce, t->sparse);
    }
    t->heir = NULL;
    t->srq++;
    domain_close(h, number);
    /* Another owner has the number once; its memory is a vault. */
    t->heir = host_vault_new(h, LENGTH, iova, pd_of(h, number));
    if (number) {
        say_again(h);
    }
    t->domain[number].generation++;
    domain_open(h, number);
    if (number == 0) {
        sparse_open(h, pd_of(h, 0), &t->sparse);
    }
}

/* ---- requests ------------------------------------------------------------ */

static RoceSge sge_of(const SimMr *mr, Rng *r, uint32_t length)
{
    uint64_t room = mr->length > length ? mr->length - length : 0;

    return (RoceSge){ .lkey = mr->key, .length = length,
                      .address = (mr->iova + rng_below(r, (uint32_t)room + 1)) &
                                 ~7ull };
}

static const SimMr *own(const Host *h, RocePd pd)
{
    unsigned number = ROCE_PD_NUMBER(pd) - SIM_PD_TENANT;

    return h->tenant->domain[number]
        .region[rng_below(&h->world->rng, REGIONS)];
}

/* A transfer, one-sided or not, with own or foreign keys. */
static void build_transfer(Side *s, Work *work)
{
    static const uint8_t opcodes[] = {
        FAKERNIC_SQ_RDMA_READ, FAKERNIC_SQ_RDMA_READ, FAKERNIC_SQ_RDMA_WRITE,
        FAKERNIC_SQ_SEND, FAKERNIC_SQ_ATOMIC_FETCH_ADD, FAKERNIC_SQ_SEND_INV,
    };
    Host *h = s->qp.host, *there = s->qp.peer->host;
    Rng *r = &h->world->rng;
    RoceSendWr *wr = &work->wr;
    bool xrc = s->qp.type == FAKERNIC_QP_XRC_INI;
    RocePd pd = xrc ? pd_of(there, 1) : s->qp.peer->pd;
    bool bad_local = rng_pct(r, 15), bad_remote = rng_pct(r, 15);
    RoceSge remote;
    uint32_t length;
    bool atomic;

    wr->opcode = opcodes[rng_below(r, sizeof(opcodes))];
    atomic = wr->opcode == FAKERNIC_SQ_ATOMIC_FETCH_ADD;
    length = atomic ? 8 : rng_range(r, 1, 4096);
    wr->sge_count = 1;
    wr->sge[0] = sge_of(bad_local ? foreign(h, s->qp.pd) : own(h, s->qp.pd), r,
                        length);
    remote = sge_of(bad_remote ? foreign(there, pd) : own(there, pd), r,
                    length);
    wr->xrc_srqn = xrc ? SRQN : 0;
    work->forbidden = bad_local;
    if (atomic) {
        wr->atomic.remote_address = remote.address;
        wr->atomic.rkey = remote.lkey;
        wr->atomic.swap_or_add = 1;
    } else if (wr->opcode == FAKERNIC_SQ_SEND_INV) {
        wr->imm_or_key = foreign_key(there);
        work->forbidden = true;
        return;
    } else if (wr->opcode != FAKERNIC_SQ_SEND) {
        wr->rdma.remote_address = remote.address;
        wr->rdma.rkey = remote.lkey;
    }
    work->forbidden |= bad_remote && wr->opcode != FAKERNIC_SQ_SEND;
}

/* Changes the first tenant's keys, or binds a window to its memory. */
static void build_key(Side *s, Work *work)
{
    Host *h = s->qp.host;
    Rng *r = &h->world->rng;
    RoceSendWr *wr = &work->wr;
    unsigned number = ROCE_PD_NUMBER(s->qp.pd) - SIM_PD_TENANT;
    const SimMr *vault = h->tenant->vault;

    work->forbidden = true;
    switch (rng_below(r, 3)) {
    case 0:
        wr->opcode = FAKERNIC_SQ_LOCAL_INV;
        wr->imm_or_key = foreign_key(h);
        break;
    case 1:
        wr->opcode = FAKERNIC_SQ_REG_MR;
        wr->reg_mr.key = foreign_key(h);
        wr->reg_mr.length = wr->reg_mr.page_count = 1;
        wr->reg_mr.page_shift = 12;
        break;
    default:
        wr->opcode = FAKERNIC_SQ_BIND_MW;
        wr->bind_mw.address = vault->iova;
        wr->bind_mw.length = 64;
        wr->bind_mw.mw_key = h->tenant->domain[number].window;
        wr->bind_mw.new_key = wr->bind_mw.mw_key;
        wr->bind_mw.mr_key = vault->key;
        wr->bind_mw.access = (uint32_t)FAKERNIC_ACCESS_REMOTE_READ;
    }
}

static void post(Side *s)
{
    Rng *r = &s->qp.world->rng;

    for (uint32_t n = rng_range(r, 1, 4);
         n && s->qp.posted - s->done < WRS; n--) {
        Work *work = &s->work[s->qp.posted % WRS];

        memset(work, 0, sizeof(*work));
        work->wr.index = s->qp.posted++;
        work->wr.flags = FAKERNIC_SQ_SIGNALED;
        if (rng_pct(r, 5)) {
            work->wr.opcode = 0xff;
            work->wr.format_error = FAKERNIC_VENDOR_SQ_FORMAT;
            work->forbidden = true;
        } else if (rng_pct(r, 10)) {
            build_key(s, work);
        } else {
            build_transfer(s, work);
        }
    }
    roce_post_send(s->qp.host->roce, s->qp.world->now, s->qp.qpn);
    world_pump(s->qp.world, s->qp.host);
}

/* Uses one chunk after the other, with one page each, without a request. */
static void flood_chunks(Host *h)
{
    struct SimTenant *t = h->tenant;
    uint64_t page = t->vault->pages[0];
    RocePageUpdate u = { .state = ROCE_PAGES_READABLE, .page_count = 1,
                         .page_shift = 12, .pages = &page };

    for (unsigned i = 0; t->sparse && i < 128; i++) {
        u.key = i % 2 ? t->lent : t->sparse;
        u.address = SPARSE + (t->sparse_next++ << 21) % SPARSE;
        if (roce_mr_update_pages(h->roce, &u)) {
            world_fail(h->world, "a tenant's page is refused");
        }
    }
}

/* Removes the tenant's own pages, which its requests then need again. */
static void take_pages(Host *h)
{
    for (unsigned i = 0; i < SIM_TENANT_PDS * REGIONS; i++) {
        SimMr *mr = h->tenant->domain[i / REGIONS].region[i % REGIONS];

        if (mr->on_demand) {
            paging_take_back(mr);
        }
    }
}

/* ---- actions ------------------------------------------------------------- */

void tenant_event(Host *h)
{
    World *w = h->world;
    unsigned number = rng_below(&w->rng, PAIRS);
    Pair *p = &w->tenants->pair[number];

    if (w->tenants->over) {
        return;
    }
    world_schedule(w, w->now + rng_range(&w->rng, 1, w->options.tenants * 1000),
                   EV_TENANT, h->number);
    if (rng_pct(&w->rng, 1)) {
        if (h->tenant->recycled++ < 16) {
            recycle(h, rng_below(&w->rng, SIM_TENANT_PDS));
        }
    } else if (!p->alive) {
        pair_open(w, number);
    } else if (p->failed || rng_pct(&w->rng, 3)) {
        pair_close(w, p);
    } else if (rng_pct(&w->rng, 20)) {
        flood_chunks(h);
        take_pages(h);
    } else if (rng_pct(&w->rng, 5)) {
        h->tenant->srq++;
    } else {
        post(&p->side[number ? rng_below(&w->rng, 2) : 0]);
    }
    world_pump(w, h);
}

void tenants_begin(World *w)
{
    if (!w->options.tenants) {
        return;
    }
    w->tenants = world_alloc(w, sizeof(*w->tenants));
    for (unsigned i = 0; i < w->options.hosts && !w->failed; i++) {
        Host *h = w->host[i];

        h->tenant = world_alloc(w, sizeof(*h->tenant));
        h->tenant->srq = 1;
        h->tenant->vault = host_vault_new(h, LENGTH, 1ull << 45, SIM_PD);
        for (unsigned k = 0; k < SIM_TENANT_PDS; k++) {
            domain_open(h, k);
        }
        sparse_open(h, pd_of(h, 0), &h->tenant->sparse);
        sparse_open(h, SIM_PD, &h->tenant->lent);
        world_schedule(w, w->now, EV_TENANT, i);
    }
}

void tenants_end(World *w)
{
    struct SimTenants *t = w->tenants;

    if (!t || t->over) {
        return;
    }
    t->over = true;
    for (unsigned i = 0; i < PAIRS; i++) {
        pair_close(w, &t->pair[i]);
    }
    for (unsigned i = 0; i < w->options.hosts; i++) {
        Host *h = w->host[i];

        if (h->tenant->sparse) {
            roce_mr_destroy(h->roce, h->tenant->sparse);
            roce_mr_destroy(h->roce, h->tenant->lent);
        }
        if (h->tenant->heir) {
            host_mr_destroy(h->tenant->heir);
        }
        for (unsigned k = 0; k < SIM_TENANT_PDS; k++) {
            domain_close(h, k);
        }
        world_pump(w, h);
    }
}

/* ---- RoceHostOps --------------------------------------------------------- */

RoceFetch tenant_next_send(Host *h, uint32_t qpn, RoceSendWr *wr)
{
    Pair *pair;
    Side *s = find_side(h, qpn, &pair);

    if (s->qp.fetched == s->qp.posted) {
        return ROCE_FETCH_NONE;
    }
    *wr = s->work[s->qp.fetched++ % WRS].wr;
    if (wr->opcode == FAKERNIC_SQ_REG_MR) {
        wr->reg_mr.pages = malloc(sizeof(uint64_t));
        wr->reg_mr.pages[0] = h->tenant->vault->pages[0];
    }
    return ROCE_FETCH_OK;
}

RoceFetch tenant_next_recv(Host *h, uint32_t qpn, RoceRecvWr *wr)
{
    Pair *pair;
    Side *s = find_side(h, qpn, &pair);
    Rng *r = &h->world->rng;
    bool xrc = s->qp.type == FAKERNIC_QP_XRC_TGT, bad = rng_pct(r, 10);
    RocePd pd = xrc ? pd_of(h, 1) : s->qp.pd;

    if (s->recvs++ >= RECVS) {
        return ROCE_FETCH_NONE;
    }
    memset(wr, 0, sizeof(*wr));
    wr->tag = (bad ? TAG_FOREIGN : 0) |
              (xrc ? (uint32_t)h->tenant->srq & 0x7fffffff : 0);
    wr->sge_count = 1;
    wr->sge[0] = sge_of(bad ? foreign(h, pd) : own(h, pd), r, 4096);
    return ROCE_FETCH_OK;
}

bool tenant_xrc_srq(Host *h, uint32_t srqn, uint32_t xrcdn, RoceXrcSrq *srq)
{
    if (!h->tenant || srqn != SRQN || xrcdn != XRCD) {
        return false;
    }
    *srq = (RoceXrcSrq) { .id = (1ull << 32) + h->tenant->srq,
                          .pd = pd_of(h, 1), .cqn = CQN };
    return true;
}

static void check_recv(Host *h, const Side *s, const RoceCompletion *c)
{
    if (s->qp.type == FAKERNIC_QP_XRC_TGT &&
        (c->wqe_index & ~TAG_FOREIGN) != (uint32_t)h->tenant->srq) {
        world_fail(h->world, "host %u: a receive of an SRQ that is gone "
                   "completes in the number's next one", h->number);
    } else if (c->status == FAKERNIC_WC_SUCCESS && c->byte_count &&
               c->wqe_index & TAG_FOREIGN) {
        world_fail(h->world, "host %u: a tenant received into another's "
                   "memory", h->number);
    }
}

void tenant_complete(Host *h, const RoceCompletion *c)
{
    World *w = h->world;
    Pair *pair;
    Side *s = find_side(h, c->qpn, &pair);

    if (c->status != FAKERNIC_WC_SUCCESS) {
        pair->failed = true;
    }
    if (c->opcode & 0x80) {
        check_recv(h, s, c);
        return;
    }
    if (c->wqe_index != s->done || c->wqe_index >= s->qp.fetched) {
        world_fail(w, "host %u: a tenant's request %u completes, not %u",
                   h->number, c->wqe_index, s->done);
    } else if (c->status == FAKERNIC_WC_SUCCESS &&
               s->work[c->wqe_index % WRS].forbidden) {
        world_fail(w, "host %u: a tenant's request, opcode %u, succeeded with "
                   "what is not its own", h->number,
                   s->work[c->wqe_index % WRS].wr.opcode);
    }
    s->done = c->wqe_index + 1;
}

/* A frame was sent to one of its QPs. */
void tenant_frame(Host *to, const SimFrame *f, const uint8_t *frame,
                  size_t len)
{
    if (f->opcode == XRC_READ && tenant_has(to, f->dest_qpn)) {
        memcpy(to->tenant->read, frame, len);
        to->tenant->read_len = len;
    }
}
