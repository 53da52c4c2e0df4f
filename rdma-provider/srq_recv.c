/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Receives of SRQs: as rq.c, but the QPs that share an SRQ complete its
 * receives in any order. So each receive has a tag from a stack of free ones.
 * The wr_id is kept under the tag until the CQE returns it. A tag consists of a
 * place (bits 15..0) and a use count, which detects a receive that is completed
 * twice.
 */
#include <errno.h>
#include <stdlib.h>
#include <infiniband/driver.h>

#include "lock.h"
#include "queue.h"
#include "rq.h"
#include "srq.h"

#define FAKERNIC_SRQ_PLACE	((1U << FAKERNIC_QUEUE_LOG_DEPTH_MAX) - 1)

int fakernic_usrq_add_tags(struct fakernic_srq *srq, uint32_t count)
{
	uint32_t *free_tag, *tag;
	uint64_t *wr_id;

	if (count <= srq->tag_count)
		return 0;
	wr_id = realloc(srq->wr_id, count * sizeof(*wr_id));
	if (!wr_id)
		return ENOMEM;
	srq->wr_id = wr_id;
	tag = realloc(srq->tag, count * sizeof(*tag));
	if (!tag)
		return ENOMEM;
	srq->tag = tag;
	free_tag = realloc(srq->free_tag, count * sizeof(*free_tag));
	if (!free_tag)
		return ENOMEM;
	srq->free_tag = free_tag;
	while (srq->tag_count < count) {
		srq->tag[srq->tag_count] = srq->tag_count;
		srq->free_tag[srq->free_count++] = srq->tag_count++;
	}
	return 0;
}

bool fakernic_usrq_complete(struct fakernic_srq *srq, uint32_t tag,
			    uint64_t *wr_id)
{
	uint32_t place = tag & FAKERNIC_SRQ_PLACE;
	bool posted;

	fakernic_lock(&srq->lock);
	posted = place < srq->tag_count && srq->tag[place] == tag &&
		 srq->free_count < srq->tag_count;
	if (posted) {
		*wr_id = srq->wr_id[place];
		srq->tag[place] = tag + FAKERNIC_SRQ_PLACE + 1;
		srq->free_tag[srq->free_count++] = srq->tag[place];
	}
	fakernic_unlock(&srq->lock);
	return posted;
}

static int fakernic_post_one_srq_recv(struct fakernic_srq *srq,
				      const struct ibv_recv_wr *wr)
{
	uint32_t tag;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > srq->sge_max)
		return EINVAL;
	/* No more than depth are outstanding, so the next slot is free too. */
	if (fakernic_usrq_outstanding(srq) >= srq->queue.depth)
		return ENOMEM;
	tag = srq->free_tag[--srq->free_count];
	srq->wr_id[tag & FAKERNIC_SRQ_PLACE] = wr->wr_id;
	fakernic_write_recv(fakernic_uqueue_entry(&srq->queue, srq->pi), tag,
			    wr);
	srq->pi++;
	return 0;
}

int fakernic_upost_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
			    struct ibv_recv_wr **bad_wr)
{
	struct fakernic_srq *srq = fakernic_to_srq(ibsrq);
	uint32_t first;
	int err = 0;

	fakernic_lock(&srq->lock);
	first = srq->pi;
	for (; wr; wr = wr->next) {
		err = fakernic_post_one_srq_recv(srq, wr);
		if (err) {
			if (err == EINVAL)
				fakernic_explain_recv(ibsrq->context,
						      srq->srqn, wr,
						      srq->sge_max);
			*bad_wr = wr;
			break;
		}
	}
	if (srq->pi != first)
		fakernic_uqueue_publish(&srq->queue, srq->pi);
	fakernic_unlock(&srq->lock);
	return err;
}
