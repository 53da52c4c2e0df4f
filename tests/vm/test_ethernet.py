# SPDX-License-Identifier: GPL-2.0-or-later
"""The Ethernet port as a network card: TCP with compared data, SSH, and the
offloads for checksums and long segments."""

import re
import time
from contextlib import contextmanager

import pytest

from fakernic_lab import faults
from fakernic_lab.images import DEBUG_KERNELS
from fakernic_test import rdma, tstamp
from fakernic_test.recovery import RELOAD, is_recovered, reload, sleep, until


@pytest.mark.parametrize("mtu", (1500, 9000))
def test_tcp_carries_every_byte(ports, mtu):
    """Random bytes through nc have the same SHA-256 on both sides."""
    for port in ports:
        port.set_mtu(mtu)
    try:
        rdma.send_bytes(*ports, size="8M")
    finally:
        for port in ports:
            port.set_mtu(1500)


@pytest.mark.parametrize("options", ("", "-R", "-u -b 20M"),
                         ids=("tcp", "tcp_reverse", "udp"))
def test_iperf3(ports, options):
    a, b = ports
    pair = rdma.run_pair(a, b, "iperf3 -s -1 -p 7001",
                         f"iperf3 -c {a.ip4} -p 7001 -t 3 {options}", 7001,
                         60).check()
    assert re.search(r"[1-9][\d.]* [KMG]bits/sec", pair.client.out)


def test_ssh_with_checksummed_data(ports):
    a, b = ports
    key = b.guest.check(
        "mkdir -p /root/.ssh; [ -e /root/.ssh/id_ed25519 ] || "
        "ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519; "
        "cat /root/.ssh/id_ed25519.pub").strip()
    a.guest.check(
        "mkdir -p -m 700 /root/.ssh /run/sshd; [ -e /tmp/hostkey ] || "
        "ssh-keygen -q -t ed25519 -N '' -f /tmp/hostkey; "
        f"echo '{key}' >/root/.ssh/authorized_keys; "
        "/usr/sbin/sshd -f /dev/null -h /tmp/hostkey -o UsePAM=no -o Port=7022 "
        "-o PidFile=/tmp/sshd.pid; until ss -Hltn 'sport = :7022' | grep -q .; "
        "do sleep 0.05; done", 120)
    try:
        out = b.guest.check(
            "head -c 2M /dev/urandom >/tmp/data; sha256sum </tmp/data; "
            "ssh -p 7022 -o StrictHostKeyChecking=no -o LogLevel=ERROR "
            f"-o ConnectTimeout=60 root@{a.ip4} sha256sum </tmp/data", 180)
    finally:
        a.guest.run("kill $(cat /tmp/sshd.pid)")
    sent, received = out.splitlines()
    assert sent == received


def test_port_counters(ports):
    a, b = ports
    read = f"cat /sys/class/net/{a.netdev}/statistics/rx_packets"
    before = int(a.guest.check(read))
    b.guest.check(f"ping -c 10 -i 0.1 {a.ip4}")
    assert int(a.guest.check(read)) >= before + 10


STREAM_PORT = 7005
ARRIVED = "/tmp/arrived"
STREAM = f"""
rm -f /tmp/enough
while [ ! -e /tmp/enough ]; do head -c 20000 /dev/urandom; sleep 0.01; done |
tee /tmp/data | nc -N {{}} {STREAM_PORT}
sha256sum </tmp/data; rm /tmp/data
"""


def await_more(port):
    """Waits until the connection has carried more bytes."""
    def arrived():
        return int(port.guest.check(f"stat -c %s {ARRIVED}"))

    before = arrived()
    deadline = time.monotonic() + 60
    while arrived() == before:
        assert time.monotonic() < deadline, before
        time.sleep(0.1)


def death(port):
    port.guest.check("dmesg -C")
    with faults.armed(port.vm, "at=device do=fatal"):
        is_recovered(port.guest)


@pytest.mark.parametrize("event", (rdma.reset, reload, sleep, death),
                         ids=lambda event: event.__name__)
def test_tcp_survives_recovery(lab, vlan, event):
    """A busy TCP connection loses no byte while a card is reset, reloaded,
    suspended or recovered. Afterwards frames of a VLAN pass as before."""
    a, b = ports = vlan
    server = a.guest.start(f"nc -l {STREAM_PORT} | tee {ARRIVED} | sha256sum", 200)
    a.guest.check("until ss -Hltn sport = :%d | grep -q .; do sleep 0.05; done" %
                  STREAM_PORT)
    client = b.guest.start(STREAM.format(a.ip4), 200)
    try:
        for port in ports:
            await_more(a)
            event(port)
            await_more(a)
            b.guest.check("ping -c 3 -i 0.2 -W 5 10.5.0.1")
    finally:
        b.guest.check("touch /tmp/enough")
        a.guest.check(f"rm -f {ARRIVED}")
    sent, received = client.wait(), server.wait()
    assert sent.ok and received.ok and sent.out == received.out, (sent, received)
    # The GIDs have other indexes now.
    lab.ports = rdma.bring_up_all([port.vm for port in ports])


SECOND_MAC = "02:00:00:00:78:01"
COMES_UP_LATE = "at=command cmd=QUERY_DEVICE delay-ns=4000000000 do=delay"


def test_address_added_during_reload(lab, ports):
    """A second unicast address, as macvlan or a bridge adds it, passes the
    filter if it is added during a reload."""
    a, b = ports
    filtered = f"ethtool -S {a.netdev} | awk '/ rx_filtered:/ {{print $2}}'"
    a.guest.check(f"echo 1 >/proc/sys/net/ipv6/conf/{a.netdev}/disable_ipv6")
    try:
        for _ in range(3):
            with faults.armed(a.vm, COMES_UP_LATE) as rules:
                job = a.guest.start(f"exec {RELOAD}", 60)
                rules.wait_for([1])
                a.guest.check(f"bridge fdb add {SECOND_MAC} dev {a.netdev}")
                came_late = job.poll() is not None
                assert job.wait().ok
            if not came_late:
                break
            a.guest.check(f"bridge fdb del {SECOND_MAC} dev {a.netdev}")
        assert not came_late
        b.guest.check(f"ping -c 5 {a.ip4}")
        before = int(a.guest.check(filtered))
        b.guest.check(f"ip neigh replace {a.ip4} lladdr {SECOND_MAC} dev {b.netdev}")
        b.guest.run(f"ping -c 5 -i 0.2 -W 1 {a.ip4}")
        assert int(a.guest.check(filtered)) == before
        # Without it the filter drops them.
        a.guest.check(f"bridge fdb del {SECOND_MAC} dev {a.netdev}; sleep 1")
        b.guest.run(f"ping -c 15 -i 0.2 -W 1 {a.ip4}")
        assert int(a.guest.check(filtered)) >= before + 5
    finally:
        b.guest.run(f"ip neigh del {a.ip4} dev {b.netdev}")
        a.guest.check(f"echo 0 >/proc/sys/net/ipv6/conf/{a.netdev}/disable_ipv6")
        lab.ports = rdma.bring_up_all([port.vm for port in ports])


WITHOUT_A_BUFFER = 5
NOT_FOUND = f"at=recv-wqe times={WITHOUT_A_BUFFER} do=drop"


def missed(port):
    text = port.guest.check(f"ip -s link show {port.netdev}")
    names, values = re.search(r"RX: +(.*)\n +(.*)", text).groups()
    return int(dict(zip(names.split(), values.split()))["missed"])


@contextmanager
def known_by_heart(port, peer):
    """Permanent neighbour entries, so that the port does not probe its peer.
    Such a frame would be one without a buffer, too, if it arrived before a
    reset card has buffers."""
    mac = peer.guest.check(f"cat /sys/class/net/{peer.netdev}/address").strip()
    port.guest.check(f"ip neigh replace {peer.ip4} lladdr {mac} nud permanent "
                     f"dev {port.netdev}")
    try:
        yield
    finally:
        port.guest.check(f"ip neigh del {peer.ip4} dev {port.netdev}")


TOO_LONG = """
set -e
tc qdisc add dev lo clsact
tc filter add dev lo egress matchall action mirred egress redirect dev {netdev}
for i in 1 2 3; do ping -c 1 -W 1 -s 20000 127.0.0.1 >/dev/null || true; done
tc qdisc del dev lo clsact
"""


def test_too_long_frames_are_dropped(ports):
    """Frames longer than the MTU are dropped, and the queue continues."""
    port, peer = ports
    dropped = f"cat /sys/class/net/{port.netdev}/statistics/tx_dropped"
    before = int(port.guest.check(dropped))
    port.guest.check("dmesg -C")
    port.guest.check(TOO_LONG.format(netdev=port.netdev), 60)
    assert int(port.guest.check(dropped)) >= before + 3
    port.guest.check(f"ping -c 1 -W 5 {peer.ip4}")
    said = port.guest.check("dmesg")
    assert "failed" not in said and "restarting" not in said, said


def test_frames_without_buffer_are_counted(ports):
    """Frames without a receive buffer appear in "ip -s link", also after a
    reset cleared the counters of the card."""
    a, b = ports
    before = missed(a)
    with known_by_heart(b, a):
        for number in (1, 2):
            with faults.armed(a.vm, NOT_FOUND):
                b.guest.check(f"ping -i 0.2 -c 20 {a.ip4}")
            wanted = before + number * WITHOUT_A_BUFFER
            deadline = time.monotonic() + 30
            while missed(a) < wanted:
                assert time.monotonic() < deadline, missed(a)
                time.sleep(0.5)
            rdma.reset(a)
            assert missed(a) == wanted


RING = 256
PINGS = 2000
NEW_PAGES = """
cd /sys/kernel/tracing
echo >trace
echo 1 >events/page_pool/page_pool_state_hold/enable
"""


def test_lost_receive_completion_restarts_queues(ports):
    """If a receive completion is lost, later ones are not in their places and
    the driver restarts the queues. Linux may send a frame of its own at that
    time. Then the completion of that frame is lost instead."""
    a, b = ports
    # Nobody answers, as an answer would have a completion, too.
    shout = f"ping -b -c 1 -W 1 -I {b.netdev} 255.255.255.255 >/dev/null 2>&1"
    for _ in range(3):
        a.guest.check("dmesg -C")
        with faults.armed(a.vm, "at=cqe do=drop") as lost:
            b.guest.run(f"for i in $(seq 5); do {shout}; done")
            assert lost.hits() == [1]
        b.guest.check(f"for i in $(seq 10); do ping -c 1 -W 1 {a.ip4} && exit; "
                      "done; exit 1", 60)
        said = a.guest.check("dmesg")
        if "completion of receive" in said:
            break
    assert "completion of receive" in said


def test_receive_pages_are_reused(ports):
    """Receive pages that were not copied are reused; almost no frame costs the
    kernel a new page."""
    a, b = ports
    taken = "grep -c page_pool_state_hold /sys/kernel/tracing/trace || :"
    a.guest.check("mountpoint -q /sys/kernel/tracing || "
                  "mount -t tracefs tracefs /sys/kernel/tracing")
    a.guest.check(NEW_PAGES)
    try:
        a.guest.check(f"ethtool -G {a.netdev} rx {RING}")
        made = int(a.guest.check(taken))
        assert made >= RING
        out = b.guest.check(f"ping -f -c {PINGS} -s 1400 {a.ip4}", 100)
        # The socket has room for this many after a pause of the guest.
        assert int(re.search(r"(\d+) received", out)[1]) > 0.9 * PINGS, out
        assert int(a.guest.check(taken)) - made < PINGS / 10
    finally:
        a.guest.check("echo 0 >/sys/kernel/tracing/events/page_pool/enable; "
                      f"ethtool -G {a.netdev} rx 512")


DEEP = 4096
# Two files that are longer than free memory.
FULL_OF_FILES = "cat /dev/vda /dev/vdc >/dev/null"


def test_deep_queue_under_memory_pressure(ports):
    """A deep queue works when memory is full of cached files, as the kernel
    reclaims their pages."""
    port = ports[0]
    port.set_mtu(9000)
    try:
        port.guest.check(f"{FULL_OF_FILES}; ethtool -G {port.netdev} rx {DEEP}", 200)
    finally:
        port.guest.check(f"ethtool -G {port.netdev} rx 512")
        port.set_mtu(1500)


# Linux reports pages that sockets keep only after this time.
KEPT_S = 65
KEEPS = """
import socket, time
with socket.create_server(("{address}", {port})) as listener:
    open("/tmp/listens", "w").close()
    peer, _ = listener.accept()
    time.sleep({seconds})
"""


@pytest.mark.long
def test_unread_frames_keep_their_pages(ports):
    """Frames that no program reads keep the pages of removed queues without
    harm."""
    a, b = ports
    a.guest.check("dmesg -C; rm -f /tmp/listens")
    a.guest.write("/tmp/keeps.py", KEEPS.format(address=a.ip4, port=STREAM_PORT,
                                                seconds=2 * KEPT_S))
    keeps = a.guest.start("exec python3 /tmp/keeps.py", 3 * KEPT_S)
    until(a.guest, "[ -e /tmp/listens ]")
    writes = b.guest.start(f"exec nc {a.ip4} {STREAM_PORT} </dev/zero", 3 * KEPT_S)
    a.guest.check(f"sleep 3; ethtool -G {a.netdev} rx {RING}; sleep {KEPT_S}; "
                  f"ethtool -G {a.netdev} rx 512", 100)
    keeps.kill()
    writes.kill()
    keeps.wait()
    writes.wait()
    said = a.guest.check("dmesg")
    assert "stalled" not in said, said


# ---- offloads -----------------------------------------------------------

def counted(port):
    text = port.guest.check(f"ethtool -S {port.netdev}")
    return {name: int(value)
            for name, value in re.findall(r"(\w+): (\d+)", text)}


FRAMES_OF_DATA = 1000   # at least, of what rdma.send_bytes() sends
MERGED_AT_LEAST = 3     # frames per packet, on average; half on the race kernel
OTHER_FRAMES = 100      # ARP, IPv6


def set_offloads(port, words):
    port.guest.check(f"ethtool -K {port.netdev} {words}")


def test_offloads_can_be_turned_off_and_on(ports):
    """Offloads can be turned off and on, and the setting survives that the
    port goes down."""
    port = ports[0]
    names = ("rx-checksumming", "tx-checksum-ipv4", "tx-checksum-ipv6",
             "tx-tcp-segmentation", "tx-tcp6-segmentation",
             "tx-vlan-offload", "rx-vlan-offload")

    def shown():
        text = port.guest.check(f"ethtool -k {port.netdev}")
        return {name: state for name, state in
                re.findall(r"([\w-]+): (on|off)", text) if name in names}

    assert shown() == dict.fromkeys(names, "on")
    set_offloads(port, "rx off tx off rxvlan off txvlan off")
    assert shown() == dict.fromkeys(names, "off")
    set_offloads(port, "rx on tx on tso on rxvlan on txvlan on")
    assert shown() == dict.fromkeys(names, "on")


@pytest.mark.parametrize("family", (4, 6))
def test_wire_checksums_are_right(ports, family):
    """Checksums and segments that the card made are right, by tcpdump at the
    peer and by the peer's card."""
    a, b = ports
    before, looked = counted(b), counted(a)
    set_offloads(a, "gro off")
    a.guest.check("rm -f /tmp/wire.pcap")
    capture = a.guest.start(
        f"exec tcpdump -i {a.netdev} -U -w /tmp/wire.pcap "
        f"src host {b.ip(family)} and port {rdma.BYTES_PORT}", 120)
    try:
        a.guest.check("until [ -s /tmp/wire.pcap ]; do sleep 0.05; done")
        rdma.send_bytes(a, b, family)
    finally:
        a.guest.check(f"kill {capture.pid}")
        capture.wait()
        set_offloads(a, "gro on")
    text = a.guest.check("tcpdump -nnvv -r /tmp/wire.pcap | grep -o "
                         "'cksum 0x[0-9a-f]* ([a-z]*' | sed 's/.*(//' | sort "
                         "| uniq -c")
    assert re.fullmatch(r"\s*\d{3,} correct\s*", text), text
    after = counted(b)
    assert after["tx_csum"] > before["tx_csum"]
    assert after["tx_tso"] > before["tx_tso"]
    assert counted(a)["rx_csum"] - looked["rx_csum"] > FRAMES_OF_DATA


def received(port):
    """Returns the frames of the interface and the packets of IP, where a
    merged packet counts once."""
    frames = port.guest.check(
        f"cat /sys/class/net/{port.netdev}/statistics/rx_packets")
    packets = port.guest.check("nstat -asz IpInReceives")
    return [int(frames), int(re.search(r"^IpInReceives +(\d+)", packets, re.M)[1])]


@pytest.mark.parametrize("state", ("on", "off"))
def test_frames_are_merged(ports, state):
    """GRO delivers segments of one TCP connection merged."""
    a, b = ports
    set_offloads(a, f"gro {state}")
    try:
        before = received(a)
        rdma.send_bytes(a, b)
        frames, packets = (after - count for after, count in
                           zip(received(a), before))
    finally:
        set_offloads(a, "gro on")
    print(f"GRO {state}: {frames} frames, {packets} packets")
    assert frames > FRAMES_OF_DATA
    if state == "on":
        half = 2 if a.vm.image.kernel in DEBUG_KERNELS else 1
        assert packets < frames / MERGED_AT_LEAST * half
    else:
        assert packets > frames - OTHER_FRAMES


def test_bytes_are_the_same_without_offloads(ports):
    a, b = ports
    for port in ports:
        set_offloads(port, "rx off tx off")
    try:
        before = [counted(port) for port in ports]
        rdma.send_bytes(a, b)
        after = [counted(port) for port in ports]
        for name in ("tx_csum", "tx_tso", "rx_csum"):
            assert [count[name] for count in after] == [
                count[name] for count in before], name
    finally:
        for port in ports:
            set_offloads(port, "rx on tx on tso on")


@pytest.fixture(name="vlan")
def fixture_vlan(ports):
    """A VLAN for both guests, with a priority: tag 0x6005."""
    for at, port in enumerate(ports, 1):
        port.guest.check(
            f"ip link add link {port.netdev} name vlan5 type vlan id 5 "
            f"egress-qos-map 0:3 && ip addr add 10.5.0.{at}/24 dev vlan5 && "
            "ip link set vlan5 up")
    yield ports
    for port in ports:
        port.guest.check("ip link del vlan5")
        set_offloads(port, "rxvlan on txvlan on")


def test_vlan_tags_by_the_card(vlan):
    """Each side turns VLAN offload on or off, so the card of one meets the
    kernel of the other."""
    a, b = vlan
    for state_a, state_b in (("on", "on"), ("off", "on"), ("on", "off")):
        set_offloads(a, f"rxvlan {state_a} txvlan {state_a}")
        set_offloads(b, f"rxvlan {state_b} txvlan {state_b}")
        rdma.send_bytes(a, b, size="1M", address="10.5.0.1")
    # Frames at the parent interface of the other end show what was sent.
    text = a.guest.check(
        f"ping -q -i 0.1 -w 20 10.5.0.2 >/dev/null & timeout 30 tcpdump -c 1 -e "
        f"-nn -i {a.netdev} 'vlan 5 and src 10.5.0.2' 2>/dev/null; kill $!")
    assert "vlan 5, p 3" in text


OTHER_TAGS = """
set -e
ip link add link {netdev} name service9 type vlan proto 802.1ad id 9
ip link add link service9 name customer8 type vlan id 8
ip addr add 10.9.0.{at}/24 dev service9
ip addr add 10.8.0.{at}/24 dev customer8
ip link set service9 up
ip link set customer8 up
"""


def test_stacked_vlan_tags(ports):
    """Frames with tags of IEEE 802.1ad, alone and with an inner tag, pass in
    addition to the MTU."""
    a, b = ports
    for at, port in enumerate(ports, 1):
        port.guest.check(OTHER_TAGS.format(netdev=port.netdev, at=at))
    try:
        for network in (9, 8):
            b.guest.check(f"ping -c 3 -i 0.2 -M do -s 1472 10.{network}.0.1")
            rdma.send_bytes(a, b, size="1M", address=f"10.{network}.0.1")
    finally:
        for port in ports:
            port.guest.check("ip link del customer8; ip link del service9")


# A datagram and a SYN of both families, each with a right and a wrong checksum.
SEND_WRONG = """
import socket, struct, sys
def mac(text): return bytes.fromhex(text.replace(":", ""))
def csum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
def packet(family, source, target, number, at, data, wrong):
    pair = b"".join(socket.inet_pton(family, text) for text in (source, target))
    total = csum(pair + struct.pack("!II", len(data), number) + data) ^ wrong
    data = data[:at] + struct.pack("!H", total) + data[at + 2:]
    if family == socket.AF_INET6:
        return (b"\\x86\\xdd" + struct.pack("!IHBB", 6 << 28, len(data), number, 64)
                + pair + data)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(data), 1, 0, 64, number, 0)
    ip += pair
    return (b"\\x08\\x00" + ip[:10] + struct.pack("!H", csum(ip)) + ip[12:] +
            data)
name, here, there, *addresses = sys.argv[1:]
udp = 17, 6, struct.pack("!HHHH4s", 7009, 7009, 12, 0, b"abcd")
tcp = 6, 16, struct.pack("!HHIIBBHHH", 7009, 7009, 1, 0, 5 << 4, 2, 1000, 0, 0)
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
sock.bind((name, 0))
for kind in (udp, tcp):
    for family, ends in ((socket.AF_INET, addresses[:2]),
                         (socket.AF_INET6, addresses[2:])):
        for wrong in (0, 1):
            sock.send(mac(there) + mac(here) +
                      packet(family, *ends, *kind, wrong))
"""
SENT = 8
# Whether the kernel takes each checksum for verified by the card:
# TP_STATUS_CSUM_VALID of SOL_PACKET's PACKET_AUXDATA.
LOOKED_AT = """
import socket, struct, sys
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
sock.setsockopt(263, 8, 1)
sock.bind((sys.argv[1], 3))
open("/tmp/looks", "w").close()
left = int(sys.argv[2])
while left:
    frame, ((_, _, aux),), _, address = sock.recvmsg(2000, 100)
    at = 54 if frame[12:14] == b"\\x86\\xdd" else 34
    if address[2] == 0 and frame[at + 2:at + 4] == struct.pack("!H", 7009):
        print(struct.unpack_from("I", aux)[0] >> 7 & 1, flush=True)
        left -= 1
"""
# The kernel's counters of wrong checksums and of closed ports.
KERNEL_COUNTS = {"UdpInCsumErrors": 1, "Udp6InCsumErrors": 1, "TcpInCsumErrors": 2,
                 "UdpNoPorts": 1, "Udp6NoPorts": 1, "TcpOutRsts": 2}


def test_wrong_checksums_are_seen(ports):
    """Frames with a wrong checksum are counted by card and kernel and not
    delivered. The kernel does not check good ones again."""
    a, b = ports
    b.guest.write("/tmp/wrong.py", SEND_WRONG)
    a.guest.write("/tmp/looked.py", LOOKED_AT)
    mac = [port.guest.check(f"cat /sys/class/net/{port.netdev}/address").strip()
           for port in (b, a)]

    def state():
        text = a.guest.check(f"nstat -asz {' '.join(KERNEL_COUNTS)}")
        card = counted(a)
        return {**{name: int(count) for name, count in
                   re.findall(r"^(\w+) +(\d+)", text, re.M)},
                **{name: card[name] for name in ("rx_csum", "rx_csum_wrong")}}

    half = SENT // 2
    a.guest.check("rm -f /tmp/looks")
    looker = a.guest.start(
        f"exec python3 /tmp/looked.py {a.netdev} {SENT}", 120)
    a.guest.check("until [ -e /tmp/looks ]; do sleep 0.05; done")
    before = state()
    b.guest.check(f"python3 /tmp/wrong.py {b.netdev} {' '.join(mac)} "
                  f"{b.ip4} {a.ip4} {b.ip6} {a.ip6}")
    # Frames of several queues arrive in any order.
    assert sorted(looker.wait().out.split()) == ["0"] * half + ["1"] * half
    deadline = time.monotonic() + 20
    wanted = {**KERNEL_COUNTS, "rx_csum": half, "rx_csum_wrong": half}
    while (found := {name: count - before[name]
                     for name, count in state().items()}) != wanted:
        assert time.monotonic() < deadline, (found, wanted)
        time.sleep(0.2)


# ---- time stamps --------------------------------------------------------

def test_frames_have_time_stamps(ports):
    tstamp.check(*ports)


def test_one_step_time_stamps_are_refused(ports):
    """One-step time stamps are refused, and linuxptp reports that."""
    port = ports[0]
    tstamp.configure(port, tstamp.TX_OFF, tstamp.RX_NONE)
    assert "Numerical result out of range" in port.guest.run(
        f"python3 /tmp/tstamp.py set {port.netdev} {tstamp.TX_ONESTEP} 0").err


def test_time_stamps_survive_a_reset(ports):
    """Time stamp settings of the port survive a reset; see
    kernel-driver/README.md."""
    port = ports[0]
    wanted = tstamp.configure(port, tstamp.TX_ON, tstamp.RX_ALL)
    try:
        rdma.reset(port)
        assert tstamp.configured(port) == wanted == [tstamp.TX_ON,
                                                     tstamp.RX_ALL]
    finally:
        tstamp.configure(port, tstamp.TX_OFF, tstamp.RX_NONE)
