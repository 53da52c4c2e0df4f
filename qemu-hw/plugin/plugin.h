/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The interface between the loader and the device of the plug-in.
 */
#ifndef FAKERNIC_PLUGIN_H
#define FAKERNIC_PLUGIN_H

/* const char *fakernic_plugin_built_for(void): the build id, in hex, of the
 * QEMU that this device was built for. */
#define FAKERNIC_PLUGIN_BUILT_FOR "fakernic_plugin_built_for"

const char *fakernic_plugin_built_for(void);

/* const char *fakernic_plugin_made_of(void): the id of the device's sources,
 * which must be that of the loader. */
#define FAKERNIC_PLUGIN_MADE_OF "fakernic_plugin_made_of"

const char *fakernic_plugin_made_of(void);

#endif
