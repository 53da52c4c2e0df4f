/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The link: a wire in shared memory between devices on one host, which takes
 * the place of a netdev. To QEMU's net layer it is a backend like any other:
 * captures, filters and set_link work on it.
 *
 * Each two members share two rings (ring.h). A frame goes to the member that
 * has sent from its destination's address, or to all. All under the big QEMU
 * lock.
 */
#ifndef FAKERNIC_LINK_LINK_H
#define FAKERNIC_LINK_LINK_H

#include "net/net.h"

typedef struct FakernicLink FakernicLink;

/*
 * Joins the link of a folder as the peer of a NIC that is to be made, in
 * 'conf'. NULL and an error where that cannot be.
 */
FakernicLink *fakernic_link_new(const char *path, const char *device_id,
                                NICConf *conf, Error **errp);

/* Behind qemu_del_nic(). */
void fakernic_link_free(FakernicLink *link);

/* Takes the frames that are there in now. */
void fakernic_link_look(FakernicLink *link);

/*
 * The guest polls and has found nothing: takes the frames that are there in
 * now, on this thread. As long as it does that often, nobody signals. True: a
 * peer that has frames does not get to take them, and may want this processor.
 */
bool fakernic_link_poll(FakernicLink *link);

#endif
