/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Appends JSON to a text. The device itself defines all names and values, so no
 * character needs an escape.
 */
#ifndef FAKERNIC_DEVICE_WATCH_JSON_H
#define FAKERNIC_DEVICE_WATCH_JSON_H

/* Begins the next member of an object or element of an array. */
void fakernic_json_next(GString *text);
/* Opens an object or array: an element or, with a name, a member. */
void fakernic_json_begin(GString *text, const char *name, char bracket);
/* Closes an object or array by this bracket. */
void fakernic_json_end(GString *text, char bracket);

/* Writes a number as a member. */
void fakernic_json_number(GString *text, const char *name, uint64_t value);
/* Writes true or false. */
void fakernic_json_bool(GString *text, const char *name, bool value);
/* Writes a string. */
void fakernic_json_word(GString *text, const char *name, const char *value);
/* Writes one of names[count] as a string, or "?" if it has no name. */
void fakernic_json_name(GString *text, const char *name,
                        const char *const *names, size_t count,
                        unsigned value);
/* Writes hexadecimal digits, with a separator after each 'group' unless 0. */
void fakernic_json_hex(GString *text, const char *name, const void *bytes,
                       size_t len, unsigned group);

#endif
