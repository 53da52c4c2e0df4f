/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Completion queues: the device produces, the host consumes.
 *
 * An entry is the host's when bit 0 of its owner byte differs from that of the
 * previous pass: the ring is zeroed at creation; the device writes owner = 1 in
 * its first pass, 0 in its second, and so on. The device writes the entry in
 * ascending order, owner last. The host reads owner, then (behind a read
 * barrier) the rest, and at its leisure stores the consumer index into the
 * doorbell record. The device reads that record only when the ring looks full;
 * if it truly is, the CQ is in error: CQ_ERROR event, nothing more is written,
 * and the QPs attached to it go to the error state.
 */
#ifndef FAKERNIC_CQ_H
#define FAKERNIC_CQ_H

#include "base.h"

/*
 * HW DATA: a completion queue entry. IBTA 11.4.2.1. With another status than
 * SUCCESS only timestamp, qpn, wqe_index, srqn, vendor_err, opcode and status
 * are valid. An opcode of FAKERNIC_CQE_RECV or above always means a receive.
 */
struct fakernic_cqe {
	__le64 timestamp;	/* device clock, ns */
	__le32 qpn;		/* of the local QP */
	__le32 wqe_index;	/* SQ: free-running index of its first block;
				 * RQ, SRQ: tag of the receive WQE
				 */
	__le32 byte_count;	/* UD, GSI receives: with the 40 GRH bytes */
	__le32 imm_or_key;	/* with IMM or INV */
	__le32 src_qpn;		/* UD, GSI receives */
	__le32 srqn;		/* receives from an SRQ, else 0 */
	__le16 vendor_err;	/* enum fakernic_vendor_err */
	__le16 pkey_index;
	__le16 vlan;		/* TCI, with FAKERNIC_CQE_VLAN */
	__u8 opcode;		/* enum fakernic_cqe_opcode */
	__u8 status;		/* enum fakernic_cqe_status */
	__u8 flags;
#define FAKERNIC_CQE_GRH		FAKERNIC_BITS(0, 0)
#define FAKERNIC_CQE_IMM		FAKERNIC_BITS(1, 1)
#define FAKERNIC_CQE_INV		FAKERNIC_BITS(2, 2)
#define FAKERNIC_CQE_SOLICITED		FAKERNIC_BITS(3, 3)
#define FAKERNIC_CQE_VLAN		FAKERNIC_BITS(4, 4)
#define FAKERNIC_CQE_IP_CSUM_OK		FAKERNIC_BITS(5, 5)
#define FAKERNIC_CQE_L4_CSUM_OK		FAKERNIC_BITS(6, 6)
	__u8 sl;
	__u8 smac[6];		/* UD, GSI receives */
	__u8 network_type;	/* enum fakernic_gid_type: UD, GSI receives */
	__u8 rsvd[14];
	__u8 owner;		/* bit 0: pass */
};
FAKERNIC_SIZE(struct fakernic_cqe, 64);

/* What completed; the send opcodes mirror enum fakernic_sq_opcode. */
enum fakernic_cqe_opcode {
	FAKERNIC_CQE_SEND	= 1,
	FAKERNIC_CQE_RDMA_WRITE	= 2,
	FAKERNIC_CQE_RDMA_READ	= 3,
	FAKERNIC_CQE_CMP_SWAP	= 4,
	FAKERNIC_CQE_FETCH_ADD	= 5,
	FAKERNIC_CQE_MASKED_CMP_SWAP	= 6,
	FAKERNIC_CQE_MASKED_FETCH_ADD	= 7,
	FAKERNIC_CQE_ATOMIC_WRITE	= 8,
	FAKERNIC_CQE_FLUSH	= 9,
	FAKERNIC_CQE_LOCAL_INV	= 10,
	FAKERNIC_CQE_REG_MR	= 11,
	FAKERNIC_CQE_BIND_MW	= 12,
	FAKERNIC_CQE_NOP	= 13,
	FAKERNIC_CQE_RECV	= 128,
	FAKERNIC_CQE_RECV_RDMA_IMM	= 129,
};

/* The numbers are those of enum ibv_wc_status. */
enum fakernic_cqe_status {
	FAKERNIC_WC_SUCCESS		= 0,
	FAKERNIC_WC_LOC_LEN_ERR		= 1,
	FAKERNIC_WC_LOC_QP_OP_ERR	= 2,
	FAKERNIC_WC_LOC_EEC_OP_ERR	= 3,	/* never */
	FAKERNIC_WC_LOC_PROT_ERR	= 4,
	FAKERNIC_WC_WR_FLUSH_ERR	= 5,
	FAKERNIC_WC_MW_BIND_ERR		= 6,
	FAKERNIC_WC_BAD_RESP_ERR	= 7,
	FAKERNIC_WC_LOC_ACCESS_ERR	= 8,
	FAKERNIC_WC_REM_INV_REQ_ERR	= 9,
	FAKERNIC_WC_REM_ACCESS_ERR	= 10,
	FAKERNIC_WC_REM_OP_ERR		= 11,
	FAKERNIC_WC_RETRY_EXC_ERR	= 12,
	FAKERNIC_WC_RNR_RETRY_EXC_ERR	= 13,
	FAKERNIC_WC_LOC_RDD_VIOL_ERR	= 14,	/* never */
	FAKERNIC_WC_REM_INV_RD_REQ_ERR	= 15,	/* never */
	FAKERNIC_WC_REM_ABORT_ERR	= 16,
	FAKERNIC_WC_INV_EECN_ERR	= 17,	/* never */
	FAKERNIC_WC_INV_EEC_STATE_ERR	= 18,	/* never */
	FAKERNIC_WC_FATAL_ERR		= 19,
	FAKERNIC_WC_RESP_TIMEOUT_ERR	= 20,	/* never */
	FAKERNIC_WC_GENERAL_ERR		= 21,
};

/* Which check failed: in CQEs with an error and in QP events. */
enum fakernic_vendor_err {
	FAKERNIC_VENDOR_NONE		= 0,
	/* a send WQE */
	FAKERNIC_VENDOR_SQ_OPCODE	= 1,	/* unknown or not for this QP */
	FAKERNIC_VENDOR_SQ_FORMAT	= 2,	/* counts, lengths, values */
	FAKERNIC_VENDOR_SQ_RSVD		= 3,	/* reserved fields, flags */
	FAKERNIC_VENDOR_SQ_OVERRUN	= 4,	/* index beyond depth */
	FAKERNIC_VENDOR_SQ_DMA		= 5,	/* the ring cannot be read */
	FAKERNIC_VENDOR_LENGTH		= 6,	/* message too long */
	FAKERNIC_VENDOR_GID_INDEX	= 7,	/* sgid_index names no GID */
	FAKERNIC_VENDOR_ATOMIC_LENGTH	= 8,	/* buffer is not 8 bytes */
	/* a memory key, local or remote (the status tells which) */
	FAKERNIC_VENDOR_KEY_INDEX	= 16,	/* no such key */
	FAKERNIC_VENDOR_KEY_TAG		= 17,	/* stale: the tag differs */
	FAKERNIC_VENDOR_KEY_STATE	= 18,	/* invalid, not registered */
	FAKERNIC_VENDOR_KEY_PD		= 19,	/* another protection domain */
	FAKERNIC_VENDOR_KEY_QP		= 20,	/* bound to another QP */
	FAKERNIC_VENDOR_KEY_BOUNDS	= 21,	/* outside the region */
	FAKERNIC_VENDOR_KEY_ACCESS	= 22,	/* right not granted */
	FAKERNIC_VENDOR_KEY_DMA		= 23,	/* memory out of reach */
	FAKERNIC_VENDOR_QP_ACCESS	= 24,	/* not allowed by the QP */
	FAKERNIC_VENDOR_ALIGNMENT	= 25,	/* atomic address */
	FAKERNIC_VENDOR_BIND		= 26,	/* window binding refused */
	/* a receive WQE */
	FAKERNIC_VENDOR_RQ_FORMAT	= 32,	/* sge_count, reserved */
	FAKERNIC_VENDOR_RQ_OVERRUN	= 33,
	FAKERNIC_VENDOR_RQ_DMA		= 34,
	FAKERNIC_VENDOR_RQ_TOO_SMALL	= 35,	/* message longer than buffer */
	/* the wire */
	FAKERNIC_VENDOR_NAK_INVALID_REQUEST	= 48,
	FAKERNIC_VENDOR_NAK_REMOTE_ACCESS	= 49,
	FAKERNIC_VENDOR_NAK_REMOTE_OPERATION	= 50,
	FAKERNIC_VENDOR_RETRY_EXCEEDED	= 51,	/* no answer */
	FAKERNIC_VENDOR_SEQ_RETRY_EXCEEDED	= 52,	/* only sequence NAKs */
	FAKERNIC_VENDOR_RNR_RETRY_EXCEEDED	= 53,
	FAKERNIC_VENDOR_BAD_RESPONSE	= 54,	/* wrong opcode or length */
	FAKERNIC_VENDOR_REQUEST_OPCODE	= 55,	/* as responder: bad sequence */
	FAKERNIC_VENDOR_REQUEST_LENGTH	= 56,	/* as responder: bad length */
	FAKERNIC_VENDOR_REQUEST_READS	= 57,	/* responder: too many */
	FAKERNIC_VENDOR_REQUEST_SRQ	= 58,	/* XRC target: no such SRQ */
	FAKERNIC_VENDOR_MIGRATION	= 59,	/* not the alternate path */
	/* the rest */
	FAKERNIC_VENDOR_FLUSHED		= 64,	/* QP was in error already */
	FAKERNIC_VENDOR_CQ_OVERRUN	= 65,
	FAKERNIC_VENDOR_SNAPSHOT	= 66,	/* machine restored */
};

#endif
