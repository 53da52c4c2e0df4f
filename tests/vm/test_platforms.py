# SPDX-License-Identifier: GPL-2.0-or-later
"""Unusual machines: four CPUs, IOMMUs, other bus positions, other machine
types, many cards.

Each card is probed, moves bytes that are compared, and no kernel complains.
guest/vfio_driver.c tests what an IOMMU forbids.
"""

import re

import pytest

from fakernic_lab import faults
from fakernic_lab.net import mac
from fakernic_test import rdma, ulp
from fakernic_test.cards import bring_up, card, root_port
from fakernic_test.recovery import SLOT

CPUS = 4
# Bus positions of the cards, each twice, and the number of bridges above.
PLACES = (*root_port(2), *card(1, "slot2"),
          *root_port(3), "-device", "x3130-upstream,id=switch,bus=slot3",
          "-device", "xio3130-downstream,id=slot4,bus=switch,chassis=4,slot=4",
          "-device", "xio3130-downstream,id=slot5,bus=switch,chassis=5,slot=5",
          *card(2, "slot4"), *card(3, "slot5"),
          "-device", "pxb-pcie,id=other,bus=pcie.0,bus_nr=64",
          *root_port(6, "other"), *root_port(7, "other"),
          *card(4, "slot6"), *card(5, "slot7"),
          *card(6, "pcie.0"), *card(7, "pcie.0"))
BRIDGES = {0: 1, 1: 1, 2: 3, 3: 3, 4: 1, 5: 1, 6: 0, 7: 0}
EIGHT = pytest.mark.guests(count=1, options={"cpus": CPUS, "memory": 1024,
                                             "extra": PLACES})


@pytest.fixture(name="cards")
def fixture_cards(vms, request):
    return bring_up(vms[0], request.param)


def number_of(one):
    """Returns the number of the card with this address; the lab's own card is
    0."""
    return 0 if one.mac == mac(1) else int(one.mac[-2:], 16) - 0x10


@EIGHT
@pytest.mark.parametrize("cards", (8,), indirect=True)
def test_eight_cards_at_different_bus_positions(cards):
    """Eight cards behind a root port, a switch, another root complex and no
    bridge have names and GIDs of their own."""
    assert {number_of(one): one.bridges() for one in cards} == BRIDGES
    assert sum("/pci0000:40/" in one.path for one in cards) == 2
    for name in ("ibdev", "netdev", "mac", "slot"):
        assert len({getattr(one, name) for one in cards}) == 8
    gids = [gid for one in cards for _, gid, _ in one.gids()]
    assert len(gids) == len(set(gids)) >= 24, gids
    for one in cards:
        one.works()


VECTORS = "python3 /usr/share/fakernic/vectors.py"


def fired(one, slot):
    """Returns a map from completion vector of a card to its interrupts."""
    text = one.guest.check("cat /proc/interrupts")
    return {int(vector): sum(map(int, counts.split())) for counts, vector in
            re.findall(rf"^ *\d+:((?: +\d+)+) .*fakernic-comp(\d+)@{slot}$",
                       text, re.M)}


@EIGHT
@pytest.mark.parametrize("cards", (8,), indirect=True)
def test_one_vector_per_cpu(cards):
    """Each card has one completion vector per CPU, and a program gets events
    by each of them."""
    before = [fired(one, one.slot) for one in cards]
    assert [sorted(counts) for counts in before] == [list(range(CPUS))] * 8
    names = " ".join(one.ibdev for one in cards)
    reported = cards[0].guest.check(f"{VECTORS} {names}", 100)
    assert reported.split() == [str(CPUS)] * 8
    for one, counts in zip(cards, before):
        after = fired(one, one.slot)
        assert all(after[vector] > counts[vector] for vector in counts), (
            one.slot, counts, after)


# Each card of the hub is in a network namespace of its own, so that frames cross the
# hub. Each is a server, and a client of the next one.
APART = """
set -e
while read -r number dev; do
    ip netns add of$number
    ip link set $dev netns of$number
    ip -n of$number link set $dev up
    ip -n of$number addr add 10.30.0.$number/24 dev $dev
    until grep -qs 0a1e:000$number /sys/class/infiniband/*/ports/1/gids/[0-9]; do
        sleep 0.1
    done
    ip netns exec of$number rping -s -P -S 1024 -a 10.30.0.$number \
        >/tmp/served$number 2>&1 &
done <<END
{cards}
END
for i in $(seq 600); do
    [ $(rdma resource show cm_id | grep -c LISTEN) = {count} ] && exit
    sleep 0.1
done
exit 1
"""
ASK = """
for number in $(seq {count}); do
    ip netns exec of$number rping -c -v -V -C {pings} -S 1024 \
        -a 10.30.0.$((number % {count} + 1)) >/tmp/asked$number 2>&1 &
done
wait
tail -n 3 /tmp/asked*
"""
TOGETHER = """
pkill -x rping
for number in $(seq {count}); do ip netns del of$number; done
for i in $(seq 100); do
    [ $(ls -d /sys/class/infiniband/*/device/net/* | wc -l) = 8 ] && exit
    sleep 0.1
done
exit 1
"""
PINGS = 10


@EIGHT
@pytest.mark.parametrize("cards", (8,), indirect=True)
def test_seven_cards_on_one_hub(cards):
    """Seven cards write to and read from each other at the same time, and the
    bytes are right."""
    guest = cards[0].guest
    joined = [one for one in cards if number_of(one)]
    before = [one.counters()["rx_roce"] for one in joined]
    names = {"count": len(joined), "pings": PINGS, "cards": "\n".join(
        f"{number} {one.netdev}" for number, one in enumerate(joined, 1))}
    guest.check(APART.format(**names), 100)
    try:
        said = guest.check(ASK.format(**names), 100)
        assert said.count(f"rdma-ping-{PINGS - 1}:") == len(joined), said
        for one, count in zip(joined, before):
            assert one.counters()["rx_roce"] > count + 4 * PINGS
    finally:
        guest.run(TOGETHER.format(**names), 60)


@pytest.mark.long
@pytest.mark.guests(options={"cpus": CPUS})
def test_nvme_with_four_queues(ports):
    """NVMe over Fabrics with four queues uses all completion vectors on both
    sides."""
    before = ulp.counts(ports)
    disk = ulp.Nvme(ports)
    disk.queues = CPUS
    disk.start()
    idle = [fired(port, SLOT) for port in ports]
    disk.on_host(f"for cpu in $(seq 0 {CPUS - 1}); do taskset -c $cpu dd "
                 f"if=/dev/zero of={disk.disk} bs=64k count=16 oflag=direct "
                 "conv=nocreat status=none & done; wait")
    disk.move()
    for port, counts in zip(ports, idle):
        after = fired(port, SLOT)
        assert len(after) == CPUS and all(
            after[vector] > counts[vector] for vector in after), (counts, after)
    disk.stop()
    ulp.nothing_left(ports, before)


# ---- behind an IOMMU ---------------------------------------------------------

def domain(one):
    """Returns the type of the IOMMU group: DMA is strict, DMA-FQ is not."""
    return one.guest.check(
        f"cat {one.path}/iommu_group/type").strip()


INTEL = pytest.mark.guests(
    count=1, append="intel_iommu=on iommu.strict=1 iommu.passthrough=0",
    options={"extra": ("-device", "intel-iommu,caching-mode=on",
                       *root_port(2), *card(1, "slot2"))})


@INTEL
@pytest.mark.parametrize("cards", (2,), indirect=True)
def test_strict_iommu(cards):
    """Programs and NVMe over Fabrics work behind a strict IOMMU."""
    for one in cards:
        assert domain(one) == "DMA"
        one.works()
        before = rdma.resources(one)
        rdma.rping(one, one, count=5).check()
        rdma.perftest("ib_write_bw", one, one, "-n 200 -s 65536").check()
        rdma.wait_for_resources(one, before)
    disk = ulp.Nvme(cards[:1])
    disk.start()
    disk.move()
    disk.stop()
    said = cards[0].guest.check("dmesg")
    assert "fault addr" not in said, said[-2000:]


# Sets an address bit that is never valid in the first page of a region. One rule hits
# the server's region, which is created first and written to; the other hits both, and
# the client's is read. Behind an IOMMU the page size depends on the region's address,
# which is random unless randomization is off. The list of this region is longer than
# that of a ring, and too short for a second level.
ASTRAY = {"Write": "times=1", "Read": "times=0"}
ASTRAY_SIZE = 1 << 20
NO_LOT = "setarch --addr-no-randomize"


@INTEL
@pytest.mark.parametrize("cards", (2,), indirect=True)
@pytest.mark.parametrize("access", ("Write", pytest.param(
    "Read", marks=pytest.mark.long)))
def test_wrong_page_fails_one_connection(cards, access):
    """If the device takes a page of a region for an unmapped one, only that
    connection ends and the card works."""
    (one,) = [each for each in cards if number_of(each) == 0]
    one.guest.check("dmesg -C")
    with faults.armed(one.vm, "at=dma-read why=page-list len=72-4096 "
                      f"{ASTRAY[access]} do=corrupt offset=4 mask=0x40"):
        pair = rdma.pingpong("rc", one, one, f"-n 2 -s {ASTRAY_SIZE}",
                             inside=NO_LOT)
    assert not pair.ok, pair
    said = one.guest.check("dmesg")
    assert re.search(rf"DMA {access}.*{one.slot[5:]}\] fault addr", said), said[-2000:]
    assert "device is dead" not in said
    for each in cards:
        each.works()


TAKE = """
set -e
modprobe -a vfio-pci vfio_iommu_type1
echo {slot} >/sys/bus/pci/drivers/fakernic/unbind
echo vfio-pci >{path}/driver_override
echo {slot} >/sys/bus/pci/drivers_probe
basename $(readlink -f {path}/iommu_group)
"""
GIVE_BACK = """
set -e
echo {slot} >/sys/bus/pci/drivers/vfio-pci/unbind
echo >{path}/driver_override
echo {slot} >/sys/bus/pci/drivers_probe
"""
CHECKS = 13


@INTEL
@pytest.mark.parametrize("cards", (2,), indirect=True)
def test_iommu_fault_stays_local(cards):
    """An IOMMU fault ends one queue pair or delays one event queue. Other
    objects of the card and another card, which writes all the time, are not
    affected."""
    other, one = sorted(cards, key=number_of)
    guest = one.guest
    names = {"slot": one.slot, "path": one.path}
    group = guest.check(TAKE.format(**names)).split()[-1]
    words = f"-d {other.ibdev} -x {other.gid_index()} -F -D 5 -s 4096"
    server = guest.start(f"ib_write_bw {words}", 60)
    guest.check("until ss -Hltn 'sport = :18515' | grep -q .; do sleep 0.05; done")
    client = guest.start(f"ib_write_bw {words} {other.ip4}", 60)
    result = guest.run(f"vfio_driver {one.slot} {group}", 60)
    for job in (server, client):
        job.wait().check()
    passed = len(re.findall(r"^ok ", result.out, re.M))
    assert result.ok and passed == CHECKS, result
    said = guest.check("dmesg")
    assert re.search(rf"{one.slot[5:]}\] fault addr", said), said[-2000:]
    guest.check(GIVE_BACK.format(**names))
    for again in bring_up(one.vm, 2):
        again.works()


@pytest.mark.long
@pytest.mark.guests(count=1, append="swiotlb=force")
def test_bounce_buffers(ports):
    """With bounce buffers, as in confidential guests, no program can open the
    device, as the device would not see the program's memory."""
    (port,) = ports
    port.vm.expect_repair()
    result = port.guest.run(f"ibv_rc_pingpong -d {port.ibdev} -g 0 127.0.0.1")
    assert not result.ok and "get context" in result.err, result
    assert "swiotlb=force" in port.guest.check("dmesg | grep fakernic.*programs")


# The disks must be probed first, as one of them has the IOMMU's driver.
@pytest.mark.long
@pytest.mark.guests(count=1, options={
    "machine": "q35,default_bus_bypass_iommu=on",
    "extra": ("-device", "virtio-iommu-pci",
              "-device", "pxb-pcie,id=other,bus=pcie.0,bus_nr=64",
              *root_port(2, "other"), *card(1, "slot2"))})
def test_virtio_iommu(vms):
    vms[0].guest.check("modprobe virtio-iommu")
    cards = bring_up(vms[0], 2)
    behind, = [one for one in cards if number_of(one) == 1]
    assert domain(behind).startswith("DMA")
    for one in cards:
        one.works()


# ---- other machines ----------------------------------------------------------

@pytest.mark.long
@pytest.mark.guests(count=1, options={"machine": "pc", "ports": False})
@pytest.mark.parametrize("cards", (1,), indirect=True)
def test_machine_without_pci_express(cards):
    cards[0].works()


@pytest.mark.long
@pytest.mark.guests(count=1, options={
    "machine": "microvm,pcie=on,acpi=on", "ports": False,
    "extra": ("-icount", "shift=auto")})
@pytest.mark.parametrize("cards", (1,), indirect=True)
def test_microvm(cards):
    """The device works in the microvm machine, whose PCI Express has only a
    root bus. Linux measures its clocks only by the PIT there. Without a free
    CPU that fails and Linux hangs, so time advances by instructions."""
    cards[0].works()
