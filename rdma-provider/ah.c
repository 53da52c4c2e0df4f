/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Address handles (IBTA 10.2.2). The kernel resolves the next hop's MAC from
 * the destination GID. The provider keeps the complete address vector, which
 * every UD send copies into its WQE.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/driver.h>

#include "ah.h"
#include "context.h"
#include "fakernic-abi.h"

static bool fakernic_is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, 0xff };

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

/*
 * Returns err, for an address that the kernel refused. The kernel's core
 * refuses addresses before the driver sees them, and uses one errno value for
 * many reasons.
 */
int fakernic_refuse_address(struct ibv_context *ibctx,
			    const struct ibv_ah_attr *attr, int err)
{
	struct fakernic_context *context = fakernic_to_context(ibctx);
	char dgid[INET6_ADDRSTRLEN];
	struct ibv_gid_entry entry;

	if (!attr->is_global)
		return fakernic_refuse(context, err,
				       "address without GRH: RoCE needs one (is_global)\n");
	if (ibv_query_gid_ex(ibctx, attr->port_num, attr->grh.sgid_index,
			     &entry, 0))
		return fakernic_refuse(context, err,
				       "port %u has no GID of index %u\n",
				       attr->port_num, attr->grh.sgid_index);
	inet_ntop(AF_INET6, attr->grh.dgid.raw, dgid, sizeof(dgid));
	if (fakernic_is_ipv4(&entry.gid) != fakernic_is_ipv4(&attr->grh.dgid))
		return fakernic_refuse(context, err,
				       "GID index %u is %s, the destination %s is not\n",
				       attr->grh.sgid_index,
				       fakernic_is_ipv4(&entry.gid) ? "IPv4" :
								      "IPv6",
				       dgid);
	return fakernic_refuse(context, err,
			       "destination %s from GID index %u: %s\n", dgid,
			       attr->grh.sgid_index, strerror(err));
}

struct ibv_ah *fakernic_ucreate_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct fakernic_cmd_create_ah_resp resp = {};
	struct fakernic_ah *ah;

	/* RoCE always has a GRH (IBTA A16.5.1). */
	if (!attr->is_global) {
		errno = fakernic_refuse_address(pd->context, attr, EINVAL);
		return NULL;
	}
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	errno = ibv_cmd_create_ah(pd, &ah->ah, attr, &resp.ibv_resp,
				  sizeof(resp));
	if (errno) {
		errno = fakernic_refuse_address(pd->context, attr, errno);
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

int fakernic_udestroy_ah(struct ibv_ah *ibah)
{
	int err;

	err = ibv_cmd_destroy_ah(ibah);
	if (err)
		return err;
	free(fakernic_to_ah(ibah));
	return 0;
}
