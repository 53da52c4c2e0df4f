// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protection domains: a number from the device, told to the provider.
 */
#include "fakernic.h"

int fakernic_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibpd->device);
	struct fakernic_uresp_alloc_pd uresp = {};
	struct fakernic_pd *pd = to_fakernic_pd(ibpd);
	int ret;

	ret = fakernic_cmd_alloc(dev, FAKERNIC_CMD_ALLOC_PD, &pd->pdn);
	if (ret || !udata)
		return ret;
	uresp.pdn = pd->pdn;
	ret = ib_copy_to_udata(udata, &uresp,
			       min(sizeof(uresp), udata->outlen));
	if (ret)
		fakernic_cmd_free(dev, FAKERNIC_CMD_DEALLOC_PD, pd->pdn);
	return ret;
}

int fakernic_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	return fakernic_cmd_free(to_fakernic_dev(ibpd->device),
				 FAKERNIC_CMD_DEALLOC_PD,
				 to_fakernic_pd(ibpd)->pdn);
}
