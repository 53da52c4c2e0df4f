/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The whole engine as a stream of bytes, and back: a header with the version
 * and the limits, the port, the keys, the QPs, then the lists that connect
 * them. A stream of another version or with other limits is refused.
 *
 * A later version may only add to the stream, and must load older ones: test
 * s->version before each addition.
 */
#include "engine.h"

#include <stdio.h>
#include <string.h>

#define SAVE_MAGIC 0x45434f52u          /* "ROCE" */
#define SAVE_VERSION 1u
#define SAVE_END 0x444e4521u            /* "!END" */

static void save_header(RoceStream *s)
{
    uint32_t magic = SAVE_MAGIC, version = SAVE_VERSION;

    ROCE_FIELD(s, magic);
    if (s->loads && magic != SAVE_MAGIC) {
        roce_stream_fail(s, "this is no state of the engine");
    }
    ROCE_FIELD(s, version);
    if (s->loads && version != SAVE_VERSION) {
        roce_stream_fail(s, "version %u of the stream, only %u is supported",
                         version, SAVE_VERSION);
    }
}

/* A limit must be the same on both sides. */
static void save_limit(RoceStream *s, uint32_t here, const char *name)
{
    uint32_t limit = here;

    ROCE_FIELD(s, limit);
    if (s->loads && limit != here) {
        roce_stream_fail(s, "%s is %u in the stream and %u here", name, limit,
                         here);
    }
}

static void save_limits_transfer(RoceStream *s, RoceLimits *limits)
{
    save_limit(s, limits->max_qp, "max_qp");
    save_limit(s, limits->max_mr, "max_mr");
    save_limit(s, limits->max_pd, "max_pd");
    save_limit(s, limits->max_mcast_groups, "max_mcast_groups");
    save_limit(s, limits->max_odp_chunks, "max_odp_chunks");
    ROCE_DERIVED(limits->hash_seed);    /* a secret of each host */
    save_limit(s, limits->gid_count, "gid_count");
    save_limit(s, limits->max_sends, "max_sends");
    save_limit(s, limits->max_rd_atomic, "max_rd_atomic");
    save_limit(s, limits->dcqcn, "dcqcn");
    save_limit(s, limits->link_kbps, "link_kbps");
}

static void save_gid_transfer(RoceStream *s, Roce *r, RoceGid *gid,
                              uint16_t index)
{
    RoceGid copy;

    ROCE_FIELD(s, gid->type);
    if (gid->type == FAKERNIC_GID_NONE) {
        return;
    }
    ROCE_FIELD(s, gid->vlan);
    roce_stream_bytes(s, gid->mac, sizeof(gid->mac));
    roce_stream_bytes(s, gid->gid, sizeof(gid->gid));
    copy = *gid;
    ROCE_CHECK(s, roce_gid_set(r, index, &copy) == FAKERNIC_CMD_OK,
               "entry of the GID table");
}

/* The state of the port, and numbers that the engine counts. */
static void save_port_transfer(RoceStream *s, Roce *r)
{
    for (uint16_t i = 0; i < r->limits.gid_count && !s->failed; i++) {
        save_gid_transfer(s, r, &r->gids[i], i);
    }
    ROCE_FIELD(s, r->gid_hint);
    ROCE_CHECK(s, r->gid_hint < r->limits.gid_count, "index of a GID");
    ROCE_DERIVED(r->gid_epoch);
    ROCE_FIELD(s, r->port_mtu);
    ROCE_CHECK(s, r->port_mtu <= ROCE_FRAME_MAX - ROCE_ETHER_HEADERS_MAX,
               "MTU");
    ROCE_FIELD(s, r->checks_csum);
    ROCE_FIELD(s, r->ip_id);
    ROCE_FIELD(s, r->stalled);
    ROCE_FIELD(s, r->flush_tickets);
    ROCE_FIELD(s, r->work);
    for (unsigned i = 0; i < FAKERNIC_STAT_COUNT && !s->failed; i++) {
        ROCE_FIELD(s, r->stats[i]);
    }
    ROCE_DERIVED(r->limits);            /* save_limits_transfer() */
    ROCE_DERIVED(r->ops);
    ROCE_DERIVED(r->host);
    ROCE_DERIVED(r->reset_next);        /* no reset is in progress */
    ROCE_DERIVED(r->out);               /* of a frame that is sent */
}

static void save_qps_transfer(RoceStream *s, Roce *r)
{
    uint32_t count = 0, at = 0;

    for (uint32_t i = 0; i < r->limits.max_qp; i++) {
        count += r->qps[i] != NULL;
    }
    ROCE_FIELD(s, count);
    for (; count > 0 && !s->failed; count--, at++) {
        while (!s->loads && !r->qps[at]) {
            at++;
        }
        roce_qp_transfer(s, r, s->loads ? NULL : r->qps[at]);
    }
    roce_qp_numbers_transfer(s, r);
    ROCE_DERIVED(r->free_qpns);
    ROCE_DERIVED(r->free_head);
    ROCE_DERIVED(r->free_count);
}

static void save_all(RoceStream *s, Roce *r)
{
    uint32_t end = SAVE_END;

    save_header(s);
    if (!s->failed) {
        save_limits_transfer(s, &r->limits);
    }
    if (!s->failed) {
        save_port_transfer(s, r);
        roce_mr_table_transfer(s, r->mrs);
    }
    if (!s->failed) {
        save_qps_transfer(s, r);
    }
    if (!s->failed) {
        roce_stream_qp(s, r, &r->sent);
        roce_sched_transfer(s, r);
        roce_mcast_transfer(s, r);
        roce_pages_transfer(s, r);
        ROCE_FIELD(s, end);
        ROCE_CHECK(s, end == SAVE_END, "end of the stream");
    }
}

bool roce_save(Roce *r, RoceSaveBytes write, void *stream)
{
    RoceStream s = { .write = write, .host = stream };

    save_all(&s, r);
    return !s.failed;
}

bool roce_load(Roce *r, RoceLoadBytes read, void *stream,
               char error[ROCE_LOAD_ERROR])
{
    RoceStream s = {
        .loads = true, .read = read, .host = stream, .error = error,
    };

    roce_reset(r);
    save_all(&s, r);
    if (s.failed) {
        roce_reset(r);
    }
    return !s.failed;
}
