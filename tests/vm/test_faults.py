# SPDX-License-Identifier: GPL-2.0-or-later
"""Bad requests, killed applications and reloads leave nothing behind."""

import re
import time

import pytest

from fakernic_lab import faults
from fakernic_test import memory, rdma, ulp

# enum ibv_wc_status: all errors, and that of flushed requests. enum ibv_qp_state:
# two states.
ERRORS = range(1, 22)
FLUSHED = 5
TRIES = 3
RTS, ERROR = 3, 6


def test_bad_requests_get_the_right_completion(ports):
    """Wrong keys, bounds, rights and peers get the right completion, as
    rdma_bad_requests checks."""
    rdma.judged(ports[0], "rdma_bad_requests", 13, 200)


def test_each_status_is_reported(ports):
    """A failed request completes with its status, later ones are flushed, and
    the peer is not affected. There is no event besides the completion (IBTA
    11.6.2, 11.6.3). The rule also counts sends of the Ethernet port; then the
    test is repeated."""
    for status in ERRORS:
        wanted = (f"sends 0 {status} {FLUSHED} {FLUSHED} state {ERROR}\n"
                  f"receives 0 state {RTS}\nevents 0\n")
        for _ in range(TRIES):
            with faults.armed(ports[0].vm, f"at=send-wqe nth=2 status={status} "
                                           "do=fail"):
                reported = ports[0].guest.check("rdma_failed_wr")
            if reported == wanted:
                break
        assert reported == wanted


def test_killed_application_leaves_nothing(ports):
    """A killed application leaves no object, and its peer fails."""
    a, b = ports
    before = [rdma.resources(port) for port in ports]
    server = a.guest.start(
        f"ib_write_bw -d {a.ibdev} -x {a.gid_index()} -F -D 60", 100)
    a.guest.check("until ss -Hltn 'sport = :18515' | grep -q .; "
                  "do sleep 0.05; done")
    client = b.guest.start(
        f"ib_write_bw -d {b.ibdev} -x {b.gid_index()} -F -D 60 {a.ip4}", 100)
    quiet = b.counters()["tx_roce"]
    while b.counters()["tx_roce"] < quiet + 1000:
        assert client.poll() is None, client.result
        time.sleep(0.1)
    b.guest.check("pkill -9 ib_write_bw")
    assert not client.wait().ok
    a.guest.run("pkill -9 ib_write_bw")     # it may have noticed already
    assert not server.wait().ok
    for port, counts in zip(ports, before):
        rdma.wait_for_resources(port, counts)
    rdma.pingpong("rc", a, b, "-n 100").check()


# While the peer sends pings. Each tenth time a program uses the card, too, and must
# be notified.
RELOADS = """
set -e
for i in $(seq {count}); do
    job=
    if [ $((i % 10)) = 2 ]; then
        ( {wait_gids} )
        rm -f /tmp/unplug
        RDMAV_ALLOW_DISASSOC_DESTROY=1 rdma_unplug once >/tmp/unplug & job=$!
        until grep -qs running /tmp/unplug; do kill -0 $job; sleep 0.1; done
    fi
    modprobe -r fakernic
    [ -z "$(ls /sys/class/infiniband)" ]
    [ ! -e /sys/class/net/{port.netdev} ]
    [ ! -e /sys/kernel/debug/fakernic ]
    [ -z "$(grep fakernic /proc/interrupts)" ]
    modprobe fakernic
    for try in $(seq 100); do
        [ -n "$(ls /sys/class/infiniband)" ] && break
        sleep 0.05
    done
    [ -n "$(ls /sys/class/infiniband)" ]
    ip link set {port.netdev} up
    ip addr add {port.ip4}/24 dev {port.netdev}
    ping -q -c 1 -w 20 {peer.ip4} >/dev/null
    for try in $(seq 400); do
        [ $(cat /sys/class/net/{port.netdev}/statistics/rx_packets) -lt 20 ] || break
        sleep 0.05
    done
    [ $try -lt 400 ]
    [ -z "$job" ] || wait $job
    [ -z "$job" ] || [ "$(echo $(cat /tmp/unplug))" = "running done" ]
done
"""


def reload(port, peer, count):
    port.guest.check(RELOADS.format(
        count=count, port=port, peer=peer, wait_gids=rdma.WAIT_GIDS.format(
            dev=port.ibdev, count=2)), 100 + 10 * count)


def reload_under_a_disk(ports, count):
    """The host of a disk continues to write each time."""
    before = ulp.counts(ports)
    disk = ulp.Nvme(ports)
    disk.start()
    writing = ulp.Writing(disk, 100 + 20 * count, count=1)
    for _ in range(count):
        reload(*ports, 1)
        disk.serve_again()
        writing.goes_on()
    writing.stop()
    disk.stop()
    ulp.nothing_left(ports, before)


# TCG keeps data about pages with code, and a module gets other pages each time:
# 15 to 25 KiB. Unbinding and binding takes a tenth of one KiB.
RELOAD_HEAP_KIB = 40


@pytest.mark.parametrize("usual", (10, pytest.param(200, marks=(
    pytest.mark.long, pytest.mark.timeout(2000)))))
def test_reloads(ports, lab, rounds, usual):
    """The driver is reloaded many times under traffic, then works. The
    driver's own rings have 100 KiB. After the first tenth no more memory is
    used. In a tenth of the rounds the kernel serves a disk by the card."""
    a, b = ports
    few = max(1, rounds(usual) // 10)
    pings = b.guest.start(f"exec ping -q -i 0.01 {a.ip4}", 2000)
    try:
        reload(a, b, few)
        growth = memory.Growth([a.vm], max(4096, RELOAD_HEAP_KIB * 9 * few))
        for _ in range(3):
            reload(a, b, 3 * few)
            growth.end_part()
        growth.check()
        reload_under_a_disk(ports, few)
        b.guest.check("pkill -INT -x ping")
        sent, received = map(int, re.search(
            r"(\d+) packets transmitted, (\d+) received", pings.wait().out).groups())
        assert 10 * few < received < sent
        lab.ports[0] = rdma.bring_up(a.vm, 1)
        rdma.pingpong("rc", lab.ports[0], b, "-c").check()
        assert rdma.resources(lab.ports[0]).get("mr", "0") == "0"
    except BaseException:
        lab.current = None
        raise
