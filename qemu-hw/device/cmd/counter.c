/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counters: QUERY_STATS, and the sets of counters that QPs are bound to
 * (fakernic/cmdq.h, fakernic/stats.h). A set has the layout of the device's own
 * counters; the engine counts in both.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "cmd.h"
#include "../dma.h"
#include "../state.h"

typedef struct fakernic_query_stats_req QueryStatsReq;
typedef struct fakernic_query_counter_req QueryCounterReq;

/* Both requests have the address of the counters at the same offset. */
QEMU_BUILD_BUG_ON(offsetof(QueryStatsReq, address) !=
                  offsetof(QueryCounterReq, address));
QEMU_BUILD_BUG_ON(offsetof(QueryStatsReq, length) !=
                  offsetof(QueryCounterReq, length));

static FakernicVerdict fakernic_counters_write(FakernicState *s,
                                               const uint64_t *values,
                                               uint64_t address,
                                               uint32_t length, void *response)
{
    struct fakernic_query_stats_resp *resp = response;
    const uint32_t count = MIN(length / 8, FAKERNIC_STAT_COUNT);
    uint64_t copy[FAKERNIC_STAT_COUNT];

    if (address % 8 || address > UINT64_MAX - length) {
        return FAKERNIC_REFUSE(BAD_PARAM, QueryStatsReq, address);
    }
    if (length % 8) {
        return FAKERNIC_REFUSE(BAD_PARAM, QueryStatsReq, length);
    }
    for (uint32_t i = 0; i < count; i++) {
        copy[i] = cpu_to_le64(values[i]);
    }
    if (count && !fakernic_dma_write(s, address, copy, count * 8,
                                     ROCE_WHY_CMD)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_DMA_ERROR);
    }
    resp->count = cpu_to_le32(FAKERNIC_STAT_COUNT);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_query_stats(FakernicState *s, const void *request,
                                         void *response)
{
    const QueryStatsReq *req = request;

    return fakernic_counters_write(s, s->stats, le64_to_cpu(req->address),
                                   le32_to_cpu(req->length), response);
}

FakernicVerdict fakernic_run_create_counter(FakernicState *s,
                                            const void *request,
                                            void *response)
{
    struct fakernic_id *resp = response;

    if (fakernic_table_is_full(&s->counters)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_NO_RESOURCE);
    }
    resp->id = cpu_to_le32(fakernic_table_add(&s->counters,
                                              g_new0(FakernicCounter, 1)));
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_destroy_counter(FakernicState *s,
                                             const void *request,
                                             void *response)
{
    const struct fakernic_id *req = request;
    const uint32_t id = le32_to_cpu(req->id);
    FakernicCounter *counter = fakernic_table_get(&s->counters, id);

    if (!counter) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_id, id);
    }
    if (counter->users) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_BUSY);
    }
    fakernic_table_remove(&s->counters, id);
    g_free(counter);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_set_qp_counter(FakernicState *s,
                                            const void *request,
                                            void *response)
{
    const struct fakernic_set_qp_counter_req *req = request;
    FakernicQp *qp = fakernic_qp(s, le32_to_cpu(req->qpn));
    FakernicCounter *counter = fakernic_table_get(&s->counters,
                                                  le32_to_cpu(req->id));

    if (!qp) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_set_qp_counter_req, qpn);
    }
    if (req->id && !counter) {
        return FAKERNIC_REFUSE(BAD_ID, struct fakernic_set_qp_counter_req, id);
    }
    roce_qp_set_counters(s->roce, qp->qpn, counter ? counter->values : NULL);
    if (qp->counter) {
        qp->counter->users--;
    }
    if (counter) {
        counter->users++;
    }
    qp->counter = counter;
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_query_counter(FakernicState *s,
                                           const void *request, void *response)
{
    const QueryCounterReq *req = request;
    const FakernicCounter *counter = fakernic_table_get(&s->counters,
                                                        le32_to_cpu(req->id));

    if (!counter) {
        return FAKERNIC_REFUSE(BAD_ID, QueryCounterReq, id);
    }
    return fakernic_counters_write(s, counter->values,
                                   le64_to_cpu(req->address),
                                   le32_to_cpu(req->length), response);
}
