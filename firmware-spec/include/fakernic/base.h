/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Ground rules of the fakernic hardware interface.
 *
 * These headers are the hardware interface: the QEMU device, the kernel driver
 * and the rdma-core provider compile these very files. A structure marked
 * "HW DATA" is seen by the device through DMA. Its rules:
 *
 *  - little-endian, naturally aligned, no padding, no bit-fields, no packing;
 *  - reserved fields are named rsvd*: the producer writes zero, the device
 *    refuses a request in which one is not zero, a reader ignores them;
 *  - flag bits are defined right below their field;
 *  - FAKERNIC_SIZE() below each structure states its size, and
 *    firmware-spec/layout.txt the offset of every field.
 */
#ifndef FAKERNIC_BASE_H
#define FAKERNIC_BASE_H

/*
 * __u8, __u16, __u32, __u64 and __le16, __le32, __le64: unsigned integers, the
 * latter in the byte order of the device. Linux defines them. Other systems
 * derive them from <stdint.h>, or define them in a header of their own:
 * -DFAKERNIC_TYPES='"my_types.h"'.
 */
#if defined(FAKERNIC_TYPES)
#include FAKERNIC_TYPES
#elif defined(__KERNEL__) || defined(__linux__)
#include <linux/types.h>
#else
#include <stdint.h>
typedef uint8_t __u8;
typedef uint16_t __u16, __le16;
typedef uint32_t __u32, __le32;
typedef uint64_t __u64, __le64;
#endif

/* Mask of the bits hi..lo, both included, of a 32- or 64-bit word. */
#define FAKERNIC_BITS(hi, lo) \
	((~0ULL >> (63 - (hi))) & (~0ULL << (lo)))

/* Reads the field described by a mask out of a host-order word. */
#define FAKERNIC_GET(mask, word) \
	(((word) & (mask)) / ((mask) & -(mask)))

/* Places a value into the field described by a mask; excess bits are cut. */
#define FAKERNIC_PUT(mask, value) \
	(((__u64)(value) * ((mask) & -(mask))) & (mask))

/* Fails the build when a HW DATA structure changes its size. */
#define FAKERNIC_SIZE(type, bytes) \
	_Static_assert(sizeof(type) == (bytes), #type " is " #bytes " bytes")

/* Granularity of page lists, of doorbell pages and of page tables. */
#define FAKERNIC_PAGE_SHIFT	12
#define FAKERNIC_PAGE_SIZE	(1U << FAKERNIC_PAGE_SHIFT)

/* Entries in one page-table page. */
#define FAKERNIC_PAGE_TABLE_ENTRIES	(FAKERNIC_PAGE_SIZE / 8)

/*
 * HW DATA: where a queue or a memory region lies in DMA space.
 *
 * levels = 0: page_count pages follow one another from address on.
 * levels = 1: address is a page table: one page (FAKERNIC_PAGE_SIZE, aligned)
 *             of 512 __le64 page addresses.
 * levels = 2, 3: address is a table of tables, each one page.
 * Tables are filled in order; only the last of a level may be part full. The
 * device copies the list while it executes the command (or work request) that
 * carries it; the tables may be freed or changed after its completion.
 */
struct fakernic_page_list {
	__le64 address;		/* DMA address, aligned to the page or table */
	__le32 page_count;	/* >= 1 */
	__u8 page_shift;	/* page size is 1 << page_shift: 12..30 */
	__u8 levels;		/* 0..FAKERNIC_PAGE_LIST_LEVELS_MAX */
#define FAKERNIC_PAGE_LIST_LEVELS_MAX	3
	__le16 rsvd;
};
FAKERNIC_SIZE(struct fakernic_page_list, 16);

#define FAKERNIC_PAGE_SHIFT_MAX		30

/*
 * HW DATA: the doorbell record of a queue. It occupies the 64 bytes that follow
 * the last entry of the ring, in the same page list: a queue of n entries of s
 * bytes needs n * s + 64 bytes. Indices run freely modulo 2^32 and start at 0;
 * an entry's place is index & (n - 1).
 */
struct fakernic_queue_record {
	__le32 index;		/* host writes. SQ, RQ, SRQ: producer index,
				 * stored after the entries it covers.
				 * CQ: consumer index, stored after the
				 * last read of the entries it frees.
				 * EQ: not used, its doorbell carries it.
				 */
	__le32 rsvd;
	__le64 stamp;		/* host writes, FAKERNIC_FEATURE_STAMPS. SQ, CQ:
				 * stored before the index. The time when the
				 * host began to post, or had taken, the entries
				 * that the index covers; 0: no stamp
				 */
	__le32 rsvd2[4];
	__le32 device_index;	/* device writes, FEATURE_SHADOW_DOORBELL. SQ:
				 * event index, FAKERNIC_MUST_RING(). Other
				 * queues: not used
				 */
	__le32 rsvd3[7];
};
FAKERNIC_SIZE(struct fakernic_queue_record, 64);

/*
 * FAKERNIC_FEATURE_SHADOW_DOORBELL: whether the move of a producer index from
 * 'last' to 'next' crosses the event index. 'last' is the index for which the
 * host evaluated this before; the host loads the event index once, after a full
 * barrier that follows its store of 'next' to the record. All are host-order.
 */
#define FAKERNIC_MUST_RING(event, last, next) \
	((__u32)((next) - (event) - 1U) < (__u32)((next) - (last)))

/* An event index at 'last' is crossed, one at 'next' or before 'last' not. */
_Static_assert(FAKERNIC_MUST_RING(7U, 7U, 8U), "the device sleeps at last");
_Static_assert(FAKERNIC_MUST_RING(8U, 7U, 10U), "the device sleeps between");
_Static_assert(!FAKERNIC_MUST_RING(8U, 7U, 8U), "the device has all entries");
_Static_assert(!FAKERNIC_MUST_RING(6U, 7U, 8U), "the device is awake");
_Static_assert(!FAKERNIC_MUST_RING(7U, 8U, 8U), "nothing was posted");
_Static_assert(FAKERNIC_MUST_RING(~0U, ~0U, 0U), "the index wraps");
_Static_assert(!FAKERNIC_MUST_RING(~0U, 0U, 1U), "awake since before the wrap");

#define FAKERNIC_QUEUE_LOG_DEPTH_MAX	16
#define FAKERNIC_CQ_LOG_DEPTH_MAX	22	/* with FEATURE_DEEP_CQ */

#endif
