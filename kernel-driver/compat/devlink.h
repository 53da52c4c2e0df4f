/* SPDX-License-Identifier: GPL-2.0-only */
/* devlink adapters for older kernels, used by health.c. */
#ifndef FAKERNIC_DRIVER_COMPAT_DEVLINK_H
#define FAKERNIC_DRIVER_COMPAT_DEVLINK_H

#include <net/devlink.h>
#include "../core/device.h"

static inline struct fakernic_dev *fakernic_devlink_dev(struct devlink *devlink)
{
	return *(struct fakernic_dev **)devlink_priv(devlink);
}

/* Newer kernels report the driver's name themselves. */
static inline int fakernic_devlink_driver_name(struct devlink_info_req *req)
{
#ifdef FAKERNIC_HAVE_DRIVER_NAME_PUT
	return devlink_info_driver_name_put(req, FAKERNIC_NAME);
#else
	return 0;
#endif
}

/* Newer kernels derive this from the operations. */
static inline void fakernic_devlink_can_reload(struct devlink *devlink)
{
#ifdef FAKERNIC_HAVE_DEVLINK_SET_FEATURES
	devlink_set_features(devlink, DEVLINK_F_RELOAD);
#endif
}

/* No grace period in devlink: health.c delays recoveries itself. */
static inline struct devlink_health_reporter *
fakernic_reporter_create(struct devlink *devlink,
			 const struct devlink_health_reporter_ops *ops,
			 struct fakernic_dev *dev)
{
#ifdef FAKERNIC_HAVE_DEFAULT_GRACEFUL_PERIOD
	return devlink_health_reporter_create(devlink, ops, dev);
#else
	return devlink_health_reporter_create(devlink, ops, 0, dev);
#endif
}

#endif
