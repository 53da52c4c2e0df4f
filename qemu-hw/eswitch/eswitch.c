/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The embedded switch: eswitch.h.
 *
 * Inside, a vport is a Port: 0 is the PF, then come the VFs, and the last one
 * is the uplink.
 */
#include <stdlib.h>
#include <string.h>

#include "eswitch.h"
#include "fakernic/cmdq.h"

#define MAC             6
#define HEADER          14          /* addresses and Ethertype */
#define TAG             4
#define TYPE_VLAN       0x8100
#define TYPE_SERVICE    0x88a8
#define VID_MASK        0xfff
/* A vport has at most this number of addresses. */
#define ADDRESSES       3

_Static_assert(ESWITCH_FRAME_MAX >= HEADER + 9000 + 3 * TAG,
               "a jumbo frame with two tags has room for a third one");

typedef struct Queued Queued;
struct Queued {
    Queued *next;
    size_t len;
    bool copy;
    uint8_t frame[];
};

typedef enum Waits {
    WAITS_NOT,
    WAITS_UPLINK,
    WAITS_RATE,
} Waits;

typedef struct Port {
    ESwitchSettings set;
    uint8_t permanent[MAC];
    uint8_t current[MAC];       /* the driver's */
    uint8_t filter;
    bool present;
    bool up;                    /* as last reported to the host */
    bool busy;                  /* takes no frame before eswitch_ready() */
    Waits waits;
    ESwitchTime paid;           /* when its rate allows the next frame */
    Queued *first, **last;
    size_t queued;              /* bytes, ESWITCH_QUEUED for each frame */
    uint64_t counters[FAKERNIC_VPORT_STAT_COUNT];
} Port;

/* An address of a vport, in a table sorted by (key, rank, port). */
typedef struct Address {
    uint64_t key;               /* address << 16 | VLAN of the vport */
    uint16_t rank;              /* administrative, permanent, driver's */
    uint16_t port;
} Address;

struct ESwitch {
    const ESwitchOps *ops;
    void *opaque;
    unsigned ports;             /* PF, VFs, uplink */
    unsigned promiscuous;       /* vports that get copies */
    unsigned waiting;           /* vports that wait for the uplink */
    unsigned turn;              /* vport that is resumed next */
    bool resuming;              /* uplink_resume() is running */
    bool uplink_up;
    unsigned addresses;
    Address table[ADDRESSES * (1 + ESWITCH_VFS_MAX)];
    Port port[];
};

/* ---- addresses ----------------------------------------------------------- */

static bool mac_is_group(const uint8_t *mac)
{
    return mac[0] & 1;
}

/* A unicast address. */
static bool mac_is_set(const uint8_t *mac)
{
    static const uint8_t none[MAC];

    return !mac_is_group(mac) && memcmp(mac, none, MAC);
}

/* Addresses of link-local protocols: LLDP, LACP, pause (802.1Q, 8.6.3). */
static bool mac_is_reserved(const uint8_t *mac)
{
    static const uint8_t prefix[MAC - 1] = { 0x01, 0x80, 0xc2, 0x00, 0x00 };

    return !memcmp(mac, prefix, sizeof(prefix)) && mac[MAC - 1] < 0x10;
}

static bool mac_is_broadcast(const uint8_t *mac)
{
    static const uint8_t all[MAC] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

    return !memcmp(mac, all, MAC);
}

/* ---- vports -------------------------------------------------------------- */

static unsigned port_index(const ESwitch *sw, unsigned vport)
{
    return vport == ESWITCH_UPLINK ? sw->ports - 1 : vport;
}

static unsigned port_number(const ESwitch *sw, unsigned index)
{
    return index == sw->ports - 1 ? ESWITCH_UPLINK : index;
}

static Port *port_of(ESwitch *sw, unsigned vport)
{
    return &sw->port[port_index(sw, vport)];
}

static const Port *port_seen(const ESwitch *sw, unsigned vport)
{
    return &sw->port[port_index(sw, vport)];
}

static Port *port_uplink(ESwitch *sw)
{
    return &sw->port[sw->ports - 1];
}

static bool port_is_uplink(const ESwitch *sw, const Port *port)
{
    return port == &sw->port[sw->ports - 1];
}

bool eswitch_has(const ESwitch *sw, unsigned vport)
{
    return vport == ESWITCH_UPLINK || vport < sw->ports - 1;
}

static bool port_link_up(const ESwitch *sw, const Port *port)
{
    switch (port->set.link) {
    case FAKERNIC_VPORT_LINK_ENABLE:
        return port->present;
    case FAKERNIC_VPORT_LINK_DISABLE:
        return false;
    default:
        return port->present && sw->uplink_up;
    }
}

bool eswitch_link_up(const ESwitch *sw, unsigned vport)
{
    return port_link_up(sw, port_seen(sw, vport));
}

/* Reports the links that have changed. */
static void links_update(ESwitch *sw)
{
    for (unsigned i = 0; i < sw->ports - 1; i++) {
        Port *port = &sw->port[i];
        const bool up = port_link_up(sw, port);

        if (up != port->up) {
            port->up = up;
            sw->ops->link(sw->opaque, i, up);
        }
    }
}

/* True: the vport gets copies of frames that are not for it. */
static bool port_sees_all(const Port *port)
{
    return port->present && port->set.trust &&
           port->filter & FAKERNIC_FILTER_PROMISCUOUS;
}

/* The VLAN of a tag, as a part of keys; 0: none, or only a priority. */
static uint16_t vlan_key(uint16_t type, uint16_t tci)
{
    const uint16_t vid = tci & VID_MASK;

    return vid && type == TYPE_SERVICE ? VID_MASK + 1 + vid : vid;
}

/* The VLAN to which the vport is restricted; 0: none. */
static uint16_t port_vlan(const Port *port)
{
    return vlan_key(port->set.vlan_proto, port->set.vid);
}

/* ---- the table of addresses ---------------------------------------------- */

static uint64_t address_key(const uint8_t mac[MAC], uint16_t vlan)
{
    uint64_t key = 0;

    for (unsigned i = 0; i < MAC; i++) {
        key = key << 8 | mac[i];
    }
    return key << 16 | vlan;
}

/* The driver's address counts. */
static bool port_chooses(const Port *port)
{
    return port->set.trust || !port->set.spoof_check;
}

static bool address_before(const Address *a, const Address *b)
{
    return a->key != b->key ? a->key < b->key :
           a->rank != b->rank ? a->rank < b->rank : a->port < b->port;
}

/* Index of the first entry that is not before 'wanted'. */
static unsigned table_search(const ESwitch *sw, const Address *wanted)
{
    unsigned first = 0, end = sw->addresses;

    while (first < end) {
        const unsigned middle = first + (end - first) / 2;

        if (address_before(&sw->table[middle], wanted)) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first;
}

static void table_add(ESwitch *sw, const Address *address)
{
    const unsigned at = table_search(sw, address);

    memmove(&sw->table[at + 1], &sw->table[at],
            (sw->addresses - at) * sizeof(sw->table[0]));
    sw->table[at] = *address;
    sw->addresses++;
}

static void table_remove(ESwitch *sw, unsigned index)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < sw->addresses; i++) {
        if (sw->table[i].port != index) {
            sw->table[kept++] = sw->table[i];
        }
    }
    sw->addresses = kept;
}

/* Replaces the addresses of a vport, after any of its settings changed. */
static void table_update(ESwitch *sw, unsigned index)
{
    const Port *port = &sw->port[index];
    const uint8_t *macs[ADDRESSES] = {
        port->set.mac, port->permanent,
        port_chooses(port) ? port->current : NULL,
    };

    table_remove(sw, index);
    for (uint16_t rank = 0; port->present && rank < ADDRESSES; rank++) {
        bool known = !macs[rank] || !mac_is_set(macs[rank]);

        for (unsigned i = 0; i < rank && !known; i++) {
            known = macs[i] && !memcmp(macs[i], macs[rank], MAC);
        }
        if (!known) {
            const Address address = {
                address_key(macs[rank], port_vlan(port)), rank,
                (uint16_t)index,
            };
            table_add(sw, &address);
        }
    }
    sw->promiscuous = 0;
    for (unsigned i = 0; i < sw->ports - 1; i++) {
        sw->promiscuous += port_sees_all(&sw->port[i]);
    }
}

typedef enum Found {
    FOUND_NONE,
    FOUND_SENDER,               /* its own address, and no other's */
    FOUND_OTHER,
} Found;

/* Looks for another vport than the sender with this key. */
static Found table_find_key(const ESwitch *sw, uint64_t key, unsigned sender,
                            unsigned *found)
{
    const Address wanted = { key, 0, 0 };
    unsigned i = table_search(sw, &wanted);
    Found result = FOUND_NONE;

    /* A vport has an address once, so the second entry is another's. */
    for (; i < sw->addresses && sw->table[i].key == key; i++) {
        if (sw->table[i].port != sender) {
            *found = sw->table[i].port;
            return FOUND_OTHER;
        }
        result = FOUND_SENDER;
    }
    return result;
}

/* The vport of an address: one in this VLAN, or one without a port VLAN. */
static Found table_find(const ESwitch *sw, const uint8_t *mac, uint16_t vlan,
                        unsigned sender, unsigned *found)
{
    Found exact = FOUND_NONE, any;

    if (vlan) {
        exact = table_find_key(sw, address_key(mac, vlan), sender, found);
        if (exact == FOUND_OTHER) {
            return exact;
        }
    }
    any = table_find_key(sw, address_key(mac, 0), sender, found);
    return any > exact ? any : exact;
}

/* ---- life and settings --------------------------------------------------- */

ESwitch *eswitch_new(const ESwitchOps *ops, void *opaque, unsigned vfs)
{
    const unsigned ports = vfs + 2;
    ESwitch *sw = calloc(1, sizeof(*sw) + ports * sizeof(sw->port[0]));

    if (!sw) {
        return NULL;
    }
    sw->ops = ops;
    sw->opaque = opaque;
    sw->ports = ports;
    sw->uplink_up = true;
    for (unsigned i = 0; i < ports; i++) {
        Port *port = &sw->port[i];
        const bool vf = i > 0 && i < ports - 1;

        port->set.trust = !vf;
        port->set.vlan_proto = TYPE_VLAN;
        port->present = port->up = !vf;
        port->paid = INT64_MIN;
        port->last = &port->first;
    }
    eswitch_set_defaults(sw);
    return sw;
}

static void queue_free(Port *port)
{
    while (port->first) {
        Queued *queued = port->first;

        port->first = queued->next;
        free(queued);
    }
    port->last = &port->first;
    port->queued = 0;
}

void eswitch_free(ESwitch *sw)
{
    if (sw) {
        for (unsigned i = 0; i < sw->ports; i++) {
            queue_free(&sw->port[i]);
        }
        free(sw);
    }
}

void eswitch_purge(ESwitch *sw, unsigned vport)
{
    Port *port = port_of(sw, vport);

    for (const Queued *queued = port->first; queued; queued = queued->next) {
        port->counters[FAKERNIC_VPORT_STAT_RX_DROPPED]++;
    }
    queue_free(port);
}

static void port_wait(ESwitch *sw, Port *port, Waits waits)
{
    sw->waiting -= port->waits == WAITS_UPLINK;
    sw->waiting += waits == WAITS_UPLINK;
    port->waits = waits;
}

static void port_resume(ESwitch *sw, Port *port)
{
    if (port->waits != WAITS_NOT) {
        port_wait(sw, port, WAITS_NOT);
        sw->ops->resume(sw->opaque, port_number(sw, port - sw->port));
    }
}

/* Resumes vports that wait for the uplink, in turn, while it takes frames. */
static void uplink_resume(ESwitch *sw)
{
    if (sw->resuming) {
        return;                 /* a resumed vport has sent its frame */
    }
    sw->resuming = true;
    for (unsigned i = 0; i < sw->ports && sw->waiting; i++) {
        Port *port = &sw->port[sw->turn];

        if (sw->uplink_up && port_uplink(sw)->busy) {
            break;
        }
        sw->turn = (sw->turn + 1) % sw->ports;
        if (port->waits == WAITS_UPLINK) {
            port_resume(sw, port);
        }
    }
    sw->resuming = false;
}

void eswitch_set(ESwitch *sw, unsigned vport, const ESwitchSettings *settings)
{
    Port *port = port_of(sw, vport);

    port->set = *settings;
    port->paid = INT64_MIN;
    table_update(sw, vport);
    links_update(sw);
    if (port->waits == WAITS_RATE) {
        port_resume(sw, port);
    }
}

void eswitch_set_defaults(ESwitch *sw)
{
    static const ESwitchSettings defaults = { .vlan_proto = TYPE_VLAN,
                                              .spoof_check = true };

    for (unsigned vf = 0; vf < sw->ports - 2; vf++) {
        eswitch_set(sw, vf + 1, &defaults);
    }
}

void eswitch_load(ESwitch *sw, unsigned vport, const ESwitchSettings *settings,
                  const uint64_t counters[FAKERNIC_VPORT_STAT_COUNT])
{
    Port *port = port_of(sw, vport);

    queue_free(port);
    if (settings) {
        eswitch_set(sw, vport, settings);
    }
    memcpy(port->counters, counters, sizeof(port->counters));
}

const ESwitchSettings *eswitch_settings(const ESwitch *sw, unsigned vport)
{
    return &port_seen(sw, vport)->set;
}

void eswitch_vf_mac(const uint8_t pf[6], unsigned vf, uint8_t mac[6])
{
    uint64_t mix = address_key(pf, 0);

    /* A bijection of 64 bits that spreads neighbours (splitmix64). */
    mix = (mix ^ mix >> 30) * 0xbf58476d1ce4e5b9;
    mix = (mix ^ mix >> 27) * 0x94d049bb133111eb;
    mix ^= mix >> 31;
    /* An odd factor: all VFs of one card differ in the 40 bits. */
    mix += vf * 0x9e3779b97f4a7c15;
    mac[0] = 0x52;
    for (unsigned i = 1; i < MAC; i++) {
        mac[i] = (uint8_t)(mix >> 8 * (i - 1));
    }
}

void eswitch_set_permanent(ESwitch *sw, unsigned vport, const uint8_t mac[6])
{
    memcpy(port_of(sw, vport)->permanent, mac, MAC);
    table_update(sw, vport);
}

const uint8_t *eswitch_mac(const ESwitch *sw, unsigned vport)
{
    const Port *port = port_seen(sw, vport);

    return mac_is_set(port->set.mac) ? port->set.mac : port->permanent;
}

void eswitch_set_port(ESwitch *sw, unsigned vport, const uint8_t mac[6],
                      uint8_t filter)
{
    Port *port = port_of(sw, vport);

    memcpy(port->current, mac, MAC);
    port->filter = filter;
    table_update(sw, vport);
}

ESwitchFunction eswitch_function(const ESwitch *sw, unsigned vport)
{
    const Port *port = port_seen(sw, vport);
    ESwitchFunction function = { .filter = port->filter,
                                 .present = port->present };

    memcpy(function.permanent, port->permanent, MAC);
    memcpy(function.mac, port->current, MAC);
    return function;
}

void eswitch_set_present(ESwitch *sw, unsigned vport, bool present)
{
    Port *port = port_of(sw, vport);

    queue_free(port);
    port->present = present;
    port->paid = INT64_MIN;
    port->filter = 0;
    memset(port->current, 0, MAC);
    if (present) {
        memset(port->counters, 0, sizeof(port->counters));
    }
    table_update(sw, vport);
    links_update(sw);
    port_resume(sw, port);
}

void eswitch_set_uplink(ESwitch *sw, bool up)
{
    sw->uplink_up = up;
    links_update(sw);
    uplink_resume(sw);
}

uint64_t eswitch_counter(const ESwitch *sw, unsigned vport,
                         enum fakernic_vport_stat counter)
{
    return port_seen(sw, vport)->counters[counter];
}

/* ---- a frame and its tag ------------------------------------------------- */

/* A frame with its outer tag, and without it. One of them may be made. */
typedef struct Frame {
    const uint8_t *bare, *full; /* NULL: not made yet */
    size_t bare_len, full_len;
    uint16_t type, tci;         /* the outer tag, if the lengths differ */
    uint16_t vlan;              /* vlan_key() */
    uint8_t made[ESWITCH_FRAME_MAX];
} Frame;

static uint16_t get16(const uint8_t *from)
{
    return (uint16_t)(from[0] << 8 | from[1]);
}

static void put16(uint8_t *to, uint16_t value)
{
    to[0] = (uint8_t)(value >> 8);
    to[1] = (uint8_t)value;
}

static bool is_tag(uint16_t type)
{
    return type == TYPE_VLAN || type == TYPE_SERVICE;
}

/* A frame as a vport sent it, at least a header. */
static void frame_init(Frame *f, const uint8_t *frame, size_t len)
{
    f->full = frame;
    f->full_len = len;
    f->bare = frame;
    f->bare_len = len;
    f->type = get16(frame + 2 * MAC);
    f->vlan = 0;
    if (is_tag(f->type) && len >= HEADER + TAG) {
        f->tci = get16(frame + 2 * MAC + 2);
        f->vlan = vlan_key(f->type, f->tci);
        f->bare = NULL;
        f->bare_len -= TAG;
    }
}

static void frame_push(Frame *f, uint16_t type, uint16_t tci)
{
    f->bare = f->full;
    f->bare_len = f->full_len;
    f->full = NULL;
    f->full_len += TAG;
    f->type = type;
    f->tci = tci;
    f->vlan = vlan_key(type, tci);
}

static const uint8_t *frame_bare(Frame *f)
{
    if (!f->bare) {
        memcpy(f->made, f->full, 2 * MAC);
        memcpy(f->made + 2 * MAC, f->full + 2 * MAC + TAG,
               f->bare_len - 2 * MAC);
        f->bare = f->made;
    }
    return f->bare;
}

static const uint8_t *frame_full(Frame *f)
{
    if (!f->full) {
        memcpy(f->made, f->bare, 2 * MAC);
        put16(f->made + 2 * MAC, f->type);
        put16(f->made + 2 * MAC + 2, f->tci);
        memcpy(f->made + 2 * MAC + TAG, f->bare + 2 * MAC,
               f->bare_len - 2 * MAC);
        f->full = f->made;
    }
    return f->full;
}

static const uint8_t *frame_target(const Frame *f)
{
    return f->bare ? f->bare : f->full;
}

/* ---- egress -------------------------------------------------------------- */

/* Counts a frame in 'first' (frames) and the three counters behind it. */
static void port_count(Port *port, enum fakernic_vport_stat first,
                       const uint8_t *frame, size_t len)
{
    port->counters[first]++;
    port->counters[first + 1] += len;
    if (mac_is_broadcast(frame)) {
        port->counters[first + 2]++;
    } else if (mac_is_group(frame)) {
        port->counters[first + 3]++;
    }
}

/* Hands a frame to a vport that takes one. */
static void port_pass(ESwitch *sw, Port *port, const uint8_t *frame, size_t len,
                      bool copy)
{
    port_count(port, FAKERNIC_VPORT_STAT_RX_FRAMES, frame, len);
    /* A callback may send frames to this vport: they come after this one. */
    port->busy = true;
    port->busy = !sw->ops->deliver(sw->opaque,
                                   port_number(sw, port - sw->port), frame, len,
                                   copy);
}

static void port_queue(Port *port, const uint8_t *frame, size_t len, bool copy)
{
    const size_t size = len + ESWITCH_QUEUED;
    Queued *queued = size <= ESWITCH_QUEUE_BYTES - port->queued
                         ? malloc(sizeof(*queued) + len) : NULL;

    if (!queued) {
        port->counters[FAKERNIC_VPORT_STAT_RX_DROPPED]++;
        return;
    }
    queued->next = NULL;
    queued->len = len;
    queued->copy = copy;
    memcpy(queued->frame, frame, len);
    *port->last = queued;
    port->last = &queued->next;
    port->queued += size;
}

void eswitch_ready(ESwitch *sw, unsigned vport)
{
    Port *port = port_of(sw, vport);

    port->busy = false;
    while (port->first && !port->busy) {
        Queued *queued = port->first;

        port->first = queued->next;
        if (!port->first) {
            port->last = &port->first;
        }
        port->queued -= queued->len + ESWITCH_QUEUED;
        port_pass(sw, port, queued->frame, queued->len, queued->copy);
        free(queued);
    }
    if (vport == ESWITCH_UPLINK) {
        uplink_resume(sw);
    }
}

static void port_give(ESwitch *sw, Port *port, Frame *f, bool copy)
{
    const bool strip = port_vlan(port);
    const uint8_t *frame = strip ? frame_bare(f) : frame_full(f);
    const size_t len = strip ? f->bare_len : f->full_len;

    if (!port_link_up(sw, port)) {
        port->counters[FAKERNIC_VPORT_STAT_RX_DROPPED]++;
        return;
    }
    if (port->busy) {
        port_queue(port, frame, len, copy);
        return;
    }
    port_pass(sw, port, frame, len, copy);
    /* Frames that came during the callback. */
    if (!port->busy && (port->first || port_is_uplink(sw, port))) {
        eswitch_ready(sw, port_number(sw, port - sw->port));
    }
}

/* ---- lookup -------------------------------------------------------------- */

typedef struct Receivers {
    unsigned count;
    bool uplink;
    bool copy[ESWITCH_VFS_MAX + 1];
    uint8_t port[ESWITCH_VFS_MAX + 1];
} Receivers;

static void receivers_add(Receivers *to, unsigned port, bool copy)
{
    to->port[to->count] = (uint8_t)port;
    to->copy[to->count++] = copy;
}

/* True: a group's frame is for the vport, because it asks for it. */
static bool port_asks(const ESwitch *sw, unsigned index, const uint8_t *target,
                      bool from_uplink)
{
    const uint8_t filter = sw->port[index].filter;

    if (mac_is_reserved(target)) {
        return from_uplink && index == ESWITCH_PF;
    }
    return index == ESWITCH_PF ||
           filter & (mac_is_broadcast(target) ? FAKERNIC_FILTER_BROADCAST
                                              : FAKERNIC_FILTER_MULTICAST);
}

/* The functions that get a frame. */
static void find_functions(ESwitch *sw, unsigned sender, const Frame *f,
                           unsigned hit, Receivers *to)
{
    const uint8_t *target = frame_target(f);
    const bool group = mac_is_group(target);

    if (!group && !sw->promiscuous) {
        if (hit < sw->ports) {
            receivers_add(to, hit, false);
        }
        return;
    }
    for (unsigned i = 0; i < sw->ports - 1; i++) {
        const Port *port = &sw->port[i];
        const bool asks = group ? port_asks(sw, i, target,
                                            sender == sw->ports - 1)
                                : i == hit;

        if (i != sender && port->present &&
            (!port_vlan(port) || port_vlan(port) == f->vlan) &&
            (asks || port_sees_all(port))) {
            receivers_add(to, i, !asks);
        }
    }
}

static void find_receivers(ESwitch *sw, unsigned sender, const Frame *f,
                           Receivers *to)
{
    const uint8_t *target = frame_target(f);
    const bool from_uplink = sender == sw->ports - 1;
    unsigned hit = sw->ports;   /* none */

    to->count = 0;
    to->uplink = !from_uplink;
    if (!mac_is_group(target)) {
        switch (table_find(sw, target, f->vlan, sender, &hit)) {
        case FOUND_NONE:
            hit = from_uplink ? ESWITCH_PF : hit;
            break;
        case FOUND_SENDER:
        case FOUND_OTHER:
            to->uplink = false;
            break;
        }
    }
    find_functions(sw, sender, f, hit, to);
}

/* ---- ingress ------------------------------------------------------------- */

/* True: the vport may send from this address. */
static bool port_owns(const Port *port, const uint8_t *source)
{
    const uint8_t *own = mac_is_set(port->set.mac) ? port->set.mac
                                                   : port->permanent;

    return !memcmp(source, own, MAC) ||
           (port_chooses(port) && mac_is_set(port->current) &&
            !memcmp(source, port->current, MAC));
}

/* Pushes the tag of the port VLAN. False: the frame has one of this type. */
static bool port_tag(const Port *port, Frame *f)
{
    const uint16_t tci = (uint16_t)(port->set.qos << 13 | port->set.vid);

    if (!tci) {
        return true;
    }
    if (!port->set.vid) {
        if (!is_tag(f->type)) {
            frame_push(f, port->set.vlan_proto, tci);
        }
        return true;
    }
    if (f->type == port->set.vlan_proto) {
        return false;
    }
    frame_push(f, port->set.vlan_proto, tci);
    return true;
}

/* True: the frame enters. Counts it otherwise. */
static bool port_admits(ESwitch *sw, Port *port, Frame *f, const uint8_t *frame,
                        size_t len)
{
    bool good = port_link_up(sw, port) && len >= HEADER &&
                len <= ESWITCH_FRAME_MAX;

    if (good && port->set.spoof_check && !port_owns(port, frame + MAC)) {
        port->counters[FAKERNIC_VPORT_STAT_TX_SPOOFED]++;
        return false;
    }
    good = good && (port->set.trust || !mac_is_reserved(frame));
    if (good) {
        frame_init(f, frame, len);
        good = port_tag(port, f) && f->full_len <= ESWITCH_FRAME_MAX;
    }
    port->counters[FAKERNIC_VPORT_STAT_TX_DROPPED] += !good;
    return good;
}

/* The rate does not count the header, so a tag does not change it. */
static void port_pay(Port *port, ESwitchTime now, size_t len)
{
    const uint64_t rate = port->set.max_mbps;
    const ESwitchTime idle = now - ESWITCH_BURST_NS;

    if (rate) {
        port->paid = (port->paid > idle ? port->paid : idle) +
                     (ESwitchTime)(((len - HEADER) * 8000 + rate - 1) / rate);
    }
}

unsigned eswitch_in(ESwitch *sw, ESwitchTime now, unsigned vport,
                    const uint8_t *frame, size_t len)
{
    const unsigned sender = port_index(sw, vport);
    Port *port = &sw->port[sender];
    Port *uplink = port_uplink(sw);
    Receivers to;
    Frame f;

    if (!port_admits(sw, port, &f, frame, len)) {
        return 1;
    }
    if (port->set.max_mbps && port->paid > now) {
        port->counters[FAKERNIC_VPORT_STAT_TX_WAITED]++;
        port_wait(sw, port, WAITS_RATE);
        return 0;
    }
    find_receivers(sw, sender, &f, &to);
    if (to.uplink && uplink->busy && port_link_up(sw, uplink)) {
        port_wait(sw, port, WAITS_UPLINK);
        return 0;
    }
    port_wait(sw, port, WAITS_NOT);
    port_pay(port, now, len);
    port_count(port, FAKERNIC_VPORT_STAT_TX_FRAMES, frame, len);
    if (to.uplink) {
        port_give(sw, uplink, &f, false);
    }
    for (unsigned i = 0; i < to.count; i++) {
        port_give(sw, &sw->port[to.port[i]], &f, to.copy[i]);
    }
    return 1 + (to.count + to.uplink) / 4;
}

/* ---- time ---------------------------------------------------------------- */

ESwitchTime eswitch_deadline(const ESwitch *sw)
{
    ESwitchTime first = ESWITCH_NEVER;

    for (unsigned i = 0; i < sw->ports; i++) {
        const Port *port = &sw->port[i];

        if (port->waits == WAITS_RATE && port->paid < first) {
            first = port->paid;
        }
    }
    return first;
}

void eswitch_tick(ESwitch *sw, ESwitchTime now)
{
    for (unsigned i = 0; i < sw->ports; i++) {
        Port *port = &sw->port[i];

        if (port->waits == WAITS_RATE && port->paid <= now) {
            port_resume(sw, port);
        }
    }
}
