/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fakernic device: its state.
 *
 * The device is a shell around the RoCEv2 engine (../roce/roce.h). It knows
 * PCI, guest memory, queues and interrupts, and nothing of packets: it fetches
 * work requests for the engine, places the completions, and moves frames
 * between the engine and the netdev. Everything in guest-visible format comes
 * from the hardware interface headers, is copied once and decoded from the
 * copy.
 *
 * Files are a stair: each calls only those below or beside it (tests/laws).
 *
 *     fakernic.c                  the wiring
 *     doors.c                     every way in
 *     turn.c  bar.c               the work of a turn; registers and doorbells
 *     cmdq.c  life.c              commands; fatal errors and reset
 *     cmd_*.c  objects.c          one command each; all objects together
 *     query.c  look.c  json.c  stats.c
 *                                 what is inside, for others to see
 *     port.c  flow.c  rss.c       frames
 *     sq.c  rq.c  cq.c  eq.c      queues
 *     ring.c  table.c  parse.c    what they are made of
 *     dm.c  persist.c             device memory; the medium of guest memory
 *     dma.c  memory.c             guest memory, and how much of all
 *     interrupt.c                 MSI-X
 *     fault.c                     what fault rules do
 *     record.c  clock.c  budget.c  cpus.c
 *                                 time, work
 *
 * The way back up is a note: fakernic_kick() says that there is work for a
 * turn. The engine calls sq.c, rq.c, cq.c and eq.c, which never call the
 * engine back: what they find broken waits for the turn.
 */
#ifndef FAKERNIC_DEVICE_STATE_H
#define FAKERNIC_DEVICE_STATE_H

#include "common.h"
#include "hw/pci/pci_device.h"
#include "net/net.h"
#include "qemu/main-loop.h"
#include "qom/object.h"
#include "system/runstate.h"

#include "cmd.h"
#include "cmdq.h"
#include "cq.h"
#include "eq.h"
#include "fault.h"
#include "flow.h"
#include "look.h"
#include "odp.h"
#include "qp.h"
#include "query.h"
#include "record.h"
#include "table.h"
#include "../link/link.h"

#define TYPE_FAKERNIC "fakernic"
OBJECT_DECLARE_SIMPLE_TYPE(FakernicState, FAKERNIC)

/* What a turn may use, and has used (budget.h). */
typedef struct FakernicBudget {
    uint32_t used;              /* units */
    uint32_t look;              /* at the clock next, when this much is used */
    int64_t ends;               /* by the host's clock, in ns */
    bool over;
} FakernicBudget;

/* For tests: does a step of work cost what it counts as (budget.h)? */
typedef struct FakernicCosts {
    uint32_t limit;             /* ns of CPU time a unit; 0: not measured */
    uint32_t found;             /* steps that took more */
    uint32_t planted;           /* us that the next step wastes */
    uint32_t declared;          /* units of this step so far */
    int64_t began;              /* it did, by the thread's CPU time in ns */
} FakernicCosts;

struct FakernicState {
    PCIDevice parent_obj;
    char *name;                 /* its path in QOM, from realize on */

    /* properties */
    NICConf conf;
    char *link_path;
    uint32_t uars;
    uint32_t max_qp;
    uint32_t max_cq;
    uint32_t max_srq;
    uint32_t max_pd;
    uint32_t max_mr;
    uint64_t max_mr_pages;
    uint64_t max_memory;        /* of the host, in bytes: memory.h */
    uint32_t gids;
    uint32_t mtu_max;
    uint32_t speed_mbps;
    uint64_t dm_size;
    bool dcqcn;
    bool guest_faults;          /* the guest may add fault rules */
    uint32_t turn_work;         /* budget of a turn, in units of budget.h */
    uint32_t turn_us;           /* and in time */
    uint32_t cpu_nice;          /* of the guest's CPUs, below the main thread */
    bool null_writes;           /* to be measured: WRITEs make no packets */
    uint32_t interface_version;
    uint64_t feature_mask;

    /* wiring */
    NICState *nic;
    FakernicLink *link;         /* behind the NIC, or NULL: a netdev is */
    NetPacketSent *sent;        /* the door for the netdev's answer */
    MemoryRegion regs_bar;
    MemoryRegion uar_bar;
    MemoryRegion dm;            /* device memory, within uar_bar */
    uint64_t dm_zeroed;         /* bytes of it, by this reset */
    Roce *roce;
    uint64_t *stats;            /* the engine's array */
    QEMUBH *bh;
    QEMUTimer *timer;
    RoceTime timer_deadline;
    bool tx_blocked;            /* a frame waits in the netdev's queue */
    RoceTime tx_blocked_until;  /* then the wire counts as dead */

    /* life: life.h */
    unsigned held;              /* FAKERNIC_HELD_*: why it does not run */
    bool reset_wanted;          /* not begun yet */
    VMChangeStateEntry *vm_state;
    FakernicFaults faults;      /* fault.h */
    FakernicRecorder recorder;  /* record.h */
    FakernicLook look;          /* look.h */
    FakernicWindow window;      /* query.h */
    char *dump;                 /* the text that DUMP made last, or NULL */
    char *fault_refused;        /* why the last FAULT was, or NULL */

    /* doors and turns: doors.h, turn.h, budget.h */
    unsigned inside;            /* doors whose frames are on the stack */
    unsigned working;           /* stations and turns that are, too */
    bool kicked;                /* there is work for a turn */
    bool behind;                /* which waits for the bottom half */
    bool frames_wait;           /* at the netdev, until it is told */
    bool in_burst;              /* linked in the list of those that took frames */
    QTAILQ_ENTRY(FakernicState) burst;
    FakernicBudget budget;
    FakernicCosts costs;
    bool flush_waits;           /* a persistent FLUSH, for the one before */
    FakernicPersist *persist;   /* which is under way */
    BlockCompletionFunc *persisted;     /* the door for its end */
    uint32_t persist_hold;      /* for tests: not before so many ms */
    uint64_t engine_work;       /* of roce_work(), charged so far */
    uint32_t longest_turn;      /* the most that one has used */

    /* registers */
    uint32_t control;
    uint32_t status;
    uint32_t fatal_code;
    uint32_t test;
    uint64_t features;
    uint64_t driver_features;
    uint32_t clock_high;
    FakernicCmdq cmdq;
    FakernicProgress progress;  /* of the command that is being executed */

    /* port */
    uint32_t port_mtu;
    uint32_t port_qpn;
    bool link_changed;          /* an event is to tell */
    uint8_t port_filter;
    bool port_vlan_strip;
    bool port_enabled;          /* by the driver; else it drops all */
    uint8_t port_mac[6];

    /* objects */
    FakernicTable eqs;
    FakernicTable cqs;
    FakernicTable srqs;
    FakernicTable pds;
    uint32_t pd_generation;     /* of the PD made last */
    uint64_t srq_serial;        /* of the SRQ made last */
    FakernicTable xrcds;
    FakernicTable counters;
    FakernicTable ind_tables;
    FakernicTable flow_table;
    /* by type, in the order they are asked in */
    QTAILQ_HEAD(, FakernicFlow) flows[FAKERNIC_FLOW_SNIFFER + 1];
    uint32_t copying_flows;     /* rules that leave the frame to others, too */
    FakernicTable uar_table;
    FakernicQp **qps;           /* by number, QPs and WQs */
    uint32_t qps_cleared;       /* by a reset, so far */
    FakernicKey *keys;          /* by index */
    uint64_t mr_pages;          /* their page list entries together */
    uint64_t memory;            /* bytes taken of max_memory */
    FakernicPageRequest page_requests[FAKERNIC_PAGE_REQUEST_LIST];
    uint32_t page_request_count;
    FakernicEq *async_eq;
    FakernicEventList async_waiting;
    QTAILQ_HEAD(, FakernicEq) late_eqs;     /* with events still to write */
    FakernicEventSource port_events;
    FakernicEventSource device_events;
    QTAILQ_HEAD(, FakernicCq) failed_cqs;   /* with QPs still to be told */
    GTree *held_cqs;            /* whose event has a deadline, by deadline */
    uint64_t interrupts;        /* vectors raised and not yet sent */

    uint8_t frame[ROCE_FRAME_MAX];
};

#endif
