/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Receive side scaling: which work queue takes a frame for an RSS QP
 * (fakernic/wq.h). In the engine every WQ is a raw-packet QP, and receives,
 * completes and fails like one.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "../clock.h"
#include "parse.h"
#include "rss.h"
#include "../state.h"
#include "../../roce/toeplitz.h"
#include "../../trace.h"

typedef struct FakernicHashInput {
    uint8_t bytes[ROCE_TOEPLITZ_INPUT_MAX];
    size_t len;
} FakernicHashInput;

static void fakernic_hash_address(FakernicHashInput *in, bool wanted,
                                  const uint8_t *address, size_t len)
{
    if (wanted) {
        memcpy(in->bytes + in->len, address, len);
        in->len += len;
    }
}

static void fakernic_hash_port(FakernicHashInput *in, bool wanted, uint16_t port)
{
    if (wanted) {
        stw_be_p(in->bytes + in->len, le16_to_cpu(port));
        in->len += 2;
    }
}

/* Hashes the selected fields that the frame has, in data sheet order. */
static uint32_t fakernic_rss_hash(const FakernicRss *rss,
                                  const FakernicParsed *p)
{
    const struct fakernic_flow_match *m = &p->match;
    const bool v4 = p->layers & FAKERNIC_FLOW_IPV4;
    const bool v6 = p->layers & FAKERNIC_FLOW_IPV6;
    const uint32_t src = v4 ? FAKERNIC_HASH_SRC_IPV4 :
                         v6 ? FAKERNIC_HASH_SRC_IPV6 : 0;
    const uint32_t dst = v4 ? FAKERNIC_HASH_DST_IPV4 :
                         v6 ? FAKERNIC_HASH_DST_IPV6 : 0;
    const bool tcp = p->layers & FAKERNIC_FLOW_TCP;
    const bool udp = p->layers & FAKERNIC_FLOW_UDP;
    const uint32_t src_port = tcp ? FAKERNIC_HASH_SRC_PORT_TCP :
                              udp ? FAKERNIC_HASH_SRC_PORT_UDP : 0;
    const uint32_t dst_port = tcp ? FAKERNIC_HASH_DST_PORT_TCP :
                              udp ? FAKERNIC_HASH_DST_PORT_UDP : 0;
    const size_t skip = v4 ? 12 : 0;    /* IPv4 is in the last four bytes */
    FakernicHashInput in = { .len = 0 };

    fakernic_hash_address(&in, rss->fields & src, m->src_ip + skip, 16 - skip);
    fakernic_hash_address(&in, rss->fields & dst, m->dst_ip + skip, 16 - skip);
    fakernic_hash_port(&in, rss->fields & src_port, m->src_port);
    fakernic_hash_port(&in, rss->fields & dst_port, m->dst_port);
    return roce_toeplitz(rss->key, in.bytes, in.len);
}

static bool fakernic_qp_receives(FakernicState *s, uint32_t qpn)
{
    RoceQpAttr attr;

    return roce_qp_query(s->roce, qpn, &attr) == FAKERNIC_CMD_OK &&
           attr.state >= FAKERNIC_QPS_RTR && attr.state != FAKERNIC_QPS_ERR;
}

void fakernic_raw_input(FakernicState *s, uint32_t qpn, const uint8_t *frame,
                        size_t len, bool strip)
{
    const FakernicQp *qp = fakernic_qp(s, qpn);
    FakernicParsed parsed;
    uint32_t hash;

    /* If the QP does not receive, the engine counts the drop. */
    if (qp && qp->rss && fakernic_qp_receives(s, qpn)) {
        const FakernicIndTable *table = qp->rss->table;

        fakernic_parse(&parsed, frame, len);
        hash = fakernic_rss_hash(qp->rss, &parsed);
        qpn = table->wqns[hash & (table->size - 1)];
        trace_fakernic_rss(s->name, qp->qpn, hash, qpn);
    }
    roce_input_ethernet(s->roce, fakernic_now(), qpn, frame, len, strip);
}
