// SPDX-License-Identifier: GPL-2.0-only
/*
 * Names of the device's codes, as in the data sheet, for the kernel log. Most
 * of these messages need dynamic debug ("module fakernic +p" in
 * dynamic_debug/control).
 */
#include <linux/kernel.h>
#include <fakernic/cmdq.h>
#include <fakernic/cq.h>
#include <fakernic/regs.h>
#include "explain.h"

/* Returns "unknown" also for a gap in the table. */
static const char *fakernic_word(const char *const *words, u32 count,
				 u32 number)
{
	return number < count && words[number] ? words[number] : "unknown";
}

const char *fakernic_death_name(enum fakernic_death cause)
{
	switch (cause) {
	case FAKERNIC_DEATH_NONE:
		return "none";
	case FAKERNIC_DEATH_ABSENT:
		return "device does not answer on the bus";
	case FAKERNIC_DEATH_FATAL:
		return "device reports a fatal error";
	case FAKERNIC_DEATH_RESET:
		return "device was reset by something other than the driver";
	case FAKERNIC_DEATH_BUS:
		return "bus error";
	case FAKERNIC_DEATH_BRING_UP:
		return "device does not come up";
	case FAKERNIC_DEATH_TIMEOUT:
		return "a command timed out";
	case FAKERNIC_DEATH_INVALID_ANSWER:
		return "invalid answer";
	case FAKERNIC_DEATH_NOT_RELEASED:
		return "an object or page was not released";
	}
	return "unknown";
}

const char *fakernic_fatal_name(u32 code)
{
	static const char *const words[] = {
		[FAKERNIC_FATAL_NONE] = "none",
		[FAKERNIC_FATAL_CMDQ_ADDRESS] = "command queue address",
		[FAKERNIC_FATAL_CMDQ_DEPTH] = "command queue depth",
		[FAKERNIC_FATAL_FEATURES] = "features not offered",
		[FAKERNIC_FATAL_CMDQ_OVERRUN] = "command queue overrun",
		[FAKERNIC_FATAL_CMDQ_DMA] = "command queue DMA",
		[FAKERNIC_FATAL_FAULT] = "requested by a fault rule",
	};

	return fakernic_word(words, ARRAY_SIZE(words), code);
}

const char *fakernic_cmd_status_name(u8 status)
{
	static const char *const words[] = {
		[FAKERNIC_CMD_OK] = "ok",
		[FAKERNIC_CMD_BAD_OPCODE] = "bad opcode",
		[FAKERNIC_CMD_BAD_RESERVED] = "reserved field not zero",
		[FAKERNIC_CMD_BAD_PARAM] = "bad parameter",
		[FAKERNIC_CMD_BAD_ID] = "no such object",
		[FAKERNIC_CMD_BAD_STATE] = "bad state",
		[FAKERNIC_CMD_BUSY] = "busy",
		[FAKERNIC_CMD_NO_RESOURCE] = "no resource left",
		[FAKERNIC_CMD_BAD_PAGE_LIST] = "bad page list",
		[FAKERNIC_CMD_DMA_ERROR] = "DMA error",
		[FAKERNIC_CMD_UNSUPPORTED] = "unsupported",
	};

	return fakernic_word(words, ARRAY_SIZE(words), status);
}

const char *fakernic_cmd_name(u16 opcode)
{
	static const char *const words[] = {
		[FAKERNIC_CMD_NOP] = "NOP",
		[FAKERNIC_CMD_QUERY_DEVICE] = "QUERY_DEVICE",
		[FAKERNIC_CMD_QUERY_PORT] = "QUERY_PORT",
		[FAKERNIC_CMD_SET_PORT] = "SET_PORT",
		[FAKERNIC_CMD_QUERY_STATS] = "QUERY_STATS",
		[FAKERNIC_CMD_SET_GID] = "SET_GID",
		[FAKERNIC_CMD_CREATE_EQ] = "CREATE_EQ",
		[FAKERNIC_CMD_DESTROY_EQ] = "DESTROY_EQ",
		[FAKERNIC_CMD_CREATE_CQ] = "CREATE_CQ",
		[FAKERNIC_CMD_DESTROY_CQ] = "DESTROY_CQ",
		[FAKERNIC_CMD_RESIZE_CQ] = "RESIZE_CQ",
		[FAKERNIC_CMD_MODIFY_CQ] = "MODIFY_CQ",
		[FAKERNIC_CMD_ALLOC_PD] = "ALLOC_PD",
		[FAKERNIC_CMD_DEALLOC_PD] = "DEALLOC_PD",
		[FAKERNIC_CMD_ALLOC_XRCD] = "ALLOC_XRCD",
		[FAKERNIC_CMD_DEALLOC_XRCD] = "DEALLOC_XRCD",
		[FAKERNIC_CMD_ALLOC_UAR] = "ALLOC_UAR",
		[FAKERNIC_CMD_DEALLOC_UAR] = "DEALLOC_UAR",
		[FAKERNIC_CMD_CREATE_MR] = "CREATE_MR",
		[FAKERNIC_CMD_DESTROY_MR] = "DESTROY_MR",
		[FAKERNIC_CMD_REREG_MR] = "REREG_MR",
		[FAKERNIC_CMD_QUERY_PAGE_REQUESTS] = "QUERY_PAGE_REQUESTS",
		[FAKERNIC_CMD_UPDATE_PAGES] = "UPDATE_PAGES",
		[FAKERNIC_CMD_CREATE_MW] = "CREATE_MW",
		[FAKERNIC_CMD_DESTROY_MW] = "DESTROY_MW",
		[FAKERNIC_CMD_CREATE_QP] = "CREATE_QP",
		[FAKERNIC_CMD_DESTROY_QP] = "DESTROY_QP",
		[FAKERNIC_CMD_MODIFY_QP] = "MODIFY_QP",
		[FAKERNIC_CMD_QUERY_QP] = "QUERY_QP",
		[FAKERNIC_CMD_CREATE_SRQ] = "CREATE_SRQ",
		[FAKERNIC_CMD_DESTROY_SRQ] = "DESTROY_SRQ",
		[FAKERNIC_CMD_MODIFY_SRQ] = "MODIFY_SRQ",
		[FAKERNIC_CMD_QUERY_SRQ] = "QUERY_SRQ",
		[FAKERNIC_CMD_ATTACH_MCAST] = "ATTACH_MCAST",
		[FAKERNIC_CMD_DETACH_MCAST] = "DETACH_MCAST",
		[FAKERNIC_CMD_CREATE_FLOW] = "CREATE_FLOW",
		[FAKERNIC_CMD_DESTROY_FLOW] = "DESTROY_FLOW",
		[FAKERNIC_CMD_CREATE_WQ] = "CREATE_WQ",
		[FAKERNIC_CMD_DESTROY_WQ] = "DESTROY_WQ",
		[FAKERNIC_CMD_MODIFY_WQ] = "MODIFY_WQ",
		[FAKERNIC_CMD_CREATE_IND_TABLE] = "CREATE_IND_TABLE",
		[FAKERNIC_CMD_DESTROY_IND_TABLE] = "DESTROY_IND_TABLE",
		[FAKERNIC_CMD_CREATE_RSS_QP] = "CREATE_RSS_QP",
		[FAKERNIC_CMD_CREATE_COUNTER] = "CREATE_COUNTER",
		[FAKERNIC_CMD_DESTROY_COUNTER] = "DESTROY_COUNTER",
		[FAKERNIC_CMD_SET_QP_COUNTER] = "SET_QP_COUNTER",
		[FAKERNIC_CMD_QUERY_COUNTER] = "QUERY_COUNTER",
		[FAKERNIC_CMD_FAULT] = "FAULT",
		[FAKERNIC_CMD_DUMP] = "DUMP",
		[FAKERNIC_CMD_SET_VPORT] = "SET_VPORT",
		[FAKERNIC_CMD_QUERY_VPORT] = "QUERY_VPORT",
		[FAKERNIC_CMD_QUERY_VPORT_STATS] = "QUERY_VPORT_STATS",
		[FAKERNIC_CMD_RESET_VPORT] = "RESET_VPORT",
	};

	return fakernic_word(words, ARRAY_SIZE(words), opcode);
}

const char *fakernic_cmd_field(u16 opcode, u32 offset)
{
#define FAKERNIC_QP_FIELD(field)					\
	{ offsetof(struct fakernic_cmd, payload) +			\
	  offsetof(struct fakernic_modify_qp_req, attr.field), #field }
	static const struct {
		u32 offset;
		const char *name;
	} fields[] = {
		FAKERNIC_QP_FIELD(state),
		FAKERNIC_QP_FIELD(cur_state),
		FAKERNIC_QP_FIELD(path_mtu),
		FAKERNIC_QP_FIELD(path_mig_state),
		FAKERNIC_QP_FIELD(qkey),
		FAKERNIC_QP_FIELD(rq_psn),
		FAKERNIC_QP_FIELD(sq_psn),
		FAKERNIC_QP_FIELD(dest_qpn),
		FAKERNIC_QP_FIELD(access_flags),
		FAKERNIC_QP_FIELD(pkey_index),
		FAKERNIC_QP_FIELD(port),
		FAKERNIC_QP_FIELD(max_rd_atomic),
		FAKERNIC_QP_FIELD(max_dest_rd_atomic),
		FAKERNIC_QP_FIELD(min_rnr_timer),
		FAKERNIC_QP_FIELD(timeout),
		FAKERNIC_QP_FIELD(retry_cnt),
		FAKERNIC_QP_FIELD(rnr_retry),
		FAKERNIC_QP_FIELD(rate_limit_kbps),
		FAKERNIC_QP_FIELD(av.dgid),
		FAKERNIC_QP_FIELD(av.dmac),
		FAKERNIC_QP_FIELD(av.sgid_index),
		FAKERNIC_QP_FIELD(av.flow_label),
		FAKERNIC_QP_FIELD(av.static_rate),
	};
#undef FAKERNIC_QP_FIELD
	u32 i;

	for (i = 0; opcode == FAKERNIC_CMD_MODIFY_QP &&
	     i < ARRAY_SIZE(fields); i++)
		if (fields[i].offset == offset)
			return fields[i].name;
	return "";
}

const char *fakernic_vendor_name(u32 code)
{
	static const char *const words[] = {
		[FAKERNIC_VENDOR_NONE] = "none",
		[FAKERNIC_VENDOR_SQ_OPCODE] = "opcode not for this QP",
		[FAKERNIC_VENDOR_SQ_FORMAT] = "malformed send WQE",
		[FAKERNIC_VENDOR_SQ_RSVD] = "reserved field in a send WQE",
		[FAKERNIC_VENDOR_SQ_OVERRUN] = "send queue overrun",
		[FAKERNIC_VENDOR_SQ_DMA] = "send queue cannot be read",
		[FAKERNIC_VENDOR_LENGTH] = "message too long",
		[FAKERNIC_VENDOR_GID_INDEX] = "GID index without a GID",
		[FAKERNIC_VENDOR_ATOMIC_LENGTH] =
			"buffer of an atomic is not 8 bytes",
		[FAKERNIC_VENDOR_KEY_INDEX] = "no such key",
		[FAKERNIC_VENDOR_KEY_TAG] = "stale key",
		[FAKERNIC_VENDOR_KEY_STATE] = "key is not valid",
		[FAKERNIC_VENDOR_KEY_PD] =
			"key of another protection domain",
		[FAKERNIC_VENDOR_KEY_QP] = "window of another QP",
		[FAKERNIC_VENDOR_KEY_BOUNDS] =
			"address or length outside the region",
		[FAKERNIC_VENDOR_KEY_ACCESS] =
			"region does not grant the access",
		[FAKERNIC_VENDOR_KEY_DMA] = "memory cannot be reached",
		[FAKERNIC_VENDOR_QP_ACCESS] =
			"QP's access flags do not allow the operation",
		[FAKERNIC_VENDOR_ALIGNMENT] = "misaligned atomic",
		[FAKERNIC_VENDOR_BIND] = "window binding refused",
		[FAKERNIC_VENDOR_RQ_FORMAT] = "malformed receive WQE",
		[FAKERNIC_VENDOR_RQ_OVERRUN] = "receive queue overrun",
		[FAKERNIC_VENDOR_RQ_DMA] = "receive queue cannot be read",
		[FAKERNIC_VENDOR_RQ_TOO_SMALL] =
			"message longer than the receive",
		[FAKERNIC_VENDOR_NAK_INVALID_REQUEST] =
			"peer refused: invalid request",
		[FAKERNIC_VENDOR_NAK_REMOTE_ACCESS] =
			"peer refused: rkey, address or access rights",
		[FAKERNIC_VENDOR_NAK_REMOTE_OPERATION] =
			"peer failed to execute",
		[FAKERNIC_VENDOR_RETRY_EXCEEDED] = "peer does not answer",
		[FAKERNIC_VENDOR_SEQ_RETRY_EXCEEDED] =
			"peer keeps losing packets",
		[FAKERNIC_VENDOR_RNR_RETRY_EXCEEDED] =
			"peer posts no receives",
		[FAKERNIC_VENDOR_BAD_RESPONSE] = "malformed response",
		[FAKERNIC_VENDOR_REQUEST_OPCODE] =
			"peer's opcode is out of sequence",
		[FAKERNIC_VENDOR_REQUEST_LENGTH] =
			"peer's request has a wrong length",
		[FAKERNIC_VENDOR_REQUEST_READS] =
			"peer has too many READs and atomics in flight",
		[FAKERNIC_VENDOR_REQUEST_SRQ] = "peer names no XRC SRQ",
		[FAKERNIC_VENDOR_MIGRATION] =
			"peer migrated to an unknown path",
		[FAKERNIC_VENDOR_FLUSHED] = "flushed",
		[FAKERNIC_VENDOR_CQ_OVERRUN] = "CQ overrun",
		[FAKERNIC_VENDOR_SNAPSHOT] =
			"machine restored from a snapshot, peer is elsewhere",
	};

	return fakernic_word(words, ARRAY_SIZE(words), code);
}
