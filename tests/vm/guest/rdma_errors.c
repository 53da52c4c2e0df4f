// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What an application's mistakes get: each case connects two fresh RC queue
 * pairs of one device with each other, makes one mistake, and expects one
 * completion status at the requester (and, where the responder is told, one
 * there), then that a later work request is flushed. Prints TAP.
 */
#include "rdma_common.h"

#define SIZE 8192

struct mistake {
	const char *name;
	enum ibv_wr_opcode opcode;
	int access;			/* of the responder's memory */
	int64_t remote_offset;
	size_t length;
	int lkey_change, rkey_change;
	long receive;			/* bytes of the responder's receive,
					 * -1: none posted
					 */
	bool no_peer;			/* destination QP does not exist */
	enum ibv_wc_status requester, responder;
};

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
	     IBV_ACCESS_REMOTE_READ)
#define QUIET IBV_WC_SUCCESS

static const struct mistake mistakes[] = {
	{ "write with a wrong rkey index", IBV_WR_RDMA_WRITE, ALL, 0, 64, 0,
	  0x100000, -1, false, IBV_WC_REM_ACCESS_ERR, QUIET },
	{ "write with a stale rkey tag", IBV_WR_RDMA_WRITE, ALL, 0, 64, 0, 1,
	  -1, false, IBV_WC_REM_ACCESS_ERR, QUIET },
	{ "write beyond the end", IBV_WR_RDMA_WRITE, ALL, SIZE - 63, 64, 0, 0,
	  -1, false, IBV_WC_REM_ACCESS_ERR, QUIET },
	{ "write before the start", IBV_WR_RDMA_WRITE, ALL, -1, 64, 0, 0, -1,
	  false, IBV_WC_REM_ACCESS_ERR, QUIET },
	{ "write without the right", IBV_WR_RDMA_WRITE,
	  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, 0, 64, 0, 0, -1,
	  false, IBV_WC_REM_ACCESS_ERR, QUIET },
	{ "read without the right", IBV_WR_RDMA_READ,
	  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, 64, 0, 0, -1,
	  false, IBV_WC_REM_ACCESS_ERR, QUIET },
	{ "read with a wrong rkey", IBV_WR_RDMA_READ, ALL, 0, 64, 0, 0x100000,
	  -1, false, IBV_WC_REM_ACCESS_ERR, QUIET },
	{ "read beyond the end", IBV_WR_RDMA_READ, ALL, 4097, 4096, 0, 0, -1,
	  false, IBV_WC_REM_ACCESS_ERR, QUIET },
	{ "send with a wrong lkey", IBV_WR_SEND, ALL, 0, 64, 0x100000, 0, 64,
	  false, IBV_WC_LOC_PROT_ERR, QUIET },
	{ "send beyond the local end", IBV_WR_SEND, ALL, 0, SIZE + 1, 0, 0,
	  SIZE, false, IBV_WC_LOC_PROT_ERR, QUIET },
	{ "send longer than the receive", IBV_WR_SEND, ALL, 0, 4000, 0, 0, 64,
	  false, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR },
	{ "send without a receive", IBV_WR_SEND, ALL, 0, 64, 0, 0, -1, false,
	  IBV_WC_RNR_RETRY_EXC_ERR, QUIET },
	{ "send to nobody", IBV_WR_SEND, ALL, 0, 64, 0, 0, -1, true,
	  IBV_WC_RETRY_EXC_ERR, QUIET },
};

static bool expect(const char *who, struct ibv_cq *cq,
		   enum ibv_wc_status status)
{
	struct ibv_wc wc = wait_completion(cq);

	if (wc.status == status)
		return true;
	printf("# %s: status \"%s\" (vendor_err %u), expected \"%s\"\n", who,
	       ibv_wc_status_str(wc.status), wc.vendor_err,
	       ibv_wc_status_str(status));
	return false;
}

static bool run(struct ibv_context *context, const struct mistake *m)
{
	struct endpoint a, b;
	struct peer to_a, to_b;
	struct ibv_wc wc;
	bool good;

	endpoint_open(&a, context, SIZE, ALL, false);
	endpoint_open(&b, context, SIZE, m->access, false);
	to_a = self_as_peer(&a);
	to_b = self_as_peer(&b);
	connect_qp(&b, &to_a, 12, 2, 1);
	if (m->no_peer)
		to_b.qpn = 0xfffff0;
	connect_qp(&a, &to_b, 12, 2, 1);
	if (m->receive >= 0 && post_recv(&b, 0, m->receive))
		DIE("ibv_post_recv");
	if (post(&a, m->opcode, 0, m->length, a.mr->lkey + m->lkey_change,
		 to_b.address + m->remote_offset, to_b.rkey + m->rkey_change))
		DIE("ibv_post_send");
	good = expect("requester", a.cq, m->requester);
	if (m->responder != QUIET)
		good &= expect("responder", b.cq, m->responder);
	/* The requester's QP is in error now: what follows is flushed. */
	if (post(&a, IBV_WR_SEND, 0, 8, a.mr->lkey, 0, 0))
		DIE("ibv_post_send to a QP in error");
	good &= expect("later work request", a.cq, IBV_WC_WR_FLUSH_ERR);
	if (ibv_poll_cq(a.cq, 1, &wc)) {
		printf("# requester: one completion too many\n");
		good = false;
	}
	endpoint_close(&a);
	endpoint_close(&b);
	return good;
}

int main(void)
{
	struct ibv_context *context = open_device();
	unsigned int count = sizeof(mistakes) / sizeof(mistakes[0]);
	unsigned int failed = 0;

	for (unsigned int i = 0; i < count; i++) {
		bool good = run(context, &mistakes[i]);

		printf("%s %u - %s\n", good ? "ok" : "not ok", i + 1,
		       mistakes[i].name);
		failed += !good;
	}
	printf("1..%u\n", count);
	ibv_close_device(context);
	return failed != 0;
}
