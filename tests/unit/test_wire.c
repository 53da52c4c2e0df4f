/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * wire.c against frames of another implementation (tests/wire/rxe.txt, and
 * captures in ROCE_WIRE_DIR), against its own encoder for every opcode, and
 * against damaged frames. Each decoded frame is in an allocation of its exact
 * size, so that the sanitizer detects a read behind its end.
 */
#include <libdeflate.h>
#include "fakernic/cmdq.h"
#include "harness.h"
#include "icrc.h"
#include "opcode.h"
#include "wire.h"

#define GOLDEN "../wire/rxe.txt"
#define GOLDEN_FRAMES 33

/* A frame in its own allocation. */
typedef struct Frame {
    uint8_t *bytes;
    size_t len;
} Frame;

static Frame frame_copy(const uint8_t *bytes, size_t len)
{
    Frame f = { malloc(len ? len : 1), len };

    REQUIRE(f.bytes);
    memcpy(f.bytes, bytes, len);
    return f;
}

static RoceDecode decode_exact(const uint8_t *bytes, size_t len,
                               enum fakernic_stat *drop)
{
    Frame f = frame_copy(bytes, len);
    RocePacket packet;
    RoceDecode decoded;

    *drop = FAKERNIC_STAT_COUNT;
    decoded = roce_wire_decode(f.bytes, f.len, &packet, drop);
    if (decoded == ROCE_DECODE_OK) {
        size_t begin = (size_t)(packet.payload - f.bytes);

        CHECK(begin <= f.len && packet.payload_len <= f.len - begin);
    } else if (decoded == ROCE_DECODE_DROP) {
        CHECK(*drop >= FAKERNIC_STAT_DROP_SHORT &&
              *drop <= FAKERNIC_STAT_DROP_OPCODE);
    }
    free(f.bytes);
    return decoded;
}

static void check_drop(const uint8_t *bytes, size_t len,
                       enum fakernic_stat want)
{
    enum fakernic_stat drop;

    CHECK_EQ(decode_exact(bytes, len, &drop), ROCE_DECODE_DROP);
    CHECK_EQ(drop, want);
}

static void check_not_roce(const uint8_t *bytes, size_t len)
{
    enum fakernic_stat drop;

    CHECK_EQ(decode_exact(bytes, len, &drop), ROCE_DECODE_NOT_ROCE);
}

static size_t encode(uint8_t *buf, const RocePacket *packet,
                     const uint8_t *payload)
{
    size_t offset = roce_wire_encode(buf, packet);

    memcpy(buf + offset, payload, packet->payload_len);
    return roce_wire_finish(buf, offset, packet->payload_len);
}

/* ---- golden frames ------------------------------------------------------- */

static void text_ip(char *to, size_t size, const RocePacket *p)
{
    const uint8_t *s = p->sgid, *d = p->dgid;
    int n = 0;

    if (p->network_type == FAKERNIC_GID_IPV4) {
        snprintf(to, size,
                 "ipv4 %d.%d.%d.%d > %d.%d.%d.%d tc %d hops %d id %d sport %d\n",
                 s[12], s[13], s[14], s[15], d[12], d[13], d[14], d[15],
                 p->traffic_class, p->hop_limit, p->ip_id, p->udp_sport);
        return;
    }
    n += snprintf(to, size, "ipv6 ");
    for (unsigned i = 0; i < 32; i++) {
        n += snprintf(to + n, size - (size_t)n, "%s%02x", i == 16 ? " > " : "",
                      i < 16 ? s[i] : d[i - 16]);
    }
    snprintf(to + n, size - (size_t)n, " tc %d hops %d flow %" PRIu32
             " sport %d\n", p->traffic_class, p->hop_limit, p->flow_label,
             p->udp_sport);
}

/* Appends to a text of at most size bytes. */
#define APPEND(...) \
    snprintf(to + strlen(to), size - strlen(to), __VA_ARGS__)

/* The packet as text of the golden file. */
static void packet_text(char *to, size_t size, const RocePacket *p)
{
    unsigned flags = roce_opcode_info(p->opcode)->flags;

    text_ip(to, size, p);
    APPEND("bth 0x%02x se %d m %d pkey 0x%04x fecn %d becn %d qpn %" PRIu32
           " ack %d psn %" PRIu32 "\n", p->opcode, p->solicited, p->mig_req,
           p->pkey, p->fecn, p->becn, p->dest_qpn, p->ack_req, p->psn);
    if (flags & ROCE_HAS_DETH) {
        APPEND("deth qkey 0x%" PRIx32 " src %" PRIu32 "\n", p->deth.qkey,
               p->deth.src_qpn);
    }
    if (flags & ROCE_HAS_RETH) {
        APPEND("reth va 0x%" PRIx64 " rkey 0x%" PRIx32 " len %" PRIu32 "\n",
               p->reth.address, p->reth.rkey, p->reth.length);
    }
    if (flags & ROCE_HAS_ATOMICETH) {
        APPEND("atomiceth va 0x%" PRIx64 " rkey 0x%" PRIx32 " swap 0x%" PRIx64
               " compare 0x%" PRIx64 "\n", p->atomic_eth.address,
               p->atomic_eth.rkey, p->atomic_eth.swap_or_add,
               p->atomic_eth.compare);
    }
    if (flags & ROCE_HAS_AETH) {
        APPEND("aeth syndrome 0x%x msn %" PRIu32 "\n", p->aeth.syndrome,
               p->aeth.msn);
    }
    if (flags & ROCE_HAS_ATOMICACK) {
        APPEND("atomicack 0x%" PRIx64 "\n", p->atomic_ack);
    }
    if (flags & ROCE_HAS_IMM) {
        APPEND("imm 0x%" PRIx32 "\n", p->imm);
    }
    APPEND("payload %zu crc 0x%08" PRIx32 "\n", p->payload_len,
           (uint32_t)libdeflate_crc32(0, p->payload, p->payload_len));
}

typedef struct Golden {
    char text[1024];
    uint8_t bytes[ROCE_FRAME_MAX];
    size_t len;
} Golden;

static unsigned hex_digit(char c)
{
    const char *digits = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;

    REQUIRE(at);
    return (unsigned)(at - digits);
}

static FILE *golden_open(void)
{
    FILE *file = fopen(GOLDEN, "r");

    if (!file) {
        printf("# cannot open %s: run from tests/unit\n", GOLDEN);
    }
    REQUIRE(file);
    return file;
}

/* The next frame, false at the end. */
static bool golden_next(FILE *file, Golden *g)
{
    char line[1024];
    size_t want = 0;

    memset(g, 0, sizeof(*g));
    while (fgets(line, sizeof(line), file)) {
        if (line[0] == '#' || line[0] == '\n') {
            continue;
        }
        if (strncmp(line, "frame ", 6) == 0) {
            want = strtoul(line + 6, NULL, 10);
            REQUIRE(want > 0 && want <= sizeof(g->bytes));
        } else if (line[0] != ' ') {
            REQUIRE(strlen(g->text) + strlen(line) < sizeof(g->text));
            strcat(g->text, line);
        } else {
            for (char *c = line + 1; *c && *c != '\n'; c += 2) {
                REQUIRE(g->len < want);
                g->bytes[g->len++] =
                    (uint8_t)(hex_digit(c[0]) << 4 | hex_digit(c[1]));
            }
            if (g->len == want) {
                return true;
            }
        }
    }
    CHECK_EQ(want, 0);          /* the file does not end within a frame */
    return false;
}

static void golden_frames_decode_as_written(void)
{
    FILE *file = golden_open();
    unsigned count = 0;
    Golden g;

    while (golden_next(file, &g)) {
        Frame f = frame_copy(g.bytes, g.len);
        enum fakernic_stat drop;
        RocePacket packet;
        char text[1024];

        CHECK_EQ(roce_wire_decode(f.bytes, f.len, &packet, &drop),
                 ROCE_DECODE_OK);
        CHECK_MEM(packet.dmac, g.bytes, 6);
        CHECK_MEM(packet.smac, g.bytes + 6, 6);
        CHECK(!packet.has_vlan);
        packet_text(text, sizeof(text), &packet);
        if (strcmp(text, g.text) != 0) {
            printf("# got %s# want %s", text, g.text);
        }
        CHECK(strcmp(text, g.text) == 0);
        free(f.bytes);
        count++;
    }
    fclose(file);
    CHECK_EQ(count, GOLDEN_FRAMES);
}

/* ---- re-encoding --------------------------------------------------------- */

/* Counts RoCEv2 frames. The encoder must reproduce each of them. */
static unsigned reencode(const uint8_t *bytes, size_t len)
{
    static uint8_t buf[ROCE_FRAME_MAX];
    Frame f = frame_copy(bytes, len);
    enum fakernic_stat drop;
    RocePacket packet;
    RoceDecode decoded = roce_wire_decode(f.bytes, f.len, &packet, &drop);
    size_t size;

    CHECK(decoded != ROCE_DECODE_DROP);
    if (decoded == ROCE_DECODE_OK) {
        size = encode(buf, &packet, packet.payload);
        CHECK_EQ(size, len);
        CHECK_MEM(buf, bytes, len);
    }
    free(f.bytes);
    return decoded == ROCE_DECODE_OK;
}

static uint32_t pcap_word(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static unsigned reencode_pcap(const char *directory, const char *name)
{
    static uint8_t bytes[65536];
    uint8_t header[24], record[16];
    unsigned count = 0;
    char path[1024];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "rb");
    if (!file) {
        printf("# cannot open %s\n", path);
    }
    REQUIRE(file);
    REQUIRE(fread(header, sizeof(header), 1, file) == 1);
    REQUIRE(pcap_word(header) == 0xa1b2c3d4);   /* little-endian, us */
    REQUIRE(pcap_word(header + 20) == 1);       /* Ethernet */
    while (fread(record, sizeof(record), 1, file) == 1) {
        size_t len = pcap_word(record + 8);

        REQUIRE(len <= sizeof(bytes) && len == pcap_word(record + 12));
        REQUIRE(fread(bytes, len, 1, file) == 1);
        count += reencode(bytes, len);
    }
    REQUIRE(feof(file));
    fclose(file);
    printf("# %s: %u RoCEv2 frames\n", name, count);
    return count;
}

static void captured_frames_reencode_byte_for_byte(void)
{
    const char *directory = getenv("ROCE_WIRE_DIR");
    FILE *file = golden_open();
    unsigned count = 0;
    Golden g;

    while (golden_next(file, &g)) {
        count += reencode(g.bytes, g.len);
    }
    fclose(file);
    CHECK_EQ(count, GOLDEN_FRAMES);
    printf("# golden: %u RoCEv2 frames\n", count);
    if (directory && directory[0]) {
        CHECK_EQ(reencode_pcap(directory, "rxe-mtu1500.pcap"), 571);
        CHECK_EQ(reencode_pcap(directory, "rxe-mtu9000.pcap"), 395);
    }
}

/* ---- a packet of each kind ----------------------------------------------- */

static uint64_t chance_state = 1;

/* xorshift64*: the same in every run. */
static uint64_t chance(void)
{
    chance_state ^= chance_state >> 12;
    chance_state ^= chance_state << 25;
    chance_state ^= chance_state >> 27;
    return chance_state * 0x2545f4914f6cdd1dull;
}

static void chance_bytes(uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        p[i] = (uint8_t)(chance() >> 32);
    }
}

static void chance_addresses(RocePacket *p, uint8_t network_type)
{
    chance_bytes(p->dmac, 6);
    chance_bytes(p->smac, 6);
    p->network_type = network_type;
    chance_bytes(p->sgid, 16);
    chance_bytes(p->dgid, 16);
    if (network_type == FAKERNIC_GID_IPV4) {
        memset(p->sgid, 0, 10);
        memset(p->sgid + 10, 0xff, 2);
        memcpy(p->dgid, p->sgid, 12);
        p->ip_id = (uint16_t)chance();
    } else {
        p->flow_label = chance() & 0xfffff;
    }
    p->traffic_class = (uint8_t)chance();
    p->hop_limit = (uint8_t)chance();
    p->udp_sport = (uint16_t)chance();
}

static void chance_headers(RocePacket *p, unsigned flags)
{
    if (flags & ROCE_HAS_XRCETH) {
        p->xrceth.srqn = chance() & 0xffffff;
    }
    if (flags & ROCE_HAS_DETH) {
        p->deth.qkey = (uint32_t)chance();
        p->deth.src_qpn = chance() & 0xffffff;
    }
    if (flags & ROCE_HAS_FETH) {
        p->feth = (uint32_t)chance();
    }
    if (flags & ROCE_HAS_RETH) {
        p->reth.address = chance();
        p->reth.rkey = (uint32_t)chance();
        p->reth.length = (uint32_t)chance();
    }
    if (flags & ROCE_HAS_ATOMICETH) {
        p->atomic_eth.address = chance();
        p->atomic_eth.rkey = (uint32_t)chance();
        p->atomic_eth.swap_or_add = chance();
        p->atomic_eth.compare = chance();
    }
    if (flags & ROCE_HAS_MASKETH) {
        p->atomic_eth.swap_mask_or_boundary = chance();
        p->atomic_eth.compare_mask = chance();
    }
    if (flags & ROCE_HAS_AETH) {
        p->aeth.syndrome = (uint8_t)chance();
        p->aeth.msn = chance() & 0xffffff;
    }
    p->atomic_ack = flags & ROCE_HAS_ATOMICACK ? chance() : 0;
    p->imm = flags & ROCE_HAS_IMM ? (uint32_t)chance() : 0;
    p->ieth_rkey = flags & ROCE_HAS_IETH ? (uint32_t)chance() : 0;
}

/* All fields are random; fields that are not on the wire are zero. */
static RocePacket chance_packet(uint8_t opcode, uint8_t network_type)
{
    RocePacket p = { .opcode = opcode };

    chance_addresses(&p, network_type);
    p.solicited = chance() >> 63;
    p.mig_req = chance() >> 63;
    p.fecn = chance() >> 63;
    p.becn = chance() >> 63;
    p.ack_req = chance() >> 63;
    p.pkey = (uint16_t)chance();
    p.dest_qpn = chance() & 0xffffff;
    p.psn = chance() & 0xffffff;
    chance_headers(&p, roce_opcode_info(opcode)->flags);
    return p;
}

static const uint8_t network_types[] = { FAKERNIC_GID_IPV4, FAKERNIC_GID_IPV6 };

/* Field by field: memcmp would compare padding. */
static void check_same_packet(const RocePacket *a, const RocePacket *b)
{
    CHECK_MEM(a->dmac, b->dmac, 6);
    CHECK_MEM(a->smac, b->smac, 6);
    CHECK_EQ(a->has_vlan, b->has_vlan);
    CHECK_EQ(a->vlan_tci, b->vlan_tci);
    CHECK_EQ(a->network_type, b->network_type);
    CHECK_MEM(a->sgid, b->sgid, 16);
    CHECK_MEM(a->dgid, b->dgid, 16);
    CHECK_EQ(a->traffic_class, b->traffic_class);
    CHECK_EQ(a->hop_limit, b->hop_limit);
    CHECK_EQ(a->flow_label, b->flow_label);
    CHECK_EQ(a->udp_sport, b->udp_sport);
    CHECK_EQ(a->ip_id, b->ip_id);
    CHECK_EQ(a->opcode, b->opcode);
    CHECK_EQ(a->solicited, b->solicited);
    CHECK_EQ(a->mig_req, b->mig_req);
    CHECK_EQ(a->fecn, b->fecn);
    CHECK_EQ(a->becn, b->becn);
    CHECK_EQ(a->ack_req, b->ack_req);
    CHECK_EQ(a->pkey, b->pkey);
    CHECK_EQ(a->dest_qpn, b->dest_qpn);
    CHECK_EQ(a->psn, b->psn);
    CHECK_EQ(a->xrceth.srqn, b->xrceth.srqn);
    CHECK_EQ(a->deth.qkey, b->deth.qkey);
    CHECK_EQ(a->deth.src_qpn, b->deth.src_qpn);
    CHECK_EQ(a->reth.address, b->reth.address);
    CHECK_EQ(a->reth.rkey, b->reth.rkey);
    CHECK_EQ(a->reth.length, b->reth.length);
    CHECK_EQ(a->atomic_eth.address, b->atomic_eth.address);
    CHECK_EQ(a->atomic_eth.rkey, b->atomic_eth.rkey);
    CHECK_EQ(a->atomic_eth.swap_or_add, b->atomic_eth.swap_or_add);
    CHECK_EQ(a->atomic_eth.compare, b->atomic_eth.compare);
    CHECK_EQ(a->atomic_eth.swap_mask_or_boundary,
             b->atomic_eth.swap_mask_or_boundary);
    CHECK_EQ(a->atomic_eth.compare_mask, b->atomic_eth.compare_mask);
    CHECK_EQ(a->aeth.syndrome, b->aeth.syndrome);
    CHECK_EQ(a->aeth.msn, b->aeth.msn);
    CHECK_EQ(a->atomic_ack, b->atomic_ack);
    CHECK_EQ(a->imm, b->imm);
    CHECK_EQ(a->ieth_rkey, b->ieth_rkey);
    CHECK_EQ(a->feth, b->feth);
    CHECK_EQ(a->payload_len, b->payload_len);
}

static void round_trip(RocePacket *p, size_t payload_len)
{
    static uint8_t buf[ROCE_FRAME_MAX], payload[4096];
    enum fakernic_stat drop;
    RocePacket back;
    size_t len;
    Frame f;

    REQUIRE(payload_len <= sizeof(payload));
    chance_bytes(payload, payload_len);
    p->payload_len = payload_len;
    len = encode(buf, p, payload);
    f = frame_copy(buf, len);
    CHECK_EQ(roce_wire_decode(f.bytes, f.len, &back, &drop), ROCE_DECODE_OK);
    check_same_packet(&back, p);
    if (back.payload_len == payload_len) {
        CHECK_MEM(back.payload, payload, payload_len);
    }
    free(f.bytes);
}

static void every_opcode_round_trips(void)
{
    static const size_t sizes[] = { 0, 1, 2, 3, 4, 255, 1024, 4096 };
    unsigned opcodes = 0;

    for (unsigned opcode = 0; opcode < 256; opcode++) {
        const RoceOpcodeInfo *info = roce_opcode_info((uint8_t)opcode);

        if (info->service == ROCE_SERVICE_NONE) {
            continue;
        }
        opcodes++;
        for (unsigned n = 0; n < 2 * TEST_COUNT(sizes); n++) {
            RocePacket p = chance_packet((uint8_t)opcode, network_types[n & 1]);

            p.has_vlan = chance() >> 63;
            p.vlan_tci = p.has_vlan ? (uint16_t)chance() : 0;
            round_trip(&p, info->flags & ROCE_HAS_PAYLOAD ? sizes[n / 2] : 0);
        }
    }
    CHECK_EQ(opcodes, 34 + 12 + 2 + 1 + 34);
}

/* Encodes a packet with the prepared head of another one on the same path. */
static void same_on_a_head(const RocePacket *p)
{
    static uint8_t whole[ROCE_FRAME_MAX], on_head[ROCE_FRAME_MAX];
    RocePacket other = *p;
    RoceHead head;
    size_t len;

    other.traffic_class = (uint8_t)chance();
    other.ip_id = (uint16_t)chance();
    other.opcode = ROCE_BTH_RC | ROCE_BTH_SEND_ONLY;
    other.solicited = chance() >> 63;
    other.mig_req = chance() >> 63;
    other.ack_req = chance() >> 63;
    other.psn = chance() & 0xffffff;
    other.payload_len = chance() & 0xfff;
    roce_wire_head(&head, &other);
    memset(on_head, 0x5a, sizeof(on_head));
    len = roce_wire_encode(whole, p);
    CHECK_EQ(roce_wire_encode_on(on_head, &head, p), len);
    CHECK_MEM(on_head, whole, len);
}

static void prepared_headers_match_encoded_ones(void)
{
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        if (roce_opcode_info((uint8_t)opcode)->service == ROCE_SERVICE_NONE) {
            continue;
        }
        for (unsigned n = 0; n < 64; n++) {
            RocePacket p = chance_packet((uint8_t)opcode, network_types[n & 1]);

            p.has_vlan = chance() >> 63;
            p.vlan_tci = p.has_vlan ? (uint16_t)chance() : 0;
            p.payload_len = chance() & 0xfff;
            same_on_a_head(&p);
        }
    }
}

static void pad_bytes_are_zero_and_counted(void)
{
    static uint8_t buf[ROCE_FRAME_MAX];
    RocePacket p = chance_packet(ROCE_BTH_SEND_ONLY, FAKERNIC_GID_IPV4);
    size_t len;

    memset(buf, 0xee, sizeof(buf));
    p.payload_len = 5;
    len = encode(buf, &p, (const uint8_t *)"abcde");
    CHECK_EQ(len, 14 + 20 + 8 + 12 + 8 + 4);
    CHECK_EQ(buf[43] >> 4 & 3, 3);
    CHECK_MEM(buf + len - 7, "\0\0\0", 3);
    CHECK_EQ(buf[len], 0xee);
}

/* ---- damage -------------------------------------------------------------- */

/* The smallest frame with a payload: offsets below are those of IPv4. */
#define IP   14
#define UDP  34
#define BTH  42

static size_t send_only(uint8_t *buf, uint8_t network_type)
{
    RocePacket p = chance_packet(ROCE_BTH_SEND_ONLY, network_type);

    p.payload_len = 6;
    return encode(buf, &p, (const uint8_t *)"payloa");
}

static void seal(uint8_t *frame, size_t len)
{
    uint32_t icrc = roce_icrc(frame + IP, frame[IP] >> 4 == 6 ? 40 : 20,
                              len - IP - 4);

    for (unsigned i = 0; i < 4; i++) {
        frame[len - 4 + i] = (uint8_t)(icrc >> (8 * i));
    }
}

static void ipv4_checksum(uint8_t *ip)
{
    uint32_t sum = 0;

    ip[10] = 0;
    ip[11] = 0;
    for (unsigned i = 0; i < (ip[0] & 15u) * 4; i += 2) {
        sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum += sum >> 16;
    ip[10] = (uint8_t)(~sum >> 8);
    ip[11] = (uint8_t)~sum;
}

static void frames_truncated_anywhere_are_refused(void)
{
    static uint8_t buf[ROCE_FRAME_MAX];

    for (unsigned i = 0; i < 2; i++) {
        size_t full = send_only(buf, network_types[i]);
        size_t port = i ? 14 + 40 + 4 : 14 + 20 + 4;

        for (size_t len = 0; len < full; len++) {
            if (len < port) {
                check_not_roce(buf, len);
            } else {
                check_drop(buf, len, FAKERNIC_STAT_DROP_SHORT);
            }
        }
    }
}

/* Returns whether routers may change the byte, or the ICRC omits it. */
static bool may_change(size_t at, uint8_t network_type)
{
    if (network_type == FAKERNIC_GID_IPV6) {
        return at < 12 || (at >= 14 && at < 18) || at == 14 + 7 ||
               at == 14 + 40 + 6 || at == 14 + 40 + 7 || at == 14 + 40 + 8 + 4;
    }
    return at < 12 || at == UDP + 6 || at == UDP + 7 || at == BTH + 4;
}

static void flipped_bits_are_detected(void)
{
    static uint8_t buf[ROCE_FRAME_MAX];

    for (unsigned i = 0; i < 2; i++) {
        size_t len = send_only(buf, network_types[i]);
        enum fakernic_stat drop;

        for (size_t bit = 0; bit < len * 8; bit++) {
            buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
            if (decode_exact(buf, len, &drop) == ROCE_DECODE_OK) {
                CHECK(may_change(bit / 8, network_types[i]));
            } else {
                /* the top half of IPv6 byte 0 is the version */
                CHECK(!may_change(bit / 8, network_types[i]) ||
                      bit / 8 == IP);
            }
            buf[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        CHECK_EQ(decode_exact(buf, len, &drop), ROCE_DECODE_OK);
    }
}

/* Random packets with a valid ICRC: only the decoder's checks stop them. */
static void random_packets_with_valid_icrc_stay_in_bounds(void)
{
    static uint8_t buf[ROCE_FRAME_MAX];
    unsigned taken = 0, dropped = 0;

    for (unsigned n = 0; n < 40000; n++) {
        enum fakernic_stat drop;
        size_t bth = n & 1 ? 62 : 42;
        size_t len = send_only(buf, network_types[n & 1]);
        size_t tail = chance() % 64;

        chance_bytes(buf + bth, 12 + tail);
        buf[bth + 1] &= n & 2 ? 0xf0 : 0xff;
        len = bth + 12 + tail + 4;
        if (n & 1) {
            buf[IP + 4] = 0;
            buf[IP + 5] = (uint8_t)(len - IP - 40);
        } else {
            buf[IP + 2] = 0;
            buf[IP + 3] = (uint8_t)(len - IP);
            ipv4_checksum(buf + IP);
        }
        buf[bth - 3] = (uint8_t)(len - bth + 8);
        seal(buf, len);
        switch (decode_exact(buf, len, &drop)) {
        case ROCE_DECODE_OK:
            taken++;
            break;
        case ROCE_DECODE_DROP:
            dropped++;
            CHECK(drop != FAKERNIC_STAT_DROP_ICRC);
            break;
        default:
            CHECK(false);
        }
    }
    CHECK(taken > 100 && dropped > 100);
}

static void each_failed_check_has_its_counter(void)
{
    static uint8_t good[ROCE_FRAME_MAX], f[ROCE_FRAME_MAX];
    size_t len = send_only(good, FAKERNIC_GID_IPV4);

#define DAMAGED(stat, ...)                          \
    do {                                            \
        memcpy(f, good, len);                       \
        __VA_ARGS__;                                \
        check_drop(f, len, FAKERNIC_STAT_DROP_##stat); \
    } while (0)
    DAMAGED(SHORT, f[IP + 3]++);
    DAMAGED(SHORT, f[IP + 2] = 0, f[IP + 3] = 27, ipv4_checksum(f + IP));
    DAMAGED(SHORT, f[UDP + 5]--);
    DAMAGED(IP_CSUM, f[IP + 10] ^= 1);
    DAMAGED(IP_CSUM, f[IP + 8]--);
    DAMAGED(FRAGMENT, f[IP + 6] |= 0x20, ipv4_checksum(f + IP));
    DAMAGED(ICRC, f[len - 1] ^= 1);
    DAMAGED(ICRC, f[UDP + 1] ^= 1);
    DAMAGED(BTH_VERSION, f[BTH + 1] |= 1, seal(f, len));
    DAMAGED(OPCODE, f[BTH] = 0x35, seal(f, len));
    DAMAGED(OPCODE, f[BTH] = 0xff, seal(f, len));
    /* the extended headers do not fit; a payload where none may be; a pad that
     * makes no whole words */
    DAMAGED(SHORT, f[BTH] = ROCE_BTH_READ_REQUEST, seal(f, len));
    DAMAGED(SHORT, f[BTH] = ROCE_BTH_ACK, seal(f, len));
#undef DAMAGED
}

static void failed_checks_have_an_order(void)
{
    static uint8_t f[ROCE_FRAME_MAX];
    size_t len = send_only(f, FAKERNIC_GID_IPV4);

    /* all defects at once, then fixed one by one from the front */
    f[IP + 3]++;
    f[IP + 6] = 0x20;
    f[BTH + 1] |= 1;
    f[BTH] = 0xff;
    check_drop(f, len, FAKERNIC_STAT_DROP_SHORT);
    f[IP + 3]--;
    check_drop(f, len, FAKERNIC_STAT_DROP_IP_CSUM);
    ipv4_checksum(f + IP);
    check_drop(f, len, FAKERNIC_STAT_DROP_FRAGMENT);
    f[IP + 6] = 0x40;
    ipv4_checksum(f + IP);
    check_drop(f, len, FAKERNIC_STAT_DROP_ICRC);
    seal(f, len);
    check_drop(f, len, FAKERNIC_STAT_DROP_BTH_VERSION);
    f[BTH + 1] &= 0xf0;
    seal(f, len);
    check_drop(f, len, FAKERNIC_STAT_DROP_OPCODE);
}

static void pad_count_must_fit(void)
{
    static uint8_t buf[ROCE_FRAME_MAX];
    RocePacket p = chance_packet(ROCE_BTH_SEND_ONLY, FAKERNIC_GID_IPV4);
    size_t len;

    /* no payload, but three bytes of pad announced */
    len = encode(buf, &p, (const uint8_t *)"");
    buf[BTH + 1] |= 0x30;
    seal(buf, len);
    check_drop(buf, len, FAKERNIC_STAT_DROP_SHORT);
    /* one byte behind the headers, announced as pad: no whole word */
    buf[BTH + 1] = 0x10;
    buf[IP + 3]++;
    buf[UDP + 5]++;
    ipv4_checksum(buf + IP);
    seal(buf, len + 1);
    check_drop(buf, len + 1, FAKERNIC_STAT_DROP_SHORT);
}

static void options_in_roce_are_refused(void)
{
    static uint8_t f[ROCE_FRAME_MAX];
    size_t len = send_only(f, FAKERNIC_GID_IPV4);

    memmove(f + IP + 24, f + IP + 20, len - IP - 20);
    memset(f + IP + 20, 1, 4);          /* four times "no operation" */
    f[IP] = 0x46;
    f[IP + 3] = (uint8_t)(f[IP + 3] + 4);
    ipv4_checksum(f + IP);
    check_drop(f, len + 4, FAKERNIC_STAT_DROP_SHORT);
    f[UDP + 4 + 3] ^= 1;                /* another port: not RoCEv2 */
    check_not_roce(f, len + 4);
}

/* ---- frames that are not RoCEv2 ------------------------------------------ */

static void other_traffic_is_not_roce(void)
{
    static uint8_t good[ROCE_FRAME_MAX], f[ROCE_FRAME_MAX];
    size_t len = send_only(good, FAKERNIC_GID_IPV4);

#define OTHER(...)                              \
    do {                                        \
        memcpy(f, good, len);                   \
        __VA_ARGS__;                            \
        check_not_roce(f, len);                 \
    } while (0)
    OTHER(f[12] = 8, f[13] = 6);                /* ARP */
    OTHER(f[12] = 0x88, f[13] = 0xa8);          /* 802.1ad */
    OTHER(f[IP + 9] = 6);                       /* TCP */
    OTHER(f[IP] = 0x65);                        /* version 6 as IPv4 */
    OTHER(f[IP] = 0x44);                        /* header of 16 bytes */
    OTHER(f[UDP + 3] ^= 1);                     /* another port */
    OTHER(f[UDP + 3] ^= 1, f[IP + 10] ^= 1);    /* with a wrong checksum */
    OTHER(f[IP + 7] = 1);                       /* a later fragment: no UDP
                                                 * header to check */
    len = send_only(good, FAKERNIC_GID_IPV6);
    OTHER(f[IP + 6] = 58);                      /* ICMPv6 */
    OTHER(f[IP + 6] = 44);                      /* fragment header */
    OTHER(f[IP] = 0x45);
    OTHER(f[12] = 8, f[13] = 0);
#undef OTHER
}

static void ethernet_padding_is_ignored(void)
{
    static uint8_t buf[ROCE_FRAME_MAX];
    size_t len = send_only(buf, FAKERNIC_GID_IPV4);
    enum fakernic_stat drop;
    RocePacket packet;

    memset(buf + len, 0xaa, 40);
    CHECK_EQ(roce_wire_decode(buf, len + 40, &packet, &drop), ROCE_DECODE_OK);
    CHECK_EQ(packet.payload_len, 6);
    CHECK_MEM(packet.payload, "payloa", 6);
}

static void dropped_frame_reports_its_destination(void)
{
    static uint8_t buf[ROCE_FRAME_MAX];
    RocePacket p = chance_packet(ROCE_BTH_SEND_ONLY, FAKERNIC_GID_IPV6), back;
    size_t len = encode(buf, &p, (const uint8_t *)"");
    enum fakernic_stat drop;

    buf[len - 1] ^= 1;
    CHECK_EQ(roce_wire_decode(buf, len, &back, &drop), ROCE_DECODE_DROP);
    CHECK_MEM(back.dgid, p.dgid, 16);
    CHECK_MEM(back.sgid, p.sgid, 16);
}

/* ---- the rest ------------------------------------------------------------ */

static void grh_holds_the_ip_header(void)
{
    static uint8_t buf[ROCE_FRAME_MAX];
    static const uint8_t zero[20];
    uint8_t grh[ROCE_GRH_SIZE];
    enum fakernic_stat drop;
    RocePacket packet;
    size_t len = send_only(buf, FAKERNIC_GID_IPV4);

    REQUIRE(roce_wire_decode(buf, len, &packet, &drop) == ROCE_DECODE_OK);
    roce_wire_grh(&packet, grh);
    CHECK_MEM(grh, zero, 20);
    CHECK_MEM(grh + 20, buf + IP, 20);
    len = send_only(buf, FAKERNIC_GID_IPV6);
    REQUIRE(roce_wire_decode(buf, len, &packet, &drop) == ROCE_DECODE_OK);
    roce_wire_grh(&packet, grh);
    CHECK_MEM(grh, buf + IP, 40);
}

static void gid_kinds_are_recognized(void)
{
    static const uint8_t v4[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };
    static const uint8_t v4_mc[16] = { [10] = 0xff, 0xff, 239, 1, 2, 3 };
    static const uint8_t v4_not_mc[16] = { [10] = 0xff, 0xff, 240, 1, 2, 3 };
    static const uint8_t v6[16] = { 0xfe, 0x80, [15] = 1 };
    static const uint8_t v6_mc[16] = { 0xff, 0x0e, [15] = 1 };

    CHECK(roce_gid_is_ipv4(v4) && !roce_gid_is_multicast(v4));
    CHECK(roce_gid_is_ipv4(v4_mc) && roce_gid_is_multicast(v4_mc));
    CHECK(!roce_gid_is_multicast(v4_not_mc));
    CHECK(!roce_gid_is_ipv4(v6) && !roce_gid_is_multicast(v6));
    CHECK(!roce_gid_is_ipv4(v6_mc) && roce_gid_is_multicast(v6_mc));
}

static const Test tests[] = {
    TEST(golden_frames_decode_as_written),
    TEST(captured_frames_reencode_byte_for_byte),
    TEST(every_opcode_round_trips),
    TEST(prepared_headers_match_encoded_ones),
    TEST(pad_bytes_are_zero_and_counted),
    TEST(frames_truncated_anywhere_are_refused),
    TEST(flipped_bits_are_detected),
    TEST(random_packets_with_valid_icrc_stay_in_bounds),
    TEST(each_failed_check_has_its_counter),
    TEST(failed_checks_have_an_order),
    TEST(pad_count_must_fit),
    TEST(options_in_roce_are_refused),
    TEST(other_traffic_is_not_roce),
    TEST(ethernet_padding_is_ignored),
    TEST(dropped_frame_reports_its_destination),
    TEST(grh_holds_the_ip_header),
    TEST(gid_kinds_are_recognized),
};

TEST_MAIN(tests)
