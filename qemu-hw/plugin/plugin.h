/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What loader and device of the plug-in know of each other.
 */
#ifndef FAKERNIC_PLUGIN_H
#define FAKERNIC_PLUGIN_H

/* const char *fakernic_plugin_built_for(void): the build id, in hex, of the
 * QEMU that this device was built for. */
#define FAKERNIC_PLUGIN_BUILT_FOR "fakernic_plugin_built_for"

const char *fakernic_plugin_built_for(void);

/* const char *fakernic_plugin_made_of(void): what the device's sources were;
 * the loader was made of the same. */
#define FAKERNIC_PLUGIN_MADE_OF "fakernic_plugin_made_of"

const char *fakernic_plugin_made_of(void);

#endif
