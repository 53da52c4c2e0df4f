/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands on the device and its port: NOP, QUERY_DEVICE, QUERY_PORT, SET_PORT,
 * SET_GID (fakernic/cmdq.h). Also allocates protection domains, XRC domains and
 * doorbell pages, which are little more than numbers.
 */
#include "qemu/osdep.h"
#include "qemu/bitops.h"
#include "qemu/bswap.h"
#include "qemu/cutils.h"
#include "net/eth.h"
#include "../card.h"
#include "cmd.h"
#include "../port/port.h"
#include "../state.h"

FakernicVerdict fakernic_run_nop(FakernicState *s, const void *request,
                                 void *response)
{
    memcpy(response, request, FAKERNIC_CMD_PAYLOAD);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

/*
 * The EUI-64 of the MAC as a number, first byte most significant (RFC 4291
 * appendix A: universal/local bit inverted).
 */
static uint64_t fakernic_node_guid(const FakernicState *s)
{
    const uint8_t *mac = s->conf.macaddr.a;
    const uint8_t eui[8] = { mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe,
                             mac[3], mac[4], mac[5] };

    return ldq_be_p(eui);
}

/* The largest path MTU whose frames fit, all headers counted (IBTA A17). */
static uint8_t fakernic_path_mtu(uint32_t port_mtu)
{
    const uint32_t headers = 40 + 8 + 12 + 4 + 28 + 4;
    uint8_t mtu;

    for (mtu = FAKERNIC_MTU_4096; mtu > FAKERNIC_MTU_256; mtu--) {
        if ((128U << mtu) + headers <= port_mtu) {
            break;
        }
    }
    return mtu;
}

FakernicVerdict fakernic_run_query_device(FakernicState *s,
                                          const void *request, void *response)
{
    struct fakernic_query_device_resp *resp = response;
    const uint64_t features = s->driver_features;
    const bool has_srq = features & FAKERNIC_FEATURE_SRQ;
    const bool has_mw = features & FAKERNIC_FEATURE_MW;
    const bool has_fast_reg = features & FAKERNIC_FEATURE_FAST_REG;
    const bool has_xrc = features & FAKERNIC_FEATURE_XRC;
    const bool has_mcast = features & FAKERNIC_FEATURE_MCAST;

    resp->node_guid = cpu_to_le64(fakernic_node_guid(s));
    resp->max_mr_size = cpu_to_le64(FAKERNIC_MAX_MR_SIZE);
    resp->page_sizes = cpu_to_le64(MAKE_64BIT_MASK(FAKERNIC_PAGE_SHIFT,
                           FAKERNIC_PAGE_SHIFT_MAX - FAKERNIC_PAGE_SHIFT + 1));
    resp->max_qp = cpu_to_le32(s->max_qp - 2);
    resp->max_cq = cpu_to_le32(s->max_cq);
    resp->max_eq = cpu_to_le32(FAKERNIC_MAX_EQ);
    resp->max_srq = cpu_to_le32(has_srq ? s->max_srq : 0);
    resp->max_pd = cpu_to_le32(s->max_pd);
    resp->max_xrcd = cpu_to_le32(has_xrc ? FAKERNIC_MAX_XRCD : 0);
    resp->max_mr = cpu_to_le32(s->max_mr - 1);
    resp->max_mw = cpu_to_le32(has_mw ? s->max_mr - 1 : 0);
    resp->max_uar = cpu_to_le32(s->uars);
    resp->max_mcast_groups = cpu_to_le32(has_mcast ?
                                         FAKERNIC_MAX_MCAST_GROUPS : 0);
    resp->max_mcast_qps = cpu_to_le32(has_mcast ? FAKERNIC_MAX_MCAST_QPS : 0);
    resp->max_qp_wr = cpu_to_le32(4096);
    resp->max_cqe = cpu_to_le32(fakernic_cq_depth_max(s));
    resp->max_srq_wr = cpu_to_le32(has_srq ?
                                   1U << FAKERNIC_QUEUE_LOG_DEPTH_MAX : 0);
    resp->max_message_size = cpu_to_le32(FAKERNIC_MAX_MESSAGE);
    resp->max_fast_reg_pages = cpu_to_le32(has_fast_reg ?
                                           FAKERNIC_MAX_FAST_REG_PAGES : 0);
    resp->max_inline = cpu_to_le32(FAKERNIC_INLINE_MAX);
    resp->max_send_sge = cpu_to_le16(FAKERNIC_SGE_MAX);
    resp->max_recv_sge = cpu_to_le16(FAKERNIC_SGE_MAX);
    resp->max_read_sge = cpu_to_le16(FAKERNIC_SGE_MAX);
    resp->gid_count = cpu_to_le16(s->gids);
    resp->pkey_count = cpu_to_le16(1);
    resp->max_rd_atomic = FAKERNIC_MAX_RD_ATOMIC;
    resp->max_dest_rd_atomic = FAKERNIC_MAX_RD_ATOMIC;
    /* 4.096 us << 16 = 268 ms: an emulated peer may be descheduled. */
    resp->ack_delay = 16;
    resp->port_count = 1;
    resp->max_mtu = fakernic_path_mtu(s->mtu_max);
    resp->vector_count = s->vectors;
    if (features & FAKERNIC_FEATURE_FLOW) {
        resp->max_flow = cpu_to_le32(FAKERNIC_MAX_FLOW);
    }
    if (features & FAKERNIC_FEATURE_COUNTERS) {
        resp->max_counter = cpu_to_le32(FAKERNIC_MAX_COUNTER);
    }
    if (features & FAKERNIC_FEATURE_WQ_RSS) {
        resp->max_ind_table = cpu_to_le32(FAKERNIC_MAX_IND_TABLE);
        resp->max_ind_table_size = cpu_to_le32(FAKERNIC_MAX_IND_TABLE_SIZE);
    }
    if (features & FAKERNIC_FEATURE_DM) {
        resp->dm_size = cpu_to_le32(s->dm_size);
    }
    if (features & FAKERNIC_FEATURE_RATE_LIMIT) {
        resp->rate_limit_min_kbps = cpu_to_le32(1);
        resp->rate_limit_max_kbps = cpu_to_le32(s->speed_mbps * 1000);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_query_port(FakernicState *s, const void *request,
                                        void *response)
{
    struct fakernic_query_port_resp *resp = response;

    resp->link_up = fakernic_port_link_up(s);
    resp->active_mtu = fakernic_path_mtu(s->port_mtu);
    memcpy(resp->mac, s->conf.macaddr.a, sizeof(resp->mac));
    resp->speed_mbps = cpu_to_le32(s->speed_mbps);
    resp->mtu = cpu_to_le32(s->port_mtu);
    resp->max_mtu = cpu_to_le32(s->mtu_max);
    resp->min_mtu = cpu_to_le32(FAKERNIC_MIN_MTU);
    resp->bad_pkeys = cpu_to_le32(s->stats[FAKERNIC_STAT_DROP_PKEY]);
    if (s->driver_features & FAKERNIC_FEATURE_FUNCTION) {
        resp->vf_flags = cpu_to_le32(fakernic_card_flags(s));
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

/* The SET_PORT mask bits that the negotiated features allow. */
static uint32_t fakernic_port_settings(const FakernicState *s)
{
    const uint32_t always = FAKERNIC_PORT_MTU | FAKERNIC_PORT_MAC |
                            FAKERNIC_PORT_FILTER | FAKERNIC_PORT_QPN;

    return always |
           (s->driver_features & FAKERNIC_FEATURE_VLAN ?
            FAKERNIC_PORT_VLAN_STRIP : 0) |
           (s->driver_features & FAKERNIC_FEATURE_PORT_DISABLE ?
            FAKERNIC_PORT_ENABLED : 0);
}

static FakernicVerdict
fakernic_check_set_port(FakernicState *s,
                        const struct fakernic_set_port_req *req)
{
    const uint32_t mask = le32_to_cpu(req->mask);
    const uint32_t mtu = le32_to_cpu(req->mtu);
    const uint32_t qpn = le32_to_cpu(req->qpn);

    if (mask & ~fakernic_port_settings(s)) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_set_port_req, mask);
    }
    if ((mask & FAKERNIC_PORT_MTU) &&
        (mtu < FAKERNIC_MIN_MTU || mtu > s->mtu_max)) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_set_port_req, mtu);
    }
    if ((mask & FAKERNIC_PORT_MAC) &&
        (is_multicast_ether_addr(req->mac) ||
         buffer_is_zero(req->mac, sizeof(req->mac)))) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_set_port_req, mac);
    }
    if ((mask & FAKERNIC_PORT_FILTER) &&
        (req->filter & ~(FAKERNIC_FILTER_BROADCAST | FAKERNIC_FILTER_MULTICAST |
                         FAKERNIC_FILTER_PROMISCUOUS))) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_set_port_req, filter);
    }
    if (mask & FAKERNIC_PORT_VLAN_STRIP && req->vlan_strip > 1) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_set_port_req,
                               vlan_strip);
    }
    if (mask & FAKERNIC_PORT_ENABLED && req->enabled > 1) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_set_port_req,
                               enabled);
    }
    if ((mask & FAKERNIC_PORT_QPN) && qpn) {
        FakernicQp *qp = fakernic_qp(s, qpn);

        if (!qp) {
            return FAKERNIC_REFUSE(BAD_ID, struct fakernic_set_port_req, qpn);
        }
        if (qp->type != FAKERNIC_QP_RAW_PACKET) {
            return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_set_port_req,
                                   qpn);
        }
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_set_port(FakernicState *s, const void *request,
                                      void *response)
{
    const struct fakernic_set_port_req *req = request;
    const uint32_t mask = le32_to_cpu(req->mask);
    FakernicVerdict v = fakernic_check_set_port(s, req);

    if (!fakernic_accepts(&v)) {
        return v;
    }
    if (mask & FAKERNIC_PORT_MTU) {
        fakernic_port_set_mtu(s, le32_to_cpu(req->mtu));
    }
    if (mask & FAKERNIC_PORT_MAC) {
        memcpy(s->port_mac, req->mac, sizeof(s->port_mac));
    }
    if (mask & FAKERNIC_PORT_FILTER) {
        s->port_filter = req->filter;
    }
    if (mask & FAKERNIC_PORT_QPN) {
        s->port_qpn = le32_to_cpu(req->qpn);
    }
    if (mask & FAKERNIC_PORT_VLAN_STRIP) {
        s->port_vlan_strip = req->vlan_strip;
    }
    if (mask & FAKERNIC_PORT_ENABLED) {
        s->port_enabled = req->enabled;
    }
    return v;
}

static bool fakernic_gid_is_v4_mapped(const uint8_t gid[16])
{
    static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

    return !memcmp(gid, prefix, sizeof(prefix));
}

FakernicVerdict fakernic_run_set_gid(FakernicState *s, const void *request,
                                     void *response)
{
    const struct fakernic_set_gid_req *req = request;
    const uint16_t index = le16_to_cpu(req->index);
    RoceGid gid = {
        .type = req->type,
        .vlan = le16_to_cpu(req->vlan),
    };

    if (index >= s->gids) {
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_set_gid_req, index);
    }
    switch (req->type) {
    case FAKERNIC_GID_NONE:
        break;
    case FAKERNIC_GID_IPV4:
    case FAKERNIC_GID_IPV6:
        if (fakernic_gid_is_v4_mapped(req->gid) !=
            (req->type == FAKERNIC_GID_IPV4)) {
            return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_set_gid_req, gid);
        }
        if (gid.vlan > 4094 && gid.vlan != FAKERNIC_VLAN_NONE) {
            return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_set_gid_req,
                                   vlan);
        }
        if (is_multicast_ether_addr(req->mac)) {
            return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_set_gid_req, mac);
        }
        break;
    default:
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_set_gid_req, type);
    }
    memcpy(gid.mac, req->mac, sizeof(gid.mac));
    memcpy(gid.gid, req->gid, sizeof(gid.gid));
    return FAKERNIC_VERDICT(roce_gid_set(s->roce, index, &gid));
}

FakernicVerdict fakernic_run_alloc_pd(FakernicState *s, const void *request,
                                      void *response)
{
    struct fakernic_id *resp = response;
    FakernicPd *pd;
    uint32_t pdn;

    if (fakernic_table_is_full(&s->pds)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_NO_RESOURCE);
    }
    pd = g_new0(FakernicPd, 1);
    pdn = fakernic_table_add(&s->pds, pd);
    pd->handle = ROCE_PD(pdn, ++s->pd_generation);
    resp->id = cpu_to_le32(pdn);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_dealloc_pd(FakernicState *s, const void *request,
                                        void *response)
{
    const struct fakernic_id *req = request;
    const uint32_t pdn = le32_to_cpu(req->id);
    FakernicPd *pd = fakernic_pd(s, pdn);

    if (!pd) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    if (pd->users) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_BUSY);
    }
    fakernic_table_remove(&s->pds, pdn);
    g_free(pd);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_alloc_xrcd(FakernicState *s, const void *request,
                                        void *response)
{
    struct fakernic_id *resp = response;

    if (fakernic_table_is_full(&s->xrcds)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_NO_RESOURCE);
    }
    resp->id = cpu_to_le32(fakernic_table_add(&s->xrcds,
                                              g_new0(FakernicXrcd, 1)));
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_dealloc_xrcd(FakernicState *s,
                                          const void *request, void *response)
{
    const struct fakernic_id *req = request;
    const uint32_t xrcdn = le32_to_cpu(req->id);
    FakernicXrcd *xrcd = fakernic_xrcd(s, xrcdn);

    if (!xrcd) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    if (xrcd->users) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_BUSY);
    }
    fakernic_table_remove(&s->xrcds, xrcdn);
    g_free(xrcd);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_alloc_uar(FakernicState *s, const void *request,
                                       void *response)
{
    struct fakernic_id *resp = response;

    if (fakernic_table_is_full(&s->uar_table)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_NO_RESOURCE);
    }
    resp->id = cpu_to_le32(fakernic_table_add(&s->uar_table,
                                              g_new0(FakernicUar, 1)));
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_dealloc_uar(FakernicState *s, const void *request,
                                         void *response)
{
    const struct fakernic_id *req = request;
    const uint32_t id = le32_to_cpu(req->id);
    FakernicUar *uar = fakernic_table_get(&s->uar_table, id);

    if (!uar) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    if (uar->users) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_BUSY);
    }
    fakernic_table_remove(&s->uar_table, id);
    g_free(uar);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}
