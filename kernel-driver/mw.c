// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory windows: the kernel only has the device make and forget them. Binding
 * is a send work request (IBTA 10.6.7), which the provider posts; with it the
 * low byte of the rkey changes.
 */
#include <fakernic/mr.h>
#include "device.h"
#include "hw.h"
#include "mw.h"
#include "pd.h"
#include "ureq.h"

int fakernic_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct fakernic_dev *dev = to_fakernic_dev(ibmw->device);
	u8 type = ibmw->type == IB_MW_TYPE_1 ? FAKERNIC_MW_TYPE_1 :
					       FAKERNIC_MW_TYPE_2B;
	int ret;

	ret = fakernic_check_no_ureq(dev, udata);
	if (ret)
		return ret;
	return fakernic_mw_hw_create(dev, to_fakernic_pd(ibmw->pd)->pdn, type,
				     &ibmw->rkey);
}

int fakernic_dealloc_mw(struct ib_mw *ibmw)
{
	fakernic_mw_hw_drop(to_fakernic_dev(ibmw->device), ibmw->rkey);
	return 0;
}
