# SPDX-License-Identifier: GPL-2.0-or-later
"""Live migration under load, and snapshots. A guest moves between two QEMUs while programs
in it and in its peer transfer data and compare it."""

import re
import statistics
import time
from contextlib import contextmanager, suppress

import pytest

from fakernic_test import rdma      # first: it sets the path of fakernic_lab
from fakernic_test.lab import FAILURES
from fakernic_test.traffic import HOST, Detached, Traffic
from fakernic_lab import saved
from fakernic_lab.qmp import QMPError

pytestmark = pytest.mark.usefixtures("described")
RELAYED = pytest.mark.guests(relay=True)
TOGETHER = pytest.mark.guests(relay=True, snapshot_qps="keep")
LIMIT_S = 600
MOVES, MOVES_LONG = 3, 20
# More than any test needs. The test ends the programs.
ENDLESS, ENDLESS_S = 1000000, 7200
# How much longer a guest may stand still than the limit given to QEMU, which estimates.
SLACK_MS = 1500


@pytest.fixture
def described(lab, ports):
    """After a failure, prints the state of both ports and of the wire."""
    yield
    if not lab.current:
        for port in ports:
            with suppress(*FAILURES, QMPError, OSError):
                print(rdma.describe(port))
        if lab.relay:
            print("\n".join(lab.relay.ask()))


# ---- programs that outlive a move --------------------------------------------------

def pair(server, client, at_server, at_client, listens, limit=LIMIT_S):
    """Starts a server and its client as jobs that survive a move of their guests."""
    jobs = [Detached(server.guest, f"exec {at_server}", limit)]
    server.guest.check(f"for i in $(seq 300); do {listens} && exit; sleep 0.1; done; "
                       "exit 1", 60)
    jobs.append(Detached(client.guest, f"exec {at_client}", limit))
    return jobs


def verify(kind, server, client):
    """Both sides compare all memory after each batch of operations."""
    common = f"rdma_verify -t {kind} -n {ENDLESS} -g "
    return pair(server, client, f"{common}{server.gid_index()}",
                f"{common}{client.gid_index()} {server.ip4}",
                rdma.LISTENS_TCP.format(port=18601), ENDLESS_S)


def rping(server, client):
    common = f"rping -V -S 4000 -C {ENDLESS} -a {server.ip4}"
    return pair(server, client, f"{common} -s", f"{common} -c", rdma.LISTENS_CM,
                ENDLESS_S)


def ring(server, client, size):
    """The client writes to SIZE MiB of the server, until it gets SIGUSR1."""
    jobs = pair(server, client, f"rdma_ring {size}", f"rdma_ring {size} {server.ip4}",
                rdma.LISTENS_TCP.format(port=18602))
    client.guest.check(f"until grep -q connected {jobs[1].file}.out; do sleep 0.1; done")
    return jobs


def written(port):
    """The bytes that the port has sent or received as packets of RDMA."""
    counters = port.counters()
    return counters["tx_roce"] + counters["rx_roce"]


def ended(jobs):
    """Returns the results of those jobs that have ended."""
    return [result for job in jobs if (result := job.poll())]


def progresses(port, jobs):
    """Waits until RDMA packets of the JOBS pass again."""
    before = written(port)
    deadline = time.monotonic() + 60
    while written(port) < before + 20:
        assert not ended(jobs), f"a program has ended: {ended(jobs)}"
        assert time.monotonic() < deadline, "no packet passes"
        time.sleep(0.1)


def end_all(jobs):
    for job in jobs:
        result = job.wait()
        assert result.ok and not rdma.WRONG_DATA.search(result.out), result


def end_endless(ports, jobs, program):
    """Ends programs that still run, and asserts that they have found no wrong byte."""
    assert not ended(jobs), ended(jobs)
    for port in ports:
        port.guest.check(f"pkill -x {program} || true")
    for job in jobs:
        result = job.wait()
        assert not re.search("wrong|mismatch|invalid data", result.out), result


def moves_under(ports, jobs, count, movers=None):
    """Moves the guests of MOVERS (all PORTS) in turn while the JOBS are at work. Returns the
    times in ms for which they stood still."""
    movers = movers or ports
    times = []
    for number in range(count):
        progresses(ports[0], jobs)
        times.append(movers[number % len(movers)].vm.move())
        print(f"move {number + 1}: stood still for {times[-1]} ms")
    progresses(ports[0], jobs)
    print(f"median {statistics.median(times)} ms")
    assert statistics.median(times) < 500 + SLACK_MS, times
    return times


@contextmanager
def vm_rule(vm, rule):
    """Inside the with, the card has this rule."""
    fault = {"path": "/machine/peripheral/nic0", "property": "x-fault"}
    vm.qmp("qom-set", **fault, value=rule)
    try:
        yield
    finally:
        vm.qmp("qom-set", **fault, value="remove=all")


def hits(vm):
    """How often the only rule of the card was hit."""
    text = vm.qmp("qom-get", path="/machine/peripheral/nic0", property="x-fault")
    return int(re.search(r"hits=(\d+)", text)[1])


# ---- live migration (D4) -----------------------------------------------------------

@RELAYED
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ("rc", "srq"))
def test_guests_move_under_verified_traffic(ports, kind):
    """Every operation of RC, and every byte, while both guests move in turn."""
    jobs = verify(kind, *ports)
    moves_under(ports, jobs, MOVES)
    end_endless(ports, jobs, "rdma_verify")


@pytest.mark.guests(driver=("fakernic", "rxe"), relay=True)
@pytest.mark.timeout(900)
def test_guest_moves_and_its_soft_roce_peer_does_not(ports):
    """The same with a peer that is Soft-RoCE."""
    jobs = verify("rc", *ports)
    moves_under(ports, jobs, MOVES, ports[:1])
    end_endless(ports, jobs, "rdma_verify")


@RELAYED
@pytest.mark.timeout(900)
@pytest.mark.parametrize("words", (
    "ib_write_bw -s 4096 -D 25", "ib_read_bw -s 4096 -D 25",
    "ib_send_bw -s 4096 -n 300000 --events",    # which allow no duration
    "ib_write_bw -s 65536 --odp -D 25",
    pytest.param("ib_write_bw -c XRC -s 4096 -D 25", marks=pytest.mark.long)),
    ids=("write", "read", "events", "odp", "xrc"))
def test_guests_move_under_bandwidth(ports, words):
    """A program of perftest gets all of its completions, while both guests move in turn."""
    at_server, at_client = (f"{words} -F -d {port.ibdev} -x {port.gid_index()}"
                            for port in ports)
    jobs = pair(*ports, at_server, f"{at_client} {ports[0].ip4}",
                rdma.LISTENS_TCP.format(port=18515))
    progresses(ports[0], jobs)
    for port in ports:
        port.vm.move()
        progresses(ports[0], jobs)
    end_all(jobs)


@RELAYED
@pytest.mark.timeout(900)
def test_guests_move_under_a_disk(ports, lab):
    """NVMe over RDMA: reads return what was written before, during and after the moves."""
    traffic = Traffic(lab, HOST)
    for port in ports:
        port.vm.move()
        traffic.writing.goes_on()
    traffic.goes_on()
    traffic.end()


@RELAYED
@pytest.mark.timeout(900)
def test_guests_move_under_rping(ports):
    """A connection of rdma_cm continues, and its data is right."""
    jobs = rping(*ports)
    moves_under(ports, jobs, MOVES)
    end_endless(ports, jobs, "rping")


@RELAYED
@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", ("rc", "srq"))
def test_guests_move_twenty_times(ports, rounds, kind):
    """Every operation and every byte, while both guests move twenty times in turn."""
    jobs = verify(kind, *ports)
    moves_under(ports, jobs, rounds(MOVES_LONG))
    end_endless(ports, jobs, "rdma_verify")


# ---- dirty pages (D5) --------------------------------------------------------------

def moved_with_dirty_pages(ports, size, warm_s):
    """The peer writes to SIZE MiB of a guest while it moves, and stops right after. Each
    block has the number of its last write."""
    server, client = ports
    jobs = ring(server, client, size)
    time.sleep(warm_s)
    server.vm.move()
    client.guest.check("pkill -USR1 -x rdma_ring")
    end_all(jobs)
    blocks = int(re.search(r"(\d+) blocks", jobs[1].wait().out)[1])
    assert blocks > 0
    return blocks


@RELAYED
@pytest.mark.timeout(600)
def test_memory_that_a_peer_writes_moves(ports):
    """No write is lost that the peer made during the migration."""
    moved_with_dirty_pages(ports, 64, 3)


@RELAYED
@pytest.mark.long
@pytest.mark.timeout(7200)
def test_256_mib_that_a_peer_writes_move(ports, rounds):
    """No write to 256 MiB is lost in twenty migrations."""
    for _ in range(rounds(MOVES_LONG)):
        moved_with_dirty_pages(ports, 256, 10)


# ---- snapshots (D6) ----------------------------------------------------------------

@pytest.fixture
def goes_back(lab, vms):        # first vms, which look at "worn" at the end of the test
    """After loadvm the guest's clock is ahead of the card's (qemu-hw/README.md), so other
    tests get new guests."""
    lab.worn = True


def loopback(port):
    """A pingpong of a port with itself that does not end soon."""
    common = f"ibv_rc_pingpong -d {port.ibdev} -g {port.gid_index()} -c -n {ENDLESS}"
    return pair(port, port, common, f"{common} 127.0.0.1",
                rdma.LISTENS_TCP.format(port=18515))


@pytest.mark.guests(count=1)
@pytest.mark.usefixtures("goes_back")
def test_loopback_continues_after_loadvm(ports):
    """A connection of a port with itself continues after each of three loads."""
    port, = ports
    jobs = loopback(port)
    progresses(port, jobs)
    port.guest.close()
    saved.save([port.vm], "loop")
    for _ in range(3):
        port.guest.check("touch /tmp/later")
        port.guest.close()
        saved.load([port.vm], "loop")
        port.guest.check("[ ! -e /tmp/later ]")
        progresses(port, jobs)
    end_endless(ports, jobs, "ibv_rc_pingpong")


@RELAYED
@pytest.mark.usefixtures("goes_back")
def test_foreign_connection_ends_after_loadvm(ports):
    """Only one of two guests goes back in time. Its connection to the other one ends with
    an error, so no data is lost silently."""
    server, client = ports
    jobs = rping(server, client)
    progresses(client, jobs)
    client.guest.close()
    saved.save([client.vm], "alone")
    progresses(client, jobs)
    client.guest.close()
    saved.load([client.vm], "alone")
    client.guest.check("for i in $(seq 20); do rdma resource show qp | "
                       "grep -q 'RC state ERR' && exit; sleep 0.1; done; exit 1")
    client.guest.check("pkill -x rping || true")
    server.guest.check("pkill -x rping || true")
    # The cards work: new connections can be made.
    rdma.pingpong("rc", server, client, "-n 50").check()


@TOGETHER
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("goes_back")
def test_pair_goes_back_together(ports, lab, rounds):
    """Two guests go back in time together. No frame that was sent after the save is
    accepted: all operations continue, and every byte is right."""
    vms = [port.vm for port in ports]
    jobs = verify("rc", *ports)
    progresses(ports[0], jobs)
    for port in ports:
        port.guest.close()
    saved.save(vms, "both")
    for _ in range(rounds(3)):
        progresses(ports[0], jobs)
        for port in ports:
            port.guest.close()
        saved.load(vms, "both", lab.relay)
        progresses(ports[0], jobs)
    end_endless(ports, jobs, "rdma_verify")


# ---- fault rules -------------------------------------------------------------------

@RELAYED
def test_fault_rules_move(ports):
    """A rule that delays frames moves with its counters and the frames that it holds."""
    vm = ports[0].vm
    jobs = verify("rc", *ports)
    with vm_rule(vm, "id=late at=tx class=roce times=0 every=5 do=delay delay-ns=2000000"):
        progresses(ports[0], jobs)
        before = hits(vm)
        vm.move()
        assert hits(vm) >= before > 0
        progresses(ports[0], jobs)
        assert hits(vm) > before
    end_endless(ports, jobs, "rdma_verify")
