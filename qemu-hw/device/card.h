/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The card: what a PF and its VFs share. It has one limit of host memory, and
 * the embedded switch (../eswitch/eswitch.h) with its net clients:
 *
 *     PF's NIC  VF 0's NIC  ...                     functions
 *        |          |
 *     port 0     port 1     ...                     net backends
 *        +----------+---- switch ---- uplink        a NIC, as QEMU sees it
 *                                        |
 *                                   netdev or link
 *
 * A card without VFs has none of it, and FakernicState.card is NULL: its NIC is
 * the netdev's peer. Each function holds a reference to its card, because an
 * unplug ends functions in any order. doors.c has the callbacks.
 *
 * The functions share the main loop. In one round of the main loop each gets
 * turns until it has used the work of one turn. Work beyond that waits in the
 * card's list, as does work beyond the budget of a turn. In each round the
 * function that waits longest gets one turn. So a busy function delays the
 * others by one turn, and several busy ones get equal shares.
 *
 * To receive a frame, a function may write by DMA to a register of another
 * function. That may change settings while the switch is on the stack. Such
 * changes wait until the switch has returned.
 */
#ifndef FAKERNIC_DEVICE_CARD_H
#define FAKERNIC_DEVICE_CARD_H

#include "common.h"
#include "net/net.h"
#include "../eswitch/eswitch.h"
#include "../link/link.h"

/* The switch's port of a function: the net backend of the function's NIC. */
struct FakernicPort {
    NetClientState nc;
    FakernicState *function;
    FakernicCard *card;
    NICConf conf;               /* of the function's NIC */
    bool copy;                  /* the frame being delivered is a copy */
};

struct FakernicCard {
    unsigned users;             /* functions with a reference */
    unsigned vfs;
    uint64_t own_memory;        /* bytes reserved for each function */
    uint64_t max_shared;        /* bytes for all functions beyond these */
    uint64_t shared;            /* in use */
    ESwitch *eswitch;
    unsigned depth;             /* calls of the switch on the stack */
    bool stale;                 /* a change waits for the switch to return */
    bool uplink_stale;          /* the uplink's link has changed */
    bool defaults_wanted;       /* the machine was reset */
    NICState *uplink;           /* NULL: unplugged */
    MemReentrancyGuard guard;   /* of the uplink's NIC */
    FakernicLink *link;         /* the uplink's backend; NULL: a netdev */
    void (*reset)(FakernicState *);     /* of a function: life.h */
    NetPacketSent *sent;        /* the wire takes frames again */
    NetPacketSent *taken;       /* a function takes frames again */
    QEMUTimer *timer;           /* for frames that wait for a rate */
    QEMUBH *bh;                 /* gives the first of 'waiting' a turn */
    QTAILQ_HEAD(, FakernicState) waiting;       /* for a turn */
    unsigned round;             /* of the main loop: that of 'used' */
    uint32_t used;              /* units that all functions used in it */
    FakernicState *functions[ESWITCH_VFS_MAX + 1];      /* by vport */
};

/*
 * Creates the card of a PF with VFs, and its switch. The PF has its address.
 * NULL: out of memory.
 */
FakernicCard *fakernic_card_new(FakernicState *pf);

/* Makes 's' a function of the card, as this vport. */
void fakernic_card_join(FakernicCard *card, FakernicState *s, unsigned vport);

/* The function no longer exists. The last one frees the card. */
void fakernic_card_leave(FakernicState *s);

/* Creates the port of a function, whose NIC is created with port->conf. */
void fakernic_card_open_port(FakernicState *s, NetClientInfo *info);

/*
 * Deletes the port of a function whose NIC has been deleted; with the PF's, the
 * uplink and its link. Does nothing without a card.
 */
void fakernic_card_close_port(FakernicState *s);

/*
 * Passes to the switch whether a function is present, its address and its
 * filter. Called when these may have changed. Does nothing without a card.
 */
void fakernic_card_update(FakernicState *s);

/*
 * Sets the settings of all VFs to their defaults, after a reset of the machine.
 * 'card' may be NULL.
 */
void fakernic_card_reset(FakernicCard *card);

/* The link of the uplink's NIC has changed. */
void fakernic_card_link_changed(FakernicCard *card);

/*
 * Sets the settings of a VF's vport, and notifies the VF. False: the switch is
 * on the stack, so the caller tries again later.
 */
bool fakernic_card_set(FakernicCard *card, unsigned vport,
                       const ESwitchSettings *settings);

/*
 * Replaces the counters of a vport and, of a VF, the settings (else NULL) by
 * those of a saved card.
 */
void fakernic_card_load(FakernicCard *card, unsigned vport,
                        const ESwitchSettings *settings,
                        const uint64_t counters[FAKERNIC_VPORT_STAT_COUNT]);

/* vf_flags of QUERY_PORT; 0 in the PF. The function has a card. */
uint32_t fakernic_card_flags(const FakernicState *s);

/* The address with which a function starts; false: its own one. */
bool fakernic_card_mac(const FakernicState *s, uint8_t mac[6]);

/*
 * A frame from the function of a port. False: it has to wait, and stays with
 * the net layer.
 */
bool fakernic_card_from_function(FakernicPort *port, const uint8_t *frame,
                                 size_t len);

/* A round of the main loop begins. */
void fakernic_card_round(void);

/* May a door give the function a turn in this round? Always without a card. */
bool fakernic_card_may_turn(const FakernicState *s);

/* Charges what is used of the function's budget to its share of the round. */
void fakernic_card_charge(FakernicState *s);

/* The function of a card waits for a turn. */
void fakernic_card_wait(FakernicState *s);

/* It no longer waits. Does nothing if it did not. */
void fakernic_card_wait_ends(FakernicState *s);

/* The function whose turn it is, with a new share; NULL: none waits. */
FakernicState *fakernic_card_next(FakernicCard *card);

/* A frame from the wire. */
void fakernic_card_from_wire(FakernicCard *card, const uint8_t *frame,
                             size_t len);

/* The function or the wire behind a vport takes frames again. */
void fakernic_card_ready(FakernicCard *card, unsigned vport);

/* The timer has fired. */
void fakernic_card_tick(FakernicCard *card);

/* True: the engine must not see the frame that the function is receiving. */
bool fakernic_card_is_copy(const FakernicState *s);

/* The net client whose peer is the wire. */
NetClientState *fakernic_wire(const FakernicState *s);

/*
 * Accounts these bytes, in addition to 's->memory', before the function uses
 * them. False: they exceed the card's limit. A part of the memory is reserved
 * for each function. Always true without a card.
 */
bool fakernic_card_take(const FakernicState *s, uint64_t bytes);

/*
 * Accounts that these bytes of 's->memory' are released. Called before
 * 's->memory' changes. Does nothing without a card.
 */
void fakernic_card_give(const FakernicState *s, uint64_t bytes);

#endif
