/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Memory keys, access rights, and what a key can name.
 *
 * A key is 32 bits: bits 31..8 the index chosen by the device, bits 7..0 a tag
 * chosen by the driver (or changed by fast registration and MW binding). The
 * lkey and rkey of a region are the same number; a key with index 0 is never
 * valid.
 */
#ifndef FAKERNIC_MR_H
#define FAKERNIC_MR_H

#include "base.h"

#define FAKERNIC_KEY_INDEX	FAKERNIC_BITS(31, 8)
#define FAKERNIC_KEY_TAG	FAKERNIC_BITS(7, 0)

/* Access rights; the same bits as enum ibv_access_flags. IBTA 10.6.3. */
#define FAKERNIC_ACCESS_LOCAL_WRITE		FAKERNIC_BITS(0, 0)
#define FAKERNIC_ACCESS_REMOTE_WRITE		FAKERNIC_BITS(1, 1)
#define FAKERNIC_ACCESS_REMOTE_READ		FAKERNIC_BITS(2, 2)
#define FAKERNIC_ACCESS_REMOTE_ATOMIC		FAKERNIC_BITS(3, 3)
#define FAKERNIC_ACCESS_MW_BIND			FAKERNIC_BITS(4, 4)
#define FAKERNIC_ACCESS_ZERO_BASED		FAKERNIC_BITS(5, 5)
#define FAKERNIC_ACCESS_ON_DEMAND		FAKERNIC_BITS(6, 6)
#define FAKERNIC_ACCESS_HUGETLB			FAKERNIC_BITS(7, 7)	/* no effect */
#define FAKERNIC_ACCESS_FLUSH_GLOBAL		FAKERNIC_BITS(8, 8)
#define FAKERNIC_ACCESS_FLUSH_PERSISTENT	FAKERNIC_BITS(9, 9)
#define FAKERNIC_ACCESS_RELAXED_ORDERING	FAKERNIC_BITS(20, 20)	/* no effect */

enum fakernic_mr_type {
	FAKERNIC_MR_MEMORY	= 1,	/* page list given at creation */
	FAKERNIC_MR_DMA		= 2,	/* all of DMA space, address = DMA address;
					 * kernel only, local use and ULP rkeys
					 */
	FAKERNIC_MR_FAST_REG	= 3,	/* page list given by REG_MR WQEs */
	FAKERNIC_MR_NULL	= 4,	/* reads zero, discards writes */
	FAKERNIC_MR_DM		= 5,	/* device memory */
	FAKERNIC_MR_ON_DEMAND	= 6,
};

enum fakernic_mw_type {
	FAKERNIC_MW_TYPE_1	= 1,
	FAKERNIC_MW_TYPE_2B	= 2,
};

#endif
