/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Address handles (IBTA 10.2.2): the kernel resolves the next hop's MAC from
 * the destination GID; the provider keeps the finished address vector, which
 * every UD send copies into its WQE.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fakernic.h"
#include "fakernic-abi.h"

struct ibv_ah *fakernic_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct fakernic_cmd_create_ah_resp resp = {};
	struct fakernic_ah *ah;

	/* RoCE always has a GRH (IBTA A16.5.1). */
	if (!attr->is_global) {
		errno = fakernic_refuse(fakernic_to_context(pd->context),
					EINVAL, "address handle without GRH\n");
		return NULL;
	}
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	errno = ibv_cmd_create_ah(pd, &ah->ah, attr, &resp.ibv_resp,
				  sizeof(resp));
	if (errno) {
		free(ah);
		return NULL;
	}
	memcpy(ah->av.dgid, attr->grh.dgid.raw, sizeof(ah->av.dgid));
	memcpy(ah->av.dmac, resp.dmac, sizeof(ah->av.dmac));
	ah->av.sgid_index = htole16(attr->grh.sgid_index);
	ah->av.flow_label = htole32(attr->grh.flow_label & 0xfffff);
	ah->av.traffic_class = attr->grh.traffic_class;
	ah->av.hop_limit = attr->grh.hop_limit;
	ah->av.sl = attr->sl & 7;
	ah->av.static_rate = attr->static_rate;
	ah->av.udp_sport = htole16(resp.udp_sport);
	return &ah->ah;
}

int fakernic_destroy_ah(struct ibv_ah *ibah)
{
	int err;

	err = ibv_cmd_destroy_ah(ibah);
	if (err)
		return err;
	free(fakernic_to_ah(ibah));
	return 0;
}
