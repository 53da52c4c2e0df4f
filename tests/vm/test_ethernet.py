# SPDX-License-Identifier: GPL-2.0-or-later
"""The Ethernet port as a network card: TCP with checksummed data, SSH."""

import re

import pytest

from fakernic_test import rdma

SIZE_MB = 8


@pytest.mark.parametrize("mtu", (1500, 9000))
def test_tcp_carries_every_byte(ports, mtu):
    """Random bytes through nc; SHA-256 on both sides."""
    a, b = ports
    for port in ports:
        port.set_mtu(mtu)
    try:
        pair = rdma.run_pair(
            a, b, "nc -l 7000 | sha256sum",
            f"head -c {SIZE_MB}M /dev/urandom >/tmp/data; sha256sum </tmp/data;"
            f" nc -N {a.ip4} 7000 </tmp/data; rm /tmp/data", 7000, 120).check()
        assert pair.server.out == pair.client.out
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


def test_counters_count(ports):
    a, b = ports
    read = f"cat /sys/class/net/{a.netdev}/statistics/rx_packets"
    before = int(a.guest.check(read))
    b.guest.check(f"ping -c 10 -i 0.1 {a.ip4}")
    assert int(a.guest.check(read)) >= before + 10
