/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The embedded switch against a model: random settings, links, filters, busy
 * vports and frames. The model asks for each vport whether it must get a frame,
 * and has no table. Rates are not in it (test_eswitch has them).
 */
#include "harness.h"
#include "eswitch/eswitch.h"
#include "fakernic/cmdq.h"

#define HISTORIES 400
#define STEPS 400
#define VFS 4
#define PORTS (VFS + 2)
#define UPLINK (PORTS - 1)
#define FRAME 40                /* before the switch pushes a tag */
#define WAITING 32              /* frames that one vport may wait for */

typedef struct Frame {
    size_t len;
    bool copy;
    uint8_t bytes[FRAME + 4];
} Frame;

typedef struct Model {
    ESwitch *sw;
    ESwitchSettings set[PORTS];
    uint8_t permanent[PORTS][6], current[PORTS][6], filter[PORTS];
    bool present[PORTS], busy[PORTS], waits[PORTS], uplink_up;
    Frame due[PORTS][WAITING];  /* frames that a vport must get, in order */
    unsigned count[PORTS];
    uint64_t counters[PORTS][FAKERNIC_VPORT_STAT_COUNT];
} Model;

static Model m;
static uint64_t state;

static unsigned chance(unsigned below)
{
    state = state * 6364136223846793005 + 1442695040888963407;
    return (unsigned)(state >> 33) % below;
}

static unsigned number(unsigned port)
{
    return port == UPLINK ? ESWITCH_UPLINK : port;
}

static unsigned index_of(unsigned vport)
{
    return vport == ESWITCH_UPLINK ? UPLINK : vport;
}

/* ---- addresses and counters ---------------------------------------------- */

static bool is_group(const uint8_t *mac)
{
    return mac[0] & 1;
}

static bool is_broadcast(const uint8_t *mac)
{
    return !memcmp(mac, "\xff\xff\xff\xff\xff\xff", 6);
}

static bool is_zero(const uint8_t *mac)
{
    return !(mac[0] | mac[1] | mac[2] | mac[3] | mac[4] | mac[5]);
}

static bool is_reserved(const uint8_t *mac)
{
    return !memcmp(mac, "\x01\x80\xc2\x00\x00", 5) && mac[5] < 16;
}

static void count(unsigned port, unsigned first, const Frame *f)
{
    m.counters[port][first]++;
    m.counters[port][first + 1] += f->len;
    m.counters[port][first + 2] += is_broadcast(f->bytes);
    m.counters[port][first + 3] +=
        is_group(f->bytes) && !is_broadcast(f->bytes);
}

/* ---- the host ------------------------------------------------------------ */

static bool deliver(void *opaque, unsigned vport, const uint8_t *frame,
                    size_t len, bool copy)
{
    const unsigned port = index_of(vport);
    const Frame *due = &m.due[port][0];

    (void)opaque;
    REQUIRE(m.count[port] > 0);
    CHECK_EQ(len, due->len);
    CHECK_EQ(copy, due->copy);
    CHECK(len == due->len && !memcmp(frame, due->bytes, len));
    count(port, FAKERNIC_VPORT_STAT_RX_FRAMES, due);
    memmove(&m.due[port][0], &m.due[port][1], sizeof(Frame) * (WAITING - 1));
    m.count[port]--;
    m.busy[port] = chance(8) == 0;
    return !m.busy[port];
}

static void resume(void *opaque, unsigned vport)
{
    (void)opaque;
    CHECK(m.waits[index_of(vport)]);
    m.waits[index_of(vport)] = false;
}

static void link_changed(void *opaque, unsigned vport, bool up)
{
    (void)opaque;
    CHECK_EQ(eswitch_link_up(m.sw, vport), up);
}

/* ---- the model ----------------------------------------------------------- */

static bool is_up(unsigned port)
{
    return m.present[port] && m.set[port].link != FAKERNIC_VPORT_LINK_DISABLE &&
           (m.uplink_up || m.set[port].link == FAKERNIC_VPORT_LINK_ENABLE);
}

static bool sees_all(unsigned port)
{
    return m.set[port].trust && m.filter[port] & FAKERNIC_FILTER_PROMISCUOUS;
}

/* Type and id of a VLAN as one number; 0: none. */
static unsigned vlan(unsigned type, unsigned tci)
{
    return tci & 0xfff ? type << 16 | (tci & 0xfff) : 0;
}

static unsigned port_vlan(unsigned port)
{
    return vlan(m.set[port].vlan_proto, m.set[port].vid);
}

static bool has_address(unsigned port, unsigned rank, const uint8_t *mac)
{
    const uint8_t *own = rank == 0 ? m.set[port].mac :
                         rank == 1 ? m.permanent[port] : m.current[port];

    return m.present[port] && !is_zero(own) && !is_group(own) &&
           !memcmp(own, mac, 6) &&
           (rank < 2 || m.set[port].trust || !m.set[port].spoof_check);
}

/* The vport with an address in a VLAN; PORTS: none; 'sender': no other. */
static unsigned lookup(const uint8_t *mac, unsigned tag, unsigned sender)
{
    unsigned found = PORTS;

    for (unsigned pass = 0; pass < 2; pass++) {
        const unsigned wanted = pass == 0 ? tag : 0;

        for (unsigned rank = 0; rank < 3; rank++) {
            for (unsigned port = 0; port < UPLINK; port++) {
                if (port_vlan(port) == wanted && has_address(port, rank, mac)) {
                    found = port;
                    if (port != sender) {
                        return port;
                    }
                }
            }
        }
    }
    return found;
}

static bool owns(unsigned port, const uint8_t *mac)
{
    return has_address(port, 0, mac) || has_address(port, 2, mac) ||
           (is_zero(m.set[port].mac) && has_address(port, 1, mac));
}

/* True: 'port' must get a frame of the sender, perhaps as a copy. */
static bool must_get(unsigned port, unsigned sender, const uint8_t *mac,
                     unsigned tag, bool *copy)
{
    const unsigned hit = is_group(mac) ? PORTS : lookup(mac, tag, sender);
    bool asks;

    *copy = false;
    if (port == sender || !m.present[port] ||
        (port_vlan(port) && port_vlan(port) != tag)) {
        return false;
    }
    if (port == UPLINK) {
        return hit == PORTS;
    }
    if (!is_group(mac)) {
        asks = hit == port || (hit == PORTS && sender == UPLINK && port == 0);
    } else if (is_reserved(mac)) {
        asks = sender == UPLINK && port == 0;
    } else {
        asks = port == 0 || m.filter[port] & (is_broadcast(mac) ?
               FAKERNIC_FILTER_BROADCAST : FAKERNIC_FILTER_MULTICAST);
    }
    *copy = !asks;
    return asks || sees_all(port);
}

static void put_tag(Frame *f, unsigned type, unsigned tci)
{
    f->bytes[12] = (uint8_t)(type >> 8);
    f->bytes[13] = (uint8_t)type;
    f->bytes[14] = (uint8_t)(tci >> 8);
    f->bytes[15] = (uint8_t)tci;
}

static void retag(Frame *f, unsigned cut, unsigned type, unsigned tci)
{
    const unsigned add = type ? 4 : 0;

    memmove(f->bytes + 12 + add, f->bytes + 12 + cut, f->len - 12 - cut);
    f->len = f->len + add - cut;
    if (add) {
        put_tag(f, type, tci);
    }
}

static unsigned type_of(const Frame *f)
{
    return (unsigned)(f->bytes[12] << 8 | f->bytes[13]);
}

/* The frame as it is in the switch. False: it does not enter. */
static bool enter(unsigned sender, Frame *f)
{
    const ESwitchSettings *set = &m.set[sender];
    const unsigned tci = (unsigned)(set->qos << 13 | set->vid);
    const bool tagged = type_of(f) == 0x8100 || type_of(f) == 0x88a8;
    bool drop = !is_up(sender) || f->len < 14;

    if (!drop && set->spoof_check && !owns(sender, f->bytes + 6)) {
        m.counters[sender][FAKERNIC_VPORT_STAT_TX_SPOOFED]++;
        return false;
    }
    drop |= (is_reserved(f->bytes) && !set->trust) ||
            (set->vid && type_of(f) == set->vlan_proto);
    m.counters[sender][FAKERNIC_VPORT_STAT_TX_DROPPED] += drop;
    if (!drop && (set->vid || (tci && !tagged))) {
        retag(f, 0, set->vlan_proto, tci);
    }
    return !drop;
}

/* Notes what must be delivered. Returns false if the frame has to wait. */
static bool expect(unsigned sender, const Frame *sent)
{
    Frame in = *sent;
    unsigned tag = 0;
    bool copy;

    if (!enter(sender, &in)) {
        return true;
    }
    if ((type_of(&in) == 0x8100 || type_of(&in) == 0x88a8) && in.len >= 18) {
        tag = vlan(type_of(&in), (unsigned)(in.bytes[14] << 8 | in.bytes[15]));
    }
    if (m.busy[UPLINK] && is_up(UPLINK) &&
        must_get(UPLINK, sender, in.bytes, tag, &copy)) {
        m.waits[sender] = true;
        return false;
    }
    count(sender, FAKERNIC_VPORT_STAT_TX_FRAMES, sent);
    m.waits[sender] = false;
    for (unsigned port = 0; port < PORTS; port++) {
        Frame out = in;

        if (!must_get(port, sender, in.bytes, tag, &out.copy)) {
            continue;
        }
        if (!is_up(port)) {
            m.counters[port][FAKERNIC_VPORT_STAT_RX_DROPPED]++;
            continue;
        }
        if (port_vlan(port)) {
            retag(&out, 4, 0, 0);
        }
        REQUIRE(m.count[port] < WAITING);
        m.due[port][m.count[port]++] = out;
    }
    return true;
}

/* ---- histories ----------------------------------------------------------- */

/* One of a few addresses: groups, none, and those that vports use. */
static void random_mac(uint8_t *mac)
{
    static const uint8_t groups[][6] = {
        { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff }, { 0x01, 0x80, 0xc2, 0, 0, 2 },
        { 0x01, 0x80, 0xc2, 0, 0, 0x10 }, { 0x33, 0x33, 0, 0, 0, 1 }, { 0 },
    };
    const unsigned which = chance(12);

    memset(mac, 0, 6);
    if (which < TEST_COUNT(groups)) {
        memcpy(mac, groups[which], 6);
    } else {
        mac[0] = 0x52;
        mac[5] = (uint8_t)chance(PORTS + 1);
    }
}

static void change_settings(unsigned vf)
{
    ESwitchSettings *set = &m.set[vf];

    random_mac(set->mac);
    if (is_group(set->mac)) {
        memset(set->mac, 0, 6);
    }
    set->vlan_proto = chance(2) ? 0x8100 : 0x88a8;
    set->vid = (uint16_t)(chance(2) ? 0 : 5 + chance(2));
    set->qos = (uint8_t)(chance(3) ? 0 : chance(8));
    set->link = (uint8_t)(chance(3) ? FAKERNIC_VPORT_LINK_AUTO : chance(3));
    set->spoof_check = chance(2);
    set->trust = chance(2);
    eswitch_set(m.sw, vf, set);
}

static void change_function(unsigned port)
{
    random_mac(m.current[port]);
    m.filter[port] = (uint8_t)chance(8);
    eswitch_set_port(m.sw, port, m.current[port], m.filter[port]);
}

static void change_presence(unsigned vf)
{
    m.present[vf] = !m.present[vf];
    memset(m.current[vf], 0, 6);
    m.filter[vf] = 0;
    m.count[vf] = 0;
    if (m.present[vf]) {
        memset(m.counters[vf], 0, sizeof(m.counters[vf]));
    }
    eswitch_set_present(m.sw, vf, m.present[vf]);
    CHECK(!m.waits[vf]);
}

static void send_frame(unsigned port)
{
    Frame f = { .len = chance(20) ? FRAME : 12 + chance(8) };
    const unsigned types[] = { 0x0800, 0x8100, 0x88a8 };
    bool enters;

    for (unsigned i = 12; i < sizeof(f.bytes); i++) {
        f.bytes[i] = (uint8_t)chance(256);
    }
    random_mac(f.bytes);
    random_mac(f.bytes + 6);
    if (port && port < UPLINK && chance(4)) {
        memcpy(f.bytes + 6, is_zero(m.set[port].mac) ? m.permanent[port] :
               m.set[port].mac, 6);
    }
    put_tag(&f, types[chance(3)],
            chance(2) << 13 | (chance(3) ? 5 + chance(2) : 0));
    enters = expect(port, &f);
    CHECK_EQ(eswitch_in(m.sw, 0, number(port), f.bytes, f.len) > 0, enters);
}

static void ready(unsigned port)
{
    const bool was_busy = m.busy[port];

    m.busy[port] = false;
    if (was_busy) {
        eswitch_ready(m.sw, number(port));
    }
}

static void step(void)
{
    const unsigned port = chance(PORTS), vf = 1 + chance(VFS);

    switch (chance(16)) {
    case 0:
        change_settings(vf);
        break;
    case 1:
        change_function(chance(UPLINK));
        break;
    case 2:
        if (chance(4) == 0) {
            change_presence(vf);
        }
        break;
    case 3:
        m.uplink_up = chance(4);
        eswitch_set_uplink(m.sw, m.uplink_up);
        break;
    case 4:
    case 5:
        ready(port);
        break;
    default:
        send_frame(port);
    }
}

static void begin(void)
{
    static const ESwitchOps ops = { deliver, resume, link_changed };

    memset(&m, 0, sizeof(m));
    m.sw = eswitch_new(&ops, NULL, VFS);
    REQUIRE(m.sw);
    m.uplink_up = true;
    for (unsigned port = 0; port < PORTS; port++) {
        m.set[port] = *eswitch_settings(m.sw, number(port));
        m.present[port] = port == 0 || port == UPLINK;
        if (port != UPLINK) {
            m.permanent[port][0] = 0x52;
            m.permanent[port][5] = (uint8_t)port;
            eswitch_set_permanent(m.sw, port, m.permanent[port]);
        }
    }
    for (unsigned vf = 1; vf <= VFS; vf++) {
        change_presence(vf);
        change_function(vf);
    }
}

static void random_histories_agree_with_the_model(void)
{
    for (unsigned history = 0; history < HISTORIES && !test_failed; history++) {
        state = history;
        begin();
        for (unsigned i = 0; i < STEPS && !test_failed; i++) {
            step();
            for (unsigned port = 0; port < PORTS; port++) {
                CHECK(m.busy[port] || m.count[port] == 0);
                CHECK(m.busy[UPLINK] || !m.waits[port]);
                if (m.count[port] > WAITING - 8) {
                    ready(port);
                }
                for (unsigned c = 0; c < FAKERNIC_VPORT_STAT_COUNT; c++) {
                    CHECK_EQ(eswitch_counter(m.sw, number(port), c),
                             m.counters[port][c]);
                }
            }
            if (test_failed) {
                printf("# history %u, step %u\n", history, i);
            }
        }
        eswitch_free(m.sw);
    }
}

static const Test tests[] = {
    TEST(random_histories_agree_with_the_model),
};
TEST_MAIN(tests)
