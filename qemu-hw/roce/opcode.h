/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One row per BTH opcode (IBTA 9.2.1 table 38, the RoCEv2, ATOMIC WRITE and
 * FLUSH additions, and fakernic's own masked atomics): its service, operation,
 * place in the message, and the headers after the BTH.
 */
#ifndef ROCE_OPCODE_H
#define ROCE_OPCODE_H

#include <stdint.h>

typedef enum RoceService {
    ROCE_SERVICE_NONE = 0,      /* packets that are not handled */
    ROCE_SERVICE_RC,
    ROCE_SERVICE_UC,
    ROCE_SERVICE_UD,
    ROCE_SERVICE_XRC,
    ROCE_SERVICE_CNP,
} RoceService;

typedef enum RoceOperation {
    ROCE_OP_NONE = 0,
    ROCE_OP_SEND,
    ROCE_OP_WRITE,
    ROCE_OP_READ_REQUEST,
    ROCE_OP_READ_RESPONSE,
    ROCE_OP_ACK,
    ROCE_OP_ATOMIC_ACK,
    ROCE_OP_CMP_SWAP,
    ROCE_OP_FETCH_ADD,
    ROCE_OP_MASKED_CMP_SWAP,
    ROCE_OP_MASKED_FETCH_ADD,
    ROCE_OP_ATOMIC_WRITE,
    ROCE_OP_FLUSH,
    ROCE_OP_CNP,
    ROCE_OP_RESERVED,
} RoceOperation;

/* Place in the message; ONLY is FIRST | LAST. */
#define ROCE_FIRST  (1u << 0)
#define ROCE_LAST   (1u << 1)
#define ROCE_ONLY   (ROCE_FIRST | ROCE_LAST)
/* Kind of packet. */
#define ROCE_REQUEST  (1u << 2)
#define ROCE_RESPONSE (1u << 3)
/* Headers, in wire order if there are several. */
#define ROCE_HAS_XRCETH     (1u << 4)
#define ROCE_HAS_DETH       (1u << 5)
#define ROCE_HAS_FETH       (1u << 6)
#define ROCE_HAS_RETH       (1u << 7)
#define ROCE_HAS_ATOMICETH  (1u << 8)
#define ROCE_HAS_AETH       (1u << 9)
#define ROCE_HAS_ATOMICACK  (1u << 10)
#define ROCE_HAS_IMM        (1u << 11)
#define ROCE_HAS_IETH       (1u << 12)
#define ROCE_HAS_PAYLOAD    (1u << 13)
/* After the AtomicETH: two masks, fakernic's own. */
#define ROCE_HAS_MASKETH    (1u << 14)

typedef struct RoceOpcodeInfo {
    const char *name;           /* NULL: of no service */
    RoceService service;
    RoceOperation operation;
    uint16_t flags;
    uint8_t header_size;        /* of the extended headers, bytes */
} RoceOpcodeInfo;

/*
 * Never NULL. A reserved opcode of RC or XRC is ROCE_OP_RESERVED, a request
 * without headers, which the responder answers with a NAK. Elsewhere a
 * reserved opcode has service ROCE_SERVICE_NONE.
 */
const RoceOpcodeInfo *roce_opcode_info(uint8_t opcode);

/* BTH opcodes: service in bits 7..5, operation in bits 4..0. */
#define ROCE_BTH_RC   0x00
#define ROCE_BTH_UC   0x20
#define ROCE_BTH_UD   0x60
#define ROCE_BTH_XRC  0xa0
#define ROCE_BTH_CNP  0x81

enum {
    ROCE_BTH_SEND_FIRST = 0x00,
    ROCE_BTH_SEND_MIDDLE = 0x01,
    ROCE_BTH_SEND_LAST = 0x02,
    ROCE_BTH_SEND_LAST_IMM = 0x03,
    ROCE_BTH_SEND_ONLY = 0x04,
    ROCE_BTH_SEND_ONLY_IMM = 0x05,
    ROCE_BTH_WRITE_FIRST = 0x06,
    ROCE_BTH_WRITE_MIDDLE = 0x07,
    ROCE_BTH_WRITE_LAST = 0x08,
    ROCE_BTH_WRITE_LAST_IMM = 0x09,
    ROCE_BTH_WRITE_ONLY = 0x0a,
    ROCE_BTH_WRITE_ONLY_IMM = 0x0b,
    ROCE_BTH_READ_REQUEST = 0x0c,
    ROCE_BTH_READ_RESPONSE_FIRST = 0x0d,
    ROCE_BTH_READ_RESPONSE_MIDDLE = 0x0e,
    ROCE_BTH_READ_RESPONSE_LAST = 0x0f,
    ROCE_BTH_READ_RESPONSE_ONLY = 0x10,
    ROCE_BTH_ACK = 0x11,
    ROCE_BTH_ATOMIC_ACK = 0x12,
    ROCE_BTH_CMP_SWAP = 0x13,
    ROCE_BTH_FETCH_ADD = 0x14,
    ROCE_BTH_SEND_LAST_INV = 0x16,
    ROCE_BTH_SEND_ONLY_INV = 0x17,
    ROCE_BTH_FLUSH = 0x1c,
    ROCE_BTH_ATOMIC_WRITE = 0x1d,
    /* Manufacturer-specific opcodes are 0xc0 to 0xff; XRC's have bit 5 set. */
    ROCE_BTH_MASKED_CMP_SWAP = 0xd3,
    ROCE_BTH_MASKED_FETCH_ADD = 0xd4,
};

#endif
