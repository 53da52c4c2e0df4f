/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes JSON: json.h.
 */
#include "qemu/osdep.h"
#include "json.h"

/* Writes a comma, unless this is the first of its array or object. */
void fakernic_json_next(GString *text)
{
    const char last = text->len ? text->str[text->len - 1] : '[';

    if (last != '{' && last != '[') {
        g_string_append_c(text, ',');
    }
}

static void fakernic_json_key(GString *text, const char *name)
{
    fakernic_json_next(text);
    g_string_append_printf(text, "\"%s\":", name);
}

void fakernic_json_begin(GString *text, const char *name, char bracket)
{
    if (name) {
        fakernic_json_key(text, name);
    } else {
        fakernic_json_next(text);
        g_string_append_c(text, '\n');
    }
    g_string_append_c(text, bracket);
}

void fakernic_json_end(GString *text, char bracket)
{
    g_string_append_c(text, bracket);
}

void fakernic_json_number(GString *text, const char *name, uint64_t value)
{
    fakernic_json_key(text, name);
    g_string_append_printf(text, "%" PRIu64, value);
}

void fakernic_json_bool(GString *text, const char *name, bool value)
{
    fakernic_json_key(text, name);
    g_string_append(text, value ? "true" : "false");
}

void fakernic_json_word(GString *text, const char *name, const char *value)
{
    fakernic_json_key(text, name);
    g_string_append_printf(text, "\"%s\"", value);
}

void fakernic_json_name(GString *text, const char *name,
                        const char *const *names, size_t count, unsigned value)
{
    fakernic_json_word(text, name,
                       value < count && names[value] ? names[value] : "?");
}

void fakernic_json_hex(GString *text, const char *name, const void *bytes,
                       size_t len, unsigned group)
{
    const uint8_t *byte = bytes;

    fakernic_json_key(text, name);
    g_string_append_c(text, '"');
    for (size_t i = 0; i < len; i++) {
        if (group && i && i % group == 0) {
            g_string_append_c(text, ':');
        }
        g_string_append_printf(text, "%02x", byte[i]);
    }
    g_string_append_c(text, '"');
}
