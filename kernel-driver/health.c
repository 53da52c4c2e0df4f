// SPDX-License-Identifier: GPL-2.0-only
/*
 * Health. The data path never reads from the device, so it cannot notice a
 * death. A slow poll therefore checks that the device is present, looks for
 * events whose interrupt was lost, and sometimes executes a command.
 *
 * fatal_work notifies the users of a dead device at once. recover_work reports
 * the death to devlink, which recovers the device unless its user disabled
 * that. The first attempt is immediate. While the device keeps dying or fails
 * to recover, the delay between attempts grows.
 *
 * devlink also reports the device's versions and reloads the driver. Its lock
 * is taken before life_lock.
 */
#include <linux/jiffies.h>
#include <linux/workqueue.h>
#include <net/devlink.h>
#include <fakernic/regs.h>
#include "compat/devlink.h"
#include "core/cmd.h"
#include "core/cmdq.h"
#include "core/device.h"
#include "core/dump.h"
#include "core/eq.h"
#include "core/explain.h"
#include "core/port.h"
#include "core/regs.h"
#include "net/netdev.h"
#include "rdma/cq.h"
#include "health.h"
#include "lifecycle.h"

#define FAKERNIC_POLL_PERIOD	(HZ / 2)
#define FAKERNIC_POLLS_PER_COMMAND	10
#define FAKERNIC_PAUSE_MAX_S	64
#define FAKERNIC_QUIESCED_PERIOD	HZ	/* check again while quiesced */
#define FAKERNIC_HEALTHY_S		60	/* after that, reset pause_s */
#define FAKERNIC_WAKES		3	/* repeated wake-ups of users */

/* Starts recover_work after 'delay' jiffies, unless recovery is stopped. */
static void fakernic_recover_in(struct fakernic_health *health,
				unsigned long delay)
{
	spin_lock(&health->lock);
	if (health->watched)
		mod_delayed_work(system_long_wq, &health->recover_work, delay);
	spin_unlock(&health->lock);
}

/*
 * Starts recover_work after the current pause. Sets devlink's state at once, so
 * that a user can see it and request a recovery earlier.
 */
static void fakernic_recover_later(struct fakernic_health *health)
{
	spin_lock(&health->lock);
	if (health->watched)
		queue_work(system_long_wq, &health->error_work);
	spin_unlock(&health->lock);
	fakernic_recover_in(health, health->pause_s * HZ);
}

/*
 * Notifies everything that waits for a dead device, which has already been
 * stopped. Runs again whenever a kernel user posts a request to a dead device,
 * because that request has to be flushed.
 */
static void fakernic_fatal_work(struct work_struct *work)
{
	struct fakernic_dev *dev =
		container_of(work, struct fakernic_dev, fatal_work);
	struct fakernic_health *health = &dev->health;

	fakernic_cqs_kick(dev);
	/* Already reported, or stopped by the driver itself. */
	if (READ_ONCE(dev->death_reported) ||
	    health->cause == FAKERNIC_DEATH_NONE)
		return;
	WRITE_ONCE(dev->death_reported, true);
	health->deaths++;
	dev_err(&dev->pdev->dev, "device is dead: %s%s%s\n",
		fakernic_death_name(health->cause),
		health->cause == FAKERNIC_DEATH_FATAL ? ": " : "",
		health->cause == FAKERNIC_DEATH_FATAL ?
			fakernic_fatal_name(health->fatal_code) : "");
	fakernic_port_end(dev);
	fakernic_cqs_wake_users(dev);
	WRITE_ONCE(health->wakes, FAKERNIC_WAKES);
	if (time_after(jiffies, health->up_since + FAKERNIC_HEALTHY_S * HZ))
		health->pause_s = 0;
	fakernic_recover_later(health);
}

static struct devlink_health_reporter *
fakernic_health_reporter(struct fakernic_health *health)
{
	switch (health->cause) {
	case FAKERNIC_DEATH_TIMEOUT:
	case FAKERNIC_DEATH_INVALID_ANSWER:
	case FAKERNIC_DEATH_NOT_RELEASED:
		return health->cmdq;
	default:
		return health->fatal;
	}
}

/* Sets the reporter of the cause and "fw" to the error state. */
static void fakernic_health_set_error(struct fakernic_health *health)
{
	const enum devlink_health_reporter_state error =
		DEVLINK_HEALTH_REPORTER_STATE_ERROR;

	devlink_health_reporter_state_update(fakernic_health_reporter(health),
					     error);
	devlink_health_reporter_state_update(health->fw, error);
}

/*
 * Sets the error state, unless the device is healthy again. devlink holds its
 * lock during a recovery and then sets the healthy state, although the device
 * may have died again. This work waits for the lock, so it sets the error state
 * afterwards. Otherwise devlink would ignore a user's request to recover.
 */
static void fakernic_error_work(struct work_struct *work)
{
	struct fakernic_health *health =
		container_of(work, struct fakernic_health, error_work);
	struct fakernic_dev *dev =
		container_of(health, struct fakernic_dev, health);

	devl_lock(health->devlink);
	mutex_lock(&dev->life_lock);
	if (READ_ONCE(dev->dead) && !READ_ONCE(dev->quiesced))
		fakernic_health_set_error(health);
	mutex_unlock(&dev->life_lock);
	devl_unlock(health->devlink);
}

static void fakernic_recover_work(struct work_struct *work)
{
	struct fakernic_health *health =
		container_of(work, struct fakernic_health, recover_work.work);
	struct fakernic_dev *dev =
		container_of(health, struct fakernic_dev, health);
	const enum devlink_health_reporter_state healthy =
		DEVLINK_HEALTH_REPORTER_STATE_HEALTHY;
	struct devlink_health_reporter *reporter =
		fakernic_health_reporter(health);

	/* error_work must not set the error state between the calls below. */
	flush_work(&health->error_work);
	if (!READ_ONCE(dev->dead))
		return;
	if (fakernic_hw_must_wait(dev)) {
		fakernic_recover_in(health, FAKERNIC_QUIESCED_PERIOD);
		return;
	}
	health->pause_s = clamp(2 * health->pause_s, 1U, FAKERNIC_PAUSE_MAX_S);
	/* devlink recovers only from reports made in the healthy state. */
	devlink_health_reporter_state_update(reporter, healthy);
	devlink_health_report(reporter, fakernic_death_name(health->cause),
			      dev);
	fakernic_hw_abandon(dev);
}

/*
 * A sleeping program may mistake the fatal event's wake-up for that of a CQE
 * and sleep again, so the wake-up is repeated. The number is bounded because
 * unread events use kernel memory.
 */
static void fakernic_wake_again(struct fakernic_dev *dev)
{
	struct fakernic_health *health = &dev->health;
	const unsigned int left = READ_ONCE(health->wakes);

	if (!left)
		return;
	WRITE_ONCE(health->wakes, left - 1);
	fakernic_cqs_wake_users(dev);
}

/* Skips the check while life_lock is taken: the device goes up or down. */
static void fakernic_poll_work(struct work_struct *work)
{
	struct fakernic_health *health =
		container_of(work, struct fakernic_health, poll_work.work);
	struct fakernic_dev *dev =
		container_of(health, struct fakernic_dev, health);
	bool lives = false;

	if (mutex_trylock(&dev->life_lock)) {
		lives = dev->up && !READ_ONCE(dev->dead) &&
			!fakernic_cmdq_check(dev);
		if (lives) {
			fakernic_eqs_check(dev);
			fakernic_netdev_check(dev);
		} else if (dev->up && READ_ONCE(dev->dead)) {
			fakernic_wake_again(dev);
		}
		mutex_unlock(&dev->life_lock);
	}
	/* A command that times out kills the device. */
	if (lives && ++health->polls % FAKERNIC_POLLS_PER_COMMAND == 0)
		fakernic_netdev_update_missed(dev);
	queue_delayed_work(system_long_wq, &health->poll_work,
			   FAKERNIC_POLL_PERIOD);
}

/*
 * Sets all reporters to the healthy state, unless the device has died again
 * since it came up.
 */
static void fakernic_health_set_healthy(struct fakernic_dev *dev)
{
	const enum devlink_health_reporter_state healthy =
		DEVLINK_HEALTH_REPORTER_STATE_HEALTHY;
	struct fakernic_health *health = &dev->health;

	mutex_lock(&dev->life_lock);
	if (!READ_ONCE(dev->dead)) {
		health->up_since = jiffies;
		devlink_health_reporter_state_update(health->fatal, healthy);
		devlink_health_reporter_state_update(health->cmdq, healthy);
		devlink_health_reporter_state_update(health->fw, healthy);
	}
	mutex_unlock(&dev->life_lock);
}

void fakernic_health_bus_error(struct fakernic_dev *dev)
{
	struct fakernic_health *health = &dev->health;

	/* No other code writes the cause while the device is down. */
	if (health->cause == FAKERNIC_DEATH_NONE)
		health->cause = FAKERNIC_DEATH_BUS;
	fakernic_health_set_error(health);
	fakernic_recover_in(health, FAKERNIC_QUIESCED_PERIOD);
}

void fakernic_health_update(struct fakernic_dev *dev, int ret)
{
	struct fakernic_health *health = &dev->health;

	if (!ret) {
		fakernic_health_set_healthy(dev);
		return;
	}
	dev_err(&dev->pdev->dev, "device does not come up: %d\n", ret);
	fakernic_health_set_error(health);
	fakernic_recover_later(health);
}

static int fakernic_health_recover(struct devlink_health_reporter *reporter,
				   void *context,
				   struct netlink_ext_ack *extack)
{
	struct fakernic_dev *dev = devlink_health_reporter_priv(reporter);
	struct fakernic_health *health = &dev->health;
	/* context is the report's; it is NULL if a user requests this. */
	int ret = fakernic_hw_recover(dev, !context);

	if (ret) {
		dev_err(&dev->pdev->dev,
			"device cannot be recovered: %d; next attempt in %u s\n",
			ret, health->pause_s);
		fakernic_recover_later(health);
		return ret;
	}
	fakernic_health_set_healthy(dev);
	health->recoveries++;
	dev_info(&dev->pdev->dev, "device is recovered\n");
	return 0;
}

static int fakernic_health_diagnose(struct devlink_health_reporter *reporter,
				    struct devlink_fmsg *msg,
				    struct netlink_ext_ack *extack)
{
	struct fakernic_dev *dev = devlink_health_reporter_priv(reporter);
	struct fakernic_health *health = &dev->health;
	bool dead = READ_ONCE(dev->dead);

	devlink_fmsg_string_pair_put(msg, "state", dead ? "dead" : "healthy");
	devlink_fmsg_string_pair_put(msg, "cause",
				     fakernic_death_name(health->cause));
	devlink_fmsg_u32_pair_put(msg, "deaths", health->deaths);
	devlink_fmsg_u32_pair_put(msg, "recoveries", health->recoveries);
	devlink_fmsg_u32_pair_put(msg, "status",
				  fakernic_read(dev, FAKERNIC_REG_STATUS));
	return 0;
}

/* Status and fatal code were saved at the death; MAGIC is read now. */
static int fakernic_fatal_dump(struct devlink_health_reporter *reporter,
			       struct devlink_fmsg *msg, void *context,
			       struct netlink_ext_ack *extack)
{
	struct fakernic_dev *dev = devlink_health_reporter_priv(reporter);
	struct fakernic_health *health = &dev->health;

	devlink_fmsg_string_pair_put(msg, "cause",
				     fakernic_death_name(health->cause));
	devlink_fmsg_u32_pair_put(msg, "status_at_death", health->status);
	devlink_fmsg_string_pair_put(msg, "fatal_code",
				     fakernic_fatal_name(health->fatal_code));
	devlink_fmsg_u32_pair_put(msg, "magic",
				  fakernic_read(dev, FAKERNIC_REG_MAGIC));
	devlink_fmsg_u32_pair_put(msg, "interface_version",
				  dev->interface_version);
	devlink_fmsg_u64_pair_put(msg, "features", dev->features);
	return 0;
}

static int fakernic_cmdq_dump(struct devlink_health_reporter *reporter,
			      struct devlink_fmsg *msg, void *context,
			      struct netlink_ext_ack *extack)
{
	struct fakernic_dev *dev = devlink_health_reporter_priv(reporter);
	struct fakernic_cmdq *cmdq = &dev->cmdq;

	devlink_fmsg_u32_pair_put(msg, "in_flight_at_death",
				  dev->health.in_flight);
	devlink_fmsg_u32_pair_put(msg, "producer", READ_ONCE(cmdq->pi));
	devlink_fmsg_u32_pair_put(msg, "consumer", READ_ONCE(cmdq->ci));
	devlink_fmsg_u32_pair_put(msg, "depth", 1U << cmdq->log_depth);
	devlink_fmsg_obj_nest_start(msg);
	devlink_fmsg_binary_pair_put(msg, "requests", cmdq->sq,
				     sizeof(*cmdq->sq) << cmdq->log_depth);
	devlink_fmsg_binary_pair_put(msg, "completions", cmdq->cq,
				     sizeof(*cmdq->cq) << cmdq->log_depth);
	devlink_fmsg_obj_nest_end(msg);
	return 0;
}

/*
 * devlink's lock must not be held without a time limit, so a device that does
 * not answer a NOP gets no other command. On a dead device the NOP fails at
 * once and so do later commands.
 */
static int fakernic_health_answers(struct fakernic_dev *dev,
				   struct netlink_ext_ack *extack)
{
	if (fakernic_cmd_ping(dev) != -ETIMEDOUT)
		return 0;
	NL_SET_ERR_MSG(extack, "the device does not answer");
	return -ETIMEDOUT;
}

/* The device's recorder: its last events or those before its first error. */
static int fakernic_fw_dump(struct devlink_health_reporter *reporter,
			    struct devlink_fmsg *msg, void *context,
			    struct netlink_ext_ack *extack)
{
	struct fakernic_dev *dev = devlink_health_reporter_priv(reporter);
	char *text, *rest, *line;
	int ret = fakernic_health_answers(dev, extack);

	if (ret)
		return ret;
	text = fakernic_dump_text(dev, FAKERNIC_DUMP_RECORDER, 0);
	rest = text;
	if (IS_ERR(text)) {
		NL_SET_ERR_MSG(extack, "the device returned no dump");
		return PTR_ERR(text);
	}
	devlink_fmsg_arr_pair_nest_start(msg, "events");
	while ((line = strsep(&rest, "\n")))
		if (*line)
			devlink_fmsg_string_put(msg, line);
	devlink_fmsg_arr_pair_nest_end(msg);
	kvfree(text);
	return 0;
}

/* Adds a fault rule that kills the device, which the poll then detects. */
static int fakernic_fw_test(struct devlink_health_reporter *reporter,
			    struct netlink_ext_ack *extack)
{
	struct fakernic_dev *dev = devlink_health_reporter_priv(reporter);
	const char *rule = "id=devlink-test at=device do=fatal";
	bool dead = READ_ONCE(dev->dead);
	int ret;

	if (!(dev->features & FAKERNIC_FEATURE_FAULTS)) {
		NL_SET_ERR_MSG(extack, "the device does not accept fault rules");
		return -EOPNOTSUPP;
	}
	ret = fakernic_health_answers(dev, extack);
	if (ret)
		return ret;
	ret = fakernic_cmd_fault(dev, rule);
	/* The rule of an earlier test survives a reset: remove it first. */
	if (ret == -EINVAL && !fakernic_cmd_fault(dev, "remove=devlink-test"))
		ret = fakernic_cmd_fault(dev, rule);
	/* The fatal interrupt may arrive before the command's completion. */
	return ret == -EIO && !dead ? 0 : ret;
}

static const struct devlink_health_reporter_ops fakernic_fatal_reporter = {
	.name = "fw_fatal",
	.recover = fakernic_health_recover,
	.diagnose = fakernic_health_diagnose,
	.dump = fakernic_fatal_dump,
};

static const struct devlink_health_reporter_ops fakernic_cmdq_reporter = {
	.name = "cmdq",
	.recover = fakernic_health_recover,
	.diagnose = fakernic_health_diagnose,
	.dump = fakernic_cmdq_dump,
};

static const struct devlink_health_reporter_ops fakernic_fw_reporter = {
	.name = "fw",
	.recover = fakernic_health_recover,
	.diagnose = fakernic_health_diagnose,
	.dump = fakernic_fw_dump,
	.test = fakernic_fw_test,
};

static int fakernic_devlink_info(struct devlink *devlink,
				 struct devlink_info_req *req,
				 struct netlink_ext_ack *extack)
{
	struct fakernic_dev *dev = fakernic_devlink_dev(devlink);
	u32 fw = dev->fw_version;
	const char *word;
	char text[32];
	int ret;

	ret = fakernic_devlink_driver_name(req);
	if (ret)
		return ret;
	snprintf(text, sizeof(text), "%pm", dev->netdev->perm_addr);
	ret = devlink_info_serial_number_put(req, text);
	if (ret)
		return ret;
	snprintf(text, sizeof(text), "%#x", dev->pdev->revision);
	word = DEVLINK_INFO_VERSION_GENERIC_BOARD_REV;
	ret = devlink_info_version_fixed_put(req, word, text);
	if (ret)
		return ret;
	snprintf(text, sizeof(text), "%u.%u.%u", fw >> 24, fw >> 16 & 0xff,
		 fw & 0xffff);
	word = DEVLINK_INFO_VERSION_GENERIC_FW;
	ret = devlink_info_version_running_put(req, word, text);
	if (ret)
		return ret;
	snprintf(text, sizeof(text), "%u.%u", dev->interface_version >> 16,
		 dev->interface_version & 0xffff);
	return devlink_info_version_running_put(req, "interface", text);
}

static int fakernic_reload_down(struct devlink *devlink, bool netns_change,
				enum devlink_reload_action action,
				enum devlink_reload_limit limit,
				struct netlink_ext_ack *extack)
{
	if (netns_change) {
		NL_SET_ERR_MSG(extack, "the network namespace cannot be changed");
		return -EOPNOTSUPP;
	}
	fakernic_hw_quiesce(fakernic_devlink_dev(devlink),
			    FAKERNIC_QUIESCE_RELOAD, true);
	return 0;
}

static int fakernic_reload_up(struct devlink *devlink,
			      enum devlink_reload_action action,
			      enum devlink_reload_limit limit,
			      u32 *actions_performed,
			      struct netlink_ext_ack *extack)
{
	struct fakernic_dev *dev = fakernic_devlink_dev(devlink);
	int ret;

	ret = fakernic_hw_resume(dev, FAKERNIC_QUIESCE_RELOAD);
	if (ret == -EBUSY) {
		NL_SET_ERR_MSG(extack, "the device is being reset");
		return ret;
	}
	*actions_performed = BIT(DEVLINK_RELOAD_ACTION_DRIVER_REINIT);
	/* A reload by the user restarts the sequence of pauses. */
	dev->health.pause_s = 0;
	fakernic_health_update(dev, ret);
	return ret;
}

static const struct devlink_ops fakernic_devlink_ops = {
	.info_get = fakernic_devlink_info,
	.reload_actions = BIT(DEVLINK_RELOAD_ACTION_DRIVER_REINIT),
	.reload_down = fakernic_reload_down,
	.reload_up = fakernic_reload_up,
};

int fakernic_health_init(struct fakernic_dev *dev)
{
	struct fakernic_health *health = &dev->health;

	spin_lock_init(&health->lock);
	INIT_WORK(&dev->fatal_work, fakernic_fatal_work);
	INIT_WORK(&health->error_work, fakernic_error_work);
	INIT_DELAYED_WORK(&health->poll_work, fakernic_poll_work);
	INIT_DELAYED_WORK(&health->recover_work, fakernic_recover_work);
	health->up_since = jiffies;
	dev->fatal_wq = alloc_workqueue("fakernic-%s",
					WQ_UNBOUND | WQ_MEM_RECLAIM, 0,
					pci_name(dev->pdev));
	if (!dev->fatal_wq)
		return -ENOMEM;
	health->devlink = devlink_alloc(&fakernic_devlink_ops,
					sizeof(struct fakernic_dev *),
					&dev->pdev->dev);
	if (!health->devlink) {
		destroy_workqueue(dev->fatal_wq);
		return -ENOMEM;
	}
	*(struct fakernic_dev **)devlink_priv(health->devlink) = dev;
	fakernic_devlink_can_reload(health->devlink);
	health->fatal = fakernic_reporter_create(health->devlink,
						 &fakernic_fatal_reporter, dev);
	health->cmdq = fakernic_reporter_create(health->devlink,
						&fakernic_cmdq_reporter, dev);
	health->fw = fakernic_reporter_create(health->devlink,
					      &fakernic_fw_reporter, dev);
	if (!IS_ERR(health->fatal) && !IS_ERR(health->cmdq) &&
	    !IS_ERR(health->fw))
		return 0;
	fakernic_health_cleanup(dev);
	return -ENOMEM;
}

void fakernic_health_cleanup(struct fakernic_dev *dev)
{
	struct fakernic_health *health = &dev->health;

	if (!IS_ERR(health->fatal))
		devlink_health_reporter_destroy(health->fatal);
	if (!IS_ERR(health->cmdq))
		devlink_health_reporter_destroy(health->cmdq);
	if (!IS_ERR(health->fw))
		devlink_health_reporter_destroy(health->fw);
	devlink_free(health->devlink);
	destroy_workqueue(dev->fatal_wq);
}

static void fakernic_health_watch(struct fakernic_health *health, bool watch)
{
	spin_lock(&health->lock);
	health->watched = watch;
	spin_unlock(&health->lock);
}

void fakernic_health_start(struct fakernic_dev *dev)
{
	struct fakernic_health *health = &dev->health;

	devlink_register(health->devlink);
	fakernic_health_watch(health, true);
	queue_delayed_work(system_long_wq, &health->poll_work,
			   FAKERNIC_POLL_PERIOD);
	/* A death before this point has not scheduled a recovery. */
	if (READ_ONCE(dev->dead))
		fakernic_recover_later(health);
}

void fakernic_health_disable(struct fakernic_dev *dev)
{
	fakernic_health_watch(&dev->health, false);
	cancel_delayed_work_sync(&dev->health.poll_work);
	cancel_delayed_work_sync(&dev->health.recover_work);
	cancel_work_sync(&dev->health.error_work);
}

void fakernic_health_stop(struct fakernic_dev *dev)
{
	/* First, as reports require that devlink is registered. */
	fakernic_health_disable(dev);
	devlink_unregister(dev->health.devlink);
}
