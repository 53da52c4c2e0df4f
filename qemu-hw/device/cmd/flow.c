/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CREATE_FLOW, DESTROY_FLOW (fakernic/cmdq.h). A rule must be consistent: no
 * field without its layer, and no value outside its mask.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/cutils.h"
#include "cmd.h"
#include "../port/flow.h"
#include "../state.h"

typedef struct fakernic_create_flow_req CreateFlowReq;
typedef struct fakernic_flow_match FlowMatch;

#define FAKERNIC_FLOW_L3 (FAKERNIC_FLOW_IPV4 | FAKERNIC_FLOW_IPV6)
#define FAKERNIC_FLOW_L4 (FAKERNIC_FLOW_TCP | FAKERNIC_FLOW_UDP)
#define FAKERNIC_FLOW_ANY (FAKERNIC_FLOW_VLAN | FAKERNIC_FLOW_L3 | \
                           FAKERNIC_FLOW_L4)

static bool fakernic_flow_layers_are_sane(uint32_t layers)
{
    return !(layers & ~FAKERNIC_FLOW_ANY) &&
           (layers & FAKERNIC_FLOW_L3) != FAKERNIC_FLOW_L3 &&
           (layers & FAKERNIC_FLOW_L4) != FAKERNIC_FLOW_L4 &&
           (!(layers & FAKERNIC_FLOW_L4) || (layers & FAKERNIC_FLOW_L3));
}

/* True: each field in the mask belongs to a layer that the rule requires. */
static bool fakernic_flow_mask_is_sane(const FlowMatch *mask, uint32_t layers)
{
    const bool has_l3 = layers & FAKERNIC_FLOW_L3;
    const bool has_v4 = layers & FAKERNIC_FLOW_IPV4;

    if (mask->vlan && !(layers & FAKERNIC_FLOW_VLAN)) {
        return false;
    }
    if ((mask->src_port || mask->dst_port) && !(layers & FAKERNIC_FLOW_L4)) {
        return false;
    }
    if (mask->flow_label && (!(layers & FAKERNIC_FLOW_IPV6) ||
                             le32_to_cpu(mask->flow_label) > 0xfffff)) {
        return false;
    }
    if (!has_l3 && (mask->protocol || mask->tos || mask->ttl ||
                    !buffer_is_zero(mask->src_ip, 16) ||
                    !buffer_is_zero(mask->dst_ip, 16))) {
        return false;
    }
    return !has_v4 || (buffer_is_zero(mask->src_ip, 12) &&
                       buffer_is_zero(mask->dst_ip, 12));
}

static bool fakernic_flow_value_is_sane(const CreateFlowReq *req)
{
    const uint8_t *value = (const uint8_t *)&req->value;
    const uint8_t *mask = (const uint8_t *)&req->mask;

    for (size_t i = 0; i < sizeof(req->value); i++) {
        if (value[i] & ~mask[i]) {
            return false;
        }
    }
    return true;
}

static FakernicVerdict fakernic_check_flow_normal(const CreateFlowReq *req)
{
    const uint32_t layers = le32_to_cpu(req->layers);

    if ((req->flags & ~(FAKERNIC_FLOW_DROP | FAKERNIC_FLOW_DONT_TRAP)) ||
        req->flags == (FAKERNIC_FLOW_DROP | FAKERNIC_FLOW_DONT_TRAP)) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateFlowReq, flags);
    }
    if (!fakernic_flow_layers_are_sane(layers)) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateFlowReq, layers);
    }
    if (!fakernic_flow_mask_is_sane(&req->mask, layers)) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateFlowReq, mask);
    }
    if (!fakernic_flow_value_is_sane(req)) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateFlowReq, value);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

/* A rule of a type that ignores headers must have no header fields. */
static FakernicVerdict fakernic_check_flow_other(const CreateFlowReq *req)
{
    if (req->type > FAKERNIC_FLOW_SNIFFER) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateFlowReq, type);
    }
    if (req->flags) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateFlowReq, flags);
    }
    if (req->priority) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateFlowReq, priority);
    }
    if (req->layers) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateFlowReq, layers);
    }
    if (!buffer_is_zero(&req->mask, sizeof(req->mask))) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateFlowReq, mask);
    }
    if (!buffer_is_zero(&req->value, sizeof(req->value))) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateFlowReq, value);
    }
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

static FakernicVerdict fakernic_check_flow(FakernicState *s,
                                           const CreateFlowReq *req)
{
    const FakernicQp *qp = fakernic_qp(s, le32_to_cpu(req->qpn));
    FakernicVerdict v = req->type == FAKERNIC_FLOW_NORMAL ?
                        fakernic_check_flow_normal(req) :
                        fakernic_check_flow_other(req);

    if (!fakernic_accepts(&v)) {
        return v;
    }
    if (req->flags & FAKERNIC_FLOW_DROP) {
        return req->qpn ? FAKERNIC_REFUSE(BAD_PARAM, CreateFlowReq, qpn) : v;
    }
    if (!qp) {
        return FAKERNIC_REFUSE(BAD_ID, CreateFlowReq, qpn);
    }
    if (qp->type != FAKERNIC_QP_RAW_PACKET) {
        return FAKERNIC_REFUSE(BAD_PARAM, CreateFlowReq, qpn);
    }
    return v;
}

FakernicVerdict fakernic_run_create_flow(FakernicState *s, const void *request,
                                         void *response)
{
    const CreateFlowReq *req = request;
    struct fakernic_id *resp = response;
    FakernicVerdict v = fakernic_check_flow(s, req);
    FakernicFlow *flow;

    if (!fakernic_accepts(&v)) {
        return v;
    }
    if (fakernic_table_is_full(&s->flow_table) ||
        (fakernic_flow_copies(req->type, req->flags) &&
         s->copying_flows == FAKERNIC_MAX_FLOW_COPIES)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_NO_RESOURCE);
    }
    flow = g_new0(FakernicFlow, 1);
    flow->type = req->type;
    flow->flags = req->flags;
    flow->priority = le16_to_cpu(req->priority);
    flow->layers = le32_to_cpu(req->layers);
    flow->qpn = le32_to_cpu(req->qpn);
    flow->value = req->value;
    flow->mask = req->mask;
    flow->id = fakernic_table_add(&s->flow_table, flow);
    fakernic_flow_add(s, flow);
    if (flow->qpn) {
        fakernic_qp(s, flow->qpn)->flows++;
    }
    resp->id = cpu_to_le32(flow->id);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_destroy_flow(FakernicState *s, const void *request,
                                          void *response)
{
    const struct fakernic_id *req = request;
    FakernicFlow *flow = fakernic_table_get(&s->flow_table,
                                            le32_to_cpu(req->id));

    if (!flow) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    if (flow->qpn) {
        fakernic_qp(s, flow->qpn)->flows--;
    }
    fakernic_flow_remove(s, flow);
    fakernic_table_remove(&s->flow_table, flow->id);
    g_free(flow);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}
