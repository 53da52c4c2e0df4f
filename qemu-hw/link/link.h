/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The link: a wire in shared memory between devices on one host, used instead
 * of a netdev. To QEMU's net layer it is a backend like any other: captures,
 * filters and set_link work on it.
 *
 * Each pair of members shares two rings (ring.h). A frame goes to the member
 * that has sent from the destination address, as in a switch; an unknown
 * address is flooded. All functions need the big QEMU lock.
 */
#ifndef FAKERNIC_LINK_LINK_H
#define FAKERNIC_LINK_LINK_H

#include "net/net.h"

typedef struct FakernicLink FakernicLink;

/*
 * Joins the link of a folder, and puts it into 'conf' as the backend of a NIC
 * that the caller creates later. NULL: 'errp' has the error.
 */
FakernicLink *fakernic_link_new(const char *path, const char *device_id,
                                NICConf *conf, Error **errp);

/* Leaves the link; called after qemu_del_nic(). */
void fakernic_link_free(FakernicLink *link);

/* Receives the frames that wait in the rings. */
void fakernic_link_look(FakernicLink *link);

/*
 * The guest's poll was empty: receives the frames that wait, on this thread.
 * While the guest polls often, peers need not signal. True: a peer does not
 * take frames that wait for it, and may need this host CPU.
 */
bool fakernic_link_poll(FakernicLink *link);

#endif
