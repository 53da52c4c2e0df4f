/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Requests of user space, and responses to it.
 */
#ifndef FAKERNIC_DRIVER_UDATA_H
#define FAKERNIC_DRIVER_UDATA_H

#include <linux/types.h>

struct fakernic_dev;
struct ib_udata;

/*
 * Copies a request of the uverbs ABI into the size bytes of ureq. -EINVAL: it
 * is shorter. -EOPNOTSUPP: bytes beyond size are not zero. -EFAULT. The caller
 * checks reserved fields.
 */
int fakernic_copy_ureq(struct fakernic_dev *dev, void *ureq, size_t size,
		       struct ib_udata *udata);

/*
 * For verbs without a driver request in the ABI. -EOPNOTSUPP: there is one that
 * is not zero. udata may be NULL: a kernel user.
 */
int fakernic_check_no_ureq(struct fakernic_dev *dev, struct ib_udata *udata);

/* Copies as much of a response as the user requested. -EFAULT. */
int fakernic_copy_uresp(struct ib_udata *udata, void *uresp, size_t size);

#endif
