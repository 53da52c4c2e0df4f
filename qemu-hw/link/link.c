/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The link: link.h.
 *
 * A member is either awake or asleep, for all its peers. An awake member looks
 * at all rings by itself, because a bottom half is scheduled, or the net layer
 * will call when it takes frames again, or the guest polls and a timer runs.
 * A member that is asleep has published a ticket in each ring, and the writer
 * of the ring signals it.
 */
#include "qemu/osdep.h"
#include "qemu/bswap.h"
#include "qemu/error-report.h"
#include "qemu/main-loop.h"
#include "qemu/timer.h"
#include "qapi/error.h"
#include "net/eth.h"
#include "account.h"
#include "closer.h"
#include "folder.h"
#include "link.h"
#include "pair.h"
#include "loglimit.h"
#include "../trace.h"

#define LINK_PEERS_MAX      32
/* Limit of connections, including those without a hello yet. */
#define LINK_SOCKETS_MAX    64
/* The same with refused ones that are being closed: no accept() beyond it. */
#define LINK_SOCKETS_ALL    (2 * LINK_SOCKETS_MAX)
/* Limit per process: it may have that many devices on the link. */
#define LINK_PROCESS_MAX    LINK_PEERS_MAX
/* Time limit for the hello of a connecting peer, which sends it at once. */
#define LINK_HELLO_NS       1000000000
/* Time limit for the answer of an existing member, which may be starting. */
#define LINK_ANSWER_NS      30000000000
/* Pause after a failed accept(), for example without a free descriptor. */
#define LINK_ACCEPT_NS      1000000000
/* 33 members with a card of 120 virtual functions each. */
#define LINK_MACS           4096
/* Entries that may hold an address, from the one that its bytes select on. */
#define LINK_MAC_WAYS       16
/* Frames and bytes of all peers in one look; then other handlers may run. */
#define LINK_FRAMES_A_LOOK  256
#define LINK_BYTES_A_LOOK   LINK_RING_SIZE
/* Without a poll for this long, the main loop looks instead of the guest. */
#define LINK_POLL_ENDS_NS   1000000
/* How long a member stays awake after a short frame: an answer often arrives
 * sooner than a thread wakes up. Not after a long frame, because long frames
 * come in bursts, and taking more of them at once needs fewer ACKs. */
#define LINK_LINGER_NS      20000
#define LINK_LINGER_FRAME   256
/* A peer that takes no frame for this long, while frames wait, is not running:
 * it may need the host CPU on which our guest polls. */
#define LINK_STANDS_NS      30000
/* After this long it is stopped, and yielding a host CPU does not help. */
#define LINK_STOPPED_NS     100000000
/* If a ring has no room for this long, a single peer loses frames. With more
 * peers stall.h limits the wait. */
#define LINK_STUCK_NS       3500000000
/* How much of our own delay is charged to a peer. Without it, a peer with many
 * short waits would be charged less than expires in the same time. */
#define LINK_LATE_NS        10000000
/* Period of the search for lost wake-ups, and its rounds after the last frame.
 * Shorter than any retransmission, which would wake the sleeper. */
#define LINK_WATCH_NS       20000000
#define LINK_WATCHES        4
/* How often a member that waits for room checks whether to give up. */
#define LINK_BLOCKED_LOOK_NS 100000000

_Static_assert(LINK_ACCOUNTS > LINK_SOCKETS_ALL,
               "each connection has an account");

/* A ticket that is watched for a lost signal. */
typedef struct LinkWatched {
    uint32_t seen;              /* ticket at the last check */
    uint32_t lost;              /* last ticket counted as lost */
} LinkWatched;

typedef struct LinkPeer {
    FakernicLink *link;
    int sock;
    int spare;                  /* see link_accept(); -1: none */
    bool asked;                 /* we connected, and it has to answer */
    bool up;
    bool gone;
    int foreign;                /* a descriptor to close with it, or -1 */
    LinkCloser *closer;         /* closes a peer that is gone */
    int64_t since;              /* when it connected */
    int64_t full_since;         /* since when its ring is full; 0: it is not */
    LinkAccount *account;       /* of its process */
    bool counts;                /* we have waited for it: 'counted' is valid */
    uint32_t counted;           /* its ring index at the last charge */
    int64_t unread_since;       /* since when it takes no frames; 0: it does */
    uint32_t unread_taken;      /* its ring index then */
    LinkWatched sleep;          /* link_ring_oversleeps() */
    LinkWatched room;           /* link_ring_overwaits() */
    LinkPair pair;
    QTAILQ_ENTRY(LinkPeer) next;
} LinkPeer;

typedef struct LinkMac {
    uint8_t address[ETH_ALEN];
    LinkPeer *peer;             /* NULL: unused */
} LinkMac;

struct FakernicLink {
    NetClientState nc;
    char *path;
    LinkFolder folder;
    int64_t deaf_until;         /* no accept() before that; 0: we listen */
    bool deaf_reported;
    LinkLogLimit log_limit;
    QTAILQ_HEAD(, LinkPeer) peers;
    unsigned count;             /* peers, with those that are being closed */
    LinkAccounts accounts;
    unsigned up;                /* peers that are members */
    LinkMac macs[LINK_MACS];
    QEMUBH *bh;
    QEMUTimer *timer;
    QEMUTimer *watch;
    unsigned watches;           /* rounds left; 0: the timer is not armed */
    unsigned lost_wakeups;      /* in both directions */
    bool refused;               /* a frame waits in the NIC's queue */
    bool blocked;               /* a frame waits in our queue, for room */
    LinkPeer *awaited;          /* the peer without room; NULL: it is gone */
    int64_t awaited_since;
    int64_t awaited_ns;         /* limit of the wait */
    bool looking;
    bool more;                  /* the bottom half looks again */
    unsigned frames_left;       /* limits of this look */
    int64_t bytes_left;
    int64_t polled;             /* the guest's last poll; 0: it does not poll */
    int64_t came;               /* when the last short frame arrived */
    uint8_t frame[LINK_FRAME_MAX];
};

static int64_t link_now(void)
{
    return get_clock();
}

/* Runs link_timer() after 'ns', or earlier. */
static void link_again(FakernicLink *link, int64_t ns)
{
    timer_mod_anticipate_ns(link->timer,
                            qemu_clock_get_ns(QEMU_CLOCK_REALTIME) + ns);
}

static void G_GNUC_PRINTF(2, 3) link_warn(FakernicLink *link,
                                          const char *format, ...)
{
    g_autofree char *text = NULL;
    unsigned suppressed;
    va_list list;

    if (!link_log_limit_pass(&link->log_limit, link_now(), &suppressed)) {
        return;
    }
    va_start(list, format);
    text = g_strdup_vprintf(format, list);
    va_end(list);
    if (suppressed) {
        warn_report("fakernic: link %s: %s (%u earlier warnings "
                    "suppressed)", link->path, text, suppressed);
    } else {
        warn_report("fakernic: link %s: %s", link->path, text);
    }
}

/* ---- addresses ----------------------------------------------------------- */

/*
 * The entry of an address. If it has none, the entry to use for it: a free one,
 * or that of another address.
 */
static LinkMac *link_mac(FakernicLink *link, const uint8_t *address)
{
    const unsigned first = lduw_be_p(address + 4) ^ address[3] * 7;
    LinkMac *room = NULL;

    for (unsigned i = 0; i < LINK_MAC_WAYS; i++) {
        LinkMac *mac = &link->macs[(first + i) % LINK_MACS];

        if (mac->peer && !memcmp(mac->address, address, ETH_ALEN)) {
            return mac;
        }
        if (!mac->peer && !room) {
            room = mac;
        }
    }
    return room ? room : &link->macs[first % LINK_MACS];
}

static void link_learn(LinkPeer *peer, const uint8_t *frame, size_t len)
{
    const uint8_t *source = frame + ETH_ALEN;
    LinkMac *mac;

    if (len < ETH_HLEN || is_multicast_ether_addr(source)) {
        return;
    }
    mac = link_mac(peer->link, source);
    mac->peer = peer;
    memcpy(mac->address, source, ETH_ALEN);
}

/* The peer that has the frame's destination address; NULL: none is known. */
static LinkPeer *link_owner(FakernicLink *link, const uint8_t *frame)
{
    LinkMac *mac = link_mac(link, frame);

    if (!mac->peer || memcmp(mac->address, frame, ETH_ALEN)) {
        return NULL;
    }
    return mac->peer->up ? mac->peer : NULL;
}

static void link_forget(LinkPeer *peer)
{
    for (unsigned i = 0; i < LINK_MACS; i++) {
        if (peer->link->macs[i].peer == peer) {
            peer->link->macs[i].peer = NULL;
        }
    }
}

/* ---- peers --------------------------------------------------------------- */

static void link_describe(FakernicLink *link)
{
    qemu_set_info_str(&link->nc, "link=%s,peers=%u,lost-wakeups=%u", link->path,
                      link->up, link->lost_wakeups);
}

static void link_peer_use_spare(LinkPeer *peer)
{
    if (peer->spare >= 0) {
        close(peer->spare);
        peer->spare = -1;
    }
}

/* Starts closing a peer that is gone. False: no thread can be started now. */
static bool link_peer_close(LinkPeer *peer)
{
    if (!peer->closer) {
        link_peer_use_spare(peer);
        link_forget(peer);
        link_pair_unmap(&peer->pair);
        peer->closer = link_closer_start(peer->sock, peer->foreign);
    }
    return peer->closer;
}

static void link_peer_free(LinkPeer *peer)
{
    FakernicLink *link = peer->link;

    link_account_close(peer->account);
    QTAILQ_REMOVE(&link->peers, peer, next);
    link->count--;
    g_free(peer);
}

#define LINK_FOREIGN_TEXT "it sends descriptors other than a link's memory"
#define LINK_ADVICE \
    "no frame passes between it and this one until one of the two joins " \
    "again: restart its QEMU, or unplug its device and plug it in"

/* Answers a peer whose connection is refused. */
static void link_refuse(int sock)
{
    LinkHello answer = link_hello();

    answer.refused = 1;
    link_hello_send(sock, &answer, -1);
}

/* Ends the wait for a peer, and charges the peer for it. */
static void link_charge(FakernicLink *link)
{
    const int64_t now = link_now();
    LinkPeer *peer = link->awaited;

    if (!peer) {
        return;
    }
    link->awaited = NULL;
    link_ring_see(&peer->pair.tx);
    /* The peer does not pay for our own delay. */
    link_stall_add(&peer->account->stall, &link->accounts.all,
                   MIN(now - link->awaited_since,
                       link->awaited_ns + LINK_LATE_NS),
                   peer->pair.tx.head - peer->counted, now);
    peer->counted = peer->pair.tx.head;
}

/*
 * Stops using a peer. The bottom half closes it. It counts as a connection
 * until all descriptors that it sent are closed.
 */
static void link_drop(LinkPeer *peer, const char *why)
{
    if (peer->gone) {
        return;
    }
    if (peer->link->awaited == peer) {
        link_charge(peer->link);
    }
    if (why) {
        link_warn(peer->link, "the member of process %ld is disconnected: %s: "
                  LINK_ADVICE, link_process(peer->sock), why);
        if (!peer->up && !peer->asked) {
            link_refuse(peer->sock);
        }
    }
    trace_fakernic_link_peer(peer->link->nc.name, peer->sock, false);
    peer->gone = true;
    peer->link->up -= peer->up;
    peer->up = false;
    link_describe(peer->link);
    qemu_set_fd_handler(peer->sock, NULL, NULL, NULL);
    qemu_bh_schedule(peer->link->bh);
}

static void link_free_gone(FakernicLink *link)
{
    LinkPeer *peer, *next;

    QTAILQ_FOREACH_SAFE(peer, &link->peers, next, next) {
        if (peer->gone && link_peer_close(peer) &&
            link_closer_done(peer->closer)) {
            link_peer_free(peer);
        }
    }
}

static void link_signal_peer(LinkPeer *peer)
{
    if (!link_signal(peer->sock)) {
        link_drop(peer, NULL);
    }
}

/* ---- lost wake-ups ------------------------------------------------------- */

static void link_watch_arm(FakernicLink *link)
{
    timer_mod_ns(link->watch, qemu_clock_get_ns(QEMU_CLOCK_REALTIME) +
                                  LINK_WATCH_NS);
}

/*
 * Watches after a frame was written, or while it waits for room. The timer
 * counts lost wake-ups, which ring.h rules out; tests expect none. It signals
 * no peer, and is separate from link_timer(), which looks at the rings: the
 * check must not wake the sleeper that it watches.
 */
static void link_watch(FakernicLink *link)
{
    if (!link->watches) {
        link_watch_arm(link);
    }
    link->watches = LINK_WATCHES;
}

/* A ticket seen in two checks is lost: a signal under way would have come. */
static void link_watch_ticket(FakernicLink *link, LinkWatched *watched,
                              uint32_t ticket)
{
    if (ticket && ticket == watched->seen && ticket != watched->lost) {
        watched->lost = ticket;
        link->lost_wakeups++;
        link_describe(link);
    }
    watched->seen = ticket;
}

static void link_watch_timer(void *opaque)
{
    FakernicLink *link = opaque;
    LinkPeer *peer;

    QTAILQ_FOREACH(peer, &link->peers, next) {
        if (peer->up) {
            link_watch_ticket(link, &peer->sleep,
                              link_ring_oversleeps(&peer->pair.tx));
        }
    }
    if (link->awaited && link->awaited->up) {
        /* If the signal is lost, link_timer() finds the room later. */
        link_watch_ticket(link, &link->awaited->room,
                          link_ring_overwaits(&link->awaited->pair.tx));
    }
    if (--link->watches) {
        link_watch_arm(link);
    }
}

/* ---- out ----------------------------------------------------------------- */

/* How long a frame may wait for a peer whose ring is full; 0: drop it. */
static int64_t link_wait_left(LinkPeer *peer)
{
    const int64_t now = link_now();

    if (!peer->full_since) {
        peer->full_since = now;
    }
    if (peer->link->up > 1) {
        return link_stall_left(&peer->account->stall,
                               &peer->link->accounts.all, now);
    }
    return MAX(peer->full_since + LINK_STUCK_NS - now, 0);
}

/* False: the ring has no room, and the peer will signal when it has. */
static bool link_put(LinkPeer *peer, const uint8_t *frame, size_t len)
{
    LinkRingResult result = link_ring_put(&peer->pair.tx, frame, len);

    if (result == LINK_RING_NONE) {
        if (!link_wait_left(peer)) {
            return true;        /* dropped */
        }
        result = link_ring_await_room(&peer->pair.tx, len);
        if (result == LINK_RING_NONE) {
            return false;
        }
        if (result == LINK_RING_OK) {
            result = link_ring_put(&peer->pair.tx, frame, len);
        }
    }
    if (result != LINK_RING_OK) {
        link_drop(peer, "its ring has invalid contents");
        return true;
    }
    peer->full_since = 0;
    link_watch(peer->link);
    /* Also for a bare ACK: it may complete the only request that a sleeping
     * guest waits for, and the sender cannot tell. */
    if (link_ring_wakes(&peer->pair.tx, link_now())) {
        link_signal_peer(peer);
    }
    return true;
}

/* Sends to all members, as a switch does. A peer whose ring is full does not
 * get the frame. */
static void link_flood(FakernicLink *link, const uint8_t *frame, size_t len)
{
    LinkPeer *peer;

    QTAILQ_FOREACH(peer, &link->peers, next) {
        if (peer->up) {
            link_put(peer, frame, len);
        }
    }
}

/* The only peer that is up; NULL: there are none, or several. */
static LinkPeer *link_only(FakernicLink *link)
{
    LinkPeer *peer = NULL;

    if (link->up == 1) {
        QTAILQ_FOREACH(peer, &link->peers, next) {
            if (peer->up) {
                break;
            }
        }
    }
    return peer;
}

/* The NIC's queue waits until this peer has room, or the time is over. */
static void link_block(LinkPeer *peer)
{
    FakernicLink *link = peer->link;

    if (!peer->counts) {        /* bytes taken before do not count */
        peer->counts = true;
        peer->counted = peer->pair.tx.head;
    }
    link->blocked = true;
    link->awaited = peer;
    link->awaited_since = link_now();
    link->awaited_ns = MIN(link_wait_left(peer), LINK_BLOCKED_LOOK_NS);
    link_again(link, link->awaited_ns);
    link_watch(link);
}

static ssize_t link_send(NetClientState *nc, const uint8_t *frame, size_t len)
{
    FakernicLink *link = DO_UPCAST(FakernicLink, nc, nc);
    LinkPeer *peer;

    if (len < ETH_HLEN || len > LINK_FRAME_MAX) {
        return len ? len : -1;
    }
    peer = link_owner(link, frame);
    if (!peer) {
        peer = link_only(link);
    }
    if (!peer) {
        link_flood(link, frame, len);
    } else if (!link_put(peer, frame, len)) {
        link_block(peer);
        return 0;
    }
    return len;
}

static void link_unblock(FakernicLink *link)
{
    if (link->blocked) {
        link_charge(link);
        link->blocked = false;
        qemu_flush_queued_packets(&link->nc);
    }
}

/* ---- in ------------------------------------------------------------------ */

/* The NIC takes frames again. */
static void link_taken(NetClientState *nc, ssize_t len)
{
    FakernicLink *link = DO_UPCAST(FakernicLink, nc, nc);

    link->refused = false;
    qemu_bh_schedule(link->bh);
}

/* False: this look has reached its limit. */
static bool link_may_take(FakernicLink *link)
{
    return link->frames_left && link->bytes_left > 0;
}

/* Receives frames of one peer, up to the limit of this look. */
static void link_take(LinkPeer *peer)
{
    FakernicLink *link = peer->link;
    LinkRingResult result = LINK_RING_OK;
    bool took = false;
    uint32_t len = 0;

    while (link_may_take(link) && !link->refused && peer->up) {
        result = link_ring_get(&peer->pair.rx, link->frame, &len);
        if (result != LINK_RING_OK) {
            break;
        }
        took = true;
        link->frames_left--;
        link->bytes_left -= len;
        link_learn(peer, link->frame, len);
        if (!qemu_send_packet_async(&link->nc, link->frame, len, link_taken)) {
            link->refused = true;
        }
    }
    if (result == LINK_RING_BROKEN) {
        link_drop(peer, "its ring has invalid contents");
        return;
    }
    if (took && len <= LINK_LINGER_FRAME) {
        link->came = link_now();
    }
    if (took && peer->up && link_ring_frees(&peer->pair.rx)) {
        link_signal_peer(peer);
    }
}

/* The next look begins with the peer after this one. */
static void link_rotate(FakernicLink *link, LinkPeer *last)
{
    LinkPeer *peer;

    do {
        peer = QTAILQ_FIRST(&link->peers);
        QTAILQ_REMOVE(&link->peers, peer, next);
        QTAILQ_INSERT_TAIL(&link->peers, peer, next);
    } while (peer != last);
}

/* True: there may be more. */
static bool link_take_all(FakernicLink *link)
{
    LinkPeer *peer;

    link->frames_left = LINK_FRAMES_A_LOOK;
    link->bytes_left = LINK_BYTES_A_LOOK;
    QTAILQ_FOREACH(peer, &link->peers, next) {
        if (peer->up) {
            link_take(peer);
        }
        if (!link_may_take(link)) {
            link_rotate(link, peer);
            return true;
        }
    }
    return false;
}

/* Publishes the tickets. True: a frame has arrived, so look again. */
static bool link_sleep(FakernicLink *link)
{
    LinkPeer *peer;
    bool came = false;

    QTAILQ_FOREACH(peer, &link->peers, next) {
        if (peer->up && !link_ring_sleep(&peer->pair.rx)) {
            came = true;
        }
    }
    return came;
}

static void link_wake(FakernicLink *link, int64_t polled)
{
    LinkPeer *peer;

    QTAILQ_FOREACH(peer, &link->peers, next) {
        if (peer->up) {
            link_ring_polled(&peer->pair.rx, polled);
            link_ring_wake(&peer->pair.rx);
        }
    }
}

static bool link_guest_polls(FakernicLink *link)
{
    return link->polled && link_now() - link->polled < LINK_POLL_ENDS_NS;
}

/*
 * Receives the frames that wait. Then sleeps, or arranges for another look.
 */
static void link_look(FakernicLink *link)
{
    bool more;

    if (link->looking) {
        qemu_bh_schedule(link->bh);
        return;
    }
    link->looking = true;
    if (!link_guest_polls(link)) {
        link->polled = 0;
        link_wake(link, 0);
    }
    more = link_take_all(link);
    link_unblock(link);
    if (link->refused) {
        more = false;           /* link_taken() resumes */
    } else if (!more && !link->polled) {
        more = link_now() - link->came < LINK_LINGER_NS || link_sleep(link);
    }
    if (more) {
        qemu_bh_schedule(link->bh);
    }
    link->more = more;
    link->looking = false;
}

/* True: frames wait for the peer, and it takes none because it does not run. */
static bool link_stands(LinkPeer *peer, uint32_t taken, int64_t now)
{
    if (!peer->unread_since || taken != peer->unread_taken) {
        peer->unread_since = now;
        peer->unread_taken = taken;
    }
    return now - peer->unread_since >= LINK_STANDS_NS &&
           now - peer->unread_since < LINK_STOPPED_NS;
}

/*
 * Our guest waits for an answer. Signals peers whose guest polled when we wrote
 * and has stopped polling since. True: a peer waits for a host CPU.
 */
static bool link_remind(FakernicLink *link)
{
    const int64_t now = link_now();
    bool stands = false;
    LinkPeer *peer;

    QTAILQ_FOREACH(peer, &link->peers, next) {
        uint32_t taken;

        if (!peer->up || !link_ring_unread(&peer->pair.tx, &taken)) {
            peer->unread_since = 0;
            continue;
        }
        stands |= link_stands(peer, taken, now);
        if (link_ring_wakes(&peer->pair.tx, now)) {
            link_signal_peer(peer);
        }
    }
    return stands;
}

void fakernic_link_look(FakernicLink *link)
{
    link_look(link);
}

bool fakernic_link_poll(FakernicLink *link)
{
    if (link->looking) {
        return false;
    }
    if (!link->polled) {
        link_again(link, LINK_POLL_ENDS_NS);
    }
    link->polled = link_now();
    link_wake(link, link->polled);
    link_look(link);
    return link_remind(link);
}

static void link_bottom_half(void *opaque)
{
    FakernicLink *link = opaque;

    link_free_gone(link);
    link_look(link);
}

/* ---- joining and leaving ------------------------------------------------- */

static void link_up(LinkPeer *peer)
{
    peer->up = true;
    peer->link->up++;
    trace_fakernic_link_peer(peer->link->nc.name, peer->sock, true);
    link_describe(peer->link);
    qemu_bh_schedule(peer->link->bh);
}

/* A member has one connection to each other member, so this limits all. */
static const char *link_full(FakernicLink *link)
{
    return link->up < LINK_PEERS_MAX ? NULL : "more than 33 members";
}

/* Handles the answer of a peer to which we connected and sent our memory. */
static void link_answered(LinkPeer *peer, const LinkHello *hello, size_t len)
{
    const char *why = link_hello_check(hello, len);

    why = why ? why : link_full(peer->link);
    if (why) {
        link_drop(peer, why);
    } else {
        link_up(peer);
    }
}

/* Handles the hello of a peer that connected and has sent its memory. */
static void link_asked(LinkPeer *peer, const LinkHello *hello, size_t len,
                       int memfd)
{
    const char *why = link_hello_check(hello, len);
    LinkHello answer = link_hello();

    why = why ? why : link_full(peer->link);
    if (!why) {
        why = link_pair_adopt(&peer->pair, memfd);
    }
    if (!why && !link_hello_send(peer->sock, &answer, -1)) {
        why = "it did not wait for an answer";
    }
    if (why) {
        link_drop(peer, why);
    } else {
        link_up(peer);
    }
}

static void link_greet(LinkPeer *peer)
{
    LinkHello hello = { 0 };
    int fd, len;

    link_peer_use_spare(peer);
    len = link_hello_receive(peer->sock, &hello, &fd);
    if (len == LINK_FOREIGN) {
        peer->foreign = fd;     /* close() may block for long */
        link_drop(peer, LINK_FOREIGN_TEXT);
        return;
    }
    if (len < 0) {
        link_drop(peer, NULL);
    } else if (len && peer->asked) {
        link_answered(peer, &hello, len);
    } else if (len) {
        link_asked(peer, &hello, len, fd);
    }
    if (fd >= 0) {
        close(fd);
    }
}

/* The next look begins with this peer. */
static void link_prefer(LinkPeer *peer)
{
    QTAILQ_REMOVE(&peer->link->peers, peer, next);
    QTAILQ_INSERT_HEAD(&peer->link->peers, peer, next);
}

static void link_readable(void *opaque)
{
    LinkPeer *peer = opaque;
    int signals;

    if (!peer->up) {
        link_greet(peer);
        return;
    }
    signals = link_signals_take(peer->sock);
    if (signals < 0) {
        link_prefer(peer);      /* take the frames that it sent before */
        link_look(peer->link);
        link_drop(peer, signals == LINK_FOREIGN ? LINK_FOREIGN_TEXT : NULL);
    } else if (!peer->link->more) {
        link_look(peer->link);
    }
}

static LinkPeer *link_peer_new(FakernicLink *link, int sock)
{
    LinkPeer *peer = g_new0(LinkPeer, 1);

    peer->link = link;
    peer->sock = sock;
    peer->spare = -1;
    peer->foreign = -1;
    peer->since = link_now();
    peer->account = link_account_open(&link->accounts, link_process(sock),
                                      peer->since);
    QTAILQ_INSERT_TAIL(&link->peers, peer, next);
    link->count++;
    qemu_set_fd_handler(sock, link_readable, NULL, peer);
    link_again(link, LINK_HELLO_NS);
    return peer;
}

/* NULL: the connection is within the limits; else the reason to refuse it. */
static const char *link_crowded(LinkPeer *peer)
{
    if (peer->account->connections > LINK_PROCESS_MAX &&
        peer->account->process) {
        return "its process has more than " stringify(LINK_PROCESS_MAX)
               " connections";
    }
    return peer->link->count <= LINK_SOCKETS_MAX ? NULL :
           "more than " stringify(LINK_SOCKETS_MAX) " connections";
}

/* Drops peers whose hello is late, and sets the timer for the others. */
static void link_await_hellos(FakernicLink *link)
{
    const int64_t now = link_now();
    LinkPeer *peer;

    QTAILQ_FOREACH(peer, &link->peers, next) {
        const int64_t end = peer->since +
                            (peer->asked ? LINK_ANSWER_NS : LINK_HELLO_NS);

        if (peer->up || peer->gone) {
            continue;
        }
        if (now < end) {
            link_again(link, end - now);
            continue;
        }
        link_greet(peer);       /* we may be late: its hello may be here */
        if (!peer->up) {
            link_drop(peer, peer->asked ? "it does not answer" :
                                          "it sends no hello");
        }
    }
}

/* Pauses accept(). The listener stays readable, so its handler would be called
 * without end. */
static void link_deafen(FakernicLink *link, const char *why)
{
    if (!link->deaf_reported) {
        link->deaf_reported = true;
        link_warn(link, "joining members wait: %s", why);
    }
    qemu_set_fd_handler(link->folder.listener, NULL, NULL, NULL);
    link->deaf_until = link_now() + LINK_ACCEPT_NS;
    link_again(link, LINK_ACCEPT_NS);
}

static void link_accepted(FakernicLink *link, int sock, int spare)
{
    LinkPeer *peer = link_peer_new(link, sock);
    const char *why = link_crowded(peer);

    link->deaf_reported = false;
    peer->spare = spare;
    if (why) {
        link_drop(peer, why);
    }
}

/*
 * Each connection reserves a descriptor for the memory that comes with its
 * hello. Without a free one the memory would be lost, and a correct peer
 * refused.
 */
static void link_accept(void *opaque)
{
    FakernicLink *link = opaque;
    int sock, spare, why;

    link_free_gone(link);
    if (link->count >= LINK_SOCKETS_ALL) {
        link_deafen(link, "too many connections are being closed");
        return;
    }
    spare = fcntl(link->folder.listener, F_DUPFD_CLOEXEC, 0);
    sock = spare < 0 ? -1 : link_folder_accept(&link->folder);
    why = errno;
    if (sock >= 0) {
        link_accepted(link, sock, spare);
        return;
    }
    if (spare >= 0) {
        close(spare);
    }
    if (why != EAGAIN && why != EINTR && why != ECONNABORTED) {
        link_deafen(link, g_strerror(why));
    }
}

static void link_listen(FakernicLink *link)
{
    link->deaf_until = 0;
    qemu_set_fd_handler(link->folder.listener, link_accept, NULL, link);
}

static void link_listen_again(FakernicLink *link)
{
    const int64_t left = link->deaf_until - link_now();

    if (link->deaf_until && left > 0) {
        link_again(link, left);
    } else if (link->deaf_until) {
        link_listen(link);
    }
}

/* Sends our hello and memory to a member that was there before us. */
static void link_ask(FakernicLink *link, int sock)
{
    LinkPeer *peer = link_peer_new(link, sock);
    const char *why = link_crowded(peer);
    LinkHello hello = link_hello();
    int memfd;

    peer->asked = true;
    if (why) {
        link_drop(peer, why);
        return;
    }
    memfd = link_pair_make(&peer->pair);
    if (memfd < 0) {
        link_drop(peer, "no memory to share with it");
        return;
    }
    /* EPIPE: it has closed, but its answer may still be in the queue. */
    if (!link_hello_send(sock, &hello, memfd) && errno != EPIPE) {
        link_drop(peer, "our memory cannot be sent to it");
    }
    close(memfd);
}

static void link_found(void *opaque, int sock, const char *name)
{
    FakernicLink *link = opaque;

    if (sock >= 0 && link->count < LINK_SOCKETS_ALL) {
        link_ask(link, sock);
        return;
    }
    if (sock >= 0) {
        LinkCloser *closer = link_closer_start(sock, -1);

        if (closer) {
            link_closer_leave(closer);
        }
        errno = EMFILE;
    }
    link_warn(link, "cannot connect to member %s: %s: " LINK_ADVICE, name,
              g_strerror(errno));
}

static void link_timer(void *opaque)
{
    FakernicLink *link = opaque;

    link_listen_again(link);
    link_await_hellos(link);
    if (link_guest_polls(link)) {
        link_again(link, LINK_POLL_ENDS_NS);
    }
    link_look(link);            /* arms it again if a frame waits for room */
}

/* ---- creation and cleanup ------------------------------------------------ */

/* Does not wait for the close; without a thread the descriptors stay open. */
static void link_peer_leave(LinkPeer *peer)
{
    qemu_set_fd_handler(peer->sock, NULL, NULL, NULL);
    if (link_peer_close(peer)) {
        link_closer_leave(peer->closer);
    }
    link_peer_free(peer);
}

static void link_cleanup(NetClientState *nc)
{
    FakernicLink *link = DO_UPCAST(FakernicLink, nc, nc);
    LinkPeer *peer, *next;

    QTAILQ_FOREACH_SAFE(peer, &link->peers, next, next) {
        link_peer_leave(peer);
    }
    if (link->folder.socket) {
        qemu_set_fd_handler(link->folder.listener, NULL, NULL, NULL);
        link_folder_leave(&link->folder);
    }
    qemu_bh_delete(link->bh);
    timer_free(link->timer);
    timer_free(link->watch);
    g_free(link->path);
}

/* QEMU has no name for this backend type; "info network" shows it. */
static NetClientInfo link_info = {
    .type = NET_CLIENT_DRIVER_SOCKET,
    .size = sizeof(FakernicLink),
    .receive = link_send,
    .cleanup = link_cleanup,
};

FakernicLink *fakernic_link_new(const char *path, const char *device_id,
                                NICConf *conf, Error **errp)
{
    g_autofree char *name = device_id ?
        g_strdup_printf("%s.link", device_id) : NULL;
    NetClientState *nc;
    FakernicLink *link;
    const char *why;

    if (name && qemu_find_netdev(name)) {
        error_setg(errp, "the name '%s' is taken by a netdev", name);
        return NULL;
    }
    nc = qemu_new_net_client(&link_info, NULL, "fakernic-link", name);
    link = DO_UPCAST(FakernicLink, nc, nc);
    link->path = g_strdup(path);
    QTAILQ_INIT(&link->peers);
    link->bh = qemu_bh_new(link_bottom_half, link);
    link->timer = timer_new_ns(QEMU_CLOCK_REALTIME, link_timer, link);
    link->watch = timer_new_ns(QEMU_CLOCK_REALTIME, link_watch_timer, link);
    why = link_folder_join(&link->folder, path, link_found, link);
    if (why) {
        error_setg(errp, "link '%s' %s%s%s", path, why, errno ? ": " : "",
                   errno ? g_strerror(errno) : "");
        qemu_del_net_client(nc);
        return NULL;
    }
    link_listen(link);
    link_describe(link);
    conf->peers.ncs[0] = nc;
    conf->peers.queues = 1;
    return link;
}

void fakernic_link_free(FakernicLink *link)
{
    qemu_del_net_client(&link->nc);
}
