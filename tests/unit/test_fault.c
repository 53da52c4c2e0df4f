/* SPDX-License-Identifier: GPL-2.0-or-later */
/* fault/rules.h: the text of rules, what they hit, how they change frames. */
#include "harness.h"
#include "fault/rules.h"
#include "../qtest/fakernic-chance.h"
#include "opcode.h"
#include "wire.h"

static RoceFaults faults;
static char error[ROCE_FAULT_ERROR];

static int command_number(const char *name)
{
    return strcmp(name, "CREATE_QP") == 0 ? 0x30 : -1;
}

static bool add(const char *text)
{
    return roce_fault_add(&faults, text, error);
}

static void begin(const char *text)
{
    memset(&faults, 0, sizeof(faults));
    faults.command = command_number;
    CHECK(add(text));
}

static RoceFaultSubject packet(RoceFaultPoint point, uint32_t qpn, uint32_t psn,
                               uint8_t opcode)
{
    return (RoceFaultSubject) { .point = point, .qpn = qpn, .psn = psn,
                                .opcode = opcode, .roce = true, .len = 100,
                                .attempt = 1 };
}

static bool hits(RoceFaultPoint point, uint32_t qpn, uint32_t psn,
                 uint8_t opcode)
{
    RoceFaultSubject s = packet(point, qpn, psn, opcode);

    return roce_fault_hit(&faults, &s);
}

/* A rule without an id gets one that no other has. */
static void ids_do_not_collide(void)
{
    begin("id=f1 at=rx do=drop; id=f2 at=rx do=drop");
    CHECK(add("at=tx do=drop"));
    CHECK(roce_fault_find(&faults, "f3"));
    CHECK(add("at=tx do=drop"));
    CHECK_EQ(faults.count, 4);
}

static void nth_of_an_opcode(void)
{
    const RoceFaultRule *rule;

    begin("at=rx opcode=rc-read-response-first nth=3 do=drop");
    CHECK(roce_fault_at(&faults, ROCE_FAULT_RX));
    CHECK(!roce_fault_at(&faults, ROCE_FAULT_TX));
    CHECK(!hits(ROCE_FAULT_RX, 5, 1, ROCE_BTH_READ_RESPONSE_FIRST));
    CHECK(!hits(ROCE_FAULT_RX, 5, 2, ROCE_BTH_READ_RESPONSE_MIDDLE));
    CHECK(!hits(ROCE_FAULT_TX, 5, 2, ROCE_BTH_READ_RESPONSE_FIRST));
    CHECK(!hits(ROCE_FAULT_RX, 5, 3, ROCE_BTH_READ_RESPONSE_FIRST));
    CHECK(hits(ROCE_FAULT_RX, 5, 4, ROCE_BTH_READ_RESPONSE_FIRST));
    CHECK(!hits(ROCE_FAULT_RX, 5, 5, ROCE_BTH_READ_RESPONSE_FIRST));
    rule = roce_fault_find(&faults, "f1");
    REQUIRE(rule);
    CHECK_EQ(rule->matches, 4);
    CHECK_EQ(rule->hits, 1);
    CHECK_EQ(rule->last_psn, 4);
}

/* Which of 12 matches the rule hits, one bit each. */
static uint32_t which(const char *text)
{
    uint32_t found = 0;

    begin(text);
    for (unsigned i = 0; i < 12; i++) {
        found |= (uint32_t)hits(ROCE_FAULT_TX, 1, i, 0) << i;
    }
    return found;
}

static void counts(void)
{
    CHECK_EQ(which("at=tx do=drop"), 0x001);
    CHECK_EQ(which("at=tx nth=4 do=drop"), 0x008);
    CHECK_EQ(which("at=tx times=3 do=drop"), 0x007);
    CHECK_EQ(which("at=tx times=0 do=drop"), 0xfff);
    CHECK_EQ(which("at=tx nth=2 every=3 times=0 do=drop"), 0x492);
    CHECK_EQ(which("at=tx nth=2 every=3 times=2 do=drop"), 0x012);
    CHECK_EQ(which("at=tx times=0 percent=0 do=drop"), 0);
    CHECK_EQ(which("at=tx times=0 percent=100 do=drop"), 0xfff);
    CHECK_EQ(which("at=tx times=0 ppm=0 do=drop"), 0);
    CHECK_EQ(which("at=tx times=0 ppm=1000000 do=drop"), 0xfff);
    CHECK_EQ(which("at=tx psn=3-5 times=0 do=drop"), 0x038);
    CHECK_EQ(which("at=tx psn=0x0a do=drop"), 0x400);
    CHECK_EQ(which("at=rx times=0 do=drop"), 0);
}

static void chance_is_the_seeds(void)
{
    const uint32_t a = which("at=tx times=0 percent=50 seed=7 do=drop");

    CHECK_EQ(which("at=tx times=0 percent=50 seed=7 do=drop"), a);
    CHECK(which("at=tx times=0 percent=50 seed=8 do=drop") != a);
    CHECK(a != 0 && a != 0xfff);
}

/* The rule hits the same frames of the list as a device does. */
static void chance_is_the_devices(void)
{
    static const uint8_t dst[6] = { 2, 0, 0, 0, 0, 1 };
    uint64_t found = 0;

    begin(CHANCE_RULE);
    for (unsigned i = 0; i < CHANCE_FRAMES; i++) {
        uint8_t frame[CHANCE_LENGTH];
        RoceFaultSubject s = { .point = ROCE_FAULT_RX };

        chance_frame(i, dst, frame);
        roce_fault_look(&s, frame, sizeof(frame));
        CHECK_EQ(s.roce, i % 4 == 3);
        found |= (uint64_t)(roce_fault_hit(&faults, &s) != NULL) << i;
    }
    CHECK_EQ(found, CHANCE_HITS);
}

/* About twenty hits of two million are expected. */
static void shares_below_a_percent(void)
{
    unsigned hit = 0;

    begin("id=few at=tx times=0 ppm=10 do=drop");
    for (unsigned i = 0; i < 2000000; i++) {
        hit += hits(ROCE_FAULT_TX, 1, i & 0xffffff, 0);
    }
    CHECK(hit > 5 && hit < 60);
    CHECK_EQ(roce_fault_find(&faults, "few")->hits, hit);
}

static void tables_have_chances_of_their_own(void)
{
    static const char text[] = "at=tx times=0 percent=50 seed=7 do=drop";
    const uint32_t a = which(text);
    uint32_t b = 0;

    memset(&faults, 0, sizeof(faults));
    faults.salt = 1ull << 32;
    CHECK(add(text));
    for (unsigned i = 0; i < 12; i++) {
        b |= (uint32_t)hits(ROCE_FAULT_TX, 1, i, 0) << i;
    }
    CHECK(a != b);
    CHECK(b != 0 && b != 0xfff);
}

static void after_another(void)
{
    begin("id=a at=tx nth=2 do=count; id=b at=tx after=a do=drop");
    CHECK(!hits(ROCE_FAULT_TX, 1, 0, 0));
    CHECK(hits(ROCE_FAULT_TX, 1, 1, 0));
    CHECK_EQ(roce_fault_find(&faults, "a")->hits, 1);
    CHECK_EQ(roce_fault_find(&faults, "b")->matches, 1);
}

static void counts_are_decimal(void)
{
    begin("at=tx nth=010 do=drop");
    for (unsigned i = 0; i < 9; i++) {
        CHECK(!hits(ROCE_FAULT_TX, 1, i, 0));
    }
    CHECK(hits(ROCE_FAULT_TX, 1, 9, 0));
}

static void matches(void)
{
    RoceFaultSubject s = packet(ROCE_FAULT_TX, 17, 5, ROCE_BTH_ACK);

    begin("at=tx qpn=17 peer=18 attempt=2 len=64-200 opcode=rc-* do=drop");
    CHECK(!roce_fault_hit(&faults, &s));
    s.peer = 18;
    CHECK(!roce_fault_hit(&faults, &s));
    s.attempt = 2;
    s.len = 201;
    CHECK(!roce_fault_hit(&faults, &s));
    s.len = 64;
    s.opcode = ROCE_BTH_UD | ROCE_BTH_SEND_ONLY;
    CHECK(!roce_fault_hit(&faults, &s));
    s.opcode = ROCE_BTH_ACK;
    CHECK(roce_fault_hit(&faults, &s));
    begin("at=tx class=ether do=drop");
    CHECK(!roce_fault_hit(&faults, &s));
    s.roce = false;
    CHECK(roce_fault_hit(&faults, &s));
    begin("at=tx from-ns=10 until-ns=20 times=0 do=drop");
    s.now = 9;
    CHECK(!roce_fault_hit(&faults, &s));
    s.now = 20;
    CHECK(roce_fault_hit(&faults, &s));
    s.now = 21;
    CHECK(!roce_fault_hit(&faults, &s));
}

static void accesses(void)
{
    RoceFaultSubject s = { .point = ROCE_FAULT_DMA_WRITE, .len = 64,
                           .address = 0x123400000000,
                           .why = ROCE_WHY_CQE };

    begin("at=dma-write why=cqe address=0x12340000003f-0x1234000000ff times=0 "
          "do=count; id=b at=dma-write why=any address=0x123400000000 times=0 "
          "do=drop; at=dma-write why=wqe times=0 do=fail bytes=3");
    CHECK(roce_fault_hit(&faults, &s));
    CHECK_EQ(faults.rules[0].hits, 1);
    s.len = 63;
    CHECK(roce_fault_hit(&faults, &s));
    CHECK_EQ(faults.rules[0].hits, 1);
    s.address++;
    s.why = ROCE_WHY_EQE;
    CHECK(!roce_fault_hit(&faults, &s));
    CHECK_EQ(faults.rules[0].hits, 1);
    CHECK_EQ(faults.rules[1].hits, 2);
    CHECK_EQ(faults.rules[2].hits, 0);
}

/* The time at which a frame of 100 bytes leaves; -1: no rule hits it. */
static RoceTime goes(RoceTime now)
{
    RoceFaultSubject s = packet(ROCE_FAULT_TX, 1, 1, ROCE_BTH_ACK);
    const RoceFaultRule *rule;

    s.now = now;
    rule = roce_fault_hit(&faults, &s);
    return rule ? rule->goes : -1;
}

/* One byte per microsecond. A throttle rule hits all frames by default. */
static void throttled(void)
{
    begin("at=tx mbps=8 do=throttle");
    CHECK_EQ(goes(5), 5);
    CHECK_EQ(goes(6), 100005);
    CHECK_EQ(goes(100004), 200005);
    CHECK_EQ(goes(900000), 900000);
    CHECK_EQ(goes(900000), 1000000);
    roce_fault_lost(&faults, &faults.rules[0]);
    CHECK_EQ(goes(900000), 1000000);
    begin("at=tx mbps=8 nth=2 times=1 do=throttle");
    CHECK_EQ(goes(5), -1);
    CHECK_EQ(goes(6), 6);
    CHECK_EQ(goes(7), -1);
    begin("at=tx mbps=1000000 do=throttle");
    CHECK_EQ(goes(0), 0);
    CHECK_EQ(goes(0), 0);
}

static void relative_psns(void)
{
    RoceFaultSubject s = packet(ROCE_FAULT_RX, 1, 7, ROCE_BTH_ACK);

    begin("at=rx rpsn=2-3 times=0 do=drop");
    s.rpsn = 1;
    CHECK(!roce_fault_hit(&faults, &s));
    s.rpsn = 3;
    CHECK(roce_fault_hit(&faults, &s));
    s.roce = false;
    CHECK(!roce_fault_hit(&faults, &s));
    begin("at=rx rpsn=0-0xffffff times=0 do=drop; "
          "id=every at=rx times=0 do=count");
    s.roce = true;
    s.rpsn = ROCE_FAULT_NO_RPSN;
    CHECK(!roce_fault_hit(&faults, &s));
    CHECK_EQ(roce_fault_find(&faults, "every")->hits, 1);
}

typedef struct Wrong {
    const char *text, *names;
} Wrong;

/* A wrong text adds no rule, and the error names the wrong word. */
static void refuses(const Wrong *wrong, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        begin("id=kept at=rx do=drop");
        error[0] = '\0';
        CHECK(!add(wrong[i].text));
        if (!strstr(error, wrong[i].names)) {
            printf("# %s: %s\n", wrong[i].text, error);
            CHECK(false);
        }
        CHECK_EQ(faults.count, 1);
        CHECK(roce_fault_find(&faults, "kept"));
    }
}

static void refused_of_frames(void)
{
    static const Wrong wrong[] = {
        { "do=drop", "at=" }, { "at=rx", "do=" },
        { "at=moon do=drop", "moon" }, { "at=rx do=dance", "dance" },
        { "at=rx nth=0 do=drop", "nth" }, { "at=rx nth=-1 do=drop", "-1" },
        { "at=rx nth=1x do=drop", "1x" }, { "at=rx nth= do=drop", "nth" },
        { "at=rx qpn=16777216 do=drop", "16777216" },
        { "at=rx psn=5-4 do=drop", "5-4" },
        { "at=rx opcode=rc-nonsense do=drop", "rc-nonsense" },
        { "at=rx opcode=0x100 do=drop", "0x100" },
        { "at=rx percent=101 do=drop", "101" },
        { "at=rx ppm=1000001 do=drop", "1000001" },
        { "at=rx percent=1 ppm=5 do=drop", "ppm" },
        { "at=rx after=x do=drop", "x" },
        { "id=a at=rx do=drop; id=b at=rx after=a do=drop; remove=a", "'b'" },
        { "at=rx from-ns=2 until-ns=1 do=drop", "until-ns" },
        { "at=rx nth=18446744073709551616 do=drop",
          "18446744073709551616" },
        { "at=rx nth=0x do=drop", "0x" },
        { "at=dma-read why=moon do=fail", "moon" },
        { "at=tx do=throttle", "mbps=" },
        { "at=tx mbps=0 do=throttle", "mbps=" },
        { "at=rx mbps=8 do=throttle", "throttle" },
        { "at=tx mbps=8 do=drop", "mbps=" },
        { "at=rx fix-icrc=on do=drop", "fix-icrc=" },
        { "at=rx fix-icrc=yes do=corrupt", "yes" },
        { "at=rx opcode=rc-send* syndrome=0 do=drop", "rc-send*" },
        { "at=rx syndrome=256 do=drop", "256" },
        { "at=rx bytes=4 do=drop", "bytes=" },
        { "at=rx do=link-down", "link-down" },
        { "at=rx colour=red do=drop", "colour" },
        { "at=rx at=tx do=drop", "at" }, { "at=rx drop", "drop" },
        { "at=rx attempt=2 do=drop", "attempt" },
        { "at=tx do=freeze", "freeze" },
        { "at=rx delay-ns=5 do=drop", "delay-ns" },
        { "at=rx do=delay", "delay-ns" }, { "at=rx by=0 do=reorder", "by" },
        { "at=tx do=drop id=all", "all" },
        { "id=with/slash at=tx do=drop", "with/slash" },
        { "id=muchtoolongtobeanid at=tx do=drop", "muchtoo" },
        { "remove=nobody", "nobody" },
        { "remove=kept at=rx do=drop", "';' between remove=ID" },
        { "remove=kept id=r1 at=rx do=drop", "id=r1" },
        { "remove=kept remove=kept", "';' between remove=ID" },
        { "at=rx do=drop remove=kept", "remove=kept" },
        { "remove=all remove=kept", "remove=kept" },
        { "remove=kept kept", "';' between remove=ID" },
        { "id=a at=tx do=drop; id=a at=rx do=drop", "a" },
    };

    refuses(wrong, TEST_COUNT(wrong));
}

static void refused(void)
{
    static const Wrong wrong[] = {
        { "at=cqe do=fail", "status=" }, { "at=command do=fail", "status=" },
        { "at=command status=0 do=fail", "status=" },
        { "at=command status=255 do=fail", "255" },
        { "at=send-wqe status=22 do=fail", "status=" },
        { "at=send-wqe do=reorder", "reorder" },
        { "at=eqe do=reorder", "reorder" }, { "at=eqe do=overrun", "overrun" },
        { "at=cqe delay-ns=9 do=overrun", "delay-ns" },
        { "at=dma-read status=3 do=fail", "status=" },
        { "at=dma-read do=drop", "drop" }, { "at=cqe by=1 do=drop", "by=" },
        { "at=recv-wqe status=3 do=fail", "status=" },
        { "at=page-list do=drop", "drop" },
        { "at=command do=corrupt", "corrupt" },
        { "at=interrupt do=corrupt", "corrupt" },
        { "at=cqe offset=4 do=drop", "offset=" },
        { "at=dma-read bytes=4 do=fail", "bytes=" },
        { "at=dma-flush address=4 do=fail", "address=" },
        { "at=cmd-doorbell do=duplicate", "duplicate" },
        { "at=cqe fix-icrc=on do=corrupt", "fix-icrc=" },
        { "at=cqe rpsn=3 do=drop", "rpsn=" },
        { "at=dma-flush do=corrupt", "corrupt" },
        { "at=device do=aer", "severity=" },
        { "at=device severity=mild do=aer", "mild" },
        { "at=device severity=fatal do=freeze", "severity=" },
        { "at=device do=drop", "drop" }, { "at=device psn=4 do=fatal", "psn" },
    };

    refuses(wrong, TEST_COUNT(wrong));
}

/* Each of the words refuses each of the values. */
static void refuses_each(const char *const *words, unsigned word_count,
                         const char *const *values, unsigned value_count)
{
    for (unsigned i = 0; i < word_count; i++) {
        for (unsigned k = 0; k < value_count; k++) {
            char text[100];
            const Wrong wrong = { text, values[k] };

            snprintf(text, sizeof(text), "%s=%s", words[i], values[k]);
            refuses(&wrong, 1);
        }
    }
}

/*
 * A number is decimal, or hexadecimal with 0x, within the limits of its word.
 * Typed forms have only signed numbers of 64 bits.
 */
static void refused_numbers(void)
{
    static const char *const values[] = {
        "-1", "+1", "-0", "0x", "0X10", "0x-1", "0x+1", "1-2", "1.0", "1e3",
        "0b1", "1_000", "''", "9223372036854775808", "18446744073709551615",
        "0x8000000000000000", "0x10000000000000000",
    };
    static const char *const words[] = {
        "at=rx do=drop nth", "at=rx do=drop times", "at=rx do=drop every",
        "at=rx do=drop percent", "at=rx do=drop ppm", "at=rx do=drop seed",
        "at=rx do=drop from-ns", "at=rx do=drop until-ns",
        "at=rx do=delay delay-ns", "at=rx do=reorder by",
        "at=rx do=corrupt offset", "at=rx do=corrupt mask",
        "at=tx do=throttle mbps", "at=rx do=truncate bytes",
        "at=device do=freeze for-ns", "at=command do=fail status",
        "at=device do=fatal code",
    };

    refuses_each(words, TEST_COUNT(words), values, TEST_COUNT(values));
}

static void refused_ranges(void)
{
    static const char *const values[] = {
        "-1", "+1", "1-", "-", "1--1", "1-+2", "0x-0x", "0x1-0x", "2-1",
        "1-2-3", "1,2", "18446744073709551616", "0-0x10000000000000000",
    };
    static const char *const words[] = {
        "at=tx do=drop qpn", "at=tx do=drop peer", "at=tx do=drop psn",
        "at=tx do=drop rpsn", "at=tx do=drop syndrome", "at=tx do=drop attempt",
        "at=tx do=drop opcode", "at=cqe do=drop number", "at=tx do=drop len",
        "at=dma-write do=drop address",
    };

    refuses_each(words, TEST_COUNT(words), values, TEST_COUNT(values));
}

static void largest_numbers(void)
{
    begin("at=tx nth=9223372036854775807 times=0x7fffffffffffffff "
          "every=9223372036854775807 seed=9223372036854775807 "
          "qpn=0xFFFFFF len=0-4294967295 psn=010 do=drop");
    CHECK_EQ(faults.rules[0].nth, INT64_MAX);
    CHECK_EQ(faults.rules[0].times, INT64_MAX);
    CHECK_EQ(faults.rules[0].every, INT64_MAX);
    CHECK_EQ(faults.rules[0].seed, INT64_MAX);
    CHECK_EQ(faults.rules[0].qpn.first, 0xffffff);
    CHECK_EQ(faults.rules[0].psn.first, 10);
    begin("at=dma-write address=0-0xffffffffffffffff do=drop");
    CHECK_EQ(faults.rules[0].address.last, UINT64_MAX);
}

/* The error for a refused value lists what the word accepts. */
static void refusals_say_what_may_stand_there(void)
{
    static const Wrong wrong[] = {
        { "at=rx nth=x do=drop", "a number up to 9223372036854775807" },
        { "at=rx percent=101 do=drop", "a number up to 100" },
        { "at=rx qpn=x do=drop", "a number up to 16777215, or a range A-B" },
        { "at=moon do=drop", "one of device, tx, rx, doorbell, command, "
          "send-wqe, recv-wqe, cqe, eqe, interrupt, dma-read, dma-write, "
                             "page-list, cmd-doorbell, dma-atomic, dma-flush" },
        { "at=rx do=dance", "one of count, drop, delay, duplicate, reorder, "
          "corrupt, truncate, mark, fail, fatal, freeze, dead, aer, "
                            "link-down, pause, overrun, throttle" },
        { "at=rx class=x do=drop", "one of any, roce, cnp, gsi, ether" },
        { "at=dma-read why=x do=fail", "one of any, wqe, record, page-list, "
                                       "payload, cqe, eqe, cmd" },
        { "at=device severity=x do=aer", "one of correctable, nonfatal, "
                                         "fatal" },
        { "at=rx fix-icrc=x do=corrupt", "one of off, on" },
        { "at=rx opcode=x do=drop", "a name such as rc-send-first, the "
          "beginning of names and '*', or a number up to 255, or a range A-B" },
        { "at=command cmd=x status=1 do=fail", "a command's name, such as "
                                               "CREATE_QP" },
        { "id=/ at=rx do=drop", "up to 15 letters, digits, '-', '_' and '.'" },
        { "at=cmd-doorbell do=corrupt", "at=cmd-doorbell cannot do=corrupt, "
                                        "but count, drop, delay, pause" },
        { "at=rx colour=red do=drop", "id, at, qpn, peer, psn, rpsn, " },
        { "at=rx colour=red do=drop", ", severity, status, code" },
        { "at=rx mask=0 do=corrupt", "changes nothing: 'mask'" },
    };

    refuses(wrong, TEST_COUNT(wrong));
}

/* The opcodes that several rules select together, while rules come and go. */
static void many_opcodes(void)
{
    RoceFaultSubject other = { .point = ROCE_FAULT_RX, .len = 60 };

    begin("id=a at=rx opcode=rc-send-last times=0 do=drop;"
          "id=b at=rx opcode=0xc0-0xff times=0 do=drop;"
          "id=c at=tx opcode=0x81 times=0 do=drop");
    CHECK(hits(ROCE_FAULT_RX, 1, 0, ROCE_BTH_SEND_LAST));
    CHECK(hits(ROCE_FAULT_RX, 1, 0, 0xff));
    CHECK(!hits(ROCE_FAULT_RX, 1, 0, ROCE_BTH_CNP));
    CHECK(hits(ROCE_FAULT_TX, 1, 0, ROCE_BTH_CNP));
    CHECK(!hits(ROCE_FAULT_TX, 1, 0, 0xff));
    CHECK(!roce_fault_hit(&faults, &other));
    CHECK(add("id=d at=rx len=60 times=0 do=drop"));
    CHECK(roce_fault_hit(&faults, &other));
    CHECK(!hits(ROCE_FAULT_RX, 1, 0, ROCE_BTH_CNP));
    CHECK(add("remove=a"));
    CHECK(!hits(ROCE_FAULT_RX, 1, 0, ROCE_BTH_SEND_LAST));
    CHECK(hits(ROCE_FAULT_RX, 1, 0, 0xff));
    CHECK(add("remove=d; id=e at=rx psn=5 times=0 do=drop"));
    CHECK(hits(ROCE_FAULT_RX, 1, 5, ROCE_BTH_CNP));
    CHECK(!roce_fault_hit(&faults, &other));
    CHECK(add("remove=all"));
    CHECK(!hits(ROCE_FAULT_RX, 1, 5, 0xff));
}

static void full(void)
{
    begin("");
    for (unsigned i = 0; i < ROCE_FAULT_RULES; i++) {
        CHECK(add("at=rx do=drop"));
    }
    CHECK(!add("at=rx do=drop"));
    CHECK(add("remove=f3\nat=tx do=drop"));
    CHECK(!roce_fault_find(&faults, "f3"));
    CHECK_EQ(faults.count, ROCE_FAULT_RULES);
    CHECK(add("remove=all"));
    CHECK_EQ(faults.count, 0);
    CHECK(!roce_fault_at(&faults, ROCE_FAULT_RX));
}

/* The printed text of a rule can be parsed again and means the same. */
static void printed(void)
{
    char text[ROCE_FAULT_TEXT], again[ROCE_FAULT_TEXT], *counters;

    begin("at=tx  qpn=17 opcode=rc-send* psn=4-9 times=0 every=2 do=corrupt "
          "offset=60 mask=0xf0");
    hits(ROCE_FAULT_TX, 17, 5, ROCE_BTH_SEND_ONLY);
    roce_fault_print(&faults.rules[0], text);
    counters = strstr(text, " matches=1 hits=1");
    REQUIRE(counters);
    *counters = '\0';
    begin(text);
    roce_fault_print(&faults.rules[0], again);
    *strstr(again, " matches=") = '\0';
    CHECK(strcmp(text, again) == 0);
}

/* Every action is accepted at the points that offer it, and is printed. */
static void points(void)
{
    static const char *const right[] = {
        "at=recv-wqe qpn=3 number=0-7 do=drop",
        "at=recv-wqe do=fail code=34",
        "at=page-list len=2-9 do=fail",
        "at=dma-write address=4294967296-18446744073709551615 why=eqe do=fail "
        "bytes=9",
        "at=dma-atomic address=8 do=corrupt offset=7",
        "at=dma-flush len=0-4096 do=drop",
        "at=cmd-doorbell do=delay delay-ns=1",
        "at=rx class=gsi do=drop",
        "at=send-wqe qpn=3 do=delay delay-ns=7",
        "at=recv-wqe do=delay delay-ns=7",
        "at=cqe number=3 do=reorder by=2",
        "at=cqe do=overrun",
        "at=doorbell do=reorder by=7",
        "at=tx do=throttle mbps=100",
        "at=rx rpsn=3-9 syndrome=32-63 do=corrupt offset=7 fix-icrc=on",
        "at=device do=aer severity=nonfatal",
        "at=device do=link-down for-ns=5",
        "at=device do=freeze for-ns=5",
    };

    for (unsigned i = 0; i < TEST_COUNT(right); i++) {
        char text[ROCE_FAULT_TEXT];

        begin(right[i]);
        roce_fault_print(&faults.rules[0], text);
        CHECK(strstr(text, right[i]));
    }
}

/* The rule corrupts one byte. An offset beyond the end means the last byte. An
 * empty buffer has none. */
static void corrupted(void)
{
    uint8_t bytes[4] = { 1, 2, 3, 4 };

    begin("at=cqe offset=2 mask=0x83 do=corrupt; at=eqe do=corrupt");
    roce_fault_corrupt(&faults.rules[0].corruption, bytes, sizeof(bytes));
    CHECK_MEM(bytes, ((uint8_t[]) { 1, 2, 0x80, 4 }), 4);
    roce_fault_corrupt(&faults.rules[1].corruption, bytes, sizeof(bytes));
    CHECK_MEM(bytes, ((uint8_t[]) { 1, 2, 0x80, 5 }), 4);
    roce_fault_corrupt(&faults.rules[0].corruption, bytes, 0);
    roce_fault_corrupt(&(RoceFaultCorruption) { 0 }, bytes, sizeof(bytes));
    CHECK_MEM(bytes, ((uint8_t[]) { 1, 2, 0x80, 5 }), 4);
}

static size_t make_frame(uint8_t *frame, uint8_t type)
{
    RocePacket p = {
        .network_type = type, .hop_limit = 64, .opcode = ROCE_BTH_SEND_ONLY,
        .dest_qpn = 77, .psn = 0x123456, .pkey = 0xffff, .payload_len = 64,
    };
    size_t at = roce_wire_encode(frame, &p);

    memset(frame + at, 0x5a, 64);
    return roce_wire_finish(frame, at, 64);
}

static void frames(void)
{
    static const uint8_t types[] = { FAKERNIC_GID_IPV4, FAKERNIC_GID_IPV6 };
    uint8_t frame[ROCE_FRAME_MAX];

    for (unsigned i = 0; i < TEST_COUNT(types); i++) {
        const size_t len = make_frame(frame, types[i]);
        RoceFaultSubject s = { .point = ROCE_FAULT_RX };
        enum fakernic_stat drop;
        RocePacket p;

        roce_fault_look(&s, frame, len);
        CHECK(s.roce);
        CHECK_EQ(s.qpn, 77);
        CHECK_EQ(s.psn, 0x123456);
        CHECK_EQ(s.opcode, ROCE_BTH_SEND_ONLY);
        begin("at=rx opcode=rc-send-last do=drop");
        CHECK(!roce_fault_at_frame(&faults, ROCE_FAULT_RX, frame, len));
        CHECK(add("at=rx opcode=rc-send-only do=drop"));
        CHECK(roce_fault_at_frame(&faults, ROCE_FAULT_RX, frame, len));
        CHECK(!roce_fault_at_frame(&faults, ROCE_FAULT_TX, frame, len));
        CHECK(!roce_fault_at_frame(&faults, ROCE_FAULT_RX, frame, 40));
        begin("at=rx do=mark; at=rx do=corrupt; at=rx bytes=20 do=truncate");
        CHECK_EQ(roce_fault_change(&faults.rules[0], frame, len), len);
        REQUIRE(roce_wire_decode(frame, len, &p, &drop) == ROCE_DECODE_OK);
        CHECK_EQ(p.traffic_class & 3, 3);
        CHECK_EQ(roce_fault_change(&faults.rules[1], frame, len), len);
        CHECK(roce_wire_decode(frame, len, &p, &drop) == ROCE_DECODE_DROP);
        CHECK_EQ(drop, FAKERNIC_STAT_DROP_ICRC);
        CHECK_EQ(roce_fault_change(&faults.rules[2], frame, len), 20);
    }
}

static size_t make_ack(uint8_t *frame, uint8_t type, uint8_t opcode,
                       uint8_t syndrome)
{
    RocePacket p = {
        .network_type = type, .hop_limit = 64, .opcode = opcode,
        .dest_qpn = 77, .psn = 5, .pkey = 0xffff,
        .aeth = { .syndrome = syndrome, .msn = 1 },
    };

    return roce_wire_finish(frame, roce_wire_encode(frame, &p), 0);
}

/* A syndrome rule hits packets that have a syndrome, and no requests. */
static void syndromes(void)
{
    uint8_t frame[ROCE_FRAME_MAX];
    RoceFaultSubject s = { .point = ROCE_FAULT_RX };
    size_t len = make_ack(frame, FAKERNIC_GID_IPV6, ROCE_BTH_ACK, 0x63);

    begin("at=rx syndrome=96-127 times=0 do=drop");
    CHECK(roce_fault_at_frame(&faults, ROCE_FAULT_RX, frame, len));
    roce_fault_look(&s, frame, len);
    CHECK_EQ(s.syndrome, 0x63);
    CHECK(s.response);
    CHECK(roce_fault_hit(&faults, &s));
    len = make_ack(frame, FAKERNIC_GID_IPV4, ROCE_BTH_READ_RESPONSE_ONLY, 0x1f);
    CHECK(roce_fault_at_frame(&faults, ROCE_FAULT_RX, frame, len));
    roce_fault_look(&s, frame, len);
    CHECK_EQ(s.syndrome, 0x1f);
    CHECK(!roce_fault_hit(&faults, &s));
    len = make_frame(frame, FAKERNIC_GID_IPV4);
    CHECK(!roce_fault_at_frame(&faults, ROCE_FAULT_RX, frame, len));
    s = (RoceFaultSubject) { .point = ROCE_FAULT_RX };
    roce_fault_look(&s, frame, len);
    CHECK(!s.response);
    begin("at=rx syndrome=0-255 times=0 do=drop");
    CHECK(!roce_fault_hit(&faults, &s));
    s.roce = false;
    CHECK(!roce_fault_hit(&faults, &s));
}

/* A corrupted byte under a valid ICRC, also in a frame with padding. */
static void forged(void)
{
    static const uint8_t types[] = { FAKERNIC_GID_IPV4, FAKERNIC_GID_IPV6 };

    for (unsigned i = 0; i < TEST_COUNT(types); i++) {
        uint8_t frame[ROCE_FRAME_MAX] = { 0 };
        size_t len = make_frame(frame, types[i]);
        const size_t payload = len - ROCE_ICRC_SIZE - 64;
        enum fakernic_stat drop;
        RocePacket p;

        begin("id=a at=rx mask=0xff do=corrupt fix-icrc=on");
        faults.rules[0].corruption.offset = payload + 9;
        CHECK_EQ(roce_fault_change(&faults.rules[0], frame, len), len);
        REQUIRE(roce_wire_decode(frame, len, &p, &drop) == ROCE_DECODE_OK);
        CHECK_EQ(p.payload[8], 0x5a);
        CHECK_EQ(p.payload[9], 0x5a ^ 0xff);
        /* An offset beyond the end means the last byte that the ICRC covers. */
        faults.rules[0].corruption.offset = ROCE_FRAME_MAX;
        roce_fault_change(&faults.rules[0], frame, len + 7);
        REQUIRE(roce_wire_decode(frame, len, &p, &drop) == ROCE_DECODE_OK);
        CHECK_EQ(p.payload[63], 0x5a ^ 0xff);
        CHECK_EQ(frame[len + 6], 0);
    }
}

/* Each byte is corrupted in turn, also in headers and in short packets. */
static void forged_everywhere(void)
{
    static const uint8_t types[] = { FAKERNIC_GID_IPV4, FAKERNIC_GID_IPV6 };

    begin("id=a at=rx mask=0xff do=corrupt fix-icrc=on");
    for (unsigned i = 0; i < 2 * TEST_COUNT(types); i++) {
        uint8_t whole[ROCE_FRAME_MAX] = { 0 };
        size_t len = i & 1 ? make_ack(whole, types[i / 2], ROCE_BTH_ACK, 0x1f)
                           : make_frame(whole, types[i / 2]);

        for (size_t at = 0; at < len - ROCE_ICRC_SIZE; at++) {
            for (unsigned mask = 1; mask < 256; mask <<= 1) {
                uint8_t *frame = malloc(len);

                memcpy(frame, whole, len);
                faults.rules[0].corruption.offset = at;
                faults.rules[0].corruption.mask = mask;
                CHECK_EQ(roce_fault_change(&faults.rules[0], frame, len), len);
                CHECK_EQ(frame[at], whole[at] ^ mask);
                free(frame);
            }
        }
    }
}

/* Random frames of all lengths: no byte beyond the end is read. */
static void frames_of_nonsense(void)
{
    uint8_t whole[ROCE_FRAME_MAX];
    const size_t len = make_frame(whole, FAKERNIC_GID_IPV4);

    begin("at=rx do=mark; at=rx fix-icrc=on do=corrupt");
    for (size_t cut = 0; cut <= len; cut++) {
        uint8_t *frame = malloc(cut ? cut : 1);
        RoceFaultSubject s = { .point = ROCE_FAULT_RX };

        memcpy(frame, whole, cut);
        if (cut > 14) {
            frame[14] |= 0x0f;          /* the longest IPv4 header */
        }
        roce_fault_look(&s, frame, cut);
        CHECK(roce_fault_at_frame(&faults, ROCE_FAULT_RX, frame, cut));
        roce_fault_change(&faults.rules[0], frame, cut);
        roce_fault_change(&faults.rules[1], frame, cut);
        free(frame);
    }
    CHECK(true);
}

static void commands(void)
{
    begin("");
    CHECK(!add("at=command cmd=NOTHING do=fail"));
}

static const Test tests[] = {
    TEST(nth_of_an_opcode), TEST(counts), TEST(chance_is_the_seeds),
    TEST(chance_is_the_devices), TEST(shares_below_a_percent),
    TEST(tables_have_chances_of_their_own), TEST(after_another),
    TEST(counts_are_decimal), TEST(matches),
    TEST(accesses), TEST(many_opcodes),
    TEST(refused_of_frames), TEST(refused), TEST(refused_numbers),
    TEST(refused_ranges), TEST(largest_numbers),
    TEST(refusals_say_what_may_stand_there), TEST(full),
    TEST(ids_do_not_collide), TEST(printed), TEST(points), TEST(corrupted),
    TEST(throttled), TEST(relative_psns), TEST(syndromes), TEST(forged),
    TEST(forged_everywhere),
    TEST(frames),
    TEST(frames_of_nonsense), TEST(commands),
};

TEST_MAIN(tests)
