// SPDX-License-Identifier: GPL-2.0-only
/*
 * The performance management agent (IBTA 16.1). It supplies the port's
 * "counters" in sysfs, under the names that monitoring tools know from
 * InfiniBand, and answers MADs. Data and packet counters are for RoCE only and
 * include loopback, as on other RNICs. Discards, errors and link-down counts
 * are for the whole port. Counters cannot be set or cleared. "hw_counters" has
 * all counters of the device.
 */
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_pma.h>
#include <rdma/ib_verbs.h>
#include <fakernic/stats.h>
#include "../core/device.h"
#include "../core/port.h"
#include "../core/stats.h"
#include "pma.h"

/*
 * Offset of the attribute in a performance management MAD (IBTA 16.1.1), and of
 * the port number in the attribute.
 */
#define FAKERNIC_PMA_DATA		40
#define FAKERNIC_PMA_PORT_SELECT	1

/* Data counters are in words of four octets (IBTA 16.1.3.5). */
#define FAKERNIC_PMA_WORD		4

static void fakernic_pma_class_info(void *data)
{
	struct ib_class_port_info *info = data;

	info->base_version = IB_MGMT_BASE_VERSION;
	info->class_version = 1;
	/* 64-bit counters, but none for unicast and multicast. */
	info->capability_mask = IB_PMA_CLASS_CAP_EXT_WIDTH_NOIETF;
}

static void fakernic_pma_counters_ext(void *data, const u64 *stats)
{
	struct ib_pma_portcounters_ext *counters = data;

	counters->port_select = FAKERNIC_PORT;
	counters->port_xmit_data =
		cpu_to_be64(stats[FAKERNIC_STAT_TX_ROCE_BYTES] /
			    FAKERNIC_PMA_WORD);
	counters->port_rcv_data =
		cpu_to_be64(stats[FAKERNIC_STAT_RX_ROCE_BYTES] /
			    FAKERNIC_PMA_WORD);
	counters->port_xmit_packets = cpu_to_be64(stats[FAKERNIC_STAT_TX_ROCE]);
	counters->port_rcv_packets = cpu_to_be64(stats[FAKERNIC_STAT_RX_ROCE]);
}

/* Counters stop at their largest value (IBTA 16.1.3.5). */
static void fakernic_pma_counters(struct fakernic_dev *dev, void *data,
				  const u64 *stats)
{
	struct ib_pma_portcounters *counters = data;
	u64 broken = stats[FAKERNIC_STAT_DROP_SHORT] +
		     stats[FAKERNIC_STAT_DROP_IP_CSUM] +
		     stats[FAKERNIC_STAT_DROP_FRAGMENT] +
		     stats[FAKERNIC_STAT_DROP_ICRC] +
		     stats[FAKERNIC_STAT_DROP_BTH_VERSION];
	u32 downed = atomic_read(&dev->netdev->carrier_down_count);

	counters->port_select = FAKERNIC_PORT;
	counters->link_downed_counter = min_t(u32, downed, U8_MAX);
	counters->port_rcv_errors = cpu_to_be16(min_t(u64, broken, U16_MAX));
	counters->port_xmit_discards =
		cpu_to_be16(min_t(u64, stats[FAKERNIC_STAT_TX_DROPPED],
				  U16_MAX));
	counters->port_xmit_data =
		cpu_to_be32(min_t(u64, stats[FAKERNIC_STAT_TX_ROCE_BYTES] /
				  FAKERNIC_PMA_WORD, U32_MAX));
	counters->port_rcv_data =
		cpu_to_be32(min_t(u64, stats[FAKERNIC_STAT_RX_ROCE_BYTES] /
				  FAKERNIC_PMA_WORD, U32_MAX));
	counters->port_xmit_packets =
		cpu_to_be32(min_t(u64, stats[FAKERNIC_STAT_TX_ROCE], U32_MAX));
	counters->port_rcv_packets =
		cpu_to_be32(min_t(u64, stats[FAKERNIC_STAT_RX_ROCE], U32_MAX));
}

/* Returns an error of the device, or 0 and the status of the response. */
static int fakernic_pma_get(struct fakernic_dev *dev, __be16 attribute,
			    u8 port, void *data, __be16 *status)
{
	const __be16 unsupported =
		cpu_to_be16(IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB);
	u64 *stats;
	int ret;

	*status = 0;
	if (attribute == IB_PMA_CLASS_PORT_INFO) {
		fakernic_pma_class_info(data);
		return 0;
	}
	if (attribute != IB_PMA_PORT_COUNTERS &&
	    attribute != IB_PMA_PORT_COUNTERS_EXT) {
		*status = unsupported;
		return 0;
	}
	if (port != FAKERNIC_PORT) {
		*status = cpu_to_be16(IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE);
		return 0;
	}
	stats = kcalloc(FAKERNIC_STAT_COUNT, sizeof(*stats), GFP_KERNEL);
	if (!stats)
		return -ENOMEM;
	ret = fakernic_query_stats(dev, 0, stats);
	if (!ret && attribute == IB_PMA_PORT_COUNTERS)
		fakernic_pma_counters(dev, data, stats);
	else if (!ret)
		fakernic_pma_counters_ext(data, stats);
	kfree(stats);
	return ret;
}

/*
 * The core passes every incoming MAD here before the kernel's agents see it;
 * sysfs sends its own. This function answers only performance MADs. It returns
 * FAILURE for others, so that the agents handle them. With SUCCESS alone the
 * core would itself answer MADs that no agent takes, and resolving an unknown
 * sender's address blocks all MADs.
 */
int fakernic_process_mad(struct ib_device *ibdev, int flags, u32 port,
			 const struct ib_wc *wc, const struct ib_grh *grh,
			 const struct ib_mad *in, struct ib_mad *out,
			 size_t *out_size, u16 *out_pkey_index)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibdev);
	const u8 *asked = in->data + FAKERNIC_PMA_DATA;
	u8 *data = out->data + FAKERNIC_PMA_DATA;

	if (in->mad_hdr.mgmt_class != IB_MGMT_CLASS_PERF_MGMT)
		return IB_MAD_RESULT_FAILURE;
	/* The core refuses unsupported methods. */
	if (in->mad_hdr.method != IB_MGMT_METHOD_GET)
		return IB_MAD_RESULT_SUCCESS;
	memset(out, 0, sizeof(*out));
	out->mad_hdr = in->mad_hdr;
	out->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	if (fakernic_pma_get(dev, in->mad_hdr.attr_id,
			     asked[FAKERNIC_PMA_PORT_SELECT], data,
			     &out->mad_hdr.status))
		return IB_MAD_RESULT_FAILURE;
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}
