/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * PCI identity, BAR map and the BAR0 registers.
 *
 * BAR0 registers are 32 bits wide, little-endian, and accessed with aligned
 * 32-bit loads and stores; any other access reads zero, writes nothing and is
 * logged as a guest error. RO: writes are ignored. WO: reads zero.
 */
#ifndef FAKERNIC_REGS_H
#define FAKERNIC_REGS_H

#include "base.h"

#define FAKERNIC_PCI_VENDOR_ID		0x1af4
#define FAKERNIC_PCI_DEVICE_ID		0x10f0
#define FAKERNIC_PCI_VF_DEVICE_ID	0x10f1	/* of a virtual function */
#define FAKERNIC_PCI_REVISION		1

/* BARs by number. */
#define FAKERNIC_BAR_REGS	0	/* 32-bit, 16 KiB: the registers below */
#define FAKERNIC_BAR_UAR	2	/* 64-bit, prefetchable: doorbell pages
					 * (doorbell.h), clock page, device
					 * memory
					 */
#define FAKERNIC_BAR_MSIX	4	/* 32-bit: MSI-X table and PBA */
#define FAKERNIC_BAR_REGS_SIZE	0x4000

/* MSI-X vectors: 0 is for commands and asynchronous events. */
#define FAKERNIC_VECTOR_COUNT		33
#define FAKERNIC_VECTOR_CMDQ		0
#define FAKERNIC_VECTOR_COMPLETION	1	/* the first of 32 */

#define FAKERNIC_REG_MAGIC		0x000	/* RO */
#define FAKERNIC_MAGIC			0x434e4b46	/* "FKNC" */

#define FAKERNIC_REG_INTERFACE_VERSION	0x004	/* RO */
#define FAKERNIC_VERSION_MAJOR	FAKERNIC_BITS(31, 16)	/* must match */
#define FAKERNIC_VERSION_MINOR	FAKERNIC_BITS(15, 0)	/* may differ */
#define FAKERNIC_INTERFACE_MAJOR	1
#define FAKERNIC_INTERFACE_MINOR	1

#define FAKERNIC_REG_FEATURES_LO	0x008	/* RO: what the device offers */
#define FAKERNIC_REG_FEATURES_HI	0x00c	/* RO */
#define FAKERNIC_REG_DRIVER_FEATURES_LO	0x010	/* RW: what the driver takes */
#define FAKERNIC_REG_DRIVER_FEATURES_HI	0x014	/* RW */
/* Feature bits: services and commands the device implements. */
#define FAKERNIC_FEATURE_RC		FAKERNIC_BITS(0, 0)
#define FAKERNIC_FEATURE_UD		FAKERNIC_BITS(1, 1)
#define FAKERNIC_FEATURE_UC		FAKERNIC_BITS(2, 2)
#define FAKERNIC_FEATURE_XRC		FAKERNIC_BITS(3, 3)
#define FAKERNIC_FEATURE_RAW_PACKET	FAKERNIC_BITS(4, 4)
#define FAKERNIC_FEATURE_ATOMIC		FAKERNIC_BITS(5, 5)
#define FAKERNIC_FEATURE_ATOMIC_MASKED	FAKERNIC_BITS(6, 6)
#define FAKERNIC_FEATURE_ATOMIC_WRITE	FAKERNIC_BITS(7, 7)
#define FAKERNIC_FEATURE_FLUSH		FAKERNIC_BITS(8, 8)
#define FAKERNIC_FEATURE_SRQ		FAKERNIC_BITS(9, 9)
#define FAKERNIC_FEATURE_MW		FAKERNIC_BITS(10, 10)
#define FAKERNIC_FEATURE_FAST_REG	FAKERNIC_BITS(11, 11)
#define FAKERNIC_FEATURE_REREG_MR	FAKERNIC_BITS(12, 12)
#define FAKERNIC_FEATURE_RESIZE_CQ	FAKERNIC_BITS(13, 13)
#define FAKERNIC_FEATURE_CQ_MODERATION	FAKERNIC_BITS(14, 14)
#define FAKERNIC_FEATURE_MCAST		FAKERNIC_BITS(15, 15)
#define FAKERNIC_FEATURE_DM		FAKERNIC_BITS(16, 16)
#define FAKERNIC_FEATURE_ODP		FAKERNIC_BITS(17, 17)
#define FAKERNIC_FEATURE_FLOW		FAKERNIC_BITS(18, 18)
#define FAKERNIC_FEATURE_WQ_RSS		FAKERNIC_BITS(19, 19)
#define FAKERNIC_FEATURE_CSUM		FAKERNIC_BITS(20, 20)
#define FAKERNIC_FEATURE_VLAN		FAKERNIC_BITS(21, 21)	/* offload */
#define FAKERNIC_FEATURE_CNP		FAKERNIC_BITS(22, 22)
#define FAKERNIC_FEATURE_DCQCN		FAKERNIC_BITS(23, 23)
#define FAKERNIC_FEATURE_RATE_LIMIT	FAKERNIC_BITS(24, 24)
#define FAKERNIC_FEATURE_APM		FAKERNIC_BITS(25, 25)
#define FAKERNIC_FEATURE_CLOCK_PAGE	FAKERNIC_BITS(26, 26)
#define FAKERNIC_FEATURE_COUNTERS	FAKERNIC_BITS(27, 27)
#define FAKERNIC_FEATURE_FAULTS		FAKERNIC_BITS(28, 28)
#define FAKERNIC_FEATURE_RESIZE_SRQ	FAKERNIC_BITS(29, 29)
#define FAKERNIC_FEATURE_POLL_DOORBELL	FAKERNIC_BITS(30, 30)
#define FAKERNIC_FEATURE_DUMP		FAKERNIC_BITS(31, 31)
#define FAKERNIC_FEATURE_SHADOW_DOORBELL	FAKERNIC_BITS(32, 32)
#define FAKERNIC_FEATURE_TSO		FAKERNIC_BITS(33, 33)
#define FAKERNIC_FEATURE_DEEP_CQ	FAKERNIC_BITS(35, 35)
#define FAKERNIC_FEATURE_STAMPS		FAKERNIC_BITS(37, 37)
#define FAKERNIC_FEATURE_POLL_SELDOM	FAKERNIC_BITS(38, 38)
#define FAKERNIC_FEATURE_BLOCK_MCAST_LB	FAKERNIC_BITS(39, 39)
#define FAKERNIC_FEATURE_PORT_DISABLE	FAKERNIC_BITS(40, 40)
#define FAKERNIC_FEATURE_VPORT		FAKERNIC_BITS(41, 41)
#define FAKERNIC_FEATURE_ESWITCH	FAKERNIC_BITS(42, 42)
#define FAKERNIC_FEATURE_FUNCTION	FAKERNIC_BITS(43, 43)

#define FAKERNIC_REG_FW_VERSION		0x018	/* RO: 8.8.16 bits */

#define FAKERNIC_REG_CONTROL		0x01c	/* RW, reset value 0 */
/* Writing RESET returns the whole device to its state after power-on, except
 * for PCI configuration space; it reads back as 0.
 */
#define FAKERNIC_CONTROL_RESET		FAKERNIC_BITS(0, 0)
/* 0 -> 1 brings the command queue up from the CMDQ registers, which cannot be
 * written from then on; clearing it is a guest error, only RESET ends
 * operation.
 */
#define FAKERNIC_CONTROL_ENABLE		FAKERNIC_BITS(1, 1)

#define FAKERNIC_REG_STATUS		0x020	/* RO, reset value READY */
#define FAKERNIC_STATUS_READY		FAKERNIC_BITS(0, 0)
#define FAKERNIC_STATUS_ENABLED		FAKERNIC_BITS(1, 1)
/* The device has stopped until RESET or FLR. FATAL_CODE has the reason. */
#define FAKERNIC_STATUS_FATAL		FAKERNIC_BITS(2, 2)
/* With ENABLED: the device has had fault rules since power-on, so an error may
 * be the effect of a rule and no bug. RESET does not clear it.
 */
#define FAKERNIC_STATUS_FAULTS		FAKERNIC_BITS(3, 3)

#define FAKERNIC_REG_FATAL_CODE		0x024	/* RO */
enum fakernic_fatal_code {
	FAKERNIC_FATAL_NONE		= 0,
	FAKERNIC_FATAL_CMDQ_ADDRESS	= 1,	/* unaligned ring address */
	FAKERNIC_FATAL_CMDQ_DEPTH	= 2,	/* CMDQ_LOG_DEPTH out of range */
	FAKERNIC_FATAL_FEATURES		= 3,	/* accepts what is not offered */
	FAKERNIC_FATAL_CMDQ_OVERRUN	= 4,	/* more than depth in flight */
	FAKERNIC_FATAL_CMDQ_DMA		= 5,	/* a ring cannot be reached */
	FAKERNIC_FATAL_FAULT		= 6,	/* a fault was asked for */
};

/* RW scratch, reset value 0. A driver writes it to test access to BAR0. */
#define FAKERNIC_REG_TEST		0x028
#define FAKERNIC_REG_TEST_INVERTED	0x02c	/* RO: ~TEST */

#define FAKERNIC_REG_MAC_LO		0x030	/* RO: bytes 0..3, byte 0 low */
#define FAKERNIC_REG_MAC_HI		0x034	/* RO: bytes 4..5 */
#define FAKERNIC_REG_UAR_COUNT		0x038	/* RO: doorbell pages in BAR2 */
#define FAKERNIC_REG_VECTOR_COUNT	0x03c	/* RO */

/*
 * The command queue (cmdq.h). Addresses are DMA addresses of physically
 * contiguous rings, FAKERNIC_PAGE_SIZE aligned. Writable until ENABLE.
 */
#define FAKERNIC_REG_CMDQ_SQ_LO		0x040	/* RW */
#define FAKERNIC_REG_CMDQ_SQ_HI		0x044	/* RW */
#define FAKERNIC_REG_CMDQ_CQ_LO		0x048	/* RW */
#define FAKERNIC_REG_CMDQ_CQ_HI		0x04c	/* RW */
#define FAKERNIC_REG_CMDQ_LOG_DEPTH	0x050	/* RW: 4..8, both rings */
#define FAKERNIC_CMDQ_LOG_DEPTH_MIN	4
#define FAKERNIC_CMDQ_LOG_DEPTH_MAX	8
#define FAKERNIC_REG_CMDQ_DOORBELL	0x054	/* WO: producer index */

/* The parts of BAR2 after the doorbell pages; size 0: the part is missing. */
#define FAKERNIC_REG_CLOCK_PAGE_OFFSET	0x060	/* RO, in pages */
#define FAKERNIC_REG_CLOCK_PAGE_COUNT	0x064	/* RO: 0 or 1 */
#define FAKERNIC_REG_DM_OFFSET		0x068	/* RO, in pages */
#define FAKERNIC_REG_DM_PAGES		0x06c	/* RO, in pages */

/* The device clock in nanoseconds; reading LO latches HI. */
#define FAKERNIC_REG_CLOCK_LO		0x070	/* RO */
#define FAKERNIC_REG_CLOCK_HI		0x074	/* RO */

/* FEATURE_FUNCTION: which function of the card this is; else 0. */
#define FAKERNIC_REG_FUNCTION		0x078	/* RO */
#define FAKERNIC_FUNCTION_VPORT	FAKERNIC_BITS(15, 0)	/* 0: the PF */
#define FAKERNIC_FUNCTION_VFS	FAKERNIC_BITS(31, 16)	/* PF: TotalVFs */

/* Registers end here; the rest of BAR0 is reserved. */
#define FAKERNIC_REG_END		0x07c

#endif
