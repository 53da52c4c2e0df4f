/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Words of JSON, appended to a text. Names and values are the device's own, so
 * nothing is to be quoted.
 */
#ifndef FAKERNIC_DEVICE_JSON_H
#define FAKERNIC_DEVICE_JSON_H

/* A member of an object, or an element of an array, is next. */
void fakernic_json_next(GString *text);
/* An object, or array, as an element or, with a name, as a member. */
void fakernic_json_begin(GString *text, const char *name, char bracket);
/* The bracket that closes it. */
void fakernic_json_end(GString *text, char bracket);

/* A member: a number. */
void fakernic_json_number(GString *text, const char *name, uint64_t value);
/* A truth. */
void fakernic_json_bool(GString *text, const char *name, bool value);
/* A string. */
void fakernic_json_word(GString *text, const char *name, const char *value);
/* One of names[count], "?" if it has none. */
void fakernic_json_name(GString *text, const char *name,
                        const char *const *names, size_t count,
                        unsigned value);
/* Bytes as hexadecimal digits, with a separator behind each 'group', or 0. */
void fakernic_json_hex(GString *text, const char *name, const void *bytes,
                       size_t len, unsigned group);

#endif
