/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The names of the counters, for device and driver. The macro calls row(END,
 * NAME) for each enumerator of enum fakernic_stat: END is the end of the
 * enumerator, and NAME the same in lower case. The rows can initialize an array
 * that the enumerators index.
 */
#ifndef FAKERNIC_STAT_NAMES_H
#define FAKERNIC_STAT_NAMES_H

#include "stats.h"

#define FAKERNIC_STAT_NAMES(row) \
	row(TX_FRAMES, "tx_frames") \
	row(TX_BYTES, "tx_bytes") \
	row(RX_FRAMES, "rx_frames") \
	row(RX_BYTES, "rx_bytes") \
	row(RX_NO_BUFFER, "rx_no_buffer") \
	row(RX_FILTERED, "rx_filtered") \
	row(RX_OVERSIZE, "rx_oversize") \
	row(TX_DROPPED, "tx_dropped") \
	row(TX_ROCE, "tx_roce") \
	row(RX_ROCE, "rx_roce") \
	row(RX_LOOPBACK, "rx_loopback") \
	row(DROP_SHORT, "drop_short") \
	row(DROP_IP_CSUM, "drop_ip_csum") \
	row(DROP_FRAGMENT, "drop_fragment") \
	row(DROP_ICRC, "drop_icrc") \
	row(DROP_BTH_VERSION, "drop_bth_version") \
	row(DROP_OPCODE, "drop_opcode") \
	row(DROP_QPN, "drop_qpn") \
	row(DROP_QP_STATE, "drop_qp_state") \
	row(DROP_PKEY, "drop_pkey") \
	row(DROP_QKEY, "drop_qkey") \
	row(DROP_ADDRESS, "drop_address") \
	row(DROP_UD_LENGTH, "drop_ud_length") \
	row(DROP_UD_NO_BUFFER, "drop_ud_no_buffer") \
	row(DROP_RESPONSE, "drop_response") \
	row(DROP_MCAST, "drop_mcast") \
	row(RETRANSMITS, "retransmits") \
	row(TIMEOUTS, "timeouts") \
	row(RETRY_EXCEEDED, "retry_exceeded") \
	row(RNR_RETRY_EXCEEDED, "rnr_retry_exceeded") \
	row(RX_RNR_NAK, "rx_rnr_nak") \
	row(RX_SEQ_NAK, "rx_seq_nak") \
	row(RX_NAK_INVALID_REQUEST, "rx_nak_invalid_request") \
	row(RX_NAK_REMOTE_ACCESS, "rx_nak_remote_access") \
	row(RX_NAK_REMOTE_OPERATION, "rx_nak_remote_operation") \
	row(IMPLIED_NAK, "implied_nak") \
	row(LOCAL_ERRORS, "local_errors") \
	row(CREDIT_WAITS, "credit_waits") \
	row(PATH_MIGRATIONS, "path_migrations") \
	row(TX_RNR_NAK, "tx_rnr_nak") \
	row(TX_SEQ_NAK, "tx_seq_nak") \
	row(TX_NAK_INVALID_REQUEST, "tx_nak_invalid_request") \
	row(TX_NAK_REMOTE_ACCESS, "tx_nak_remote_access") \
	row(TX_NAK_REMOTE_OPERATION, "tx_nak_remote_operation") \
	row(DUPLICATES, "duplicates") \
	row(OUT_OF_SEQUENCE, "out_of_sequence") \
	row(REMOTE_ACCESS_ERRORS, "remote_access_errors") \
	row(RX_ECN_MARKED, "rx_ecn_marked") \
	row(TX_CNP, "tx_cnp") \
	row(RX_CNP, "rx_cnp") \
	row(RATE_CUTS, "rate_cuts") \
	row(DOORBELL_DROPPED, "doorbell_dropped") \
	row(CQ_OVERRUNS, "cq_overruns") \
	row(EQ_DELAYED, "eq_delayed") \
	row(DMA_ERRORS, "dma_errors") \
	row(COMMANDS, "commands") \
	row(COMMANDS_FAILED, "commands_failed") \
	row(DROP_UC, "drop_uc") \
	row(PAGE_REQUESTS, "page_requests") \
	row(PAGE_UPDATES, "page_updates") \
	row(PAGES_REFUSED, "pages_refused") \
	row(TX_ROCE_BYTES, "tx_roce_bytes") \
	row(RX_ROCE_BYTES, "rx_roce_bytes") \
	row(RX_CSUM_WRONG, "rx_csum_wrong") \
	row(PROBES, "probes") \
	row(SQ_RECORDS, "sq_records") \
	row(SQ_LOST, "sq_lost")

#endif
