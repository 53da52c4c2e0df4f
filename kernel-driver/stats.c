// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device's counters, by their names in fakernic/stats.h, and how they are
 * read. ethtool.c shows all of them, counter.c those of the port and of the
 * device to "rdma statistic" and sysfs, pma.c some under InfiniBand's names.
 */
#include <linux/dma-mapping.h>
#include <fakernic/stats.h>
#include "cmd.h"
#include "device.h"
#include "stats.h"

const char *const fakernic_stat_names[] = {
	[FAKERNIC_STAT_TX_FRAMES] = "tx_frames",
	[FAKERNIC_STAT_TX_BYTES] = "tx_bytes",
	[FAKERNIC_STAT_RX_FRAMES] = "rx_frames",
	[FAKERNIC_STAT_RX_BYTES] = "rx_bytes",
	[FAKERNIC_STAT_RX_NO_BUFFER] = "rx_no_buffer",
	[FAKERNIC_STAT_RX_FILTERED] = "rx_filtered",
	[FAKERNIC_STAT_RX_OVERSIZE] = "rx_oversize",
	[FAKERNIC_STAT_TX_DROPPED] = "tx_dropped",
	[FAKERNIC_STAT_TX_ROCE] = "tx_roce",
	[FAKERNIC_STAT_RX_ROCE] = "rx_roce",
	[FAKERNIC_STAT_RX_LOOPBACK] = "rx_loopback",
	[FAKERNIC_STAT_DROP_SHORT] = "drop_short",
	[FAKERNIC_STAT_DROP_IP_CSUM] = "drop_ip_csum",
	[FAKERNIC_STAT_DROP_FRAGMENT] = "drop_fragment",
	[FAKERNIC_STAT_DROP_ICRC] = "drop_icrc",
	[FAKERNIC_STAT_DROP_BTH_VERSION] = "drop_bth_version",
	[FAKERNIC_STAT_DROP_OPCODE] = "drop_opcode",
	[FAKERNIC_STAT_DROP_QPN] = "drop_qpn",
	[FAKERNIC_STAT_DROP_QP_STATE] = "drop_qp_state",
	[FAKERNIC_STAT_DROP_PKEY] = "drop_pkey",
	[FAKERNIC_STAT_DROP_QKEY] = "drop_qkey",
	[FAKERNIC_STAT_DROP_ADDRESS] = "drop_address",
	[FAKERNIC_STAT_DROP_UD_LENGTH] = "drop_ud_length",
	[FAKERNIC_STAT_DROP_UD_NO_BUFFER] = "drop_ud_no_buffer",
	[FAKERNIC_STAT_DROP_RESPONSE] = "drop_response",
	[FAKERNIC_STAT_DROP_MCAST] = "drop_mcast",
	[FAKERNIC_STAT_RETRANSMITS] = "retransmits",
	[FAKERNIC_STAT_TIMEOUTS] = "timeouts",
	[FAKERNIC_STAT_RETRY_EXCEEDED] = "retry_exceeded",
	[FAKERNIC_STAT_RNR_RETRY_EXCEEDED] = "rnr_retry_exceeded",
	[FAKERNIC_STAT_RX_RNR_NAK] = "rx_rnr_nak",
	[FAKERNIC_STAT_RX_SEQ_NAK] = "rx_seq_nak",
	[FAKERNIC_STAT_RX_NAK_INVALID_REQUEST] = "rx_nak_invalid_request",
	[FAKERNIC_STAT_RX_NAK_REMOTE_ACCESS] = "rx_nak_remote_access",
	[FAKERNIC_STAT_RX_NAK_REMOTE_OPERATION] = "rx_nak_remote_operation",
	[FAKERNIC_STAT_IMPLIED_NAK] = "implied_nak",
	[FAKERNIC_STAT_LOCAL_ERRORS] = "local_errors",
	[FAKERNIC_STAT_CREDIT_WAITS] = "credit_waits",
	[FAKERNIC_STAT_PATH_MIGRATIONS] = "path_migrations",
	[FAKERNIC_STAT_TX_RNR_NAK] = "tx_rnr_nak",
	[FAKERNIC_STAT_TX_SEQ_NAK] = "tx_seq_nak",
	[FAKERNIC_STAT_TX_NAK_INVALID_REQUEST] = "tx_nak_invalid_request",
	[FAKERNIC_STAT_TX_NAK_REMOTE_ACCESS] = "tx_nak_remote_access",
	[FAKERNIC_STAT_TX_NAK_REMOTE_OPERATION] = "tx_nak_remote_operation",
	[FAKERNIC_STAT_DUPLICATES] = "duplicates",
	[FAKERNIC_STAT_OUT_OF_SEQUENCE] = "out_of_sequence",
	[FAKERNIC_STAT_REMOTE_ACCESS_ERRORS] = "remote_access_errors",
	[FAKERNIC_STAT_RX_ECN_MARKED] = "rx_ecn_marked",
	[FAKERNIC_STAT_TX_CNP] = "tx_cnp",
	[FAKERNIC_STAT_RX_CNP] = "rx_cnp",
	[FAKERNIC_STAT_RATE_CUTS] = "rate_cuts",
	[FAKERNIC_STAT_DOORBELL_DROPPED] = "doorbell_dropped",
	[FAKERNIC_STAT_CQ_OVERRUNS] = "cq_overruns",
	[FAKERNIC_STAT_EQ_DELAYED] = "eq_delayed",
	[FAKERNIC_STAT_DMA_ERRORS] = "dma_errors",
	[FAKERNIC_STAT_COMMANDS] = "commands",
	[FAKERNIC_STAT_COMMANDS_FAILED] = "commands_failed",
	[FAKERNIC_STAT_DROP_UC] = "drop_uc",
	[FAKERNIC_STAT_PAGE_REQUESTS] = "page_requests",
	[FAKERNIC_STAT_PAGE_UPDATES] = "page_updates",
	[FAKERNIC_STAT_PAGES_REFUSED] = "pages_refused",
	[FAKERNIC_STAT_TX_ROCE_BYTES] = "tx_roce_bytes",
	[FAKERNIC_STAT_RX_ROCE_BYTES] = "rx_roce_bytes",
	[FAKERNIC_STAT_RX_CSUM_WRONG] = "rx_csum_wrong",
};

/* A counter that the interface gets at its end has a name here, too. */
static_assert(ARRAY_SIZE(fakernic_stat_names) == FAKERNIC_STAT_COUNT);

int fakernic_read_stats(struct fakernic_dev *dev, u32 counter_id, u64 *values)
{
	size_t size = FAKERNIC_STAT_COUNT * sizeof(__le64);
	struct device *device = &dev->pdev->dev;
	__le64 *counters;
	dma_addr_t dma;
	int i, count;

	counters = dma_alloc_coherent(device, size, &dma, GFP_KERNEL);
	if (!counters)
		return -ENOMEM;
	if (counter_id)
		count = fakernic_cmd_query_counter(dev, counter_id, dma, size);
	else
		count = fakernic_cmd_query_stats(dev, dma, size);
	for (i = 0; count >= 0 && i < FAKERNIC_STAT_COUNT; i++)
		values[i] = i < count ? le64_to_cpu(counters[i]) : 0;
	dma_free_coherent(device, size, counters, dma);
	return count < 0 ? count : 0;
}
