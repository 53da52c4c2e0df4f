/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Counters, in the order QUERY_STATS writes them, __le64 each. They count from
 * reset and never decrease. New ones are appended.
 */
#ifndef FAKERNIC_STATS_H
#define FAKERNIC_STATS_H

#include "base.h"

enum fakernic_stat {
	/* the Ethernet port; bytes without FCS */
	FAKERNIC_STAT_TX_FRAMES,
	FAKERNIC_STAT_TX_BYTES,
	FAKERNIC_STAT_RX_FRAMES,
	FAKERNIC_STAT_RX_BYTES,
	FAKERNIC_STAT_RX_NO_BUFFER,	/* Ethernet frame, empty port RQ */
	FAKERNIC_STAT_RX_FILTERED,	/* not for this MAC, or for no queue */
	FAKERNIC_STAT_RX_OVERSIZE,	/* longer than the port's MTU allows */
	FAKERNIC_STAT_TX_DROPPED,	/* link down, or longer than the MTU */
	/* RoCEv2 frames */
	FAKERNIC_STAT_TX_ROCE,
	FAKERNIC_STAT_RX_ROCE,
	FAKERNIC_STAT_RX_LOOPBACK,
	/* RoCEv2 frames dropped, one counter per check, in checking order */
	FAKERNIC_STAT_DROP_SHORT,	/* headers or length fields do not fit */
	FAKERNIC_STAT_DROP_IP_CSUM,	/* IPv4 header checksum */
	FAKERNIC_STAT_DROP_FRAGMENT,	/* IP fragment */
	FAKERNIC_STAT_DROP_ICRC,
	FAKERNIC_STAT_DROP_BTH_VERSION,
	FAKERNIC_STAT_DROP_OPCODE,	/* reserved, or not of the QP's service */
	FAKERNIC_STAT_DROP_QPN,		/* no such QP */
	FAKERNIC_STAT_DROP_QP_STATE,
	FAKERNIC_STAT_DROP_PKEY,
	FAKERNIC_STAT_DROP_QKEY,
	FAKERNIC_STAT_DROP_ADDRESS,	/* not from the connected peer */
	FAKERNIC_STAT_DROP_UD_LENGTH,	/* datagram longer than the buffer or MTU */
	FAKERNIC_STAT_DROP_UD_NO_BUFFER,	/* datagram, empty RQ */
	FAKERNIC_STAT_DROP_RESPONSE,	/* stale or unexpected ACK or response */
	FAKERNIC_STAT_DROP_MCAST,	/* no QP attached */
	/* requester */
	FAKERNIC_STAT_RETRANSMITS,	/* request packets sent again */
	FAKERNIC_STAT_TIMEOUTS,		/* local ACK timeouts */
	FAKERNIC_STAT_RETRY_EXCEEDED,
	FAKERNIC_STAT_RNR_RETRY_EXCEEDED,
	FAKERNIC_STAT_RX_RNR_NAK,
	FAKERNIC_STAT_RX_SEQ_NAK,
	FAKERNIC_STAT_RX_NAK_INVALID_REQUEST,
	FAKERNIC_STAT_RX_NAK_REMOTE_ACCESS,
	FAKERNIC_STAT_RX_NAK_REMOTE_OPERATION,
	FAKERNIC_STAT_IMPLIED_NAK,	/* a gap seen in read responses or ACKs */
	FAKERNIC_STAT_LOCAL_ERRORS,	/* send WRs refused locally */
	FAKERNIC_STAT_CREDIT_WAITS,	/* sends held back: the peer has reported
					 * no receive for them (yet)
					 */
	FAKERNIC_STAT_PATH_MIGRATIONS,	/* QPs that went to their alternate path */
	/* responder */
	FAKERNIC_STAT_TX_RNR_NAK,
	FAKERNIC_STAT_TX_SEQ_NAK,
	FAKERNIC_STAT_TX_NAK_INVALID_REQUEST,
	FAKERNIC_STAT_TX_NAK_REMOTE_ACCESS,
	FAKERNIC_STAT_TX_NAK_REMOTE_OPERATION,
	FAKERNIC_STAT_DUPLICATES,	/* duplicate request packets */
	FAKERNIC_STAT_OUT_OF_SEQUENCE,
	FAKERNIC_STAT_REMOTE_ACCESS_ERRORS,
	/* congestion */
	FAKERNIC_STAT_RX_ECN_MARKED,
	FAKERNIC_STAT_TX_CNP,
	FAKERNIC_STAT_RX_CNP,
	FAKERNIC_STAT_RATE_CUTS,	/* by DCQCN */
	/* the device */
	FAKERNIC_STAT_DOORBELL_DROPPED,
	FAKERNIC_STAT_CQ_OVERRUNS,
	FAKERNIC_STAT_EQ_DELAYED,	/* events that found their EQ full */
	FAKERNIC_STAT_DMA_ERRORS,
	FAKERNIC_STAT_COMMANDS,
	FAKERNIC_STAT_COMMANDS_FAILED,
	/* appended */
	FAKERNIC_STAT_DROP_UC,		/* UC packet of a message that is lost: a
					 * gap, no receive, or a broken rule
					 */
	/* on-demand paging */
	FAKERNIC_STAT_PAGE_REQUESTS,	/* pages asked for that were not there */
	FAKERNIC_STAT_PAGE_UPDATES,	/* UPDATE_PAGES commands */
	FAKERNIC_STAT_PAGES_REFUSED,	/* of these, with REFUSED */
	/* of the frames in TX_ROCE and RX_ROCE, without FCS */
	FAKERNIC_STAT_TX_ROCE_BYTES,
	FAKERNIC_STAT_RX_ROCE_BYTES,
	FAKERNIC_STAT_RX_CSUM_WRONG,	/* FEATURE_CSUM: frames received with a
					 * wrong IPv4, TCP or UDP checksum
					 */
	FAKERNIC_STAT_PROBES,		/* silences of the peer that made the
					 * requester ask again, before a timeout
					 */
	FAKERNIC_STAT_SQ_RECORDS,	/* new producer indices that the device
					 * found in a record
					 */
	FAKERNIC_STAT_SQ_LOST,		/* SQs reset or destroyed with posts
					 * that needed a doorbell and got none
					 */
	FAKERNIC_STAT_COUNT
};

#endif
