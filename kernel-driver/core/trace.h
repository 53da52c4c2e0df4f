/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Trace events ("fakernic" in tracefs): commands, device events, link state and
 * life cycle. Each names the PCI function.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM fakernic

#if !defined(FAKERNIC_DRIVER_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define FAKERNIC_DRIVER_TRACE_H

#include <linux/pci.h>
#include <linux/tracepoint.h>
#include "explain.h"

#define FAKERNIC_TRACE_NAME	24

/* The macros have the layout that the kernel uses. */
/* clang-format off */
/* A command is complete: its result and duration. */
TRACE_EVENT(fakernic_cmd,
	TP_PROTO(struct pci_dev *pdev, u16 opcode, u8 status, u32 detail,
		 int error, u64 duration_ns),
	TP_ARGS(pdev, opcode, status, detail, error, duration_ns),
	TP_STRUCT__entry(
		__array(char, dev, FAKERNIC_TRACE_NAME)
		__field(u16, opcode)
		__field(u8, status)
		__field(u32, detail)
		__field(int, error)
		__field(u64, duration_ns)
	),
	TP_fast_assign(
		strscpy(__entry->dev, pci_name(pdev), FAKERNIC_TRACE_NAME);
		__entry->opcode = opcode;
		__entry->status = status;
		__entry->detail = detail;
		__entry->error = error;
		__entry->duration_ns = duration_ns;
	),
	TP_printk("%s %#x %s: %s, detail %u, error %d, %llu ns", __entry->dev,
		  __entry->opcode, fakernic_cmd_name(__entry->opcode),
		  fakernic_cmd_status_name(__entry->status), __entry->detail,
		  __entry->error, __entry->duration_ns)
);

/* An entry of an event queue is handled. */
TRACE_EVENT(fakernic_eqe,
	TP_PROTO(struct pci_dev *pdev, u32 eqn, u32 ci, u8 type, u32 id,
		 u32 data),
	TP_ARGS(pdev, eqn, ci, type, id, data),
	TP_STRUCT__entry(
		__array(char, dev, FAKERNIC_TRACE_NAME)
		__field(u32, eqn)
		__field(u32, ci)
		__field(u8, type)
		__field(u32, id)
		__field(u32, data)
	),
	TP_fast_assign(
		strscpy(__entry->dev, pci_name(pdev), FAKERNIC_TRACE_NAME);
		__entry->eqn = eqn;
		__entry->ci = ci;
		__entry->type = type;
		__entry->id = id;
		__entry->data = data;
	),
	TP_printk("%s EQ %#x at %u: type %u, object %#x, data %u",
		  __entry->dev, __entry->eqn, __entry->ci, __entry->type,
		  __entry->id, __entry->data)
);

/* The link state that the net_device and the RDMA device share. */
TRACE_EVENT(fakernic_link,
	TP_PROTO(struct pci_dev *pdev, bool link, bool active),
	TP_ARGS(pdev, link, active),
	TP_STRUCT__entry(
		__array(char, dev, FAKERNIC_TRACE_NAME)
		__field(bool, link)
		__field(bool, active)
	),
	TP_fast_assign(
		strscpy(__entry->dev, pci_name(pdev), FAKERNIC_TRACE_NAME);
		__entry->link = link;
		__entry->active = active;
	),
	TP_printk("%s link %s, port %s", __entry->dev,
		  __entry->link ? "up" : "down",
		  __entry->active ? "active" : "down")
);

/* Life cycle of the hardware: dies, goes down, comes up, is reset. */
TRACE_EVENT(fakernic_life,
	TP_PROTO(struct pci_dev *pdev, const char *what, int result),
	TP_ARGS(pdev, what, result),
	TP_STRUCT__entry(
		__array(char, dev, FAKERNIC_TRACE_NAME)
		__array(char, what, FAKERNIC_TRACE_NAME)
		__field(int, result)
	),
	TP_fast_assign(
		strscpy(__entry->dev, pci_name(pdev), FAKERNIC_TRACE_NAME);
		strscpy(__entry->what, what, FAKERNIC_TRACE_NAME);
		__entry->result = result;
	),
	TP_printk("%s %s: %d", __entry->dev, __entry->what,
		  __entry->result)
);
/* clang-format on */

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH core
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
