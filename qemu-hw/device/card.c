/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * See card.h.
 */
#include "qemu/osdep.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "budget.h"
#include "card.h"
#include "clock.h"
#include "compat.h"
#include "state.h"

/* A quarter of the memory is reserved for the functions, in equal parts. */
#define FAKERNIC_CARD_OWN   4

/* ---- memory -------------------------------------------------------------- */

/* The part of a function's memory that exceeds what is reserved for it. */
static uint64_t fakernic_card_shared(const FakernicCard *card, uint64_t memory)
{
    return memory > card->own_memory ? memory - card->own_memory : 0;
}

bool fakernic_card_take(const FakernicState *s, uint64_t bytes)
{
    FakernicCard *card = s->card;
    uint64_t more;

    if (!card) {
        return true;
    }
    more = fakernic_card_shared(card, s->memory + bytes) -
           fakernic_card_shared(card, s->memory);
    if (more > card->max_shared - card->shared) {
        return false;
    }
    card->shared += more;
    return true;
}

void fakernic_card_give(const FakernicState *s, uint64_t bytes)
{
    FakernicCard *card = s->card;

    if (card) {
        const uint64_t less = fakernic_card_shared(card, s->memory) -
                              fakernic_card_shared(card, s->memory - bytes);

        assert(less <= card->shared);
        card->shared -= less;
    }
}

/* ---- shares of the main loop --------------------------------------------- */

static unsigned fakernic_rounds;

void fakernic_card_round(void)
{
    fakernic_rounds++;
}

bool fakernic_card_may_turn(const FakernicState *s)
{
    return !s->card || s->share_round != fakernic_rounds ||
           s->share < s->turn_work;
}

void fakernic_card_charge(FakernicState *s)
{
    FakernicCard *card = s->card;
    FakernicState *pf = card ? card->functions[ESWITCH_PF] : NULL;
    const uint32_t used = s->budget.used;

    if (!pf) {
        return;
    }
    if (s->share_round != fakernic_rounds) {
        s->share_round = fakernic_rounds;
        s->share = 0;
    }
    if (card->round != fakernic_rounds) {
        card->round = fakernic_rounds;
        card->used = 0;
    }
    /* Budgets also end by time. */
    s->share += fakernic_budget_left(s) ? used : MAX(used, s->turn_work);
    card->used += used;
    pf->longest_round = MAX(pf->longest_round, card->used);
}

void fakernic_card_wait(FakernicState *s)
{
    if (!s->waits && s->card->bh) {
        s->waits = true;
        QTAILQ_INSERT_TAIL(&s->card->waiting, s, waiting);
        qemu_bh_schedule(s->card->bh);
    }
}

void fakernic_card_wait_ends(FakernicState *s)
{
    if (s->waits) {
        s->waits = false;
        QTAILQ_REMOVE(&s->card->waiting, s, waiting);
    }
}

FakernicState *fakernic_card_next(FakernicCard *card)
{
    FakernicState *s = QTAILQ_FIRST(&card->waiting);

    if (s) {
        fakernic_card_wait_ends(s);
        s->share = 0;
        if (!QTAILQ_EMPTY(&card->waiting)) {
            qemu_bh_schedule(card->bh);
        }
    }
    return s;
}

/* ---- changes of settings ------------------------------------------------- */

static bool fakernic_card_has_rules(const FakernicState *s)
{
    for (unsigned type = 0; type < ARRAY_SIZE(s->flows); type++) {
        if (!QTAILQ_EMPTY(&s->flows[type])) {
            return true;
        }
    }
    return false;
}

/* The filter of SET_PORT, with what flow rules and multicast groups need. */
static uint8_t fakernic_card_filter(const FakernicState *s)
{
    const uint8_t all = FAKERNIC_FILTER_MULTICAST | FAKERNIC_FILTER_BROADCAST;
    uint8_t filter = s->port_filter;

    if (fakernic_card_has_rules(s)) {
        filter |= all;
    }
    if (roce_mcast_any(s->roce)) {
        filter |= FAKERNIC_FILTER_MULTICAST;
    }
    return filter;
}

static void fakernic_card_link(void *opaque, unsigned vport, bool up)
{
    FakernicCard *card = opaque;
    FakernicState *s = card->functions[vport];
    NetClientState *nc = s && s->nic ? qemu_get_queue(s->nic) : NULL;

    if (nc && nc->link_down == up) {
        nc->link_down = !up;
        nc->info->link_status_changed(nc);
    }
}

static void fakernic_card_apply(FakernicState *s)
{
    ESwitch *sw = s->card->eswitch;
    const bool present = s->nic && !(s->held & (FAKERNIC_HELD_ABSENT |
                                                FAKERNIC_HELD_LEAVING));

    s->vport_stale = false;
    if (s->vport != ESWITCH_PF && present != s->vport_present) {
        s->vport_present = present;
        eswitch_set_present(sw, s->vport, present);
        /* The switch reports no link that is down from the start. */
        fakernic_card_link(s->card, s->vport, eswitch_link_up(sw, s->vport));
    }
    if (present) {
        eswitch_set_port(sw, s->vport, s->port_mac, fakernic_card_filter(s));
    }
}

/* Applies the changes that have waited, unless the switch is on the stack. */
static void fakernic_card_settle(FakernicCard *card)
{
    while (card->stale && !card->depth) {
        card->stale = false;
        card->depth++;          /* a change of the link calls back */
        if (card->uplink_stale) {
            card->uplink_stale = false;
            eswitch_set_uplink(card->eswitch, card->uplink &&
                               !qemu_get_queue(card->uplink)->link_down);
        }
        if (card->defaults_wanted) {
            card->defaults_wanted = false;
            eswitch_set_defaults(card->eswitch);
        }
        for (unsigned i = 0; i <= card->vfs; i++) {
            if (card->functions[i] && card->functions[i]->vport_stale) {
                fakernic_card_apply(card->functions[i]);
            }
        }
        card->depth--;
    }
}

void fakernic_card_update(FakernicState *s)
{
    if (s->card) {
        s->vport_stale = true;
        s->card->stale = true;
        fakernic_card_settle(s->card);
    }
}

void fakernic_card_link_changed(FakernicCard *card)
{
    card->uplink_stale = true;
    card->stale = true;
    fakernic_card_settle(card);
}

void fakernic_card_reset(FakernicCard *card)
{
    if (card) {
        card->defaults_wanted = true;
        card->stale = true;
        fakernic_card_settle(card);
    }
}

uint32_t fakernic_card_flags(const FakernicState *s)
{
    const ESwitchSettings *set = eswitch_settings(s->card->eswitch, s->vport);

    if (s->vport == ESWITCH_PF) {
        return 0;
    }
    return (set->trust ? FAKERNIC_PORT_FLAG_TRUSTED : 0) |
           (set->spoof_check ? FAKERNIC_PORT_FLAG_SPOOF_CHECK : 0) |
           (set->vid ? FAKERNIC_PORT_FLAG_VLAN : 0) |
           (set->link == FAKERNIC_VPORT_LINK_ENABLE ?
            FAKERNIC_PORT_FLAG_FORCED_UP : 0) |
           (set->link == FAKERNIC_VPORT_LINK_DISABLE ?
            FAKERNIC_PORT_FLAG_FORCED_DOWN : 0);
}

bool fakernic_card_set(FakernicCard *card, unsigned vport,
                       const ESwitchSettings *settings)
{
    FakernicState *s = card->functions[vport];
    uint32_t flags = s ? fakernic_card_flags(s) : 0;

    if (card->depth) {
        return false;
    }
    card->depth++;              /* a change of the link calls back */
    eswitch_set(card->eswitch, vport, settings);
    card->depth--;
    if (s && flags != fakernic_card_flags(s) &&
        s->driver_features & FAKERNIC_FEATURE_FUNCTION) {
        s->vport_changed = true;
        fakernic_kick(s);
    }
    fakernic_card_settle(card);
    return true;
}

void fakernic_card_load(FakernicCard *card, unsigned vport,
                        const ESwitchSettings *settings,
                        const uint64_t counters[FAKERNIC_VPORT_STAT_COUNT])
{
    card->depth++;              /* a change of the link calls back */
    eswitch_load(card->eswitch, vport, settings, counters);
    card->depth--;
    fakernic_card_settle(card);
}

bool fakernic_card_mac(const FakernicState *s, uint8_t mac[6])
{
    if (s->card) {
        memcpy(mac, eswitch_mac(s->card->eswitch, s->vport), 6);
    }
    return s->card;
}

/* ---- frames -------------------------------------------------------------- */

static void fakernic_card_enter(FakernicCard *card)
{
    card->depth++;
}

static void fakernic_card_return(FakernicCard *card)
{
    const ESwitchTime deadline = eswitch_deadline(card->eswitch);

    card->depth--;
    if (card->timer && deadline != ESWITCH_NEVER) {
        timer_mod_anticipate_ns(card->timer, deadline);
    }
    fakernic_card_settle(card);
}

static bool fakernic_card_deliver(void *opaque, unsigned vport,
                                  const uint8_t *frame, size_t len, bool copy)
{
    FakernicCard *card = opaque;
    FakernicState *s = NULL;

    if (vport == ESWITCH_UPLINK) {
        return !card->uplink ||
               qemu_send_packet_async(qemu_get_queue(card->uplink), frame, len,
                                      card->sent) != 0;
    }
    s = card->functions[vport];
    if (!s || !s->port) {
        return true;
    }
    s->port->copy = copy;
    return qemu_send_packet_async(&s->port->nc, frame, len, card->taken) != 0;
}

static void fakernic_card_resume(void *opaque, unsigned vport)
{
    FakernicCard *card = opaque;
    FakernicState *s = card->functions[vport];

    if (s && s->port) {
        qemu_flush_queued_packets(&s->port->nc);
    }
}

bool fakernic_card_from_function(FakernicPort *port, const uint8_t *frame,
                                 size_t len)
{
    FakernicCard *card = port->card;
    unsigned cost;

    fakernic_card_enter(card);
    cost = eswitch_in(card->eswitch, fakernic_now(), port->function->vport,
                      frame, len);
    fakernic_card_return(card);
    if (cost > 1) {
        fakernic_spend(port->function, cost - 1);
    }
    return cost;
}

void fakernic_card_from_wire(FakernicCard *card, const uint8_t *frame,
                             size_t len)
{
    fakernic_card_enter(card);
    eswitch_in(card->eswitch, fakernic_now(), ESWITCH_UPLINK, frame, len);
    fakernic_card_return(card);
}

void fakernic_card_ready(FakernicCard *card, unsigned vport)
{
    fakernic_card_enter(card);
    eswitch_ready(card->eswitch, vport);
    fakernic_card_return(card);
}

void fakernic_card_tick(FakernicCard *card)
{
    fakernic_card_enter(card);
    eswitch_tick(card->eswitch, fakernic_now());
    fakernic_card_return(card);
}

bool fakernic_card_is_copy(const FakernicState *s)
{
    return s->port && s->port->copy;
}

NetClientState *fakernic_wire(const FakernicState *s)
{
    return qemu_get_queue(s->card && s->card->uplink ? s->card->uplink
                                                     : s->nic);
}

/* ---- creation and cleanup ------------------------------------------------ */

FakernicCard *fakernic_card_new(FakernicState *pf)
{
    static const ESwitchOps ops = {
        .deliver = fakernic_card_deliver,
        .resume = fakernic_card_resume,
        .link = fakernic_card_link,
    };
    FakernicCard *card = g_new0(FakernicCard, 1);

    card->vfs = pf->vfs;
    QTAILQ_INIT(&card->waiting);
    card->own_memory = pf->max_memory / FAKERNIC_CARD_OWN / (card->vfs + 1);
    card->max_shared = pf->max_memory - card->own_memory * (card->vfs + 1);
    card->eswitch = eswitch_new(&ops, card, card->vfs);
    if (!card->eswitch) {
        g_free(card);
        return NULL;
    }
    return card;
}

void fakernic_card_join(FakernicCard *card, FakernicState *s, unsigned vport)
{
    card->users++;
    card->functions[vport] = s;
    s->card = card;
    s->vport = vport;
    eswitch_set_permanent(card->eswitch, vport, s->conf.macaddr.a);
}

void fakernic_card_leave(FakernicState *s)
{
    FakernicCard *card = s->card;

    if (!card) {
        return;
    }
    s->card = NULL;
    card->functions[s->vport] = NULL;
    if (--card->users) {
        return;
    }
    eswitch_free(card->eswitch);
    g_free(card);
}

void fakernic_card_open_port(FakernicState *s, NetClientInfo *info)
{
    const char *id = DEVICE(s->card->functions[ESWITCH_PF])->id;
    g_autofree char *name = id ? g_strdup_printf("%s.port%u", id, s->vport)
                               : NULL;
    /* The device that this one replaces may still have that name. */
    const bool taken = name && qemu_find_netdev(name);
    NetClientState *nc = qemu_new_net_client(info, NULL, "fakernic-port",
                                             taken ? NULL : name);

    s->port = DO_UPCAST(FakernicPort, nc, nc);
    s->port->function = s;
    s->port->card = s->card;
    s->port->conf.peers.ncs[0] = nc;
    s->port->conf.peers.queues = 1;
    qemu_set_info_str(nc, "the embedded switch's port of %s", s->name);
}

static void fakernic_card_close_uplink(FakernicCard *card)
{
    NICState *uplink = card->uplink;
    FakernicLink *link = uplink->peer_deleted ? NULL : card->link;

    card->uplink = NULL;
    timer_free(card->timer);
    card->timer = NULL;
    qemu_bh_delete(card->bh);
    card->bh = NULL;
    qemu_purge_queued_packets(qemu_get_queue(uplink));
    qemu_del_nic(uplink);
    if (link) {
        fakernic_link_free(link);
    }
}

void fakernic_card_close_port(FakernicState *s)
{
    FakernicPort *port = s->port;

    if (!port) {
        return;
    }
    s->port = NULL;
    qemu_del_net_client(&port->nc);
    if (s->vport == ESWITCH_PF) {
        fakernic_card_close_uplink(s->card);
    }
}
