/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fault rules. Four tables define what a rule may contain: the words, the
 * points, the actions, and which action is available at which point. A word or
 * an action that would have no effect is refused, because a rule that never
 * hits hides that a test tests nothing.
 */
#include "rules.h"
#include "../roce/icrc.h"
#include "../roce/opcode.h"
#include "../roce/wire.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(point) (1u << ROCE_FAULT_##point)
#define FRAMES    (AT(TX) | AT(RX))
#define WITH_STATUS (AT(COMMAND) | AT(SEND_WQE) | AT(CQE))
#define ANYWHERE  ((1u << ROCE_FAULT_POINTS) - 1)

#define DO(action) (1u << ROCE_FAULT_##action)
#define ON_FRAMES  (DO(COUNT) | DO(DROP) | DO(DELAY) | DO(DUPLICATE) |      \
                    DO(REORDER) | DO(CORRUPT) | DO(TRUNCATE) | DO(MARK) |   \
                    DO(PAUSE))
#define ON_READS   (DO(COUNT) | DO(FAIL) | DO(PAUSE))
#define ON_STORES  (DO(COUNT) | DO(DROP) | DO(DELAY) | DO(DUPLICATE) |      \
                    DO(PAUSE))

static const struct {
    const char *name;
    uint32_t actions;
} fault_points[ROCE_FAULT_POINTS] = {
    [ROCE_FAULT_DEVICE] = { "device", DO(COUNT) | DO(FATAL) | DO(FREEZE) |
                                          DO(DEAD) | DO(AER) |
                                          DO(LINK_DOWN) | DO(PAUSE) },
    [ROCE_FAULT_TX] = { "tx", ON_FRAMES | DO(THROTTLE) },
    [ROCE_FAULT_RX] = { "rx", ON_FRAMES },
    [ROCE_FAULT_DOORBELL] = { "doorbell", ON_STORES | DO(REORDER) |
                                              DO(CORRUPT) },
    [ROCE_FAULT_COMMAND] = { "command", DO(COUNT) | DO(DROP) | DO(DELAY) |
                                            DO(FAIL) | DO(PAUSE) },
    [ROCE_FAULT_SEND_WQE] = { "send-wqe", ON_READS | DO(DROP) | DO(DELAY) |
                                              DO(CORRUPT) },
    [ROCE_FAULT_RECV_WQE] = { "recv-wqe", ON_READS | DO(DROP) | DO(DELAY) |
                                              DO(CORRUPT) },
    [ROCE_FAULT_CQE] = { "cqe", ON_STORES | DO(REORDER) | DO(FAIL) |
                                    DO(CORRUPT) | DO(OVERRUN) },
    [ROCE_FAULT_EQE] = { "eqe", ON_STORES | DO(CORRUPT) },
    [ROCE_FAULT_INTERRUPT] = { "interrupt", ON_STORES },
    [ROCE_FAULT_DMA_READ] = { "dma-read", ON_READS | DO(CORRUPT) },
    [ROCE_FAULT_DMA_WRITE] = { "dma-write", ON_READS | DO(DROP) |
                                                DO(CORRUPT) },
    [ROCE_FAULT_PAGE_LIST] = { "page-list", ON_READS },
    [ROCE_FAULT_CMD_DOORBELL] = { "cmd-doorbell", DO(COUNT) | DO(DROP) |
                                                      DO(DELAY) | DO(PAUSE) },
    [ROCE_FAULT_DMA_ATOMIC] = { "dma-atomic", ON_READS | DO(DROP) |
                                                  DO(CORRUPT) },
    [ROCE_FAULT_DMA_FLUSH] = { "dma-flush", ON_READS | DO(DROP) },
};

static const char *const fault_actions[ROCE_FAULT_ACTIONS] = {
    [ROCE_FAULT_COUNT] = "count",
    [ROCE_FAULT_DROP] = "drop",
    [ROCE_FAULT_DELAY] = "delay",
    [ROCE_FAULT_DUPLICATE] = "duplicate",
    [ROCE_FAULT_REORDER] = "reorder",
    [ROCE_FAULT_CORRUPT] = "corrupt",
    [ROCE_FAULT_TRUNCATE] = "truncate",
    [ROCE_FAULT_MARK] = "mark",
    [ROCE_FAULT_FAIL] = "fail",
    [ROCE_FAULT_FATAL] = "fatal",
    [ROCE_FAULT_FREEZE] = "freeze",
    [ROCE_FAULT_DEAD] = "dead",
    [ROCE_FAULT_AER] = "aer",
    [ROCE_FAULT_LINK_DOWN] = "link-down",
    [ROCE_FAULT_PAUSE] = "pause",
    [ROCE_FAULT_OVERRUN] = "overrun",
    [ROCE_FAULT_THROTTLE] = "throttle",
};

enum { CLASS_ANY, CLASS_ROCE, CLASS_CNP, CLASS_GSI, CLASS_ETHER };
static const char *const fault_classes[] = { "any", "roce", "cnp", "gsi",
                                             "ether" };
static const char *const fault_severities[] = {
    [ROCE_FAULT_CORRECTABLE] = "correctable",
    [ROCE_FAULT_NONFATAL] = "nonfatal",
    [ROCE_FAULT_FATAL_ERROR] = "fatal",
};
static const char *const fault_reasons[] = {
    [ROCE_WHY_ANY] = "any",
    [ROCE_WHY_WQE] = "wqe",
    [ROCE_WHY_RECORD] = "record",
    [ROCE_WHY_PAGE_LIST] = "page-list",
    [ROCE_WHY_PAYLOAD] = "payload",
    [ROCE_WHY_CQE] = "cqe",
    [ROCE_WHY_EQE] = "eqe",
    [ROCE_WHY_CMD] = "cmd",
};

static const char *const fault_switch[] = { "off", "on" };

typedef enum FaultKind {
    KIND_NUMBER,                /* uint64_t */
    KIND_RANGE,                 /* RoceFaultRange */
    KIND_ID,                    /* char[ROCE_FAULT_ID] */
    KIND_AT,
    KIND_DO,
    KIND_OPCODE,
    KIND_COMMAND,
    /* one of several names, uint8_t */
    KIND_CLASS,
    KIND_SEVERITY,
    KIND_WHY,
    KIND_SWITCH,
    KINDS,
} FaultKind;

#define NAMES(list) { list, sizeof(list) / sizeof((list)[0]) }
static const struct {
    const char *const *names;
    unsigned count;
} fault_named[KINDS] = {
    [KIND_AT] = { NULL, 0 },
    [KIND_CLASS] = NAMES(fault_classes),
    [KIND_SEVERITY] = NAMES(fault_severities),
    [KIND_WHY] = NAMES(fault_reasons),
    [KIND_SWITCH] = NAMES(fault_switch),
};

typedef struct FaultWord {
    const char *name;
    FaultKind kind;
    size_t place;
    uint32_t points;            /* points where it has a meaning */
    uint32_t actions;           /* actions that use it; 0: all */
    uint64_t max;
} FaultWord;

#define PLACE(field) offsetof(RoceFaultRule, field)

static const FaultWord fault_words[] = {
    { "id", KIND_ID, PLACE(id), ANYWHERE, 0, 0 },
    { "at", KIND_AT, PLACE(at), ANYWHERE, 0, 0 },
    { "qpn", KIND_RANGE, PLACE(qpn),
      FRAMES | AT(DOORBELL) | AT(SEND_WQE) | AT(RECV_WQE) | AT(CQE), 0,
      0xffffff },
    { "peer", KIND_RANGE, PLACE(peer), AT(TX), 0, 0xffffff },
    { "psn", KIND_RANGE, PLACE(psn), FRAMES, 0, 0xffffff },
    { "rpsn", KIND_RANGE, PLACE(rpsn), FRAMES, 0, 0xffffff },
    { "syndrome", KIND_RANGE, PLACE(syndrome), FRAMES, 0, 255 },
    { "attempt", KIND_RANGE, PLACE(attempt), AT(TX), 0, 255 },
    { "opcode", KIND_OPCODE, PLACE(opcodes), FRAMES, 0, 255 },
    { "class", KIND_CLASS, PLACE(class), FRAMES, 0, 0 },
    { "cmd", KIND_COMMAND, PLACE(number), AT(COMMAND), 0, 0xffff },
    { "number", KIND_RANGE, PLACE(number),
      AT(COMMAND) | AT(CQE) | AT(EQE) | AT(INTERRUPT) | AT(DOORBELL) |
          AT(RECV_WQE), 0, 0xffffff },
    { "len", KIND_RANGE, PLACE(len),
      FRAMES | AT(DMA_READ) | AT(DMA_WRITE) | AT(DMA_FLUSH) | AT(PAGE_LIST), 0,
      UINT32_MAX },
    { "address", KIND_RANGE, PLACE(address),
      AT(DMA_READ) | AT(DMA_WRITE) | AT(DMA_ATOMIC), 0, UINT64_MAX },
    { "why", KIND_WHY, PLACE(why), AT(DMA_READ) | AT(DMA_WRITE), 0, 0 },
    { "nth", KIND_NUMBER, PLACE(nth), ANYWHERE, 0, INT64_MAX },
    { "times", KIND_NUMBER, PLACE(times), ANYWHERE, 0, INT64_MAX },
    { "every", KIND_NUMBER, PLACE(every), ANYWHERE, 0, INT64_MAX },
    { "percent", KIND_NUMBER, PLACE(percent), ANYWHERE, 0, 100 },
    { "ppm", KIND_NUMBER, PLACE(ppm), ANYWHERE, 0, 1000000 },
    { "seed", KIND_NUMBER, PLACE(seed), ANYWHERE, 0, INT64_MAX },
    { "after", KIND_ID, PLACE(after), ANYWHERE, 0, 0 },
    { "from-ns", KIND_NUMBER, PLACE(from_ns), ANYWHERE, 0, INT64_MAX },
    { "until-ns", KIND_NUMBER, PLACE(until_ns), ANYWHERE, 0, INT64_MAX },
    { "do", KIND_DO, PLACE(act), ANYWHERE, 0, 0 },
    /* One hour is longer than any timeout. */
    { "delay-ns", KIND_NUMBER, PLACE(delay_ns), ANYWHERE, DO(DELAY),
      3600000000000 },
    { "by", KIND_NUMBER, PLACE(by), ANYWHERE, DO(REORDER), 1024 },
    { "offset", KIND_NUMBER, PLACE(corruption.offset), ANYWHERE, DO(CORRUPT),
      ROCE_FRAME_MAX },
    { "mask", KIND_NUMBER, PLACE(corruption.mask), ANYWHERE, DO(CORRUPT), 255 },
    { "fix-icrc", KIND_SWITCH, PLACE(fix_icrc), FRAMES, DO(CORRUPT), 0 },
    { "mbps", KIND_NUMBER, PLACE(mbps), ANYWHERE, DO(THROTTLE), 1000000 },
    { "bytes", KIND_NUMBER, PLACE(bytes), FRAMES | AT(DMA_WRITE),
      DO(TRUNCATE) | DO(FAIL), ROCE_FRAME_MAX },
    { "for-ns", KIND_NUMBER, PLACE(for_ns), ANYWHERE,
      DO(FREEZE) | DO(LINK_DOWN), 3600000000000 },
    { "severity", KIND_SEVERITY, PLACE(severity), ANYWHERE, DO(AER), 0 },
    /* 255 is not a status: it would mean that the command continues. */
    { "status", KIND_NUMBER, PLACE(status), WITH_STATUS, DO(FAIL), 254 },
    { "code", KIND_NUMBER, PLACE(code),
      AT(DEVICE) | AT(RECV_WQE) | WITH_STATUS,
      DO(FAIL) | DO(FATAL), 0xffff },
};

#define WORDS (sizeof(fault_words) / sizeof(fault_words[0]))

bool roce_fault_offers(RoceFaultPoint point, RoceFaultAction action)
{
    return fault_points[point].actions & 1u << action;
}

const char *roce_fault_action_name(RoceFaultAction action)
{
    return fault_actions[action];
}

const char *roce_fault_point_name(RoceFaultPoint point)
{
    return fault_points[point].name;
}

static uint64_t fault_bit(const char *name)
{
    for (unsigned i = 0; i < WORDS; i++) {
        if (strcmp(fault_words[i].name, name) == 0) {
            return 1ull << i;
        }
    }
    return 0;
}

static bool fault_given(const RoceFaultRule *rule, const char *name)
{
    return rule->given & fault_bit(name);
}

/* ---- parsing ------------------------------------------------------------- */

/* The rule being parsed, and its error text. */
typedef struct FaultReader {
    const RoceFaults *faults;
    RoceFaultRule rule;
    bool remove;
    char *error;
} FaultReader;

static bool fault_wrong(FaultReader *in, const char *what, const char *word)
{
    snprintf(in->error, ROCE_FAULT_ERROR, "%s: '%.40s'", what, word);
    return false;
}

static void fault_say(FaultReader *in, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends to the error text. */
static void fault_say(FaultReader *in, const char *format, ...)
{
    const size_t len = strlen(in->error);
    va_list args;

    va_start(args, format);
    vsnprintf(in->error + len, ROCE_FAULT_ERROR - len, format, args);
    va_end(args);
}

/* Appends those names, in structures of 'stride' bytes, that are in 'among'. */
static void fault_say_names(FaultReader *in, const char *const *names,
                            size_t stride, unsigned count, uint64_t among)
{
    const char *between = "";

    for (unsigned i = 0; i < count; i++) {
        const char *const *name =
            (const char *const *)((const char *)names + i * stride);

        if (among & 1ull << i) {
            fault_say(in, "%s%s", between, *name);
            between = ", ";
        }
    }
}

/* Appends the valid values of the word. */
static void fault_say_values(FaultReader *in, const FaultWord *word)
{
    const unsigned long long max = word->max;

    switch (word->kind) {
    case KIND_NUMBER:
        fault_say(in, "a number up to %llu", max);
        break;
    case KIND_OPCODE:
        fault_say(in, "a name such as rc-send-first, the beginning of names and '*', "
                      "or a number up to %llu, or a range A-B", max);
        break;
    case KIND_RANGE:
        fault_say(in, "a number up to %llu, or a range A-B", max);
        break;
    case KIND_ID:
        fault_say(in, "up to %u letters, digits, '-', '_' and '.'",
                  ROCE_FAULT_ID - 1);
        break;
    case KIND_COMMAND:
        fault_say(in, "a command's name, such as CREATE_QP");
        break;
    case KIND_AT:
        fault_say(in, "one of ");
        fault_say_names(in, &fault_points[0].name, sizeof(fault_points[0]),
                        ROCE_FAULT_POINTS, UINT64_MAX);
        break;
    case KIND_DO:
        fault_say(in, "one of ");
        fault_say_names(in, fault_actions, sizeof(fault_actions[0]),
                        ROCE_FAULT_ACTIONS, UINT64_MAX);
        break;
    default:
        fault_say(in, "one of ");
        fault_say_names(in, fault_named[word->kind].names, sizeof(char *),
                        fault_named[word->kind].count, UINT64_MAX);
        break;
    }
}

/* Requires a digit first, because strtoull() accepts signs and blanks. Numbers
 * are decimal, even with a leading 0, unless they begin with 0x. */
static bool fault_number(const char *text, const char **end, uint64_t max,
                         uint64_t *value)
{
    char *rest;

    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    *value = strtoull(text, &rest, strncmp(text, "0x", 2) == 0 ? 16 : 10);
    *end = rest;
    return !errno && *value <= max;
}

static bool fault_range(const char *text, uint64_t max, RoceFaultRange *range)
{
    const char *end;
    uint64_t first, last;

    if (!fault_number(text, &end, max, &first)) {
        return false;
    }
    last = first;
    if (*end == '-' && !fault_number(end + 1, &end, max, &last)) {
        return false;
    }
    *range = (RoceFaultRange) { first, last };
    return *end == '\0' && first <= last;
}

/* The opcode's name in the form of rules: "RC SEND first" is rc-send-first. */
static void fault_opcode_name(const char *from, char to[40])
{
    size_t i;

    for (i = 0; from[i] && i < 39; i++) {
        char c = from[i];

        to[i] = c == ' ' ? '-' : c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
    }
    to[i] = '\0';
}

static bool fault_opcode_named(const char *text, uint64_t opcodes[4])
{
    size_t len = strlen(text);
    const bool begins = len > 0 && text[len - 1] == '*';
    bool found = false;
    char name[40];

    for (unsigned i = 0; i < 256; i++) {
        const RoceOpcodeInfo *info = roce_opcode_info((uint8_t)i);

        if (!info->name) {
            continue;
        }
        fault_opcode_name(info->name, name);
        if (begins ? strncmp(name, text, len - 1) == 0
                   : strcmp(name, text) == 0) {
            opcodes[i / 64] |= 1ull << i % 64;
            found = true;
        }
    }
    return found;
}

static bool fault_opcode(FaultReader *in, const char *text)
{
    RoceFaultRule *rule = &in->rule;
    RoceFaultRange range;

    if (strlen(text) >= sizeof(rule->opcode_text)) {
        return false;
    }
    strcpy(rule->opcode_text, text);
    memset(rule->opcodes, 0, sizeof(rule->opcodes));
    if (!fault_range(text, 255, &range)) {
        return fault_opcode_named(text, rule->opcodes);
    }
    for (uint64_t i = range.first; i <= range.last; i++) {
        rule->opcodes[i / 64] |= 1ull << i % 64;
    }
    return true;
}

static bool fault_id(const char *text, char id[ROCE_FAULT_ID])
{
    const size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz"
                                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789-_.");

    if (len == 0 || text[len] != '\0' || len >= ROCE_FAULT_ID) {
        return false;
    }
    strcpy(id, text);
    return true;
}

static bool fault_command(FaultReader *in, const char *text)
{
    int number = in->faults->command ? in->faults->command(text) : -1;

    if (number < 0) {
        return false;
    }
    in->rule.number = (RoceFaultRange) { (uint32_t)number, (uint32_t)number };
    return true;
}

static int fault_name(const char *const *names, size_t stride, unsigned count,
                      const char *text)
{
    for (unsigned i = 0; i < count; i++) {
        const char *const *name =
            (const char *const *)((const char *)names + i * stride);

        if (strcmp(*name, text) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static bool fault_point(FaultReader *in, const char *text)
{
    int i = fault_name(&fault_points[0].name, sizeof(fault_points[0]),
                       ROCE_FAULT_POINTS, text);

    if (i >= 0) {
        in->rule.at = (RoceFaultPoint)i;
    }
    return i >= 0;
}

static bool fault_action(FaultReader *in, const char *text)
{
    int i = fault_name(fault_actions, sizeof(fault_actions[0]),
                       ROCE_FAULT_ACTIONS, text);

    if (i >= 0) {
        in->rule.act = (RoceFaultAction)i;
    }
    return i >= 0;
}

static bool fault_named_value(FaultKind kind, const char *text, uint8_t *place)
{
    int i = fault_name(fault_named[kind].names, sizeof(char *),
                       fault_named[kind].count, text);

    if (i >= 0) {
        *place = (uint8_t)i;
    }
    return i >= 0;
}

static bool fault_value(FaultReader *in, const FaultWord *word,
                        const char *text)
{
    void *place = (char *)&in->rule + word->place;
    const char *end = text;

    switch (word->kind) {
    case KIND_NUMBER:
        return fault_number(text, &end, word->max, place) && !*end;
    case KIND_RANGE:
        return fault_range(text, word->max, place);
    case KIND_ID:
        return fault_id(text, place);
    case KIND_AT:
        return fault_point(in, text);
    case KIND_DO:
        return fault_action(in, text);
    case KIND_OPCODE:
        return fault_opcode(in, text);
    case KIND_COMMAND:
        return fault_command(in, text);
    default:
        return fault_named_value(word->kind, text, place);
    }
}

/* Parses one word, NAME=VALUE. */
static bool fault_word(FaultReader *in, char *text)
{
    const bool remove = strncmp(text, "remove=", 7) == 0;
    char *value = strchr(text, '=');
    uint64_t bit;

    if (in->remove || (remove && in->rule.given)) {
        return fault_wrong(in, "put ';' between remove=ID and other words",
                           text);
    }
    if (!value) {
        return fault_wrong(in, "a rule consists of words NAME=VALUE, not", text);
    }
    *value++ = '\0';
    if (remove) {
        in->remove = true;
        return fault_id(value, in->rule.id) ||
               fault_wrong(in, "not the id of a rule", value);
    }
    bit = fault_bit(text);
    if (!bit) {
        fault_wrong(in, "unknown word", text);
        fault_say(in, ", but ");
        fault_say_names(in, &fault_words[0].name, sizeof(fault_words[0]), WORDS,
                        UINT64_MAX);
        return false;
    }
    if (in->rule.given & bit) {
        return fault_wrong(in, "said twice", text);
    }
    in->rule.given |= bit;
    for (unsigned i = 0; i < WORDS; i++) {
        if (bit == 1ull << i && !fault_value(in, &fault_words[i], value)) {
            snprintf(in->error, ROCE_FAULT_ERROR,
                     "'%.40s' is invalid for '%s', which takes ", value, text);
            fault_say_values(in, &fault_words[i]);
            return false;
        }
    }
    return true;
}

/*
 * Checks the status of FAIL: it must be given, and must be an error except
 * at=cqe.
 */
static bool fault_status(FaultReader *in)
{
    const RoceFaultRule *rule = &in->rule;

    if (rule->act != ROCE_FAULT_FAIL || !(WITH_STATUS & 1u << rule->at)) {
        return true;
    }
    if (!fault_given(rule, "status")) {
        return fault_wrong(in, "do=fail needs a word", "status=");
    }
    if ((rule->at != ROCE_FAULT_CQE && rule->status == 0) ||
        (rule->at == ROCE_FAULT_SEND_WQE &&
         rule->status > FAKERNIC_WC_GENERAL_ERR)) {
        return fault_wrong(in, "not an error at this point", "status=");
    }
    return true;
}

/* A rule with a syndrome matches only packets that have one. */
static bool fault_syndrome(FaultReader *in)
{
    RoceFaultRule *rule = &in->rule;
    bool any = false;

    for (unsigned i = 0; i < 256; i++) {
        if (!(roce_opcode_info((uint8_t)i)->flags & ROCE_HAS_AETH)) {
            rule->opcodes[i / 64] &= ~(1ull << i % 64);
        }
        any |= rule->opcodes[i / 64] >> i % 64 & 1;
    }
    return any || fault_wrong(in, "no packet has a syndrome of opcode",
                              rule->opcode_text);
}

/* Is the combination of words valid? */
static bool fault_together(FaultReader *in)
{
    const RoceFaultRule *rule = &in->rule;
    const char *point = fault_points[rule->at].name;

    if (!fault_given(rule, "at") || !fault_given(rule, "do")) {
        return fault_wrong(in, "a rule needs a word",
                           fault_given(rule, "at") ? "do=" : "at=");
    }
    if (!roce_fault_offers(rule->at, rule->act)) {
        snprintf(in->error, ROCE_FAULT_ERROR, "at=%s cannot do=%s, but ", point,
                 fault_actions[rule->act]);
        fault_say_names(in, fault_actions, sizeof(fault_actions[0]),
                        ROCE_FAULT_ACTIONS, fault_points[rule->at].actions);
        return false;
    }
    for (unsigned i = 0; i < WORDS; i++) {
        const FaultWord *word = &fault_words[i];

        if (rule->given & 1ull << i &&
            (!(word->points & 1u << rule->at) ||
             (word->actions && !(word->actions & 1u << rule->act)))) {
            snprintf(in->error, ROCE_FAULT_ERROR,
                     "'%s=' has no meaning with at=%s do=%s", word->name, point,
                     fault_actions[rule->act]);
            return false;
        }
    }
    if (rule->act == ROCE_FAULT_DELAY && !rule->delay_ns) {
        return fault_wrong(in, "do=delay needs a word", "delay-ns=");
    }
    if (rule->act == ROCE_FAULT_THROTTLE && !rule->mbps) {
        return fault_wrong(in, "do=throttle needs a word", "mbps=");
    }
    if (rule->act == ROCE_FAULT_AER && !fault_given(rule, "severity")) {
        return fault_wrong(in, "do=aer needs a word", "severity=");
    }
    if (!fault_status(in)) {
        return false;
    }
    if (rule->nth == 0 || rule->every == 0 || rule->by == 0) {
        return fault_wrong(in, "counts from 1", "nth, every, by");
    }
    if (rule->act == ROCE_FAULT_CORRUPT && rule->corruption.mask == 0) {
        return fault_wrong(in, "changes nothing", "mask");
    }
    if (fault_given(rule, "percent") && fault_given(rule, "ppm")) {
        return fault_wrong(in, "exclude each other", "percent, ppm");
    }
    if (rule->from_ns > rule->until_ns) {
        return fault_wrong(in, "ends before it begins", "until-ns");
    }
    if (rule->after[0] && !roce_fault_find(in->faults, rule->after)) {
        return fault_wrong(in, "there is no rule", rule->after);
    }
    return true;
}

static void fault_points_update(RoceFaults *f)
{
    f->points = 0;
    memset(f->wanted, 0, sizeof(f->wanted));
    for (unsigned i = 0; i < f->count; i++) {
        const RoceFaultRule *rule = &f->rules[i];
        RoceFaultWanted *wanted = &f->wanted[rule->at];

        f->points |= 1u << rule->at;
        wanted->others |= !rule->of_packets;
        for (unsigned k = 0; k < 4; k++) {
            wanted->opcodes[k] |= rule->opcodes[k];
        }
    }
}

/* There are fewer rules than names, so one is free. */
static void fault_give_id(RoceFaults *f, RoceFaultRule *rule)
{
    do {
        snprintf(rule->id, sizeof(rule->id), "f%u", ++f->serial % 1000000);
    } while (roce_fault_find(f, rule->id));
}

static bool fault_take(RoceFaults *f, FaultReader *in)
{
    RoceFaultRule *rule = &in->rule;

    if (in->remove) {
        return roce_fault_remove(f, rule->id) ||
               fault_wrong(in, "there is no rule", rule->id);
    }
    if (!fault_together(in) ||
        (fault_given(rule, "syndrome") && !fault_syndrome(in))) {
        return false;
    }
    if (!rule->id[0]) {
        fault_give_id(f, rule);
    }
    if (roce_fault_find(f, rule->id)) {
        return fault_wrong(in, "there is a rule of this id already", rule->id);
    }
    if (strcmp(rule->id, "all") == 0) {
        return fault_wrong(in, "not an id for a rule", rule->id);
    }
    if (f->count == ROCE_FAULT_RULES) {
        return fault_wrong(in, "no more than 64 rules", rule->id);
    }
    rule->chance = rule->seed + f->salt;
    rule->of_packets = fault_given(rule, "opcode") ||
                       fault_given(rule, "psn") || fault_given(rule, "peer") ||
                       fault_given(rule, "rpsn") ||
                       fault_given(rule, "syndrome") || rule->fix_icrc;
    if (rule->act == ROCE_FAULT_THROTTLE && !fault_given(rule, "times")) {
        rule->times = 0;
    }
    f->rules[f->count++] = *rule;
    fault_points_update(f);
    return true;
}

#define ALL { 0, UINT64_MAX }
static const RoceFaultRule fault_default = {
    .qpn = ALL, .peer = ALL, .psn = ALL, .rpsn = ALL, .syndrome = ALL,
    .attempt = ALL, .number = ALL, .len = ALL, .address = ALL,
    .opcodes = { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX },
    .nth = 1, .times = 1, .every = 1, .percent = 100, .ppm = 1000000,
    .until_ns = INT64_MAX, .by = 1,
    .corruption = { .offset = ROCE_FRAME_MAX, .mask = 1 },
};
#undef ALL

/* Parses one rule of 'len' bytes. A blank text is no rule. */
static bool fault_rule(RoceFaults *f, const char *text, size_t len, char *error)
{
    FaultReader in = { .faults = f, .rule = fault_default, .error = error };
    char copy[ROCE_FAULT_TEXT];
    bool any = false;
    char *at = copy;

    if (len >= sizeof(copy)) {
        return fault_wrong(&in, "a rule has 511 characters at most", "");
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    while (*(at += strspn(at, " \t\r"))) {
        const size_t word = strcspn(at, " \t\r");
        const bool last = !at[word];

        at[word] = '\0';
        any = true;
        if (!fault_word(&in, at)) {
            return false;
        }
        at += last ? word : word + 1;
    }
    return !any || fault_take(f, &in);
}

/* Does each after= name an existing rule? */
static bool fault_all_there(const RoceFaults *f, char *error)
{
    for (unsigned i = 0; i < f->count; i++) {
        const RoceFaultRule *rule = &f->rules[i];

        if (rule->after[0] && !roce_fault_find(f, rule->after)) {
            snprintf(error, ROCE_FAULT_ERROR, "'%s' waits for '%s': remove it, "
                     "too", rule->id, rule->after);
            return false;
        }
    }
    return true;
}

bool roce_fault_add(RoceFaults *f, const char *text,
                    char error[ROCE_FAULT_ERROR])
{
    const RoceFaults before = *f;

    while (*text) {
        const size_t len = strcspn(text, ";\n");

        if (!fault_rule(f, text, len, error)) {
            *f = before;
            return false;
        }
        text += len + (text[len] != '\0');
    }
    if (!fault_all_there(f, error)) {
        *f = before;
        return false;
    }
    return true;
}

bool roce_fault_remove(RoceFaults *f, const char *id)
{
    const RoceFaultRule *rule = roce_fault_find(f, id);
    unsigned i;

    if (strcmp(id, "all") == 0) {
        f->count = 0;
        fault_points_update(f);
        return true;
    }
    if (!rule) {
        return false;
    }
    i = (unsigned)(rule - f->rules);
    memmove(&f->rules[i], &f->rules[i + 1],
            (f->count - i - 1) * sizeof(f->rules[0]));
    f->count--;
    fault_points_update(f);
    return true;
}

const RoceFaultRule *roce_fault_find(const RoceFaults *f, const char *id)
{
    for (unsigned i = 0; i < f->count; i++) {
        if (strcmp(f->rules[i].id, id) == 0) {
            return &f->rules[i];
        }
    }
    return NULL;
}

/* ---- printing ------------------------------------------------------------ */

static size_t fault_print_range(char *to, size_t room, const char *name,
                                const RoceFaultRange *range)
{
    if (range->first == range->last) {
        return (size_t)snprintf(to, room, "%s=%llu ", name,
                                (unsigned long long)range->first);
    }
    return (size_t)snprintf(to, room, "%s=%llu-%llu ", name,
                            (unsigned long long)range->first,
                            (unsigned long long)range->last);
}

static size_t fault_print_word(char *to, size_t room, const FaultWord *word,
                               const RoceFaultRule *rule)
{
    const void *place = (const char *)rule + word->place;
    const char *text = "";

    switch (word->kind) {
    case KIND_NUMBER:
        return (size_t)snprintf(to, room, "%s=%llu ", word->name,
                                *(const unsigned long long *)place);
    case KIND_RANGE:
    case KIND_COMMAND:
        return fault_print_range(to, room, word->name, place);
    case KIND_ID:
        text = place;
        break;
    case KIND_AT:
        text = fault_points[rule->at].name;
        break;
    case KIND_DO:
        text = fault_actions[rule->act];
        break;
    case KIND_OPCODE:
        text = rule->opcode_text;
        break;
    default:
        text = fault_named[word->kind].names[*(const uint8_t *)place];
        break;
    }
    return (size_t)snprintf(to, room, "%s=%s ", word->name, text);
}

size_t roce_fault_print(const RoceFaultRule *rule, char text[ROCE_FAULT_TEXT])
{
    const uint64_t given = rule->given | fault_bit("id");
    size_t at = 0;

    for (unsigned i = 0; i < WORDS && at < ROCE_FAULT_TEXT; i++) {
        if (given & 1ull << i) {
            at += fault_print_word(text + at, ROCE_FAULT_TEXT - at,
                                   &fault_words[i], rule);
        }
    }
    if (at < ROCE_FAULT_TEXT) {
        at += (size_t)snprintf(text + at, ROCE_FAULT_TEXT - at,
                               "matches=%llu hits=%llu",
                               (unsigned long long)rule->matches,
                               (unsigned long long)rule->hits);
    }
    return at < ROCE_FAULT_TEXT ? at : ROCE_FAULT_TEXT - 1;
}

/* ---- matching ------------------------------------------------------------ */

static bool fault_in(const RoceFaultRange *range, uint64_t value)
{
    return value >= range->first && value <= range->last;
}

static bool fault_of_class(const RoceFaultRule *rule,
                           const RoceFaultSubject *s)
{
    switch (rule->class) {
    case CLASS_ROCE:
        return s->roce;
    case CLASS_CNP:
        return s->roce && s->opcode == ROCE_BTH_CNP;
    case CLASS_GSI:
        return s->roce && (s->point == ROCE_FAULT_TX ? s->peer : s->qpn) == 1;
    case CLASS_ETHER:
        return !s->roce;
    default:
        return true;
    }
}

/* Is one of the bytes in the range? */
static bool fault_touches(const RoceFaultRange *range,
                          const RoceFaultSubject *s)
{
    return s->address <= range->last &&
           s->address + (s->len ? s->len - 1 : 0) >= range->first;
}

static bool fault_is_about(const RoceFaults *f, const RoceFaultRule *rule,
                           const RoceFaultSubject *s)
{
    const RoceFaultRule *after;

    if (rule->at != s->point || (rule->of_packets && !s->roce) ||
        !fault_of_class(rule, s)) {
        return false;
    }
    if (s->roce &&
        !(rule->opcodes[s->opcode / 64] & 1ull << s->opcode % 64)) {
        return false;
    }
    if (!fault_in(&rule->qpn, s->qpn) || !fault_in(&rule->peer, s->peer) ||
        !fault_in(&rule->psn, s->psn) || !fault_in(&rule->rpsn, s->rpsn) ||
        !fault_in(&rule->syndrome, s->syndrome) ||
        !fault_in(&rule->attempt, s->attempt) ||
        !fault_in(&rule->len, s->len) || !fault_in(&rule->number, s->number) ||
        !fault_touches(&rule->address, s) ||
        (rule->why != ROCE_WHY_ANY && rule->why != s->why)) {
        return false;
    }
    if ((uint64_t)s->now < rule->from_ns || (uint64_t)s->now > rule->until_ns) {
        return false;
    }
    after = rule->after[0] ? roce_fault_find(f, rule->after) : NULL;
    return !rule->after[0] || (after && after->hits > 0);
}

/* splitmix64 (Vigna, public domain): the chance of a rule, from its seed. */
static uint64_t fault_chance(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* Counts a match. Is it one that the rule hits? */
static bool fault_its_turn(RoceFaultRule *rule)
{
    uint64_t draw;

    rule->matches++;
    if (rule->matches < rule->nth ||
        (rule->matches - rule->nth) % rule->every != 0 ||
        (rule->times && rule->hits >= rule->times)) {
        return false;
    }
    if (rule->percent >= 100 && rule->ppm >= 1000000) {
        return true;
    }
    draw = fault_chance(&rule->chance) >> 32;
    return draw % 100 < rule->percent && draw % 1000000 < rule->ppm;
}

/* May a rule match this? Most frames match no rule. */
static bool fault_wants(const RoceFaults *f, RoceFaultPoint point, bool roce,
                        uint8_t opcode)
{
    const RoceFaultWanted *wanted = &f->wanted[point];

    return roce ? wanted->opcodes[opcode / 64] & 1ull << opcode % 64
                : wanted->others;
}

/* The frame may go when the previous one has been transmitted. */
static void fault_throttle(RoceFaultRule *rule, const RoceFaultSubject *s)
{
    rule->goes = s->now > rule->free ? s->now : rule->free;
    rule->free = rule->goes + (RoceTime)(s->len * 8000ull / rule->mbps);
}

void roce_fault_lost(RoceFaults *f, const RoceFaultRule *rule)
{
    f->rules[rule - f->rules].free = rule->goes;
}

const RoceFaultRule *roce_fault_hit(RoceFaults *f,
                                    const RoceFaultSubject *subject)
{
    const RoceFaultRule *found = NULL;

    if (!fault_wants(f, subject->point, subject->roce, subject->opcode)) {
        return NULL;
    }
    for (unsigned i = 0; i < f->count; i++) {
        RoceFaultRule *rule = &f->rules[i];

        if (!fault_is_about(f, rule, subject) || !fault_its_turn(rule) ||
            found) {
            continue;
        }
        rule->hits++;
        rule->last_time = subject->now;
        rule->last_qpn = subject->qpn;
        rule->last_psn = subject->psn;
        if (rule->act == ROCE_FAULT_THROTTLE) {
            fault_throttle(rule, subject);
        }
        /* COUNT does not keep later rules from hitting. */
        found = rule->act == ROCE_FAULT_COUNT ? NULL : rule;
    }
    return found;
}

/* ---- frames -------------------------------------------------------------- */

#define ETHER_SIZE 14
#define VLAN_SIZE  4
#define UDP_SIZE   8
#define BTH_SIZE   12

static uint32_t fault_be24(const uint8_t *p)
{
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

/* Offset of the IP header; 0: there is none. */
static size_t fault_ip(const uint8_t *frame, size_t len)
{
    size_t at = ETHER_SIZE;

    if (len >= ETHER_SIZE + VLAN_SIZE && frame[12] == 0x81 && frame[13] == 0) {
        at += VLAN_SIZE;
    }
    if (len < at + 40 || !((frame[at - 2] == 0x08 && frame[at - 1] == 0) ||
                           (frame[at - 2] == 0x86 && frame[at - 1] == 0xdd))) {
        return 0;
    }
    return at;
}

static bool fault_ipv4(const uint8_t *ip)
{
    return ip[0] >> 4 == 4;
}

/* Offset of the BTH; 0: this is not a RoCEv2 frame. */
static size_t fault_bth(const uint8_t *frame, size_t len)
{
    const size_t ip = fault_ip(frame, len);
    size_t udp;

    if (!ip) {
        return 0;
    }
    if (fault_ipv4(frame + ip)) {
        udp = ip + (frame[ip] & 15) * 4u;
    } else {
        udp = ip + 40;
    }
    if (frame[ip + (fault_ipv4(frame + ip) ? 9 : 6)] != 17 ||
        len < udp + UDP_SIZE + BTH_SIZE ||
        (frame[udp + 2] << 8 | frame[udp + 3]) != ROCE_UDP_PORT) {
        return 0;
    }
    return udp + UDP_SIZE;
}

bool roce_fault_wants_frame(const RoceFaults *f, RoceFaultPoint point,
                            const uint8_t *frame, size_t len)
{
    const size_t bth = fault_bth(frame, len);

    return fault_wants(f, point, bth > 0, bth ? frame[bth] : 0);
}

void roce_fault_look(RoceFaultSubject *subject, const uint8_t *frame,
                     size_t len)
{
    const size_t bth = fault_bth(frame, len);
    unsigned flags;

    subject->len = (uint32_t)len;
    subject->roce = bth > 0;
    if (!bth) {
        return;
    }
    subject->opcode = frame[bth];
    flags = roce_opcode_info(subject->opcode)->flags;
    subject->response = flags & ROCE_RESPONSE;
    if (flags & ROCE_HAS_AETH && len > bth + BTH_SIZE) {
        subject->syndrome = frame[bth + BTH_SIZE];
    }
    subject->psn = fault_be24(frame + bth + 9);
    if (subject->point == ROCE_FAULT_TX) {
        subject->peer = fault_be24(frame + bth + 5);
    } else {
        subject->qpn = fault_be24(frame + bth + 5);
    }
}

/*
 * Sets Congestion Experienced. The ICRC does not cover it, IPv4's checksum
 * does.
 */
static void fault_mark(uint8_t *frame, size_t len)
{
    const size_t at = fault_ip(frame, len);
    uint8_t *ip = frame + at;
    uint32_t sum = 0;

    if (!at) {
        return;
    }
    if (!fault_ipv4(ip)) {
        ip[1] |= 0x30;
        return;
    }
    ip[1] |= 3;
    ip[10] = 0;
    ip[11] = 0;
    for (unsigned i = 0; i < (ip[0] & 15) * 4u && at + i + 1 < len; i += 2) {
        sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
    }
    while (sum >> 16) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    ip[10] = (uint8_t)(~sum >> 8);
    ip[11] = (uint8_t)~sum;
}

void roce_fault_corrupt(const RoceFaultCorruption *corruption, void *bytes,
                        size_t len)
{
    uint8_t *at = bytes;

    if (len) {
        at[corruption->offset < len ? corruption->offset : len - 1] ^=
            (uint8_t)corruption->mask;
    }
}

/*
 * Offset of the ICRC of a packet. 0: the frame has none, or the packet does
 * not end with it.
 */
static size_t fault_icrc(const uint8_t *frame, size_t len)
{
    const size_t bth = fault_bth(frame, len);
    const size_t ip = fault_ip(frame, len);
    const size_t udp = bth - UDP_SIZE;
    size_t end;

    if (!bth || (fault_ipv4(frame + ip) && (frame[ip] & 15) != 5)) {
        return 0;
    }
    end = udp + (size_t)(frame[udp + 4] << 8 | frame[udp + 5]);
    return end <= len && end >= bth + BTH_SIZE + ROCE_ICRC_SIZE
               ? end - ROCE_ICRC_SIZE : 0;
}

/*
 * Changes the packet and recomputes its ICRC, so that the receiver cannot
 * detect the change.
 */
static void fault_forge(const RoceFaultRule *rule, uint8_t *frame, size_t len)
{
    const size_t at = fault_icrc(frame, len);
    const size_t ip = fault_ip(frame, len);
    /* Determined before the change, which may alter the IP version. */
    const size_t ip_size = at && fault_ipv4(frame + ip) ? 20 : 40;
    uint32_t icrc;

    if (!at) {
        return;
    }
    roce_fault_corrupt(&rule->corruption, frame, at);
    icrc = roce_icrc(frame + ip, ip_size, at - ip);
    for (unsigned i = 0; i < ROCE_ICRC_SIZE; i++) {
        frame[at + i] = (uint8_t)(icrc >> 8 * i);
    }
}

size_t roce_fault_change(const RoceFaultRule *rule, uint8_t *frame, size_t len)
{
    switch (rule->act) {
    case ROCE_FAULT_CORRUPT:
        /*
         * Without an offset this changes the last byte, which is part of the
         * ICRC.
         */
        if (rule->fix_icrc) {
            fault_forge(rule, frame, len);
        } else {
            roce_fault_corrupt(&rule->corruption, frame, len);
        }
        return len;
    case ROCE_FAULT_TRUNCATE:
        return rule->bytes < len ? (size_t)rule->bytes : len;
    case ROCE_FAULT_MARK:
        fault_mark(frame, len);
        return len;
    default:
        return len;
    }
}
