/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Saves and loads fault rules with their counters, and the items that they
 * hold. A rule is saved as its text, so a load checks it like one of a user.
 * Reports of hits belong to a QEMU and its listener, and are not saved.
 */
#include "qemu/osdep.h"
#include "net/eth.h"
#include "effects.h"
#include "save.h"
#include "../state.h"
#include "../../roce/stream.h"

/* More than the limits of items and stalls together. */
#define SAVE_HELD_MAX 65536

/* ---- rules --------------------------------------------------------------- */

/* The rule without its counters. False: its text is too long. */
static bool save_print(const RoceFaultRule *rule, char text[ROCE_FAULT_TEXT])
{
    const size_t len = roce_fault_print(rule, text);
    char *counters = strstr(text, "matches=");

    if (counters) {
        *counters = '\0';
    }
    return len < ROCE_FAULT_TEXT - 1;
}

const char *fakernic_fault_unsaved(const FakernicState *s)
{
    char text[ROCE_FAULT_TEXT];

    for (unsigned i = 0; i < s->faults.rules.count; i++) {
        if (!save_print(&s->faults.rules.rules[i], text)) {
            return "the text of a fault rule is too long; remove it first";
        }
    }
    return NULL;
}

bool fakernic_fault_saves(const FakernicState *s)
{
    return s->faults.rules.count || s->faults.held_count ||
           s->held & (FAKERNIC_HELD_FAULT | FAKERNIC_HELD_DEAD);
}

static void save_text(RoceStream *s, char text[ROCE_FAULT_TEXT])
{
    uint32_t len = s->loads ? 0 : strlen(text);

    ROCE_FIELD(s, len);
    ROCE_CHECK(s, len < ROCE_FAULT_TEXT, "length of a fault rule");
    len = s->failed ? 0 : len;
    roce_stream_bytes(s, text, len);
    text[len] = '\0';
}

/* What has happened to a rule. Its text has the rest. */
static void save_rule(RoceStream *s, RoceFaultRule *rule)
{
    ROCE_FIELD(s, rule->matches);
    ROCE_FIELD(s, rule->hits);
    ROCE_FIELD(s, rule->chance);
    roce_stream_time(s, &rule->goes);
    roce_stream_time(s, &rule->free);
    roce_stream_time(s, &rule->last_time);
    ROCE_FIELD(s, rule->last_qpn);
    ROCE_FIELD(s, rule->last_psn);
    ROCE_DERIVED(rule->id);
    ROCE_DERIVED(rule->after);
    ROCE_DERIVED(rule->at);
    ROCE_DERIVED(rule->act);
    ROCE_DERIVED(rule->given);
    ROCE_DERIVED(rule->class);
    ROCE_DERIVED(rule->severity);
    ROCE_DERIVED(rule->why);
    ROCE_DERIVED(rule->fix_icrc);
    ROCE_DERIVED(rule->opcodes);
    ROCE_DERIVED(rule->opcode_text);
    ROCE_DERIVED(rule->of_packets);
    ROCE_DERIVED(rule->qpn);
    ROCE_DERIVED(rule->peer);
    ROCE_DERIVED(rule->psn);
    ROCE_DERIVED(rule->rpsn);
    ROCE_DERIVED(rule->syndrome);
    ROCE_DERIVED(rule->attempt);
    ROCE_DERIVED(rule->number);
    ROCE_DERIVED(rule->len);
    ROCE_DERIVED(rule->address);
    ROCE_DERIVED(rule->nth);
    ROCE_DERIVED(rule->times);
    ROCE_DERIVED(rule->every);
    ROCE_DERIVED(rule->percent);
    ROCE_DERIVED(rule->ppm);
    ROCE_DERIVED(rule->seed);
    ROCE_DERIVED(rule->from_ns);
    ROCE_DERIVED(rule->until_ns);
    ROCE_DERIVED(rule->corruption);
    ROCE_DERIVED(rule->delay_ns);
    ROCE_DERIVED(rule->for_ns);
    ROCE_DERIVED(rule->by);
    ROCE_DERIVED(rule->bytes);
    ROCE_DERIVED(rule->status);
    ROCE_DERIVED(rule->code);
    ROCE_DERIVED(rule->mbps);
}

/* A load adds all rules together, because one may name a later one. */
static void save_replace(RoceStream *s, RoceFaults *f, const char *text,
                         uint32_t count)
{
    char error[ROCE_FAULT_ERROR] = "";

    if (!s->loads || s->failed) {
        return;
    }
    roce_fault_remove(f, "all");
    if (!roce_fault_add(f, text, error)) {
        roce_stream_fail(s, "invalid fault rule: %.100s", error);
    }
    ROCE_CHECK(s, f->count == count, "number of fault rules");
}

static void save_rules(RoceStream *s, RoceFaults *f)
{
    g_autoptr(GString) all = g_string_new(NULL);
    char text[ROCE_FAULT_TEXT];
    uint32_t count = f->count;

    ROCE_FIELD(s, count);
    ROCE_CHECK(s, count <= ROCE_FAULT_RULES, "number of fault rules");
    for (uint32_t i = 0; i < count && !s->failed; i++) {
        if (!s->loads) {
            save_print(&f->rules[i], text);
        }
        save_text(s, text);
        g_string_append_printf(all, "%s\n", text);
    }
    save_replace(s, f, all->str, count);
    for (uint32_t i = 0; i < count && !s->failed; i++) {
        save_rule(s, &f->rules[i]);
    }
    ROCE_FIELD(s, f->serial);
    ROCE_DERIVED(f->points);
    ROCE_DERIVED(f->wanted);
    ROCE_DERIVED(f->command);
    ROCE_DERIVED(f->salt);
}

/* ---- held items ---------------------------------------------------------- */

static void save_corruption(RoceStream *s, RoceFaultCorruption *corruption)
{
    ROCE_FIELD(s, corruption->offset);
    ROCE_FIELD(s, corruption->mask);
}

static void save_cqe_fault(RoceStream *s, FakernicCqeFault *fault)
{
    save_corruption(s, &fault->corruption);
    ROCE_FIELD(s, fault->overrun);
}

static void save_completion(RoceStream *s, RoceCompletion *completion)
{
    ROCE_FIELD(s, completion->cqn);
    ROCE_FIELD(s, completion->qpn);
    ROCE_FIELD(s, completion->wqe_index);
    ROCE_FIELD(s, completion->byte_count);
    ROCE_FIELD(s, completion->imm_or_key);
    ROCE_FIELD(s, completion->src_qpn);
    ROCE_FIELD(s, completion->srqn);
    ROCE_FIELD(s, completion->vendor_err);
    ROCE_FIELD(s, completion->pkey_index);
    ROCE_FIELD(s, completion->vlan);
    ROCE_FIELD(s, completion->opcode);
    ROCE_FIELD(s, completion->status);
    ROCE_FIELD(s, completion->flags);
    ROCE_FIELD(s, completion->sl);
    roce_stream_bytes(s, completion->smac, sizeof(completion->smac));
    ROCE_FIELD(s, completion->network_type);
}

static void save_item(RoceStream *s, FakernicHeld *held)
{
    roce_stream_time(s, &held->due);
    ROCE_FIELD(s, held->behind);
    ROCE_FIELD(s, held->loopback);
    ROCE_FIELD(s, held->offset);
    ROCE_FIELD(s, held->word);
    ROCE_FIELD(s, held->number);
    save_completion(s, &held->completion);
    save_cqe_fault(s, &held->fault);
    roce_stream_bytes(s, held->frame, held->len);
    ROCE_DERIVED(held->point);          /* save_held() */
    ROCE_DERIVED(held->len);
    ROCE_DERIVED(held->next);
}

/* May a rule hold such an item at this point? */
static bool save_may_hold(RoceFaultPoint point, uint32_t len)
{
    switch (point) {
    case ROCE_FAULT_TX:
    case ROCE_FAULT_RX:
        return len >= ETH_HLEN && len <= ROCE_FRAME_MAX;
    case ROCE_FAULT_DOORBELL:
    case ROCE_FAULT_CMD_DOORBELL:
    case ROCE_FAULT_CQE:
    case ROCE_FAULT_EQE:
    case ROCE_FAULT_SEND_WQE:
    case ROCE_FAULT_INTERRUPT:
        return len == 0;
    default:
        return false;
    }
}

/* Is the item's number valid where the release does not check it? */
static bool save_item_valid(const FakernicState *d, const FakernicHeld *held)
{
    switch (held->point) {
    case ROCE_FAULT_DOORBELL:
        return held->offset >> FAKERNIC_PAGE_SHIFT < d->uars;
    case ROCE_FAULT_INTERRUPT:
        return held->number < d->vectors;
    default:
        return true;
    }
}

static void save_held(RoceStream *s, FakernicState *d)
{
    FakernicHeld *held = s->loads ? NULL : QTAILQ_FIRST(&d->faults.held);
    uint32_t count = d->faults.held_count;

    ROCE_FIELD(s, count);
    ROCE_CHECK(s, count <= SAVE_HELD_MAX, "number of held items");
    for (uint32_t i = 0; i < count && !s->failed; i++) {
        RoceFaultPoint point = held ? held->point : ROCE_FAULT_DEVICE;
        uint32_t len = held ? held->len : 0;

        ROCE_ENUM(s, point, ROCE_FAULT_POINTS);
        ROCE_FIELD(s, len);
        ROCE_CHECK(s, save_may_hold(point, len), "held item");
        if (s->failed) {
            return;
        }
        if (s->loads) {
            held = fakernic_fault_hold(d, point, 0, len);
        }
        save_item(s, held);
        ROCE_CHECK(s, save_item_valid(d, held), "number of a held item");
        held = s->loads ? NULL : QTAILQ_NEXT(held, next);
    }
}

/* ---- all ----------------------------------------------------------------- */

/* The id of a rule; a load ends the string. */
static void save_id(RoceStream *s, char id[ROCE_FAULT_ID])
{
    roce_stream_bytes(s, id, ROCE_FAULT_ID);
    id[ROCE_FAULT_ID - 1] = '\0';
}

static void save_faults(RoceStream *s, FakernicFaults *f)
{
    save_rules(s, &f->rules);
    ROCE_FIELD(s, f->was_armed);
    roce_stream_time(s, &f->thaw);
    save_id(s, f->frozen_by);
    roce_stream_time(s, &f->link_until);
    save_id(s, f->link_by);
    ROCE_FIELD(s, f->judged);
    ROCE_DERIVED(f->held);              /* save_held() */
    ROCE_DERIVED(f->held_count);
    ROCE_DERIVED(f->stalls);
    ROCE_DERIVED(f->held_bytes);
    ROCE_DERIVED(f->listener);          /* reports to it */
    ROCE_DERIVED(f->heard);
    ROCE_DERIVED(f->unsent);
    ROCE_DERIVED(f->firsts);
    ROCE_DERIVED(f->torn);
    ROCE_DERIVED(f->completion);        /* for the item at work */
    ROCE_DERIVED(f->cqe);
    ROCE_DERIVED(f->copy);
    ROCE_DERIVED(f->frame);
}

void fakernic_fault_save(RoceStream *s, FakernicState *d)
{
    s->object = "fault rules";
    s->number = 0;
    save_faults(s, &d->faults);
    save_held(s, d);
    s->object = NULL;
}
