/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FAULT and DUMP: the guest adds fault rules, and reads the device's state.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qapi/error.h"
#include "../budget.h"
#include "cmd.h"
#include "../dma.h"
#include "dump.h"
#include "../watch/objects.h"
#include "../state.h"

typedef struct fakernic_dump_req DumpReq;

/* Characters of text per unit of work. */
#define FAKERNIC_DUMP_PER_UNIT  256

void fakernic_dump_forget(FakernicState *s)
{
    g_free(s->dump);
    s->dump = NULL;
}

FakernicVerdict fakernic_run_fault(FakernicState *s, const void *request,
                                   void *response)
{
    const struct fakernic_fault_req *req = request;
    g_autofree char *rules = g_strndup((const char *)req->rules,
                                       sizeof(req->rules));
    Error *error = NULL;

    g_clear_pointer(&s->fault_refused, g_free);
    if (!fakernic_fault_add(s, rules, &error)) {
        s->fault_refused = g_strdup(error_get_pretty(error));
        FAKERNIC_GUEST_ERR("%s", s->fault_refused);
        error_free(error);
        return FAKERNIC_REFUSE(BAD_PARAM, struct fakernic_fault_req, rules);
    }
    fakernic_kick(s);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

static char *fakernic_dump_faults(FakernicState *s)
{
    g_autofree char *rules = fakernic_fault_text(s);

    return s->fault_refused ? g_strdup_printf("%s# %s\n", rules,
                                              s->fault_refused)
                            : g_steal_pointer(&rules);
}

/* Makes the text of a DUMP; after OK it is s->dump. */
static FakernicVerdict fakernic_dump_make(FakernicState *s, const DumpReq *req)
{
    const uint32_t id = le32_to_cpu(req->id);
    char *text;

    switch (req->kind) {
    case FAKERNIC_DUMP_RECORDER:
        text = id ? NULL : fakernic_record_text(s, false);
        break;
    case FAKERNIC_DUMP_FAULTS:
        text = id ? NULL : fakernic_dump_faults(s);
        break;
    case FAKERNIC_DUMP_QP ... FAKERNIC_DUMP_KEY:
        text = fakernic_query_one(s, req->kind, id);
        break;
    default:
        return FAKERNIC_REFUSE(BAD_PARAM, DumpReq, kind);
    }
    if (!text) {
        return FAKERNIC_REFUSE(BAD_ID, DumpReq, id);
    }
    fakernic_dump_forget(s);
    s->dump = text;
    fakernic_spend(s, strlen(text) / FAKERNIC_DUMP_PER_UNIT);
    return FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
}

FakernicVerdict fakernic_run_dump(FakernicState *s, const void *request,
                                  void *response)
{
    const DumpReq *req = request;
    const uint32_t first = le32_to_cpu(req->first);
    const uint32_t length = le32_to_cpu(req->length);
    struct fakernic_dump_resp *resp = response;
    FakernicVerdict v = FAKERNIC_VERDICT(FAKERNIC_CMD_OK);
    size_t size, written;

    if (length > FAKERNIC_DUMP_LENGTH_MAX) {
        return FAKERNIC_REFUSE(BAD_PARAM, DumpReq, length);
    }
    if (!first) {
        v = fakernic_dump_make(s, req);
    } else if (!s->dump) {
        v = FAKERNIC_REFUSE(BAD_STATE, DumpReq, first);
    }
    if (!fakernic_accepts(&v)) {
        return v;
    }
    size = strlen(s->dump);
    if (first > size) {
        return FAKERNIC_REFUSE(BAD_PARAM, DumpReq, first);
    }
    written = MIN(length, size - first);
    if (!fakernic_dma_write(s, le64_to_cpu(req->address), s->dump + first,
                            written, ROCE_WHY_CMD)) {
        return FAKERNIC_VERDICT(FAKERNIC_CMD_DMA_ERROR);
    }
    resp->size = cpu_to_le32(size);
    resp->written = cpu_to_le32(written);
    return v;
}
