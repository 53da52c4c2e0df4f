// SPDX-License-Identifier: GPL-2.0-only
/*
 * Requests and responses of the uverbs ABI (rdma/fakernic-abi.h). Their
 * structures grow at the end. What a newer provider appends to a request must
 * be zero, and an older provider gets only the part of a response that it
 * requests.
 */
#include "../core/device.h"
#include "udata.h"

int fakernic_copy_ureq(struct fakernic_dev *dev, void *ureq, size_t size,
		       struct ib_udata *udata)
{
	if (udata->inlen < size) {
		fakernic_dbg(dev, "request of %zu bytes, %zu needed\n",
			     udata->inlen, size);
		return -EINVAL;
	}
	if (udata->inlen > size &&
	    !ib_is_udata_cleared(udata, size, udata->inlen - size)) {
		fakernic_dbg(dev,
			     "request of %zu bytes is not zero after byte %zu\n",
			     udata->inlen, size);
		return -EOPNOTSUPP;
	}
	return ib_copy_from_udata(ureq, udata, size);
}

int fakernic_check_no_ureq(struct fakernic_dev *dev, struct ib_udata *udata)
{
	if (!udata || !udata->inlen ||
	    ib_is_udata_cleared(udata, 0, udata->inlen))
		return 0;
	fakernic_dbg(dev, "request of %zu bytes, none expected\n",
		     udata->inlen);
	return -EOPNOTSUPP;
}

int fakernic_copy_uresp(struct ib_udata *udata, void *uresp, size_t size)
{
	return ib_copy_to_udata(udata, uresp, min(size, udata->outlen));
}
