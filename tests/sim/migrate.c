/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Moves a host's engine at random moments: saves it, frees it, and loads the
 * stream into a new one, as a migration or a snapshot does. Oracle and log must
 * be the same as without it. The new engine must save the same bytes.
 */
#include <stdlib.h>

#include "../stream.h"
#include "sim.h"

#define PAGED_SAVES 16

static void migrate_host(World *w, Host *h)
{
    char error[ROCE_LOAD_ERROR];
    Stream before = { 0 }, after = { 0 };

    w->saves++;
    roce_save(h->roce, stream_write, &before);
    roce_free(h->roce);
    h->roce = host_engine_new(h);
    if (!roce_load(h->roce, stream_read, &before, error)) {
        world_fail(w, "host %u is not loaded: %s", h->number, error);
    } else if (before.read != before.size) {
        world_fail(w, "host %u has loaded only a part", h->number);
    } else if (!roce_save(h->roce, stream_write, &after) ||
               !stream_equal(&after, &before)) {
        world_fail(w, "host %u is saved differently after a load", h->number);
    }
    free(before.bytes);
    free(after.bytes);
}

void migrate_maybe(World *w)
{
    /* After a load, pages of on-demand regions are absent. A peer waits up to
     * 41 ms before it uses them, so engines stop moving after some time. */
    if (w->options.odp_pct && w->saves >= PAGED_SAVES) {
        return;
    }
    if (w->options.save_every &&
        rng_below(&w->save_rng, w->options.save_every) == 0) {
        migrate_host(w, w->host[rng_below(&w->save_rng, w->options.hosts)]);
    }
}
