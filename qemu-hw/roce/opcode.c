/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The table of BTH opcodes: IBTA 9.2.1 table 38 (RC, UC, UD, XRC), annex A17.9
 * (CNP) and annex A19 (FLUSH, ATOMIC WRITE). Masked atomics have no opcode
 * there and use manufacturer-specific ones. RoCE implementations do not
 * support RD, so it stays reserved, like everything not listed. Reserved
 * opcodes of RC and XRC have rows too, because the responder refuses them.
 *
 * Each row is built from its headers, so its size cannot contradict its flags.
 * Nothing here depends on a packet or a QP.
 */
#include "opcode.h"

#define XRCETH  ROCE_HAS_XRCETH
#define DETH    ROCE_HAS_DETH
#define FETH    ROCE_HAS_FETH
#define RETH    ROCE_HAS_RETH
#define ATOMIC  ROCE_HAS_ATOMICETH
#define MASKS   ROCE_HAS_MASKETH
#define AETH    ROCE_HAS_AETH
#define ATACK   ROCE_HAS_ATOMICACK
#define IMM     ROCE_HAS_IMM
#define IETH    ROCE_HAS_IETH
#define DATA    ROCE_HAS_PAYLOAD

/* Bytes of the extended headers (IBTA 9.3; FETH: A19). */
#define HEADER_SIZE(f)                                                        \
    (((f) & XRCETH ? 4 : 0) + ((f) & DETH ? 8 : 0) + ((f) & FETH ? 4 : 0) +   \
     ((f) & RETH ? 16 : 0) + ((f) & ATOMIC ? 28 : 0) +                        \
     ((f) & MASKS ? 16 : 0) + ((f) & AETH ? 4 : 0) +                          \
     ((f) & ATACK ? 8 : 0) + ((f) & IMM ? 4 : 0) + ((f) & IETH ? 4 : 0))

#define ROW(code, srv, op, text, f)                                       \
    [code] = { .name = text, .service = ROCE_SERVICE_##srv,               \
               .operation = ROCE_OP_##op, .flags = (f),                   \
               .header_size = HEADER_SIZE(f) }

#define REQ(place)  (ROCE_REQUEST | (place))
#define RSP(place)  (ROCE_RESPONSE | (place))
#define MIDDLE      0u

/* SEND and RDMA WRITE: the same in RC, UC and XRC except for 'x'. */
#define SEND_AND_WRITE(base, srv, x)                                         \
    ROW((base) | ROCE_BTH_SEND_FIRST, srv, SEND, #srv " SEND first",         \
        REQ(ROCE_FIRST) | (x) | DATA),                                       \
    ROW((base) | ROCE_BTH_SEND_MIDDLE, srv, SEND, #srv " SEND middle",       \
        REQ(MIDDLE) | (x) | DATA),                                           \
    ROW((base) | ROCE_BTH_SEND_LAST, srv, SEND, #srv " SEND last",           \
        REQ(ROCE_LAST) | (x) | DATA),                                        \
    ROW((base) | ROCE_BTH_SEND_LAST_IMM, srv, SEND, #srv " SEND last imm",   \
        REQ(ROCE_LAST) | (x) | IMM | DATA),                                  \
    ROW((base) | ROCE_BTH_SEND_ONLY, srv, SEND, #srv " SEND only",           \
        REQ(ROCE_ONLY) | (x) | DATA),                                        \
    ROW((base) | ROCE_BTH_SEND_ONLY_IMM, srv, SEND, #srv " SEND only imm",   \
        REQ(ROCE_ONLY) | (x) | IMM | DATA),                                  \
    ROW((base) | ROCE_BTH_WRITE_FIRST, srv, WRITE, #srv " WRITE first",      \
        REQ(ROCE_FIRST) | (x) | RETH | DATA),                                \
    ROW((base) | ROCE_BTH_WRITE_MIDDLE, srv, WRITE, #srv " WRITE middle",    \
        REQ(MIDDLE) | (x) | DATA),                                           \
    ROW((base) | ROCE_BTH_WRITE_LAST, srv, WRITE, #srv " WRITE last",        \
        REQ(ROCE_LAST) | (x) | DATA),                                        \
    ROW((base) | ROCE_BTH_WRITE_LAST_IMM, srv, WRITE, #srv " WRITE last imm",\
        REQ(ROCE_LAST) | (x) | IMM | DATA),                                  \
    ROW((base) | ROCE_BTH_WRITE_ONLY, srv, WRITE, #srv " WRITE only",        \
        REQ(ROCE_ONLY) | (x) | RETH | DATA),                                 \
    ROW((base) | ROCE_BTH_WRITE_ONLY_IMM, srv, WRITE, #srv " WRITE only imm",\
        REQ(ROCE_ONLY) | (x) | RETH | IMM | DATA)

/*
 * Additional operations of RC and XRC. XRC responses have no XRCETH (IBTA
 * 9.3.x, A14).
 */
#define ACKNOWLEDGED(base, srv, x)                                           \
    ROW((base) | ROCE_BTH_READ_REQUEST, srv, READ_REQUEST,                   \
        #srv " READ request", REQ(ROCE_ONLY) | (x) | RETH),                  \
    ROW((base) | ROCE_BTH_READ_RESPONSE_FIRST, srv, READ_RESPONSE,           \
        #srv " READ response first", RSP(ROCE_FIRST) | AETH | DATA),         \
    ROW((base) | ROCE_BTH_READ_RESPONSE_MIDDLE, srv, READ_RESPONSE,          \
        #srv " READ response middle", RSP(MIDDLE) | DATA),                   \
    ROW((base) | ROCE_BTH_READ_RESPONSE_LAST, srv, READ_RESPONSE,            \
        #srv " READ response last", RSP(ROCE_LAST) | AETH | DATA),           \
    ROW((base) | ROCE_BTH_READ_RESPONSE_ONLY, srv, READ_RESPONSE,            \
        #srv " READ response only", RSP(ROCE_ONLY) | AETH | DATA),           \
    ROW((base) | ROCE_BTH_ACK, srv, ACK, #srv " ACK",                        \
        RSP(ROCE_ONLY) | AETH),                                              \
    ROW((base) | ROCE_BTH_ATOMIC_ACK, srv, ATOMIC_ACK, #srv " ATOMIC ACK",   \
        RSP(ROCE_ONLY) | AETH | ATACK),                                      \
    ROW((base) | ROCE_BTH_CMP_SWAP, srv, CMP_SWAP, #srv " CMP SWAP",         \
        REQ(ROCE_ONLY) | (x) | ATOMIC),                                      \
    ROW((base) | ROCE_BTH_FETCH_ADD, srv, FETCH_ADD, #srv " FETCH ADD",      \
        REQ(ROCE_ONLY) | (x) | ATOMIC),                                      \
    ROW((base) | ROCE_BTH_MASKED_CMP_SWAP, srv, MASKED_CMP_SWAP,             \
        #srv " masked CMP SWAP", REQ(ROCE_ONLY) | (x) | ATOMIC | MASKS),     \
    ROW((base) | ROCE_BTH_MASKED_FETCH_ADD, srv, MASKED_FETCH_ADD,           \
        #srv " masked FETCH ADD", REQ(ROCE_ONLY) | (x) | ATOMIC | MASKS),    \
    ROW((base) | ROCE_BTH_SEND_LAST_INV, srv, SEND, #srv " SEND last inv",   \
        REQ(ROCE_LAST) | (x) | IETH | DATA),                                 \
    ROW((base) | ROCE_BTH_SEND_ONLY_INV, srv, SEND, #srv " SEND only inv",   \
        REQ(ROCE_ONLY) | (x) | IETH | DATA),                                 \
    ROW((base) | ROCE_BTH_FLUSH, srv, FLUSH, #srv " FLUSH",                  \
        REQ(ROCE_ONLY) | (x) | FETH | RETH),                                 \
    ROW((base) | ROCE_BTH_ATOMIC_WRITE, srv, ATOMIC_WRITE,                   \
        #srv " ATOMIC WRITE", REQ(ROCE_ONLY) | (x) | RETH | DATA)

/* The format after the BTH is unknown; all of it is payload. */
#define RESERVED(code, srv)                                              \
    ROW(code, srv, RESERVED, #srv " reserved", REQ(ROCE_ONLY) | DATA)

#define ALL_RESERVED(base, srv)                                           \
    RESERVED((base) | 0x15, srv), RESERVED((base) | 0x18, srv),           \
    RESERVED((base) | 0x19, srv), RESERVED((base) | 0x1a, srv),           \
    RESERVED((base) | 0x1b, srv), RESERVED((base) | 0x1e, srv),           \
    RESERVED((base) | 0x1f, srv)

static const RoceOpcodeInfo roce_opcodes[256] = {
    SEND_AND_WRITE(ROCE_BTH_RC, RC, 0u),
    ACKNOWLEDGED(ROCE_BTH_RC, RC, 0u),
    ALL_RESERVED(ROCE_BTH_RC, RC),
    SEND_AND_WRITE(ROCE_BTH_UC, UC, 0u),
    ROW(ROCE_BTH_UD | ROCE_BTH_SEND_ONLY, UD, SEND, "UD SEND only",
        REQ(ROCE_ONLY) | DETH | DATA),
    ROW(ROCE_BTH_UD | ROCE_BTH_SEND_ONLY_IMM, UD, SEND, "UD SEND only imm",
        REQ(ROCE_ONLY) | DETH | IMM | DATA),
    /* Neither request nor response; its data is 16 reserved bytes. */
    ROW(ROCE_BTH_CNP, CNP, CNP, "CNP", ROCE_ONLY | DATA),
    SEND_AND_WRITE(ROCE_BTH_XRC, XRC, XRCETH),
    ACKNOWLEDGED(ROCE_BTH_XRC, XRC, XRCETH),
    ALL_RESERVED(ROCE_BTH_XRC, XRC),
};

const RoceOpcodeInfo *roce_opcode_info(uint8_t opcode)
{
    return &roce_opcodes[opcode];
}
