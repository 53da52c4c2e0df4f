// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads the device's text dumps in pieces, and provides a debugfs file for
 * fault rules. A write to the file goes to the device; a read returns the rules
 * and their hit counts.
 */
#include <linux/debugfs.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <fakernic/cmdq.h>
#include "cmd.h"
#include "device.h"
#include "dump.h"

#define FAKERNIC_DUMP_PIECE	16384U
/* More than the longest dump of any device. */
#define FAKERNIC_DUMP_MAX	SZ_1M
/* Room for all rules that a device accepts, or for its error message. */
#define FAKERNIC_FAULTS_SIZE	SZ_64K

static struct dentry *fakernic_dump_root;

/* A dump that is being read. */
struct fakernic_dumped {
	char *text;
	u32 size;			/* as first reported by the device */
	u32 done;
};

/* Reads the next piece. Returns 0 if more may follow, 1 at the end. */
static int fakernic_dump_piece(struct fakernic_dev *dev,
			       struct fakernic_dump_req *req, const void *piece,
			       struct fakernic_dumped *got)
{
	u32 size;
	int ret;

	req->first = cpu_to_le32(got->done);
	ret = fakernic_cmd_dump(dev, req, &size);
	if (ret < 0)
		return ret;
	if (!got->text) {
		if (size > FAKERNIC_DUMP_MAX)
			return -EMSGSIZE;
		got->text = kvzalloc(size + 1, GFP_KERNEL);
		if (!got->text)
			return -ENOMEM;
		got->size = size;
	}
	ret = min_t(u32, ret, got->size - got->done);
	memcpy(got->text + got->done, piece, ret);
	got->done += ret;
	return !ret || got->done == got->size;
}

static int fakernic_dump_read(struct fakernic_dev *dev,
			      struct fakernic_dump_req *req,
			      struct fakernic_dumped *got)
{
	struct device *device = &dev->pdev->dev;
	dma_addr_t dma;
	void *piece;
	int ret = 0;

	piece = dma_alloc_coherent(device, FAKERNIC_DUMP_PIECE, &dma,
				   GFP_KERNEL);
	if (!piece)
		return -ENOMEM;
	req->address = cpu_to_le64(dma);
	req->length = cpu_to_le32(FAKERNIC_DUMP_PIECE);
	while (!ret)
		ret = fakernic_dump_piece(dev, req, piece, got);
	dma_free_coherent(device, FAKERNIC_DUMP_PIECE, piece, dma);
	return min(ret, 0);
}

char *fakernic_dump_text(struct fakernic_dev *dev, u8 kind, u32 id)
{
	struct fakernic_dump_req req = {
		.id = cpu_to_le32(id),
		.kind = kind,
	};
	struct fakernic_dumped got = {};
	int ret;

	if (!(dev->features & FAKERNIC_FEATURE_DUMP))
		return ERR_PTR(-EOPNOTSUPP);
	mutex_lock(&dev->dump.lock);
	ret = fakernic_dump_read(dev, &req, &got);
	mutex_unlock(&dev->dump.lock);
	if (!ret)
		return got.text;
	kvfree(got.text);
	return ERR_PTR(ret);
}

/* Called once per open file; seq_file serves reads of any size from that. */
static int fakernic_faults_show(struct seq_file *m, void *unused)
{
	char *text = fakernic_dump_text(m->private, FAKERNIC_DUMP_FAULTS, 0);

	if (IS_ERR(text))
		return PTR_ERR(text);
	seq_puts(m, text);
	kvfree(text);
	return 0;
}

static int fakernic_faults_open(struct inode *inode, struct file *file)
{
	return single_open_size(file, fakernic_faults_show, inode->i_private,
				FAKERNIC_FAULTS_SIZE);
}

static ssize_t fakernic_faults_write(struct file *file, const char __user *from,
				     size_t count, loff_t *at)
{
	struct seq_file *m = file->private_data;
	char *rules;
	int ret;

	if (count > FAKERNIC_CMD_PAYLOAD)
		return -E2BIG;
	rules = memdup_user_nul(from, count);
	if (IS_ERR(rules))
		return PTR_ERR(rules);
	ret = fakernic_cmd_fault(m->private, rules);
	kfree(rules);
	return ret ? ret : count;
}

static const struct file_operations fakernic_faults_file = {
	.owner = THIS_MODULE,
	.open = fakernic_faults_open,
	.release = single_release,
	.read = seq_read,
	.write = fakernic_faults_write,
	.llseek = seq_lseek,
};

void fakernic_dump_init(struct fakernic_dev *dev)
{
	mutex_init(&dev->dump.lock);
	dev->dump.folder = NULL;
}

void fakernic_dump_add(struct fakernic_dev *dev)
{
	if (!(dev->features & FAKERNIC_FEATURE_FAULTS))
		return;
	dev->dump.folder = debugfs_create_dir(pci_name(dev->pdev),
					      fakernic_dump_root);
	debugfs_create_file("faults", 0600, dev->dump.folder, dev,
			    &fakernic_faults_file);
}

void fakernic_dump_remove(struct fakernic_dev *dev)
{
	debugfs_remove_recursive(dev->dump.folder);
	dev->dump.folder = NULL;
}

void fakernic_dump_root_add(void)
{
	fakernic_dump_root = debugfs_create_dir(FAKERNIC_NAME, NULL);
}

void fakernic_dump_root_remove(void)
{
	debugfs_remove_recursive(fakernic_dump_root);
}
