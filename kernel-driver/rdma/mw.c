// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory windows. The driver only creates and destroys them in the device. The
 * provider binds a window by a send work request (IBTA 10.6.7), which changes
 * the low byte of the rkey.
 */
#include <fakernic/mr.h>
#include "../core/device.h"
#include "../core/object.h"
#include "mw.h"
#include "pd.h"
#include "udata.h"

int fakernic_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibmw->device);
	struct fakernic_pd *pd = to_fakernic_pd(ibmw->pd);
	u8 type = ibmw->type == IB_MW_TYPE_1 ? FAKERNIC_MW_TYPE_1 :
					       FAKERNIC_MW_TYPE_2B;
	int ret;

	ret = fakernic_check_no_ureq(dev, udata);
	if (ret)
		return ret;
	down_read(&pd->windows_lock);
	ret = fakernic_mw_hw_create(dev, pd->pdn, type, &ibmw->rkey);
	if (!ret)
		atomic_inc(&pd->windows);
	up_read(&pd->windows_lock);
	return ret;
}

int fakernic_dealloc_mw(struct ib_mw *ibmw)
{
	struct fakernic_pd *pd = to_fakernic_pd(ibmw->pd);

	down_read(&pd->windows_lock);
	fakernic_mw_hw_drop(to_fakernic_dev(ibmw->device), ibmw->rkey);
	atomic_dec(&pd->windows);
	up_read(&pd->windows_lock);
	return 0;
}
