// SPDX-License-Identifier: GPL-2.0-only
/*
 * Protection domains and XRC domains (IBTA 10.2.3, annex A14): numbers from the
 * device. The provider learns the numbers of protection domains; it does not
 * need those of XRC domains.
 */
#include <fakernic/cmdq.h>
#include <rdma/fakernic-abi.h>
#include "../core/cmd.h"
#include "../core/device.h"
#include "pd.h"
#include "udata.h"

int fakernic_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibpd->device);
	struct fakernic_uresp_alloc_pd uresp = {};
	struct fakernic_pd *pd = to_fakernic_pd(ibpd);
	int ret;

	ret = fakernic_check_no_ureq(dev, udata);
	if (ret)
		return ret;
	init_rwsem(&pd->windows_lock);
	ret = fakernic_cmd_alloc(dev, FAKERNIC_CMD_ALLOC_PD, &pd->pdn);
	if (ret || !udata)
		return ret;
	uresp.pdn = pd->pdn;
	ret = fakernic_copy_uresp(udata, &uresp, sizeof(uresp));
	if (ret)
		fakernic_cmd_drop(dev, FAKERNIC_CMD_DEALLOC_PD, pd->pdn);
	return ret;
}

int fakernic_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibpd->device);

	fakernic_cmd_drop(dev, FAKERNIC_CMD_DEALLOC_PD,
			  to_fakernic_pd(ibpd)->pdn);
	return 0;
}

int fakernic_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibxrcd->device);
	int ret;

	ret = fakernic_check_no_ureq(dev, udata);
	if (ret)
		return ret;
	return fakernic_cmd_alloc(dev, FAKERNIC_CMD_ALLOC_XRCD,
				  &to_fakernic_xrcd(ibxrcd)->xrcdn);
}

int fakernic_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	fakernic_cmd_drop(to_fakernic_dev(ibxrcd->device),
			  FAKERNIC_CMD_DEALLOC_XRCD,
			  to_fakernic_xrcd(ibxrcd)->xrcdn);
	return 0;
}
