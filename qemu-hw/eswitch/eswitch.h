/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The embedded switch of a card with virtual functions: it connects the
 * physical function (PF), the virtual functions (VFs) and the uplink, which is
 * the card's port to the wire. Each of them is a vport. "devlink dev eswitch"
 * is Linux's name for such a switch; "switch" alone is a keyword of C.
 *
 *        PF      VF 0     VF 1   ...  VF n-1       functions: whole NICs
 *         |        |        |            |
 *      +--0--------1--------2------------n--+
 *      |           embedded switch          |      vports
 *      +-----------------0xffff-------------+
 *                           |
 *                        uplink                     the wire
 *
 * Like the engine, the switch is plain C11 without QEMU code, threads, clock,
 * sockets or random numbers, and uses none of the engine's code. It is a
 * function of its settings, the frames and 'now'. Its host pushes frames in
 * with eswitch_in() and receives them through ESwitchOps.
 *
 * ONE FRAME. Each step either ends the frame or continues with the next step.
 *
 * 1. Ingress at the sender's vport. The switch drops a frame if the vport is
 *    absent or its link is down, if the frame has less than 14 bytes or more
 *    than ESWITCH_FRAME_MAX, if the spoof check finds a foreign source address,
 *    or if the vport has a port VLAN and the frame has a tag of the same
 *    Ethertype already. A vport with a port VLAN then gets its tag pushed. A
 *    vport that has used up its rate waits.
 * 2. Lookup. Copies go to each present vport except the sender:
 *
 *      destination          from the uplink    from the PF     from a VF
 *      address of a vport   that vport         that vport      that vport
 *      other unicast        PF                 uplink          uplink
 *      group, broadcast     PF, VFs that ask   uplink, VFs     uplink, PF, VFs
 *                                              that ask        that ask
 *      01:80:c2:00:00:0X    PF                 uplink          uplink; dropped
 *                                                              if not trusted
 *
 *    A promiscuous vport that is trusted also gets all other frames, as copies.
 * 3. Egress at each receiver. A vport with a port VLAN gets only frames with
 *    that tag, and gets them without it. Other vports get any tag, and keep it.
 *
 * An address of a vport is its administrative address (else its permanent one),
 * its permanent address, and the address that its driver has set. The last one
 * counts only if the vport is trusted or its spoof check is off. The spoof
 * check accepts all of these except a permanent address that an administrative
 * one replaces. The table of addresses is keyed by address and port VLAN, so
 * two VLANs may use the same address. In one VLAN the administrative address
 * wins, then the permanent one, then that of a driver; then the lower vport.
 *
 * BOUNDS. A lookup is a search in a sorted table: at most 2 * 9 comparisons,
 * whatever addresses the guests choose. eswitch_in() returns its cost in units
 * of work. A frame that a vport cannot take waits in the vport's queue of at
 * most ESWITCH_QUEUE_BYTES, then is dropped and counted, so that a stopped VF
 * neither blocks the others nor uses more memory. Only the uplink makes the
 * sender wait.
 *
 * RULES FOR THE HOST. One thread. 'now' never decreases. Callbacks may call
 * eswitch_in() for another vport, because a network backend may answer at once;
 * they change no settings.
 */
#ifndef FAKERNIC_ESWITCH_H
#define FAKERNIC_ESWITCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fakernic/vport.h"

#define ESWITCH_VFS_MAX     127
/* Numbers of vports: 0 is the PF, n + 1 is VF n, and this one the uplink. */
#define ESWITCH_PF          FAKERNIC_VPORT_PF
#define ESWITCH_UPLINK      FAKERNIC_VPORT_UPLINK
/* A frame of the engine (9022 bytes), and the tag of a port VLAN. */
#define ESWITCH_FRAME_MAX   9026
#define ESWITCH_VID_MAX     4094
#define ESWITCH_QOS_MAX     7
/* Frames that wait for one vport: their bytes with ESWITCH_QUEUED for each. */
#define ESWITCH_QUEUE_BYTES (512 * 1024)
#define ESWITCH_QUEUED      64
/* A vport that was idle may send what its rate allows in this time at once. */
#define ESWITCH_BURST_NS    1000000

typedef int64_t ESwitchTime;            /* nanoseconds from any origin */
#define ESWITCH_NEVER INT64_MAX

typedef struct ESwitch ESwitch;

/* Operations of the host. */
typedef struct ESwitchOps {
    /*
     * Takes one frame for a vport, and copies it if it has to wait. False: the
     * vport took this frame, and takes no other before eswitch_ready(). So the
     * host needs room for one frame per vport (QEMU's own queue has it).
     *
     * copy: the vport receives the frame only because it is promiscuous. It
     * must go to the Ethernet port and past the RDMA engine, which takes
     * frames for its GIDs whatever their MAC address.
     */
    bool (*deliver)(void *opaque, unsigned vport, const uint8_t *frame,
                    size_t len, bool copy);
    /* The vport should repeat the frame that eswitch_in() made it wait with. */
    void (*resume)(void *opaque, unsigned vport);
    /* The link of a PF's or VF's vport has changed. */
    void (*link)(void *opaque, unsigned vport, bool up);
} ESwitchOps;

/* ---- life ---------------------------------------------------------------- */

/*
 * A switch with vports for the PF, 'vfs' VFs (at most ESWITCH_VFS_MAX) and the
 * uplink, or NULL without memory. PF and uplink are present, VFs absent. All
 * settings have their defaults: no address, spoof check on, no trust, link
 * AUTO, no VLAN (type 0x8100), no rates. The uplink's link is up.
 */
ESwitch *eswitch_new(const ESwitchOps *ops, void *opaque, unsigned vfs);

/* Frees the switch and the frames that wait in it; NULL: does nothing. */
void eswitch_free(ESwitch *sw);

/* True: the PF, a VF that exists (present or absent), or the uplink. */
bool eswitch_has(const ESwitch *sw, unsigned vport);

/* ---- settings of the PF's driver (SET_VPORT) ----------------------------- */

/* Settings of a VF's vport. They survive resets of the VF. */
typedef struct ESwitchSettings {
    uint8_t mac[6];             /* administrative address; zeros: none */
    /*
     * Port VLAN. vid and qos 0: none. vid 0 with a qos: the switch pushes a
     * priority tag on untagged frames, and filters nothing.
     */
    uint16_t vid;
    uint16_t vlan_proto;        /* 0x8100 or 0x88a8; without port VLAN any */
    uint8_t qos;                /* priority in the tag */
    uint8_t link;               /* enum fakernic_vport_link */
    bool spoof_check;
    bool trust;
    bool rss_query;             /* kept for the driver, no effect */
    uint32_t min_mbps;          /* kept for the driver, no effect */
    uint32_t max_mbps;          /* of frames that the VF sends; 0: no limit */
} ESwitchSettings;

/* Replaces the settings of a VF's vport. The caller has checked all values. */
void eswitch_set(ESwitch *sw, unsigned vport, const ESwitchSettings *settings);

/* The settings of any vport. */
const ESwitchSettings *eswitch_settings(const ESwitch *sw, unsigned vport);

/* Sets the settings of all VFs to their defaults. */
void eswitch_set_defaults(ESwitch *sw);

/*
 * Replaces the counters of a vport by those of a saved card and, of a VF, the
 * settings (else NULL). Frames that wait for the vport are lost, and its rate
 * starts again.
 */
void eswitch_load(ESwitch *sw, unsigned vport, const ESwitchSettings *settings,
                  const uint64_t counters[FAKERNIC_VPORT_STAT_COUNT]);

/* ---- the functions and the wire ------------------------------------------ */

/*
 * Computes the permanent address of VF number vf on the card whose PF has the
 * address 'pf'. It is locally administered and different for each VF of a card.
 * Cards with neighbouring addresses have unrelated ones.
 */
void eswitch_vf_mac(const uint8_t pf[6], unsigned vf, uint8_t mac[6]);

/* Sets the permanent address of the PF or a VF, once at its start. */
void eswitch_set_permanent(ESwitch *sw, unsigned vport, const uint8_t mac[6]);

/*
 * The address with which a function starts and restarts (registers MAC_LO and
 * MAC_HI): the administrative one if there is one, else the permanent one.
 */
const uint8_t *eswitch_mac(const ESwitch *sw, unsigned vport);

/*
 * VF Enable: the VF appears with counters of 0, or disappears. It has no filter
 * and no address of a driver then, and frames that wait for it are dropped. A
 * VF that waits with a frame is resumed; the switch then drops the frame.
 * Settings stay.
 */
void eswitch_set_present(ESwitch *sw, unsigned vport, bool present);

/*
 * What a function's driver has set by SET_PORT. At a reset of the function, and
 * when it starts, the host passes eswitch_mac() and 0. 'filter' has the bits of
 * FAKERNIC_FILTER_* (fakernic/cmdq.h). Engine and flow rules may need frames
 * that the filter of SET_PORT does not ask for. So the host adds MULTICAST
 * while an RDMA multicast group or a flow rule exists, and BROADCAST while a
 * flow rule exists. The PF always gets groups and broadcast: its device
 * filters.
 */
void eswitch_set_port(ESwitch *sw, unsigned vport, const uint8_t mac[6],
                      uint8_t filter);

/* The link of the wire: vports in state AUTO follow it. */
void eswitch_set_uplink(ESwitch *sw, bool up);

/* True: the vport's link is up. */
bool eswitch_link_up(const ESwitch *sw, unsigned vport);

/* What the switch knows of a function, in addition to its settings. */
typedef struct ESwitchFunction {
    uint8_t permanent[6];
    uint8_t mac[6];             /* of eswitch_set_port() */
    uint8_t filter;             /* likewise */
    bool present;
} ESwitchFunction;

/* The function of a vport; all 0 for the uplink, which is present. */
ESwitchFunction eswitch_function(const ESwitch *sw, unsigned vport);

/* ---- frames -------------------------------------------------------------- */

/*
 * A frame from the function or wire behind a vport. Returns its cost in units
 * of work, at least 1: the switch has delivered, queued or dropped it. Returns
 * 0 if the frame has to wait, for the uplink or for its rate: nothing was
 * delivered, the sender keeps the frame and repeats it after 'resume'. Frames
 * from the uplink never wait.
 */
unsigned eswitch_in(ESwitch *sw, ESwitchTime now, unsigned vport,
                    const uint8_t *frame, size_t len);

/*
 * The vport takes frames again after deliver() returned false: delivers what
 * waits for it. For the uplink it resumes the vports that wait for it.
 */
void eswitch_ready(ESwitch *sw, unsigned vport);

/* Drops the frames that wait for a vport, and counts them. */
void eswitch_purge(ESwitch *sw, unsigned vport);

/*
 * When the host must call eswitch_tick() for a rate; ESWITCH_NEVER: not at all.
 * It changes when eswitch_in() returns 0, and by eswitch_tick().
 */
ESwitchTime eswitch_deadline(const ESwitch *sw);

/* Resumes the vports whose rate allows a frame again. */
void eswitch_tick(ESwitch *sw, ESwitchTime now);

/* ---- counters ------------------------------------------------------------ */

/* A counter of a vport (fakernic/vport.h). */
uint64_t eswitch_counter(const ESwitch *sw, unsigned vport,
                         enum fakernic_vport_stat counter);

#endif
