# SPDX-License-Identifier: GPL-2.0-or-later
"""Wrong requests, killed applications and reloads leave nothing behind."""

import re
import time

from fakernic_test import rdma


def test_bad_requests_get_the_right_completion(ports):
    """Wrong keys, bounds, rights and peers: rdma_faults judges each."""
    result = ports[0].guest.run("rdma_faults", 200)
    assert result.ok, result
    assert len(re.findall(r"^ok ", result.out, re.M)) >= 13, result


def test_killed_application_leaves_nothing(ports):
    a, b = ports
    before = [rdma.resources(port) for port in ports]
    server = a.guest.start(
        f"ib_write_bw -d {a.ibdev} -x {a.gid_index()} -F -D 60", 100)
    a.guest.check("until ss -Hltn 'sport = :18515' | grep -q .; "
                  "do sleep 0.05; done")
    client = b.guest.start(
        f"ib_write_bw -d {b.ibdev} -x {b.gid_index()} -F -D 60 {a.ip4}", 100)
    b.guest.check("until rdma resource show qp | "
                  "grep -q 'type RC.*state RTS'; do sleep 0.1; done; sleep 1")
    b.guest.check("pkill -9 ib_write_bw")
    assert not client.wait().ok
    a.guest.run("pkill -9 ib_write_bw")     # it may have noticed already
    assert not server.wait().ok
    for port, counts in zip(ports, before):
        rdma.wait_for_resources(port, counts)
    rdma.pingpong("rc", a, b, "-n 100").check()


def test_twenty_reloads(ports, lab):
    """The driver goes and comes back 20 times, then works."""
    a, b = ports
    script = """
        set -e
        for i in $(seq 20); do
            modprobe -r fakernic
            [ -z "$(ls /sys/class/infiniband)" ]
            modprobe fakernic
            for try in $(seq 100); do
                [ -n "$(ls /sys/class/infiniband)" ] && break
                sleep 0.05
            done
            [ -n "$(ls /sys/class/infiniband)" ]
        done
        """
    try:
        a.guest.check(script, 200)
        lab.ports[0] = rdma.bring_up(a.vm, 1)
        rdma.pingpong("rc", lab.ports[0], b, "-c").check()
        assert rdma.resources(lab.ports[0]).get("mr", "0") == "0"
    except BaseException:
        lab.current = None
        raise


def test_reload_in_the_middle_of_ping(ports, lab):
    """Unloading under Ethernet traffic is no different."""
    a, b = ports
    job = b.guest.start(f"ping -i 0.05 -w 5 {a.ip4}", 30)
    time.sleep(1)
    a.guest.check("modprobe -r fakernic && modprobe fakernic")
    job.wait()
    lab.ports[0] = rdma.bring_up(a.vm, 1)
    rdma.pingpong("rc", lab.ports[0], b, "-n 100").check()
