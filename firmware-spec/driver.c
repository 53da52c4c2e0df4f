/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A driver in 150 lines of code for a little-endian machine without an OS. PCI
 * must have set up the device. The driver brings it up and then causes any
 * number of completions and their events. Two examples follow: an RDMA WRITE
 * that a QP sends to itself, and an Ethernet port. The driver polls and needs
 * no interrupts. The machine supplies the first six functions.
 */
#include <stddef.h>
#include <string.h>
#include "fakernic/cmdq.h"
#include "fakernic/cq.h"
#include "fakernic/doorbell.h"
#include "fakernic/eq.h"
#include "fakernic/mr.h"
#include "fakernic/regs.h"
#include "fakernic/sq.h"

__u32 bar0_read(__u32 offset);
void bar0_write(__u32 offset, __u32 value);
void bar2_write(__u32 offset, __u64 word);
void *dma_alloc(__u32 size, __u64 *address); /* contiguous pages, zeroed */
void relax(void);			     /* called in loops that wait */
void give_up(const char *why);		     /* does not return */
void driver(void);     /* brings the device up */
void driver_nop(void); /* a completion and its event, any number of times */

#define CHECK(ok)  ((ok) ? (void)0 : give_up(#ok))
#define ATTR(name) FAKERNIC_QP_ATTR_##name

struct queue {
	__u8 *ring;
	__u64 address;
	__u32 log_entry, index, id;
};

#define LOG_DEPTH 4 /* of all queues here */

static struct queue requests, answers, eq, cq, ud;
static __u32 pd;

static struct fakernic_page_list make(struct queue *q, __u32 log_entry)
{
	__u32 size = (1 << (LOG_DEPTH + log_entry)) + 64; /* and the record */

	*q = (struct queue) { .log_entry = log_entry };
	q->ring = dma_alloc(size, &q->address);
	return (struct fakernic_page_list) { q->address, size / 4096 + 1, 12,
					     0, 0 };
}

static void *entry(struct queue *q)
{
	return q->ring + (q->index % (1 << LOG_DEPTH) << q->log_entry);
}

/* Waits for the next entry that the device produces, and returns it. */
static void *take(struct queue *q, size_t owner)
{
	volatile __u8 *e = entry(q);

	while ((e[owner] & 1) == (q->index >> LOG_DEPTH & 1))
		relax();
	__sync_synchronize();
	q->index++;
	return (void *)e;
}

/* Stores the index into the record: entries are posted, or are free again. */
static void publish(struct queue *q)
{
	__sync_synchronize();
	memcpy(q->ring + (1 << (LOG_DEPTH + q->log_entry)), &q->index, 4);
}

/* Executes a command, which must succeed: the number in its response. */
static __u32 command(__u16 opcode, const void *request, size_t len)
{
	struct fakernic_cmd *cmd = entry(&requests);
	struct fakernic_cmd_completion *done;

	*cmd = (struct fakernic_cmd) { opcode, .cookie = requests.index++ };
	memcpy(cmd->payload, request, len);
	__sync_synchronize();
	bar0_write(FAKERNIC_REG_CMDQ_DOORBELL, requests.index);
	done = take(&answers, offsetof(struct fakernic_cmd_completion, owner));
	CHECK(done->status == FAKERNIC_CMD_OK);
	return ((struct fakernic_id *)done->payload)->id;
}

static void ring(__u32 doorbell, struct queue *q, __u64 flags)
{
	flags |= FAKERNIC_PUT(FAKERNIC_DOORBELL_ID, q->id);
	__sync_synchronize();
	bar2_write(doorbell, flags | q->index);
}

/* Executes a work request of one block, which must succeed. */
static void execute(struct queue *sq, const void *wqe)
{
	struct fakernic_cqe *cqe;

	memcpy(entry(sq), wqe, FAKERNIC_SQ_BB_SIZE);
	sq->index++;
	publish(sq);
	ring(FAKERNIC_DOORBELL_SQ, sq, 0);
	cqe = take(&cq, offsetof(struct fakernic_cqe, owner));
	CHECK(cqe->status == FAKERNIC_WC_SUCCESS && cqe->qpn == sq->id);
	publish(&cq);
}

static void bring_up(void)
{
	CHECK(bar0_read(FAKERNIC_REG_MAGIC) == FAKERNIC_MAGIC);
	CHECK(bar0_read(FAKERNIC_REG_INTERFACE_VERSION) >> 16 == 1);
	bar0_write(FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_RESET);
	while (bar0_read(FAKERNIC_REG_STATUS) != FAKERNIC_STATUS_READY);
	bar0_write(FAKERNIC_REG_DRIVER_FEATURES_LO,
		   FAKERNIC_FEATURE_RC | FAKERNIC_FEATURE_UD |
			   FAKERNIC_FEATURE_RAW_PACKET);
	make(&requests, 8);
	make(&answers, 8);
	bar0_write(FAKERNIC_REG_CMDQ_SQ_LO, requests.address);
	bar0_write(FAKERNIC_REG_CMDQ_SQ_HI, requests.address >> 32);
	bar0_write(FAKERNIC_REG_CMDQ_CQ_LO, answers.address);
	bar0_write(FAKERNIC_REG_CMDQ_CQ_HI, answers.address >> 32);
	bar0_write(FAKERNIC_REG_CMDQ_LOG_DEPTH, LOG_DEPTH);
	bar0_write(FAKERNIC_REG_CONTROL, FAKERNIC_CONTROL_ENABLE);
	CHECK(bar0_read(FAKERNIC_REG_STATUS) & FAKERNIC_STATUS_ENABLED);
}

/*
 * Creates a QP and brings it to RTS. 'masks' has the additional attributes of
 * INIT, RTR and RTS. The caller has set the QP's type and receive queue in
 * 'req', and the values of the attributes in 'modify'.
 */
static struct queue create_qp(struct fakernic_create_qp_req *req,
			      struct fakernic_modify_qp_req *modify,
			      const __u32 *masks)
{
	struct queue sq;

	req->sq_pages = make(&sq, FAKERNIC_SQ_BB_SHIFT);
	req->sq_log_depth = LOG_DEPTH;
	req->send_cqn = cq.id;
	req->pdn = pd;
	sq.id = command(FAKERNIC_CMD_CREATE_QP, req, sizeof(*req));
	modify->qpn = sq.id;
	modify->attr.dest_qpn = sq.id; /* RC: the QP itself */
	for (int i = 0; i < 3; i++) {
		modify->attr.state = FAKERNIC_QPS_INIT + i;
		modify->mask = ATTR(STATE) | masks[i];
		command(FAKERNIC_CMD_MODIFY_QP, modify, sizeof(*modify));
	}
	return sq;
}

/* Causes a completion and its event by the shortest work request. */
void driver_nop(void)
{
	const struct fakernic_sq_hdr wqe[4] = {
		{FAKERNIC_SQ_NOP, FAKERNIC_SQ_SIGNALED, .bb_count = 1}};
	struct fakernic_eqe *eqe;

	ring(FAKERNIC_DOORBELL_EQ, &eq, FAKERNIC_DOORBELL_ARM);
	ring(FAKERNIC_DOORBELL_CQ_ARM, &cq, 0);
	execute(&ud, wqe);
	eqe = take(&eq, offsetof(struct fakernic_eqe, owner));
	CHECK(eqe->type == FAKERNIC_EVENT_COMPLETION && eqe->id == cq.id);
}

void driver(void)
{
	struct fakernic_create_eq_req e = {.log_depth = LOG_DEPTH, .vector = 1};
	struct fakernic_create_cq_req c = { .log_depth = LOG_DEPTH };
	struct fakernic_create_qp_req q = {
		.type = FAKERNIC_QP_UD, .rq_log_depth = FAKERNIC_QUEUE_NONE };
	const __u32 masks[] = { ATTR(PKEY_INDEX) | ATTR(PORT) | ATTR(QKEY), 0,
				ATTR(SQ_PSN) };
	struct fakernic_modify_qp_req m = {.attr.port = 1, .attr.qkey = 0x1234};

	bring_up();
	e.pages = make(&eq, 4);
	eq.id = command(FAKERNIC_CMD_CREATE_EQ, &e, sizeof(e));
	c.pages = make(&cq, 6);
	c.eqn = eq.id;
	cq.id = command(FAKERNIC_CMD_CREATE_CQ, &c, sizeof(c));
	pd = command(FAKERNIC_CMD_ALLOC_PD, "", 0);
	q.recv_cqn = cq.id;
	ud = create_qp(&q, &m, masks);
}

/* ---- an RDMA WRITE ------------------------------------------------------- */

void driver_write(const __u8 *mac);

/* Sets GID 0 to 10.0.0.1, and 'av' to the path from this address to itself. */
static void set_gid(struct fakernic_av *av, const __u8 *mac)
{
	struct fakernic_set_gid_req gid = { .type = FAKERNIC_GID_IPV4,
					    .vlan = FAKERNIC_VLAN_NONE };

	memcpy(gid.mac, mac, 6);
	memcpy(gid.gid + 10, "\xff\xff\x0a\0\0\1", 6);
	command(FAKERNIC_CMD_SET_GID, &gid, sizeof(gid));
	memcpy(av->dmac, mac, 6);
	memcpy(av->dgid, gid.gid, 16);
}

void driver_write(const __u8 *mac)
{
	const __u32 masks[] = {
		ATTR(PKEY_INDEX) | ATTR(PORT) | ATTR(ACCESS_FLAGS),
		ATTR(AV) | ATTR(PATH_MTU) | ATTR(DEST_QPN) | ATTR(RQ_PSN) |
			ATTR(MAX_DEST_RD_ATOMIC) | ATTR(MIN_RNR_TIMER),
		ATTR(TIMEOUT) | ATTR(RETRY_CNT) | ATTR(RNR_RETRY) |
			ATTR(SQ_PSN) | ATTR(MAX_RD_ATOMIC),
	};
	struct fakernic_modify_qp_req modify = {
		.attr = {
			.port = 1,
			.access_flags = FAKERNIC_ACCESS_REMOTE_WRITE,
			.path_mtu = FAKERNIC_MTU_1024,
			.rq_psn = 0x100,
			.sq_psn = 0x100,
			.min_rnr_timer = 12,
			.timeout = 14,
			.retry_cnt = 7,
			.rnr_retry = 7,
		},
	};
	struct fakernic_create_mr_req mr = {
		.length = 8192,
		.pages = { .page_count = 2, .page_shift = 12 },
		.pdn = pd,
		.access = FAKERNIC_ACCESS_LOCAL_WRITE |
			  FAKERNIC_ACCESS_REMOTE_WRITE,
		.type = FAKERNIC_MR_MEMORY,
		.tag = 0x42,
	};
	struct {
		struct fakernic_sq_hdr hdr;
		struct fakernic_sq_rdma rdma;
		struct fakernic_sge sge[2];
	} wqe = { .hdr = { .opcode = FAKERNIC_SQ_RDMA_WRITE,
			   .flags = FAKERNIC_SQ_SIGNALED,
			   .sge_count = 1,
			   .bb_count = 1 } };
	struct fakernic_create_qp_req qp = {
		.type = FAKERNIC_QP_RC,
		.rq_log_depth = FAKERNIC_QUEUE_NONE,
		.recv_cqn = cq.id,
	};
	char *data = dma_alloc(8192, &mr.iova);
	struct queue sq;
	__u32 key;

	mr.pages.address = mr.iova;
	key = command(FAKERNIC_CMD_CREATE_MR, &mr, sizeof(mr));
	set_gid(&modify.attr.av, mac);
	sq = create_qp(&qp, &modify, masks);
	strcpy(data, "Hello, world");
	wqe.rdma.remote_address = mr.iova + 4096;
	wqe.rdma.rkey = key;
	wqe.sge[0] = (struct fakernic_sge) { mr.iova, 12, key };
	execute(&sq, &wqe);
	CHECK(!memcmp(data + 4096, "Hello, world", 13));
}

/* ---- an Ethernet port ---------------------------------------------------- */

void driver_open(void);
void driver_send(const void *frame, __u32 length);
__u32 driver_receive(void *frame);

#define FRAME_MAX 1518 /* the default MTU, 14 bytes of header, a VLAN tag */
#define SLOT_SIZE 2048

static struct queue rx, rx_cq, tx;
static __u8 *frames; /* a slot for each receive, and one to send from */
static __u64 frames_address;
static __u32 frames_key;

/* Posts the next receive. Each entry of the ring has a slot for a frame. */
static void post_receive(void)
{
	struct fakernic_rq_wqe *wqe = entry(&rx);
	__u32 place = rx.index % (1 << LOG_DEPTH);

	wqe->tag = place;
	wqe->sge_count = 1;
	wqe->sge[0].address = frames_address + place * SLOT_SIZE;
	wqe->sge[0].length = SLOT_SIZE;
	wqe->sge[0].lkey = frames_key;
	rx.index++;
	publish(&rx);
}

/* Receives use another CQ, because execute() expects the send's completion. */
void driver_open(void)
{
	struct fakernic_create_mr_req mr = {
		.pdn = pd,
		.access = FAKERNIC_ACCESS_LOCAL_WRITE,
		.type = FAKERNIC_MR_DMA,
	};
	struct fakernic_create_cq_req c = { .log_depth = LOG_DEPTH,
					    .eqn = eq.id };
	struct fakernic_create_qp_req qp = {
		.type = FAKERNIC_QP_RAW_PACKET,
		.rq_log_depth = LOG_DEPTH,
		.rq_log_stride = FAKERNIC_RQ_LOG_STRIDE_MIN,
	};
	struct fakernic_set_port_req port = {
		.mask = FAKERNIC_PORT_QPN | FAKERNIC_PORT_FILTER,
		.filter = FAKERNIC_FILTER_BROADCAST,
	};
	struct fakernic_modify_qp_req modify = { .attr.port = 1 };
	const __u32 masks[] = { ATTR(PORT), 0, 0 };

	frames = dma_alloc(((1 << LOG_DEPTH) + 1) * SLOT_SIZE, &frames_address);
	frames_key = command(FAKERNIC_CMD_CREATE_MR, &mr, sizeof(mr));
	c.pages = make(&rx_cq, 6);
	rx_cq.id = command(FAKERNIC_CMD_CREATE_CQ, &c, sizeof(c));
	qp.rq_pages = make(&rx, FAKERNIC_RQ_LOG_STRIDE_MIN);
	qp.recv_cqn = rx_cq.id;
	tx = create_qp(&qp, &modify, masks);
	for (int i = 0; i < 1 << LOG_DEPTH; i++)
		post_receive();
	port.qpn = tx.id;
	command(FAKERNIC_CMD_SET_PORT, &port, sizeof(port));
}

/* A frame without its FCS, destination first. */
void driver_send(const void *frame, __u32 length)
{
	const __u32 offset = SLOT_SIZE << LOG_DEPTH;
	struct {
		struct fakernic_sq_hdr hdr;
		struct fakernic_sge sge[3];
	} wqe = { .hdr = { .opcode = FAKERNIC_SQ_SEND,
			   .flags = FAKERNIC_SQ_SIGNALED,
			   .sge_count = 1,
			   .bb_count = 1 } };

	CHECK(length <= FRAME_MAX);
	memcpy(frames + offset, frame, length);
	wqe.sge[0].address = frames_address + offset;
	wqe.sge[0].length = length;
	wqe.sge[0].lkey = frames_key;
	execute(&tx, &wqe);
}

/* Copies the next received frame and returns its length; 0: there is none. */
__u32 driver_receive(void *frame)
{
	struct fakernic_cqe *cqe = entry(&rx_cq);
	__u32 length;

	if ((*(volatile __u8 *)&cqe->owner & 1) ==
	    (rx_cq.index >> LOG_DEPTH & 1))
		return 0;
	cqe = take(&rx_cq, offsetof(struct fakernic_cqe, owner));
	CHECK(cqe->status == FAKERNIC_WC_SUCCESS);
	length = cqe->byte_count;
	memcpy(frame, frames + cqe->wqe_index * SLOT_SIZE, length);
	publish(&rx_cq);
	post_receive();
	return length;
}
