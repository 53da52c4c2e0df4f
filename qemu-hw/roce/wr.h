/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One row per opcode of send work requests (fakernic/sq.h; IBTA 10.8.2): the
 * layout and limits of its WQE, the services that support it, its packets, and
 * its completion. The host uses it to decode WQEs, the engine to check and
 * execute them.
 */
#ifndef ROCE_WR_H
#define ROCE_WR_H

#include <stdbool.h>
#include <stdint.h>

#include "fakernic/sq.h"

/* The segment after the header of the WQE. */
typedef enum RoceWrSegment {
    ROCE_SEGMENT_NONE,
    ROCE_SEGMENT_UD,
    ROCE_SEGMENT_RDMA,
    ROCE_SEGMENT_ATOMIC,
    ROCE_SEGMENT_REG_MR,
    ROCE_SEGMENT_BIND_MW,
} RoceWrSegment;

/* The kind of a work request, for the engine. */
typedef enum RoceKind {
    ROCE_KIND_UNKNOWN = 0,
    ROCE_KIND_SEND,
    ROCE_KIND_WRITE,
    ROCE_KIND_READ,
    ROCE_KIND_ATOMIC,
    ROCE_KIND_ATOMIC_WRITE,
    ROCE_KIND_FLUSH,
    ROCE_KIND_LOCAL,            /* makes no packet */
} RoceKind;

/* Services that support the opcode. */
#define ROCE_WR_RELIABLE    (1u << 0)   /* RC and XRC */
#define ROCE_WR_UC          (1u << 1)
#define ROCE_WR_DATAGRAM    (1u << 2)   /* UD and GSI */
#define ROCE_WR_RAW         (1u << 3)
#define ROCE_WR_SERVICES    (ROCE_WR_RELIABLE | ROCE_WR_UC |               \
                             ROCE_WR_DATAGRAM | ROCE_WR_RAW)
#define ROCE_WR_INLINE      (1u << 4)   /* supports inline data */
#define ROCE_WR_IMM_OR_KEY  (1u << 5)   /* uses that field of the header */
#define ROCE_WR_CONSUMES    (1u << 6)   /* uses a receive at the peer */
#define ROCE_WR_ANSWERED    (1u << 7)   /* its answer is more than an ACK */
#define ROCE_WR_SCATTERS    (1u << 8)   /* the answer goes into its SGEs */

typedef struct RoceWrInfo {
    const char *name;           /* NULL: unknown opcode */
    RoceKind kind;
    RoceWrSegment segment;      /* of a connected QP: see roce_wr_segment() */
    uint16_t flags;             /* ROCE_WR_* */
    uint8_t sge_min, sge_max;   /* SGEs, without FAKERNIC_SQ_INLINE */
    uint8_t cqe_opcode;         /* enum fakernic_cqe_opcode */
    /* BTH operations (opcode.h) of its packets, by their place. Only SEND and
     * WRITE have more than 'only'. */
    uint8_t first, middle, last, only;
    uint64_t features;          /* at least one must be on; 0: none needed */
} RoceWrInfo;

/* Never NULL. An unknown opcode has no name and no service, and completes as a
 * SEND. */
const RoceWrInfo *roce_wr_info(uint8_t opcode);

/* The segment for a QP of this enum fakernic_qp_type. */
RoceWrSegment roce_wr_segment(const RoceWrInfo *info, uint8_t qp_type);
/* Offset of the SGEs or inline data from the WQE's start. */
unsigned roce_wr_data_offset(RoceWrSegment segment);
/* May a WQE have these flags, this inline length and this number of SGEs? Of
 * the flags only FAKERNIC_SQ_INLINE matters. */
bool roce_wr_takes(const RoceWrInfo *info, uint8_t flags,
                   unsigned inline_length, unsigned sge_count);

#endif
