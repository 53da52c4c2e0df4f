/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Adapters for the pages of an on-demand umem. Kernels differ in where they
 * record the pages and in when they map them for DMA. In older kernels
 * ib_umem_odp_map_dma_and_lock() maps the range for DMA; in newer ones it only
 * finds the pages, and the driver maps each one when it is needed.
 */
#ifndef FAKERNIC_DRIVER_COMPAT_ODP_H
#define FAKERNIC_DRIVER_COMPAT_ODP_H

#include <rdma/ib_umem_odp.h>
#include <rdma/ib_verbs.h>

struct fakernic_umem_page {
	dma_addr_t address;
	bool writable;
};

#ifdef FAKERNIC_HAVE_HMM_DMA_MAP
#include <linux/hmm.h>
#include <linux/hmm-dma.h>
#include <linux/pci-p2pdma.h>

#define FAKERNIC_UMEM_READ	HMM_PFN_VALID
#define FAKERNIC_UMEM_WRITE	(HMM_PFN_VALID | HMM_PFN_WRITE)

/*
 * The core records small pages but unmaps large ones by the same index, so the
 * driver always uses small pages here.
 */
static inline int fakernic_umem_odp_access(int access)
{
	return access & ~IB_ACCESS_HUGETLB;
}

/* True if the device may access this page. Caller holds umem_mutex. */
static inline bool fakernic_umem_page_mapped(const struct ib_umem_odp *umem,
					     size_t index)
{
	return umem->map.pfn_list[index] & HMM_PFN_DMA_MAPPED;
}

/*
 * Maps one page of a range whose pages have been found. Returns 1, or 0 if the
 * page is absent, or an error. Caller holds umem_mutex.
 */
static inline int fakernic_umem_page(struct ib_umem_odp *umem, size_t index,
				     struct fakernic_umem_page *page)
{
	struct device *dma_device = umem->umem.ibdev->dma_device;
	struct pci_p2pdma_map_state p2pdma = {};
	unsigned long pfn = umem->map.pfn_list[index];

	if (!(pfn & HMM_PFN_VALID))
		return 0;
	page->writable = pfn & HMM_PFN_WRITE;
	page->address = hmm_dma_map_pfn(dma_device, &umem->map, index,
					&p2pdma);
	if (dma_mapping_error(dma_device, page->address))
		return -EFAULT;
	if (!(pfn & HMM_PFN_DMA_MAPPED))
		umem->npages++;
	return 1;
}
#else
#define FAKERNIC_UMEM_READ	ODP_READ_ALLOWED_BIT
#define FAKERNIC_UMEM_WRITE	(ODP_READ_ALLOWED_BIT | ODP_WRITE_ALLOWED_BIT)

static inline int fakernic_umem_odp_access(int access)
{
	return access;
}

static inline bool fakernic_umem_page_mapped(const struct ib_umem_odp *umem,
					     size_t index)
{
	return umem->dma_list[index];
}

static inline int fakernic_umem_page(struct ib_umem_odp *umem, size_t index,
				     struct fakernic_umem_page *page)
{
	dma_addr_t entry = umem->dma_list[index];

	page->writable = entry & ODP_WRITE_ALLOWED_BIT;
	page->address = entry & ODP_DMA_ADDR_MASK;
	return !!entry;
}
#endif

#endif
