/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What every file of the device needs: the interface headers, the engine, the
 * device's limits. Each kind of object has its own header: state.h has the
 * whole device, ring.h the rings, cq.h the completion queues.
 */
#ifndef FAKERNIC_DEVICE_COMMON_H
#define FAKERNIC_DEVICE_COMMON_H

#include "qemu/queue.h"
#include "qemu/log.h"
#include "qemu/units.h"

#include "fakernic/base.h"
#include "fakernic/cmdq.h"
#include "fakernic/cq.h"
#include "fakernic/doorbell.h"
#include "fakernic/eq.h"
#include "fakernic/mr.h"
#include "fakernic/qp.h"
#include "fakernic/regs.h"
#include "fakernic/rq.h"
#include "fakernic/sq.h"
#include "fakernic/stats.h"
#include "fakernic/vport.h"
#include "fakernic/wq.h"
#include "../roce/roce.h"

typedef struct FakernicState FakernicState;
typedef struct FakernicPersist FakernicPersist;
typedef struct FakernicCard FakernicCard;
typedef struct FakernicPort FakernicPort;

/*
 * The features that the device offers: those that the engine and this shell
 * implement completely. A new feature is added here when it is complete.
 */
#define FAKERNIC_FEATURES_IMPLEMENTED                                       \
    (FAKERNIC_FEATURE_RC | FAKERNIC_FEATURE_UC | FAKERNIC_FEATURE_UD |      \
     FAKERNIC_FEATURE_XRC | FAKERNIC_FEATURE_RAW_PACKET |                   \
     FAKERNIC_FEATURE_ATOMIC | FAKERNIC_FEATURE_ATOMIC_MASKED |             \
     FAKERNIC_FEATURE_ATOMIC_WRITE | FAKERNIC_FEATURE_FLUSH |               \
     FAKERNIC_FEATURE_SRQ | FAKERNIC_FEATURE_MW |                           \
     FAKERNIC_FEATURE_FAST_REG | FAKERNIC_FEATURE_REREG_MR |                \
     FAKERNIC_FEATURE_RESIZE_CQ | FAKERNIC_FEATURE_MCAST |                  \
     FAKERNIC_FEATURE_CNP | FAKERNIC_FEATURE_DCQCN |                        \
     FAKERNIC_FEATURE_RATE_LIMIT | FAKERNIC_FEATURE_CQ_MODERATION |         \
     FAKERNIC_FEATURE_DM | FAKERNIC_FEATURE_APM |                           \
     FAKERNIC_FEATURE_FLOW | FAKERNIC_FEATURE_COUNTERS |                    \
     FAKERNIC_FEATURE_ODP | FAKERNIC_FEATURE_WQ_RSS |                       \
     FAKERNIC_FEATURE_POLL_DOORBELL | FAKERNIC_FEATURE_POLL_SELDOM |        \
     FAKERNIC_FEATURE_CLOCK_PAGE | FAKERNIC_FEATURE_RESIZE_SRQ |            \
     FAKERNIC_FEATURE_CSUM | FAKERNIC_FEATURE_TSO | FAKERNIC_FEATURE_VLAN | \
     FAKERNIC_FEATURE_DEEP_CQ | FAKERNIC_FEATURE_FAULTS |                   \
     FAKERNIC_FEATURE_DUMP | FAKERNIC_FEATURE_STAMPS |                      \
     FAKERNIC_FEATURE_BLOCK_MCAST_LB | FAKERNIC_FEATURE_PORT_DISABLE |      \
     FAKERNIC_FEATURE_VPORT | FAKERNIC_FEATURE_FUNCTION |                   \
     FAKERNIC_FEATURE_SHADOW_DOORBELL)

/* Limits that are not properties. */
#define FAKERNIC_MAX_EQ             64
#define FAKERNIC_MAX_XRCD           1024
#define FAKERNIC_MAX_FLOW           1024
#define FAKERNIC_MAX_FLOW_COPIES    64      /* of one frame */
#define FAKERNIC_MAX_COUNTER        1024
#define FAKERNIC_MAX_IND_TABLE      1024
#define FAKERNIC_MAX_IND_TABLE_SIZE 128
#define FAKERNIC_MAX_MCAST_GROUPS   256
#define FAKERNIC_MAX_MCAST_QPS      64     /* the engine's */
#define FAKERNIC_MAX_MR_SIZE        (1ULL << 40)
#define FAKERNIC_MAX_MESSAGE        (1U << 31)
#define FAKERNIC_MAX_FAST_REG_PAGES 512
#define FAKERNIC_MAX_RD_ATOMIC      64
#define FAKERNIC_MAX_SENDS          64      /* in flight, per QP */
#define FAKERNIC_MAX_ODP_CHUNKS     4096    /* of 512 pages: 16 MiB of tables */
#define FAKERNIC_VF_ODP_CHUNKS      256
#define FAKERNIC_PAGE_REQUEST_LIST  64
#define FAKERNIC_MIN_MTU            68
#define FAKERNIC_DEFAULT_MTU        1500

/*
 * An addition to enum fakernic_cmd_status that the guest never sees: the
 * command is not complete, and a later turn executes it again to continue.
 */
#define FAKERNIC_CMD_LATER          0xff

/* A misuse by the guest: logged with -d guest_errors, never fatal to QEMU. */
#define FAKERNIC_GUEST_ERR(fmt, ...) \
    qemu_log_mask(LOG_GUEST_ERROR, "fakernic: " fmt "\n", ## __VA_ARGS__)

#endif
