/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Migration in the fuzz target "guest": see guest.h. A device is saved in any
 * state and loaded in its own place. Then the state is changed. The device may
 * refuse to load it, but nothing may crash or hang, then or later.
 */
#include "qemu/osdep.h"
#include "io/channel-buffer.h"
#include "migration/qemu-file.h"
#include "migration/vmstate.h"
#include "system/runstate.h"
#include "guest.h"

#define CHANGES_MAX 4
/* Most states without the recorder are smaller. */
#define PLACES 0x8000

/* The state of the device; NULL: it cannot be saved now. */
static GByteArray *move_save(Nic *n)
{
    QIOChannelBuffer *bytes = qio_channel_buffer_new(0x4000);
    QEMUFile *f = qemu_file_new_output(QIO_CHANNEL(bytes));
    GByteArray *state = NULL;

    if (!vmstate_save_state(f, qdev_get_vmsd(DEVICE(n->pci)), n->pci, NULL)) {
        GUEST_CHECK(!qemu_fflush(f));
        state = g_byte_array_new();
        g_byte_array_append(state, bytes->data, bytes->usage);
    }
    qemu_fclose(f);
    object_unref(OBJECT(bytes));
    return state;
}

static bool move_load(Nic *n, const GByteArray *state)
{
    const VMStateDescription *vmsd = qdev_get_vmsd(DEVICE(n->pci));
    QIOChannelBuffer *bytes = qio_channel_buffer_new(state->len + 1);
    QEMUFile *f = qemu_file_new_input(QIO_CHANNEL(bytes));
    bool loaded;

    memcpy(bytes->data, state->data, state->len);
    bytes->usage = state->len;
    loaded = !vmstate_load_state(f, vmsd, n->pci, vmsd->version_id);
    qemu_fclose(f);
    object_unref(OBJECT(bytes));
    return loaded;
}

/*
 * The recorder, at the end of a state, grows with each input. So a place is
 * counted from the beginning, and an input changes the same bytes each time.
 */
static void move_change(GByteArray *state, const FuzzRecord *r)
{
    const guint at = r->e % PLACES;
    const guint len = at < state->len ? MIN(1 + r->a % 8, state->len - at) : 0;

    switch (len ? r->b % 8 : 8) {
    case 0:
        g_byte_array_set_size(state, at);
        break;
    case 1:
        memset(state->data + at, 0, len);
        break;
    case 2:
        memset(state->data + at, 0xff, len);
        break;
    case 3:
        g_byte_array_remove_range(state, at, len);
        break;
    case 4:
        state->data[at] ^= 1 << r->c % 8;
        break;
    case 8:
        break;                  /* the state is shorter */
    default:
        memcpy(state->data + at, &r->g, len);
        break;
    }
}

void step_move(Guest *g, Nic *n, const FuzzRecord *r)
{
    g_autoptr(GByteArray) state = NULL;
    FuzzRecord change;

    vm_state_notify(false, RUN_STATE_PAUSED);
    state = move_save(n);
    if (state) {
        GUEST_CHECK(move_load(n, state));
    }
    if (state && r->b & 1) {
        for (unsigned i = 0; i <= r->c % CHANGES_MAX; i++) {
            if (fuzz_next(&g->input, &change)) {
                move_change(state, &change);
            }
        }
        move_load(n, state);
    }
    vm_state_notify(true, RUN_STATE_RUNNING);
}
