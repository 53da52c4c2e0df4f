/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The deterministic simulator of the RoCEv2 engine: its parts.
 *
 * A world is a set of hosts, each with one engine (qemu-hw/roce) and a fake
 * guest, connected by one switch. Time is virtual, and all random numbers come
 * from one generator. So one (class, seed) is always the same history. Files:
 *
 *   rng.h        the generator
 *   options.h    what shapes a history
 *   types.h      the parts of a history
 *   world.c      virtual time, events, the log
 *   link.c       the switch and its faults
 *   rules.c      fault rules, as the device has them
 *   frame.c      an independent parser of frames
 *   ledger.c     messages, PSNs and credits on the wire
 *   forge.c      a hostile peer
 *   memory.c     the fake guest: memory and keys
 *   paging.c     the fake guest: regions with on-demand paging
 *   host.c       the fake guest: work requests, RoceHostOps
 *   qp.c         the fake guest: queue pairs
 *   program.c    one request, one receive, and what they do to memory
 *   keys.c       registrations and windows that come and go
 *   datagrams.c  UD, GSI, multicast and raw packets
 *   workload.c   random programs for all queue pairs
 *   tenant.c     a second tenant, which is hostile
 *   changes.c    attributes and registrations that change
 *   migrate.c    engines that are saved, freed and loaded
 *   inject.c     when work is posted, and which objects are removed
 *   model*.c     the oracle
 *   history.c    phases, checks at rest
 *   caps.c       what the engine can do
 *   classes.c    kinds of histories
 *   swarm.c      histories by seed
 *   scenarios.c  named histories
 *
 * The oracle shares no code with the engine except its public header.
 */
#ifndef SIM_H
#define SIM_H

#include "types.h"

/* ---- caps.c -------------------------------------------------------------- */

extern SimCapInfo sim_caps[SIM_CAP_COUNT];
/* Tries all capabilities. False: a required one is missing. */
bool sim_caps_probe(void);

/* ---- frame.c, ledger.c, forge.c, link.c, rules.c ------------------------- */

/* NULL, or the error of a frame that an engine sent. */
const char *frame_parse(const uint8_t *frame, size_t len, SimFrame *out);
/* The same, compared with the destination QP; to < 0: a group. */
void frame_check(World *w, unsigned from, int to, const uint8_t *frame,
                 size_t len);
/* Marks congestion experienced, if the frame is ECN-capable (RFC 3168). */
bool frame_mark(uint8_t *frame);
const char *frame_opcode_name(uint8_t opcode);
/* The MAC address of a group (RFC 1112, RFC 2464). */
void frame_group_mac(const uint8_t gid[16], uint8_t mac[6]);
bool frame_is_raw(const uint8_t *frame);  /* datagrams.c made it */
/* Fixes lengths, checksum and ICRC of a forged frame. */
void frame_seal(uint8_t *frame, size_t len);
uint8_t *frame_payload(uint8_t *frame);         /* behind the BTH */

/* ledger.c: a request of this QP, or a response to it, is sent. */
void ledger_open(SimQp *qp);
/* Counts a frame with data against the rates of the QP. */
void ledger_rate(SimQp *qp, size_t len);
void ledger_cnp(SimQp *qp);
void ledger_request(SimQp *qp, const SimFrame *f);
void ledger_answer(SimQp *qp, const SimFrame *f);

/* forge.c */
size_t forge_frame(World *w, uint8_t *out, size_t len);

/* rules.c. False: a rule is wrong; 'error' has the reason. */
bool rules_add(World *w, const char *text, char error[ROCE_FAULT_ERROR]);
uint64_t rules_hits(const World *w);    /* of all rules */
typedef enum RulesVerdict { RULES_PASS, RULES_TWICE, RULES_LOST } RulesVerdict;
/* Applies a host's rules to a frame, which they may change or delay. */
RulesVerdict rules_frame(World *w, RoceFaultPoint point, unsigned host,
                         uint8_t *frame, size_t *len, RoceTime *arrival);

/* link.c */
bool link_takes(World *w, unsigned to);     /* its port is not down */
void link_send(World *w, unsigned from, const uint8_t *frame, size_t len,
               bool loopback);

/* ---- world.c ------------------------------------------------------------- */

extern bool sim_verbose;

World *world_new(const SimOptions *options, uint64_t seed);
void world_free(World *w);
void *world_alloc(World *w, size_t size);       /* zeroed, freed with w */
void world_fail(World *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void world_log(World *w, unsigned host, SimLogKind kind, uint32_t a,
               uint32_t b, uint32_t c, uint8_t d, uint8_t e);
void world_print_log(World *w, unsigned last);
SimEvent *world_schedule(World *w, RoceTime time, SimEventKind kind,
                         unsigned host);
/* Runs until the time, or until stop() is true. False: failed or overrun. */
bool world_run(World *w, RoceTime until, bool (*stop)(World *w));
/* Does the work that an engine has after a call. */
void world_pump(World *w, Host *host);
bool world_quiet(World *w);     /* no frame in flight, no deadline */

/* ---- memory.c ------------------------------------------------------------ */

void host_memory_open(Host *h);
SimMr *host_mr_new(Host *h, uint64_t length, uint32_t access, RocePd pd);
/* The same, but the host will refuse its pages. */
SimMr *host_mr_refused(Host *h, uint64_t length, uint32_t access);
/* A key with all rights for memory that no engine may access. */
SimMr *host_vault_new(Host *h, uint64_t length, uint64_t iova, RocePd pd);
/* A FAST_REG key, and its registration by one REG_MR (with a new tag). */
SimMr *host_fast_mr_new(Host *h, uint32_t pages);
SimMr *host_fast_mr_next(SimMr *base, uint64_t length, uint32_t access);
/* A window's key, and its binding to a part of a region. */
SimMr *host_mw_new(Host *h, uint8_t type);
SimMr *host_mw_next(const SimMr *mw, const SimMr *mr, uint64_t offset,
                    uint64_t length, uint32_t access);
void host_mr_destroy(SimMr *mr);
/* Begins to record the effects of programs on a region. */
void mr_shadow(SimMr *mr);
/* Moves bytes between a buffer and an image (memory, expected, unknown). */
void mr_get(const SimMr *mr, const uint8_t *image, uint64_t offset, void *buf,
            size_t len);
void mr_put(const SimMr *mr, uint8_t *image, uint64_t offset, const void *buf,
            size_t len);
uint64_t mr_get64(const SimMr *mr, const uint8_t *image, uint64_t offset);
void mr_put64(const SimMr *mr, uint8_t *image, uint64_t offset, uint64_t value);
void mr_fill(const SimMr *mr, uint8_t *image, uint64_t offset, uint8_t byte,
             size_t len);
bool host_dma_read(void *host, uint64_t address, void *buf, size_t len);
bool host_dma_write(void *host, uint64_t address, const void *buf, size_t len);
bool host_dma_atomic(void *host, uint64_t address, RoceAtomic *op);
RoceFlush host_dma_flush(void *host, const RoceFlushJob *job, uint64_t *done);
/* Finds the offset of a DMA address in a region. False: it is elsewhere. */
bool mr_find(const SimMr *mr, uint64_t address, uint64_t *offset);
/* Sets the engine's rights for one page of a region. */
void mr_page_rights(const SimMr *mr, uint32_t page, SimRights rights);
SimRights mr_page_has(const SimMr *mr, uint32_t page);
void mr_rights(const SimMr *mr);
/* Moves a page, and overwrites its old place. */
void mr_move_page(SimMr *mr, uint32_t page);

/* ---- paging.c ------------------------------------------------------------ */

bool host_page_request(void *host, uint32_t key, uint64_t address,
                       uint64_t length, bool write);
void paging_answer(Host *h, uint32_t request);
/* All pages of a region are absent from now on. */
void paging_take_back(SimMr *mr);
/* The same, and their bytes move. */
void paging_move(SimMr *mr);
/* The same, and the host refuses them from now on. */
void paging_refuse(SimMr *mr);
/* An action of a host on its pages without a request. */
void paging_churn(Host *h);
void paging_schedule(World *w);
/* Bytes of a range that were always present since a FLUSH was fetched. */
uint64_t paging_constant(const SimMr *mr, uint64_t offset, uint64_t length,
                         uint64_t since);

/* ---- host.c -------------------------------------------------------------- */

Host *host_new(World *w, unsigned number);
/* An engine for the host, without objects. */
Roce *host_engine_new(Host *h);
void host_free(Host *h);
bool opcode_is_send(uint8_t opcode);
bool opcode_is_atomic(uint8_t opcode);
bool opcode_is_read(uint8_t opcode);
bool opcode_is_write(uint8_t opcode);   /* ATOMIC_WRITE too */
/* An address vector between two QPs, which use the same GID index. */
void host_build_path(const SimQp *qp, const SimQp *to, uint16_t index,
                     RoceAv *av);

/* ---- qp.c ---------------------------------------------------------------- */

/* A QP with its number; one without, for an heir. */
SimQp *host_qp_new(Host *h, uint8_t type, SimRq *rq);
SimQp *host_qp_unborn(Host *h, uint8_t type, SimRq *rq);
SimRq *host_rq_new(Host *h, bool shared);
/* One of the two XRC SRQs of a host. */
SimRq *host_rq_xrc(Host *h, unsigned number);
/* RC, or the sending side of XRC. */
bool qp_is_reliable(const SimQp *qp);
/* RESET -> INIT -> RTR -> RTS. */
void host_connect(SimQp *qp, SimQp *peer, uint32_t rq_psn);
int host_modify_state(SimQp *qp, uint8_t state);
bool host_qp_armed(SimQp *qp);          /* can migrate, and is in RTS */
void host_qp_destroy(SimQp *qp);
void host_post_send(SimQp *qp, uint32_t count); /* and rings the doorbell */
void host_post_recv(SimRq *rq, uint32_t count);
SimQp *host_find_qp(Host *h, uint32_t qpn);
uint32_t mtu_bytes(uint8_t mtu);

/* ---- program.c ----------------------------------------------------------- */

extern SimMr arena_marker;      /* for an arena that does not exist yet */
uint32_t program_size(World *w, uint32_t mtu);
uint8_t program_opcode(World *w, const SimQp *qp);
uint8_t program_flags(World *w, uint8_t opcode, uint32_t length, bool last);
SimSend *workload_add_send(SimQp *qp, uint8_t opcode, uint32_t length,
                           uint8_t flags);
void program_share(SimQp *qp);
SimRecv *workload_add_recv(SimRq *rq, uint32_t length);

/* ---- keys.c -------------------------------------------------------------- */

/* REG_MR, BIND_MW (parent set), LOCAL_INV of a key. */
SimSend *workload_add_key(SimQp *qp, uint8_t opcode, SimMr *mr, SimMr *parent,
                          uint8_t flags);
void keys_prepare(SimQp *qp);
/* REG_MR, requests that use it, and its invalidation. */
void keys_lease(World *w, SimQp *qp);
/* The peer grants a part of its memory, the QP uses it, one of them ends it. */
void keys_grant(World *w, SimQp *qp);

/* ---- datagrams.c --------------------------------------------------------- */

void datagrams_build(World *w);
void raw_build(World *w);

/* ---- workload.c ---------------------------------------------------------- */

void workload_build(World *w);
void workload_host(Host *h);            /* its regions for all */
bool workload_error_fits(const SimQp *qp, const SimSend *s, SimError e);
SimConn *workload_connect(World *w, unsigned a, unsigned b, uint8_t type);
void workload_finish(World *w); /* creates the regions programs need */

/* ---- tenant.c ------------------------------------------------------------ */

void tenants_begin(World *w);
void tenants_end(World *w);             /* destroys all its objects */
void tenant_event(Host *h);
bool tenant_has(const Host *h, uint32_t qpn);
RoceFetch tenant_next_send(Host *h, uint32_t qpn, RoceSendWr *wr);
RoceFetch tenant_next_recv(Host *h, uint32_t qpn, RoceRecvWr *wr);
bool tenant_xrc_srq(Host *h, uint32_t srqn, uint32_t xrcdn, RoceXrcSrq *srq);
void tenant_complete(Host *h, const RoceCompletion *c);
void tenant_frame(Host *to, const SimFrame *f, const uint8_t *frame,
                  size_t len);

/* ---- inject.c ------------------------------------------------------------ */

void inject_schedule(World *w);
void inject_event(World *w, const SimEvent *ev);
/* After a completion, posts the sends that waited for it. */
void inject_completed(SimQp *qp);
/* Resets and reconnects each intact QP, then continues the work. */
void inject_next_life(World *w);

/* ---- migrate.c ----------------------------------------------------------- */

/* Moves one of the engines, or none. */
void migrate_maybe(World *w);

/* ---- changes.c ----------------------------------------------------------- */

void change_schedule(World *w);
void change_event(Host *h, uint32_t roll);
/* Changes attributes in SQD, before RTS. */
void change_drained(SimQp *qp);

/* ---- model.c, model_recv.c, history.c ------------------------------------ */

#define BIT(status) (1u << (status))
#define ANY_STATUS 0xffffffffu

void model_complete(Host *h, const RoceCompletion *c);
/* A QP in this state ('state' is its name) keeps no receive of the queue. */
void model_recv_kept(const SimQp *qp, const SimRq *rq, const char *state);
/* A QP was reset or destroyed: it keeps no receive of an SRQ. */
void model_recv_ended(const SimQp *qp);
void model_send(SimQp *qp, const RoceCompletion *c);
/* The engine makes the host flush. */
void model_flush(Host *h, uint64_t address, uint64_t len, bool persistent);
/* Sends before 'end' are known to have been executed. */
void model_executed(SimQp *qp, uint32_t end);
void model_event(Host *h, uint8_t type, uint32_t id, uint16_t vendor_err);
bool model_all_done(World *w);
void model_final(World *w);     /* after quiescence */
void model_teardown(World *w);  /* flush, destroy, compare memory */
bool model_may_break(const SimQp *qp);
bool model_may_drop(const World *w);    /* datagrams */
bool model_unreliable(const SimQp *qp);
bool model_waited_in_vain(const SimQp *qp);
/* The whole life of a history: run, faults, liveness, final checks. */
bool world_history(World *w);

#endif
