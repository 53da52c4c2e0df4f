/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The library that the dynamic linker preloads into QEMU. It identifies QEMU by
 * its build id and loads the device that was built for it, before QEMU's main()
 * runs. If there is none, it prints an error line and ends the process.
 *
 * This file uses nothing of QEMU, so that it works in any program.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin.h"
#include "source-id.h"

#define ID_BYTES_MAX    64
#define PLACES          3

static const char variable[] = "LD_PRELOAD";

__attribute__((noreturn, format(printf, 1, 2)))
static void refuse(const char *format, ...)
{
    va_list args;

    fputs("fakernic: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    _exit(1);
}

/* ---- the build id of this program ------------------------------------ */

/* Finds the build id in the notes of a segment, in hex; false: none. */
static bool note_to_id(const char *note, size_t size, char *id)
{
    while (size >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *head = (const void *)note;
        size_t name = (head->n_namesz + 3UL) & ~3UL;
        size_t data = (head->n_descsz + 3UL) & ~3UL;
        const char *bytes = note + sizeof(*head) + name;

        if (name + data > size - sizeof(*head)) {
            return false;
        }
        if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 &&
            !memcmp(note + sizeof(*head), "GNU", 4) &&
            head->n_descsz <= ID_BYTES_MAX) {
            for (unsigned i = 0; i < head->n_descsz; i++) {
                sprintf(id + 2 * i, "%02x", (unsigned char)bytes[i]);
            }
            return true;
        }
        note = bytes + data;
        size -= sizeof(*head) + name + data;
    }
    return false;
}

/* Callback of dl_iterate_phdr(), which begins with the program itself. */
static int program_id(struct dl_phdr_info *info, size_t unused, void *id)
{
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

        if (segment->p_type == PT_NOTE &&
            note_to_id((const char *)info->dlpi_addr + segment->p_vaddr,
                       segment->p_memsz, id)) {
            break;
        }
    }
    return 1;
}

/* ---- the file of its device ------------------------------------------ */

static bool is_mine(const struct stat *node)
{
    return node->st_uid == 0 || node->st_uid == geteuid();
}

/*
 * True: no other user can replace a file in this folder. In a sticky folder
 * users can replace only their own files. A group with the number of the
 * folder's owner counts as the owner's private group.
 */
static bool is_closed(const struct stat *folder)
{
    return is_mine(folder) &&
           (folder->st_mode & S_ISVTX || !(folder->st_mode & S_IWOTH)) &&
           (folder->st_mode & S_ISVTX || !(folder->st_mode & S_IWGRP) ||
            folder->st_gid == folder->st_uid);
}

/*
 * True: the file belongs to root or to the user of this process, and no other
 * user can write or replace it. The path must have no symbolic links.
 */
static bool is_trusted(const char *path)
{
    char folder[PATH_MAX];
    struct stat node;

    if (stat(path, &node) || !S_ISREG(node.st_mode) || !is_mine(&node) ||
        node.st_mode & (S_IWGRP | S_IWOTH)) {
        return false;
    }
    strcpy(folder, path);
    for (char *slash; (slash = strrchr(folder, '/'));) {
        *slash = '\0';
        if (stat(*folder ? folder : "/", &node) || !is_closed(&node)) {
            return false;
        }
    }
    return true;
}

__attribute__((format(printf, 2, 3)))
static bool path_is_there(char *path, const char *format, ...)
{
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(path, PATH_MAX, format, args);
    va_end(args);
    return length < PATH_MAX && !access(path, F_OK);
}

/*
 * True: the file contains the source id of this library. It is read and not
 * loaded, because a loaded device has registered its types with QEMU and cannot
 * be unloaded.
 */
static bool is_made_of_the_same(const char *path)
{
    static const char wanted[] = FAKERNIC_PLUGIN_SOURCE_ID;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *data = MAP_FAILED;
    struct stat node;
    bool found;

    if (fd >= 0 && !fstat(fd, &node) && node.st_size > 0) {
        data = mmap(NULL, node.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (fd >= 0) {
        close(fd);
    }
    if (data == MAP_FAILED) {
        return false;
    }
    found = memmem(data, node.st_size, wanted, sizeof(wanted) - 1);
    munmap(data, node.st_size);
    return found;
}

/* Looks next to this library, or where an unprivileged user builds one. */
static bool device_is_at(unsigned place, const char *own, const char *id,
                         char *path)
{
    const char *data = secure_getenv("XDG_DATA_HOME");
    const char *home = secure_getenv("HOME");

    switch (place) {
    case 0:
        return path_is_there(path, "%.*s/qemu/%s.so",
                             (int)(strrchr(own, '/') - own), own, id);
    case 1:
        return data && *data == '/' &&
               path_is_there(path, "%s/fakernic/qemu/%s.so", data, id);
    default:
        return home && *home == '/' &&
               path_is_there(path, "%s/.local/share/fakernic/qemu/%s.so", home,
                             id);
    }
}

/*
 * Finds the first device that fits, so that one of an earlier release does not
 * hide it. If none fits, returns the first one found, and the caller reports
 * why it is refused.
 */
static bool find_device(const char *own, const char *id, char *path)
{
    char there[PATH_MAX], real[PATH_MAX];
    bool any = false;

    for (unsigned place = 0; place < PLACES; place++) {
        bool fits;

        if (!device_is_at(place, own, id, there)) {
            continue;
        }
        fits = realpath(there, real) && is_trusted(real) &&
               is_made_of_the_same(real);
        if (fits || !any) {
            strcpy(path, there);
        }
        if (fits) {
            return true;
        }
        any = true;
    }
    return any;
}

/* ---- child processes --------------------------------------------------- */

/* Removes this library from the list of preloaded ones. */
static void leave_children_alone(const char *own)
{
    const char *list = getenv(variable);
    char *rest, *end, *copy, *word, *state = NULL;

    if (!list) {
        return;
    }
    copy = strdup(list);
    end = rest = calloc(1, strlen(list) + 1);
    if (!copy || !rest) {
        refuse("out of memory");
    }
    for (word = strtok_r(copy, ": ", &state); word;
         word = strtok_r(NULL, ": ", &state)) {
        if (strcmp(word, own)) {
            end += sprintf(end, "%s%s", end == rest ? "" : ":", word);
        }
    }
    if (*rest) {
        setenv(variable, rest, 1);
    } else {
        unsetenv(variable);
    }
    free(copy);
    free(rest);
}

/* ---------------------------------------------------------------------- */

/* Calls the device's function of this name, which returns a string. */
static const char *ask(void *device, const char *name)
{
    const char *(*answer)(void) = (const char *(*)(void))dlsym(device, name);

    return answer ? answer() : "missing";
}

__attribute__((constructor))
static void fakernic_plugin_load(void)
{
    char id[2 * ID_BYTES_MAX + 1] = "", found[PATH_MAX], path[PATH_MAX];
    const char *built_for;
    void *device;
    Dl_info self;

    if (!dladdr(&variable, &self) || !strrchr(self.dli_fname, '/')) {
        refuse("preload the plug-in by its absolute path");
    }
    leave_children_alone(self.dli_fname);
    dl_iterate_phdr(program_id, id);
    if (!find_device(self.dli_fname, id, found)) {
        refuse("the plug-in was not built for this QEMU (%s, build id %s): "
               "run fakernic-qemu-rebuild", program_invocation_name,
               *id ? id : "missing");
    }
    if (!realpath(found, path) || !is_trusted(path)) {
        refuse("%s or a folder above it can be written by others, or is "
               "another user's: not loaded", found);
    }
    device = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!device) {
        refuse("%s: run fakernic-qemu-rebuild", dlerror());
    }
    built_for = ask(device, FAKERNIC_PLUGIN_BUILT_FOR);
    if (strcmp(built_for, id)) {
        refuse("%s is for the QEMU with build id %s, this one has %s: run "
               "fakernic-qemu-rebuild", path, built_for, id);
    }
    if (strcmp(ask(device, FAKERNIC_PLUGIN_MADE_OF),
               FAKERNIC_PLUGIN_SOURCE_ID)) {
        refuse("%s is from another release of fakernic: run "
               "fakernic-qemu-rebuild", path);
    }
}
