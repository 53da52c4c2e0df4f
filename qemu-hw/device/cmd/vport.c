/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands of the PF's driver on the vports of the embedded switch
 * (fakernic/vport.h). Only the PF of a card with VFs offers
 * FAKERNIC_FEATURE_VPORT, so it has a card.
 *
 * A DMA of another function may ring the doorbell of these commands while the
 * switch passes a frame. They then wait for the next turn.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/cutils.h"
#include "net/eth.h"
#include "../budget.h"
#include "../card.h"
#include "cmd.h"
#include "../dma.h"
#include "../state.h"

typedef struct fakernic_set_vport_req SetVportReq;
typedef struct fakernic_vport_settings VportSettings;
typedef struct fakernic_query_vport_stats_req QueryVportStatsReq;

#define FAKERNIC_VPORT_ALL                                                  \
    (FAKERNIC_VPORT_MAC | FAKERNIC_VPORT_VLAN | FAKERNIC_VPORT_LINK |       \
     FAKERNIC_VPORT_SPOOF_CHECK | FAKERNIC_VPORT_TRUST |                    \
     FAKERNIC_VPORT_RSS_QUERY | FAKERNIC_VPORT_RATE)
/* Vports whose counters one unit of work covers. */
#define FAKERNIC_VPORTS_PER_UNIT 8

static bool fakernic_vport_is_vf(const FakernicState *s, uint32_t vport)
{
    return vport != FAKERNIC_VPORT_PF && vport <= s->card->vfs;
}

#define REFUSE_SETTING(field) FAKERNIC_REFUSE(BAD_PARAM, SetVportReq, field)

static FakernicVerdict fakernic_check_vlan(const VportSettings *new)
{
    const uint16_t proto = le16_to_cpu(new->vlan_proto);

    if (le16_to_cpu(new->vid) > ESWITCH_VID_MAX) {
        return REFUSE_SETTING(settings.vid);
    }
    if (proto != ETH_P_VLAN && proto != ETH_P_DVLAN) {
        return REFUSE_SETTING(settings.vlan_proto);
    }
    if (new->qos > ESWITCH_QOS_MAX) {
        return REFUSE_SETTING(settings.qos);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

static FakernicVerdict fakernic_check_rate(const FakernicState *s,
                                           uint32_t vport,
                                           const VportSettings *new)
{
    const uint32_t min = le32_to_cpu(new->min_mbps);
    const uint32_t max = le32_to_cpu(new->max_mbps);
    uint64_t sum = min;

    if (max && min > max) {
        return REFUSE_SETTING(settings.min_mbps);
    }
    for (unsigned i = 1; i <= s->card->vfs; i++) {
        sum += i == vport ? 0 : eswitch_settings(s->card->eswitch, i)->min_mbps;
    }
    return sum > s->speed_mbps ? REFUSE_SETTING(settings.min_mbps)
                               : FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

static FakernicVerdict fakernic_check_flags(uint32_t mask,
                                            const VportSettings *new)
{
    if (mask & FAKERNIC_VPORT_LINK &&
        new->link > FAKERNIC_VPORT_LINK_DISABLE) {
        return REFUSE_SETTING(settings.link);
    }
    if (mask & FAKERNIC_VPORT_SPOOF_CHECK && new->spoof_check > 1) {
        return REFUSE_SETTING(settings.spoof_check);
    }
    if (mask & FAKERNIC_VPORT_TRUST && new->trust > 1) {
        return REFUSE_SETTING(settings.trust);
    }
    if (mask & FAKERNIC_VPORT_RSS_QUERY && new->rss_query > 1) {
        return REFUSE_SETTING(settings.rss_query);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

static FakernicVerdict fakernic_check_set_vport(const FakernicState *s,
                                                const SetVportReq *req)
{
    const uint32_t mask = le32_to_cpu(req->mask);
    const uint32_t vport = le16_to_cpu(req->vport);
    FakernicVerdict v = FAKERNIC_VERDICT(FAKERNIC_CMD_OK);

    if (!fakernic_vport_is_vf(s, vport)) {
        return FAKERNIC_REFUSE(BAD_ID, SetVportReq, vport);
    }
    if (mask & ~FAKERNIC_VPORT_ALL) {
        return REFUSE_SETTING(mask);
    }
    if (mask & FAKERNIC_VPORT_MAC &&
        is_multicast_ether_addr(req->settings.mac)) {
        return REFUSE_SETTING(settings.mac);
    }
    if (mask & FAKERNIC_VPORT_VLAN) {
        v = fakernic_check_vlan(&req->settings);
    }
    if (fakernic_accepts(&v) && mask & FAKERNIC_VPORT_RATE) {
        v = fakernic_check_rate(s, vport, &req->settings);
    }
    return fakernic_accepts(&v) ? fakernic_check_flags(mask, &req->settings)
                                : v;
}

#undef REFUSE_SETTING

/* Replaces the settings that 'mask' names. */
static void fakernic_take_settings(ESwitchSettings *set, uint32_t mask,
                                   const VportSettings *new)
{
    if (mask & FAKERNIC_VPORT_MAC) {
        memcpy(set->mac, new->mac, sizeof(set->mac));
    }
    if (mask & FAKERNIC_VPORT_VLAN) {
        set->vid = le16_to_cpu(new->vid);
        set->vlan_proto = le16_to_cpu(new->vlan_proto);
        set->qos = new->qos;
    }
    if (mask & FAKERNIC_VPORT_LINK) {
        set->link = new->link;
    }
    if (mask & FAKERNIC_VPORT_SPOOF_CHECK) {
        set->spoof_check = new->spoof_check;
    }
    if (mask & FAKERNIC_VPORT_TRUST) {
        set->trust = new->trust;
    }
    if (mask & FAKERNIC_VPORT_RSS_QUERY) {
        set->rss_query = new->rss_query;
    }
    if (mask & FAKERNIC_VPORT_RATE) {
        set->min_mbps = le32_to_cpu(new->min_mbps);
        set->max_mbps = le32_to_cpu(new->max_mbps);
    }
}

FakernicVerdict fakernic_run_set_vport(FakernicState *s, const void *request,
                                       void *response)
{
    const SetVportReq *req = request;
    const unsigned vport = le16_to_cpu(req->vport);
    FakernicVerdict v = fakernic_check_set_vport(s, req);
    ESwitchSettings set;

    if (!fakernic_accepts(&v)) {
        return v;
    }
    set = *eswitch_settings(s->card->eswitch, vport);
    fakernic_take_settings(&set, le32_to_cpu(req->mask), &req->settings);
    return FAKERNIC_VERDICT(fakernic_card_set(s->card, vport, &set)
                                ? FAKERNIC_CMD_OK : FAKERNIC_CMD_LATER);
}

static void fakernic_put_settings(VportSettings *to, const ESwitchSettings *set)
{
    memcpy(to->mac, set->mac, sizeof(to->mac));
    to->vid = cpu_to_le16(set->vid);
    to->vlan_proto = cpu_to_le16(set->vlan_proto);
    to->qos = set->qos;
    to->link = set->link;
    to->spoof_check = set->spoof_check;
    to->trust = set->trust;
    to->rss_query = set->rss_query;
    to->min_mbps = cpu_to_le32(set->min_mbps);
    to->max_mbps = cpu_to_le32(set->max_mbps);
}

FakernicVerdict fakernic_run_query_vport(FakernicState *s, const void *request,
                                         void *response)
{
    const struct fakernic_id *req = request;
    struct fakernic_query_vport_resp *resp = response;
    const uint32_t vport = le32_to_cpu(req->id);
    const ESwitch *sw = s->card->eswitch;
    const FakernicState *other;
    ESwitchFunction function;

    if (!eswitch_has(sw, vport)) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    other = vport <= s->card->vfs ? s->card->functions[vport] : NULL;
    function = eswitch_function(sw, vport);
    fakernic_put_settings(&resp->settings, eswitch_settings(sw, vport));
    memcpy(resp->permanent_mac, function.permanent,
           sizeof(resp->permanent_mac));
    memcpy(resp->driver_mac, function.mac, sizeof(resp->driver_mac));
    resp->filter = other && function.present ? other->port_filter : 0;
    resp->flags =
        (function.present ? FAKERNIC_VPORT_PRESENT : 0) |
        (other && function.present && other->status & FAKERNIC_STATUS_ENABLED ?
         FAKERNIC_VPORT_ENABLED : 0) |
        (eswitch_link_up(sw, vport) ? FAKERNIC_VPORT_LINK_UP : 0);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

/* Writes the first 'counters' counters of a vport. */
static bool fakernic_write_vport_stats(FakernicState *s, unsigned vport,
                                       unsigned counters, uint64_t address)
{
    uint64_t values[FAKERNIC_VPORT_STAT_COUNT];

    for (unsigned i = 0; i < counters; i++) {
        values[i] = cpu_to_le64(eswitch_counter(s->card->eswitch, vport, i));
    }
    return fakernic_dma_write(s, address, values, counters * 8, ROCE_WHY_CMD);
}

FakernicVerdict fakernic_run_query_vport_stats(FakernicState *s,
                                               const void *request,
                                               void *response)
{
    const QueryVportStatsReq *req = request;
    struct fakernic_query_vport_stats_resp *resp = response;
    const unsigned first = le16_to_cpu(req->first);
    const unsigned counters = le16_to_cpu(req->counters);
    const uint64_t address = le64_to_cpu(req->address);
    const uint32_t length = le32_to_cpu(req->length);
    unsigned vports;

    if (!eswitch_has(s->card->eswitch, first)) {
        return FAKERNIC_REFUSE(BAD_ID, QueryVportStatsReq, first);
    }
    if (!counters || counters > FAKERNIC_VPORT_STAT_COUNT) {
        return FAKERNIC_REFUSE(BAD_PARAM, QueryVportStatsReq, counters);
    }
    if (address % 8 || address > UINT64_MAX - length) {
        return FAKERNIC_REFUSE(BAD_PARAM, QueryVportStatsReq, address);
    }
    if (length % (8 * counters)) {
        return FAKERNIC_REFUSE(BAD_PARAM, QueryVportStatsReq, length);
    }
    vports = first == FAKERNIC_VPORT_UPLINK ? 1 : s->card->vfs + 1 - first;
    vports = MIN(vports, length / (8 * counters));
    for (unsigned i = 0; i < vports; i++) {
        if (!fakernic_write_vport_stats(s, first + i, counters,
                                        address + i * 8 * counters)) {
            return FAKERNIC_VERDICT(FAKERNIC_CMD_DMA_ERROR);
        }
    }
    fakernic_spend(s, vports / FAKERNIC_VPORTS_PER_UNIT);
    resp->vports = cpu_to_le32(vports);
    resp->counters = cpu_to_le32(FAKERNIC_VPORT_STAT_COUNT);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_reset_vport(FakernicState *s, const void *request,
                                         void *response)
{
    const struct fakernic_id *req = request;
    const uint32_t vport = le32_to_cpu(req->id);

    if (!fakernic_vport_is_vf(s, vport) ||
        !eswitch_function(s->card->eswitch, vport).present) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    s->card->reset(s->card->functions[vport]);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}
