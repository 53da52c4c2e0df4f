#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# probe.sh INCLUDE: prints a compiler flag for each interface of the list below
# that the kernel headers in the folder INCLUDE declare. It searches for a word
# and ignores the version, because distributions backport interfaces. Only
# compat/ uses the flags.
set -eu

while read -r name header word; do
    if grep -qsw -e "$word" "$1/$header"; then
        printf ' -DFAKERNIC_HAVE_%s' "$name"
    fi
done <<EOT
RDMA_ITER rdma/iter.h rdma_for_each_block
VM_FLAGS_CLEAR linux/mm.h vm_flags_clear
DFL_WQ linux/workqueue.h system_dfl_wq
KERNEL_TS_INFO linux/ethtool.h kernel_ethtool_ts_info
HWTSTAMP_CONFIG linux/net_tstamp.h kernel_hwtstamp_config
HWTSTAMP_OPS linux/netdevice.h ndo_hwtstamp_set
RXFH_PARAM linux/ethtool.h ethtool_rxfh_param
RX_RING_COUNT linux/ethtool.h get_rx_ring_count
ATOMIC_WRITE rdma/ib_verbs.h IB_DEVICE_ATOMIC_WRITE
FLUSH rdma/ib_verbs.h IB_DEVICE_FLUSH_GLOBAL
UMEM_GET_VA rdma/ib_umem.h ib_umem_get_va
FILL_RES_SRQ rdma/ib_verbs.h fill_res_srq_entry
FILL_RES_SRQ_RAW rdma/ib_verbs.h fill_res_srq_entry_raw
RESIZE_USER_CQ rdma/ib_verbs.h resize_user_cq
REPORT_PORT_EVENT rdma/ib_verbs.h report_port_event
ALLOC_WITH_NET rdma/ib_verbs.h ib_alloc_device_with_net
PAGE_POOL_HELPERS net/page_pool/helpers.h page_pool_dev_alloc_pages
PAGE_POOL_NETDEV net/page_pool/types.h netdev
HMM_DMA_MAP rdma/ib_umem_odp.h hmm_dma_map
DRIVER_NAME_PUT net/devlink.h devlink_info_driver_name_put
DEVLINK_SET_FEATURES net/devlink.h devlink_set_features
DEFAULT_GRACEFUL_PERIOD net/devlink.h default_graceful_period
EOT
