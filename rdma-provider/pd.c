/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Protection domains (IBTA 10.2.3): the kernel makes them, the provider only
 * keeps their number.
 */
#include <errno.h>
#include <stdlib.h>

#include "fakernic.h"
#include "fakernic-abi.h"

struct ibv_pd *fakernic_alloc_pd(struct ibv_context *context)
{
	struct fakernic_cmd_alloc_pd_resp resp = {};
	struct ibv_alloc_pd cmd = {};
	struct fakernic_pd *pd;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	errno = ibv_cmd_alloc_pd(context, &pd->pd, &cmd, sizeof(cmd),
				 &resp.ibv_resp, sizeof(resp));
	if (errno) {
		free(pd);
		return NULL;
	}
	pd->pdn = resp.pdn;
	return &pd->pd;
}

int fakernic_dealloc_pd(struct ibv_pd *ibpd)
{
	int err;

	err = ibv_cmd_dealloc_pd(ibpd);
	if (err)
		return err;
	free(container_of(ibpd, struct fakernic_pd, pd));
	return 0;
}
