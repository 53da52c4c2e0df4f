/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by the files of the fuzz target "guest": two NICs on a hub in a QEMU
 * without a guest. The first is a card, the second the virtual function of
 * another card. The fuzzer acts as the guest of each, as the driver of the
 * other card's PF, and as the wire.
 *
 *   guest.c    machine, steps of an input
 *   driver.c   what a driver does: bring-up, command ring, a world of objects
 *   command.c  one command with a valid frame and fields from the record
 *   inside.c   FAULT and DUMP; queries by QOM
 *   move.c     saves a device and loads it, as it was and changed
 *   paging.c   a driver's answers to page requests
 *   vport.c    the PF of the virtual function: settings, VF Enable, resets
 *   wq.c       work queues and RSS
 *   wqe.c      work requests in the rings
 */
#ifndef FUZZ_GUEST_H
#define FUZZ_GUEST_H

#include "hw/pci/pci_device.h"
#include "fakernic/cmdq.h"
#include "fakernic/cq.h"
#include "fakernic/doorbell.h"
#include "fakernic/eq.h"
#include "fakernic/mr.h"
#include "fakernic/qp.h"
#include "fakernic/regs.h"
#include "fakernic/rq.h"
#include "fakernic/sq.h"
#include "fakernic/vport.h"
#include "records.h"

#define LE16(x) cpu_to_le16(x)
#define LE32(x) cpu_to_le32(x)
#define LE64(x) cpu_to_le64(x)

#define NICS 2
/* Indices of the virtual function and, behind the NICS, of its PF. */
#define VF 1
#define PF 2
#define FUNCTIONS 3
/* The BARs of the first function; those of the others follow. */
#define BAR_REGS_AT 0xe0000000u
#define BAR_MSIX_AT 0xe0400000u
#define BAR_UAR_AT 0xe0800000u
#define BAR_STRIDE 0x1000000u
/* Each NIC's part of the machine's memory, by pages; the driver's use of it: */
#define NIC_MEMORY 0x100000
#define NIC_PAGES (NIC_MEMORY / FAKERNIC_PAGE_SIZE)
#define PAGE_CMD_SQ 0
#define PAGE_CMD_CQ 1
#define PAGE_MSI 2
#define PAGE_TABLES 4           /* page tables: any contents */
#define PAGE_QUEUES 16          /* EQs, CQs, SQs, RQs, SRQs */
#define PAGE_DATA 128           /* and the rest: mapped by regions */

#define CMD_LOG_DEPTH 4
#define IDS 12                  /* known numbers of each kind */
#define QUEUE_LOG_DEPTH 4
#define RQ_LOG_STRIDE 6
#define NIC_QKEY 0x11223344

typedef enum Kind {
    KIND_EQ,
    KIND_CQ,
    KIND_PD,
    KIND_UAR,
    KIND_XRCD,
    KIND_SRQ,
    KIND_QP,
    KIND_KEY,
    KIND_FLOW,
    KIND_COUNTER,
    KIND_WQ,
    KIND_TABLE,
    KIND_OTHER,
    KINDS,
} Kind;

/* A ring as the driver sees it. */
typedef struct Queue {
    uint64_t address;
    uint32_t depth, entry, index;
} Queue;

typedef struct NicQp {
    uint8_t type;
    Queue sq, rq;
    uint32_t cq, uar;
} NicQp;

typedef struct Nic {
    PCIDevice *pci;
    uint64_t regs, uar;         /* where the BARs are mapped */
    uint64_t memory;            /* address of its part of RAM */
    uint8_t *ram;               /* the bytes of that part */
    uint8_t number;
    uint64_t features;
    uint32_t cmd_pi;
    uint32_t id[KINDS][IDS];    /* the newest numbers of each kind */
    uint32_t ids[KINDS];        /* created so far */
    NicQp qp[IDS];              /* the QPs of id[KIND_QP] */
    Queue srq[IDS], wq[IDS];
    struct fakernic_page_request want[FAKERNIC_PAGE_REQUESTS_MAX];
    unsigned wants;             /* page requests without an answer */
} Nic;

/* How a driver answers page requests, in addition to steps that do. */
typedef enum Paging {
    PAGING_NEVER,
    PAGING_RIGHT,
    PAGING_REFUSE,              /* some */
    PAGINGS,
} Paging;

/* Flips bits of the next structure that goes to a device. */
typedef struct GuestPatch {
    bool armed;
    uint16_t offset;
    uint64_t bits;
} GuestPatch;

typedef struct Guest {
    Nic nic[FUNCTIONS];
    FuzzInput input;
    GuestPatch patch;
    uint8_t features_choice;
    Paging paging;
    uint64_t costly[FUNCTIONS]; /* costly steps before this input */
} Guest;

#define GUEST_CHECK(condition)                                              \
    do {                                                                    \
        if (!(condition)) {                                                 \
            guest_broken(__FILE__, __LINE__, #condition);                   \
        }                                                                   \
    } while (0)

G_NORETURN void guest_broken(const char *file, int line, const char *rule);

/* guest.c */
void guest_patch(Guest *g, void *bytes, size_t len);
void guest_settle(void);
/* Restores PCI registers that steps may have changed. */
void nic_restore_pci(Nic *n);

static inline uint64_t nic_page(const Nic *n, unsigned page)
{
    return n->memory + (uint64_t)page * FAKERNIC_PAGE_SIZE;
}

static inline void *nic_bytes(Nic *n, uint64_t address, size_t len)
{
    GUEST_CHECK(address >= n->memory && address - n->memory < NIC_MEMORY &&
                len <= NIC_MEMORY - (address - n->memory));
    return n->ram + (address - n->memory);
}

/* The GIDs of a QP. An XRC initiator and its target use the same. */
static inline bool qp_is_ipv6(unsigned at)
{
    return at / 2 & 1;
}

/* driver.c */
uint32_t reg_read(Nic *n, uint32_t reg);
void reg_write(Nic *n, uint32_t reg, uint32_t value);
void nic_ring(Nic *n, uint32_t uar, unsigned place, uint64_t word);
/* Resets the device to its state after power-on, with bus mastering. */
void nic_restart(Nic *n);
void nic_enable(Nic *n, uint8_t features_choice);
/* Executes one command. Returns its status; -1: the device has stopped. */
int nic_command(Guest *g, Nic *n, uint16_t opcode, const void *request,
                size_t len, void *response, size_t response_len);
/* The same for commands that create. Records the new number; 0: refused. */
uint32_t nic_create(Guest *g, Nic *n, Kind kind, uint16_t opcode,
                    const void *request, size_t len);
/* A number of an object of this kind: a known one, or any. */
uint32_t nic_pick(const Nic *n, Kind kind, uint32_t choice);
struct fakernic_page_list nic_queue(Nic *n, Queue *q, unsigned page,
                                    unsigned log_depth, unsigned log_entry);
/* Objects of every kind on both NICs, QPs connected in RTS. */
void guest_populate(Guest *g);
/* Moves the QP to its next state on the way to RTS. */
void guest_advance(Guest *g, Nic *n, unsigned at);

/* command.c */
void step_command(Guest *g, Nic *n, const FuzzRecord *r);

/* inside.c */
void command_inside(Guest *g, Nic *n, uint16_t opcode, const FuzzRecord *r);
/* Queries objects, or the entries of a ring, by QOM. */
void step_look(Nic *n, const FuzzRecord *r);
/* Removes all fault rules, which a reset does not. */
void nic_forget_rules(Nic *n);

/* move.c */
void step_move(Guest *g, Nic *n, const FuzzRecord *r);

/* paging.c */
void command_paging(Guest *g, Nic *n, uint16_t opcode, const FuzzRecord *r);
/* Answers all present page requests. */
void guest_page(Guest *g, Nic *n, bool refuse);

/* vport.c */
/* The port between the PF's card and the rest of the machine. */
void vport_prepare(Nic *pf);
/* Enables the VF, with its BARs where n->regs and n->uar are. */
void vf_restore_pci(Nic *vf, Nic *pf);
/* Resets PF and VF. The vport has an address and the default settings then. */
void vport_restart(Guest *g);
/* Commands that only the PF may execute, from another function. */
void command_vport(Guest *g, Nic *n, uint16_t opcode, const FuzzRecord *r);
/* The PF's driver, or other software that writes to the PF's registers. */
void step_vport(Guest *g, const FuzzRecord *r);

/* wq.c */
void command_wq(Guest *g, Nic *n, uint16_t opcode, const FuzzRecord *r);
/* WQs, and an RSS QP for frames that match no other rule. */
void populate_rss(Guest *g, Nic *n);

/* wqe.c */
void step_send(Guest *g, Nic *n, const FuzzRecord *r);
void step_recv(Guest *g, Nic *n, const FuzzRecord *r);
void step_sq_record(Nic *n, const FuzzRecord *r);

#endif
