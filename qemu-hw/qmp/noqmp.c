/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The commands of fakernic.json in a QEMU of a target without the device.
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/qapi-commands-fakernic.h"

static void *fakernic_is_none(Error **errp)
{
    error_setg(errp, "this QEMU has no fakernic");
    return NULL;
}

void qmp_x_fakernic_fault_add(const char *path, FakernicFaultRule *rule,
                              Error **errp)
{
    fakernic_is_none(errp);
}

void qmp_x_fakernic_fault_remove(const char *path, const char *id,
                                 Error **errp)
{
    fakernic_is_none(errp);
}

FakernicRingInfo *qmp_x_query_fakernic_ring(FakernicRingQuery *query,
                                            Error **errp)
{
    return fakernic_is_none(errp);
}

FakernicRecordInfoList *qmp_x_query_fakernic_recorder(const char *path,
                                                      bool has_now, bool now,
                                                      Error **errp)
{
    return fakernic_is_none(errp);
}

FakernicInfo *qmp_x_query_fakernic(const char *path, Error **errp)
{
    return fakernic_is_none(errp);
}

#define FAKERNIC_NO(type, name)                                             \
    type *qmp_x_query_fakernic_ ## name(const char *path, Error **errp)     \
    {                                                                       \
        return fakernic_is_none(errp);                                      \
    }

FAKERNIC_NO(FakernicFaultInfoList, faults)
FAKERNIC_NO(FakernicGidInfoList, gids)
FAKERNIC_NO(FakernicFlowInfoList, flows)
FAKERNIC_NO(FakernicCountersList, counters)

#define FAKERNIC_NO_LIST(type, name)                                        \
    type *qmp_x_query_fakernic_ ## name(const char *path, bool has_from,    \
                                        uint32_t from, bool has_count,      \
                                        uint32_t count, Error **errp)       \
    {                                                                       \
        return fakernic_is_none(errp);                                      \
    }

FAKERNIC_NO_LIST(FakernicQps, qps)
FAKERNIC_NO_LIST(FakernicCqs, cqs)
FAKERNIC_NO_LIST(FakernicSrqs, srqs)
FAKERNIC_NO_LIST(FakernicEqs, eqs)
FAKERNIC_NO_LIST(FakernicKeys, keys)
