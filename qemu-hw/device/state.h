/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The fakernic device: its state.
 *
 * The device is a shell around the RoCEv2 engine (../roce/roce.h). It knows
 * PCI, guest memory, queues and interrupts, and nothing of packets. It fetches
 * work requests for the engine, writes the completions, and moves frames
 * between the engine and the netdev. All guest-visible formats come from the
 * hardware interface headers. The device copies each structure once and decodes
 * the copy, so the guest cannot change it after a check.
 *
 * Files form a ladder: each calls only those below it or in its own row
 * (tests/laws).
 *
 *     fakernic.c                  the wiring
 *     save.c                      migration and snapshots
 *     doors.c                     every way in
 *     turn.c                      the work of a turn
 *     fault/release.c             fault rules: whole device, held items
 *     bar.c                       registers and doorbells
 *     cmd/cmdq.c  life.c          commands; fatal errors and reset
 *     cmd/[a-z]*.c  objects.c     one command each; all objects together
 *     save_objects.c  fault/save.c
 *                                 objects and fault rules as a stream of bytes
 *     watch/objects.c  watch/rings.c  watch/json.c  watch/stats.c
 *                                 show the device's state to tools and tests
 *     port/port.c  port/flow.c  port/rss.c
 *                                 frames
 *     queue/sq.c  queue/rq.c  queue/cq.c  queue/eq.c
 *                                 queues
 *     queue/ring.c  table.c  port/parse.c
 *                                 rings, number tables, parsing of frames
 *     dm.c  persist.c             device memory; flushes to persistent memory
 *     dma.c  memory.c             access to guest memory; host memory limit
 *     card.c                      what PF and VFs share: memory, the switch
 *     queue/interrupt.c           MSI-X
 *     fault/gate.c                fault rules: what they do to an item
 *     fault/effects.c             fault rules: matches, reports, held items
 *     watch/record.c  clock.c  budget.c  vcpus.c
 *                                 recorder, timer, budget of a turn, vCPUs
 *
 * A lower file does not call a higher one. It calls fakernic_kick(), which
 * notes that there is work for a turn. The engine calls sq.c, rq.c, cq.c and
 * eq.c, which never call the engine back: the turn reports their errors to it.
 */
#ifndef FAKERNIC_DEVICE_STATE_H
#define FAKERNIC_DEVICE_STATE_H

#include "common.h"
#include "hw/pci/pci_device.h"
#include "net/net.h"
#include "qemu/main-loop.h"
#include "qom/object.h"
#include "system/runstate.h"

#include "cmd/cmdq.h"
#include "fault/effects.h"
#include "port/flow.h"
#include "watch/rings.h"
#include "cmd/odp.h"
#include "queue/types.h"
#include "watch/objects.h"
#include "watch/record.h"
#include "watch/stats.h"
#include "table.h"
#include "../eswitch/eswitch.h"
#include "../link/link.h"

/* What can hold an enabled device, one bit each (FakernicState.held). */
enum {
    FAKERNIC_HELD_STOPPED = 1 << 0,     /* the VM is stopped */
    FAKERNIC_HELD_FROZEN = 1 << 1,      /* in D3hot */
    FAKERNIC_HELD_RESET = 1 << 2,       /* a reset is pending or under way */
    FAKERNIC_HELD_LEAVING = 1 << 3,     /* unplugged */
    FAKERNIC_HELD_FAULT = 1 << 4,       /* a fault rule froze it */
    FAKERNIC_HELD_DEAD = 1 << 5,        /* a fault rule took it off the bus */
    FAKERNIC_HELD_ABSENT = 1 << 6,      /* a VF that is not enabled */
};

/*
 * The QOM types. A function is one PCI function of a card and a whole NIC of
 * its own. The abstract type has what all functions have. "fakernic" is the
 * physical function (PF), which users create. It creates its virtual functions
 * (VFs), each of the type "fakernic-vf".
 */
#define TYPE_FAKERNIC_FUNCTION "fakernic-function"
#define TYPE_FAKERNIC "fakernic"
#define TYPE_FAKERNIC_VF "fakernic-vf"
DECLARE_INSTANCE_CHECKER(FakernicState, FAKERNIC, TYPE_FAKERNIC_FUNCTION)

/* The budget of a turn, and how much of it is used (budget.h). */
typedef struct FakernicBudget {
    uint32_t used;              /* units */
    uint32_t look;              /* units at which the clock is read next */
    int64_t ends;               /* end of the turn: host clock, in ns */
    bool over;
} FakernicBudget;

/* For tests: compares CPU time with the units a step declares (budget.h). */
typedef struct FakernicCosts {
    uint32_t limit;             /* ns of CPU time per unit; 0: not measured */
    uint32_t found;             /* steps that took more */
    uint32_t planted;           /* us that the next step wastes on purpose */
    uint32_t declared;          /* units of this step so far */
    int64_t began;              /* start of the step: thread CPU time in ns */
} FakernicCosts;

/* Migration and snapshots (save.c). */
typedef struct FakernicSaved {
    bool resetting;             /* a reset was under way: ignore the rest */
    bool loading;               /* a load has begun, and has not completed */
    bool has_dm;                /* a load has filled 'dm', which stays */
    bool waking;                /* DESTROY_MR was under way, the key is free */
    uint32_t foreign;           /* after the load of a snapshot: the next QP to
                                 * check for a peer elsewhere; 0: none */
    FakernicState *vfs[ESWITCH_VFS_MAX];    /* of a PF: its enabled VFs */
} FakernicSaved;

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
    uint64_t max_memory;        /* limit of host memory, in bytes: memory.h */
    uint32_t gids;
    uint32_t mtu_max;
    uint32_t speed_mbps;
    uint64_t dm_size;
    bool dcqcn;
    bool guest_faults;          /* the guest may add fault rules */
    uint32_t turn_work;         /* budget of a turn, in units of budget.h */
    uint32_t turn_us;           /* budget of a turn, in time */
    uint32_t cpu_nice;          /* vCPU threads: this much nicer than main */
    uint32_t sq_awake_us;       /* time that an SQ stays awake; 0: no SQ does */
    char *snapshot_qps;         /* NULL, "error" or "keep" */
    bool null_writes;           /* for measurements: WRITEs make no packets */
    uint32_t interface_version;
    uint64_t feature_mask;
    uint32_t vfs;               /* of a PF; the limits of each VF follow */
    uint32_t vf_uars;
    uint32_t vf_vectors;
    uint32_t vf_max_qp;
    uint32_t vf_max_mr;
    uint32_t vf_gids;
    uint64_t vf_dm_size;

    /* wiring */
    uint32_t vectors;           /* MSI-X */
    NICState *nic;              /* NULL: also a VF that was never enabled */
    FakernicLink *link;         /* the card's wire; NULL: it is a netdev */
    FakernicCard *card;         /* NULL: the card has no VFs */
    FakernicPort *port;         /* of the card's switch, on the other side */
    unsigned vport;             /* number of that port; 0: the PF */
    bool vport_present;         /* as the switch knows it */
    bool vport_stale;           /* the switch has to be updated */
    bool vport_changed;         /* the next turn raises PORT_CHANGED */
    NetPacketSent *sent;        /* called when the netdev takes frames again */
    MemoryRegion regs_bar;
    MemoryRegion uar_bar;
    MemoryRegion msix_bar;      /* of a VF */
    MemoryRegion dm;            /* device memory, within uar_bar */
    uint64_t dm_zeroed;         /* bytes of 'dm' that this reset has zeroed */
    Roce *roce;
    uint64_t *stats;            /* the engine's array */
    QEMUBH *bh;
    QEMUTimer *timer;
    RoceTime timer_deadline;
    bool tx_blocked;            /* a frame waits in the netdev's queue */
    RoceTime tx_blocked_until;  /* after this the wire counts as dead */

    /* life: life.h */
    unsigned held;              /* FAKERNIC_HELD_*: why it does not run */
    bool reset_wanted;          /* a reset is requested, but has not begun */
    VMChangeStateEntry *vm_state;
    FakernicFaults faults;      /* fault/effects.h */
    FakernicRecorder recorder;  /* watch/record.h */
    FakernicLook look;          /* watch/rings.h */
    FakernicWindow window;      /* watch/objects.h */
    FakernicActivity activity;  /* watch/stats.h */
    char *dump;                 /* text of the last DUMP command, or NULL */
    char *fault_refused;        /* error of the last FAULT command, or NULL */

    /* doors and turns: doors.h, turn.h, budget.h */
    unsigned inside;            /* doors on the stack */
    unsigned working;           /* stations and turns on the stack */
    bool kicked;                /* there is work for a turn */
    bool behind;                /* that work waits for the bottom half */
    bool frames_wait;           /* the netdev queues frames until it is asked */
    bool in_burst;              /* linked in fakernic_bursts */
    QTAILQ_ENTRY(FakernicState) burst;
    FakernicBudget budget;
    FakernicCosts costs;
    bool flush_waits;           /* a FLUSH waits for the one in 'persist' */
    FakernicPersist *persist;   /* the persistent FLUSH under way */
    BlockCompletionFunc *persisted;     /* called when it ends */
    uint32_t persist_hold;      /* for tests: its least duration in ms */
    uint64_t engine_work;       /* part of roce_work() that is charged */
    uint32_t longest_turn;      /* most units that one turn has used */
    uint32_t longest_round;     /* of a PF: card.h */
    uint32_t share;             /* units used in this round: card.h */
    unsigned share_round;       /* that round */
    bool waits;                 /* linked in the card's list 'waiting' */
    QTAILQ_ENTRY(FakernicState) waiting;
    FakernicSaved saved;

    /* registers */
    uint32_t control;
    uint32_t status;
    uint32_t fatal_code;
    uint32_t test;
    uint64_t features;
    uint64_t driver_features;
    uint32_t clock_high;
    FakernicCmdq cmdq;
    FakernicProgress progress;  /* of the command under execution */

    /* port */
    uint32_t port_mtu;
    uint32_t port_qpn;
    bool link_changed;          /* the next turn raises the event */
    uint8_t port_filter;
    bool port_vlan_strip;
    bool port_enabled;          /* set by the driver; else frames are dropped */
    uint8_t port_mac[6];

    /* objects */
    FakernicTable eqs;
    FakernicTable cqs;
    FakernicTable srqs;
    FakernicTable pds;
    uint32_t pd_generation;     /* of the newest PD */
    uint64_t srq_serial;        /* of the newest SRQ */
    FakernicTable xrcds;
    FakernicTable counters;
    FakernicTable ind_tables;
    FakernicTable flow_table;
    /* by type, in order of evaluation */
    QTAILQ_HEAD(, FakernicFlow) flows[FAKERNIC_FLOW_SNIFFER + 1];
    uint32_t copying_flows;     /* rules that copy a frame, not consume it */
    FakernicTable uar_table;
    FakernicQp **qps;           /* by number, QPs and WQs */
    QTAILQ_HEAD(, FakernicQp) awake_sqs;    /* the first to sleep first */
    QTAILQ_HEAD(, FakernicQp) watched_sqs;  /* the next to read first */
    uint32_t awake_sq_count;
    uint32_t qps_cleared;       /* entries that the reset has cleared so far */
    FakernicKey *keys;          /* by index */
    uint64_t mr_pages;          /* page list entries of all keys */
    uint64_t memory;            /* bytes of max_memory in use */
    FakernicPageRequest page_requests[FAKERNIC_PAGE_REQUEST_LIST];
    uint32_t page_request_count;
    FakernicEq *async_eq;
    FakernicEventList async_waiting;
    QTAILQ_HEAD(, FakernicEq) late_eqs;     /* with events still to write */
    FakernicEventSource port_events;
    FakernicEventSource device_events;
    QTAILQ_HEAD(, FakernicCq) failed_cqs;   /* with QPs that must still fail */
    GTree *held_cqs;            /* CQs with a moderated event, by deadline */
    uint64_t interrupts;        /* bit mask: raised, message not yet sent */

    uint8_t frame[ROCE_FRAME_MAX];
};

/*
 * Enabled, without a fatal error, and not held: only then does the device
 * access memory, send and receive frames. Work that a hold interrupts resumes
 * where it stopped.
 */
static inline bool fakernic_is_running(const FakernicState *s)
{
    return (s->status & (FAKERNIC_STATUS_ENABLED | FAKERNIC_STATUS_FATAL)) ==
           FAKERNIC_STATUS_ENABLED && !s->held;
}

/*
 * Frozen by a fault rule and otherwise running: it answers register loads,
 * drops frames, and executes doorbells only when it thaws.
 */
static inline bool fakernic_is_frozen(const FakernicState *s)
{
    return s->held == FAKERNIC_HELD_FAULT;
}

#endif
