# SPDX-License-Identifier: GPL-2.0-or-later
"""Sweeps between two guests. A small program of every operation
(rdma_every_op) runs once for each frame, DMA or command of one card. A fault
rule hits only that one. The sweep ends when a run is too short to be hit.

If the program succeeds, its bytes must be right. It may get an error only
where no transport can help. UC and UD lose exactly the message that was hit.
Each rule counts its hits, and a sweep that hits nothing fails.

make test hits every N-th one; make test-long hits each, which takes many
minutes.
"""

import itertools
import re

import pytest

from fakernic_lab import faults
from fakernic_test import rdma
from fakernic_test.recovery import DEVLINK, commands_may_take

LISTENS = rdma.LISTENS_TCP.format(port=18604)
OK, REFUSED = 0, 1
NO_RESOURCE, DMA_ERROR = 7, 9
FRAMES = {"lost": "do=drop", "twice": "do=duplicate",
          "corrupt": "do=corrupt", "late": "delay-ns=30000000 do=delay",
          "overtaken": "by=2 do=reorder"}
# Actions that lose a message of an unreliable service.
LOSSES = ("lost", "corrupt")
SERVICES = ("rc", "xrc")
UNRELIABLE = ("uc", "ud")
DMAS = ("dma-read", "dma-write")
# Minimum number of frames, DMAs and commands that a sweep must hit.
FRAMES_AT_LEAST, DMAS_AT_LEAST, COMMANDS_AT_LEAST = 5, 20, 12


# On a failure this shows the cause: a run that waits for the other side, or a port
# without a link.
WORKS = """
while [ $SECONDS -lt 60 ]; do
    rdma link show {port.ibdev}/1 | grep -q 'state ACTIVE' &&
        timeout 20 rdma_every_op {server} && exit
    devlink health recover {devlink} reporter fw
    sleep 0.1
done
rdma link; ip -br link; devlink health; ss -tn
exit 1
"""
LIVES_AT_LEAST = 25
# One life of a driver: it is loaded, serves two programs, and is removed.
LIFE = """
serve() {{
    set -- /sys/class/infiniband/* /sys/bus/pci/drivers/fakernic/0*/net/*
    [ -e "$1" ] && [ -e "$2" ] || return 1
    ib=${{1##*/}} net=${{2##*/}}
    ip link set $net up && ip addr replace {address}/24 dev $net || return 1
    for try in $(seq 20); do
        index=$(cd $1/ports/1/gids && grep -l {gid} ? ?? ??? 2>/dev/null)
        [ "$index" ] && break
        sleep 0.05
    done
    program="timeout 20 ibv_rc_pingpong -d $ib -g $index -n 10"
    $program & server=$!
    until {listens} || ! kill -0 $server 2>/dev/null; do sleep 0.02; done
    $program 127.0.0.1 || kill $server 2>/dev/null
    wait $server
}}
modprobe fakernic cmd_timeout={limit} || exit 3
serve
code=$?
timeout 20 modprobe -r fakernic || exit 4
[ $code = 0 ] || exit {refused}
"""


def each(test):
    """Returns a sweep that hits each one, for make test-long."""
    return pytest.mark.long(pytest.mark.timeout(3600)(test))


class Program:
    """The two ends of rdma_every_op. The client's card is the victim by
    default."""

    def __init__(self, server, client):
        self.server, self.client = server, client
        self.service, self.victim = "rc", client
        self.before = rdma.resources(client)
        self.job = server.guest.start("exec rdma_every_op", 3600)
        server.guest.check(f"until {LISTENS}; do sleep 0.05; done")

    def run(self):
        return self.client.guest.run(
            f"rdma_every_op {self.server.ip4} {self.service}", 60)

    def hit(self, rule):
        """Runs with this rule; returns the result and whether the rule was
        hit."""
        vm = self.victim.vm
        faults.set_fault(vm, f"id=sweep {rule}")
        result = self.run()
        hits = faults.hits(faults.rules_of(vm)["sweep"])
        faults.set_fault(vm, "remove=sweep")
        return result, hits

    def works(self):
        """Checks that everything is as before. It recovers a dead card at
        once; the driver would pause, twice as long after each death."""
        self.client.guest.check(WORKS.format(
            port=self.client, server=self.server.ip4, devlink=DEVLINK), 120)
        rdma.wait_for_resources(self.client, self.before)

    def end(self):
        self.server.guest.check(f"kill {self.job.pid}")
        self.job.wait()


@pytest.fixture(name="program")
def running_program(ports):
    program = Program(*ports)
    yield program
    program.end()


def sweep(program, rule, step, judge, first=1):
    """Hits each STEP-th one from FIRST on; returns how many were hit."""
    for count, nth in enumerate(itertools.count(first, step)):
        result, hits = program.hit(f"nth={nth} {rule}")
        printed = f"{rule} nth={nth}: {result}"
        if not hits:
            assert result.code == OK, printed
            return count
        assert hits == 1, printed
        judge(result, printed, nth)
    return None


def sweep_frames(program, at, what, step):
    def judge(result, printed, _):
        assert result.code == OK, printed
    hit = sweep(program, f"at={at} class=roce {FRAMES[what]}", step, judge)
    assert hit * step >= FRAMES_AT_LEAST
    program.works()


def messages(result):
    """Returns the packet count of each message, and the numbers of those that
    are missing."""
    packets, missing = (
        [int(word) for word in re.search(f"^{name}(.*)$", result.out,
                                         re.M)[1].split()]
        for name in ("packets", "missing"))
    return packets, missing


def sweep_messages(program, service, at, what, step):
    """Hits incoming messages of the other card, as this one has none. A
    reliable message follows, which is never missing."""
    program.service = service
    program.victim = {"tx": program.client, "rx": program.server}[at]
    packets, missing = messages(program.run().check())
    assert not missing
    owners = [number for number, count in enumerate(packets)
              for _ in range(count)]

    def judge(result, printed, nth):
        assert result.code == OK, printed
        assert messages(result) == (packets, owners[nth - 1:nth]), printed
    hit = sweep(program, f"at={at} class=roce {FRAMES[what]}", step, judge)
    assert hit * step > len(owners)
    program.works()


def sweep_others(program, rule, step, at_least):
    """Checks that a failure that no transport can repair is reported and
    leaves nothing. A sample may hit only repairable ones, such as accesses of
    the Ethernet port; then the next ones are hit."""
    reported = []

    def judge(result, printed, _):
        assert result.code in (OK, REFUSED), printed
        reported.append(result.code == REFUSED)
        program.works()
    for first in range(1, step + 1):
        hit = sweep(program, rule, step, judge, first)
        assert hit * step + first > at_least
        if any(reported):
            return
    pytest.fail(f"none of {len(reported)} failures was reported")


WHAT = pytest.mark.parametrize("what", FRAMES)
LOSS = pytest.mark.parametrize("what", LOSSES)
AT = pytest.mark.parametrize("at", ("tx", "rx"))


@WHAT
@AT
def test_some_frames(program, at, what):
    """RC: a lost, duplicated or corrupted frame does no harm, for a sample of
    frames."""
    sweep_frames(program, at, what, 3)


@WHAT
@AT
def test_some_frames_of_xrc(program, at, what):
    """XRC: a hit frame does no harm, with shared receives on the other side
    and a QP that only receives."""
    program.service = "xrc"
    sweep_frames(program, at, what, 5)


@LOSS
@AT
@pytest.mark.parametrize("service", UNRELIABLE)
def test_some_messages(program, service, at, what):
    sweep_messages(program, service, at, what, 3)


@each
@WHAT
@AT
@pytest.mark.parametrize("service", SERVICES)
def test_every_frame(program, service, at, what):
    program.service = service
    sweep_frames(program, at, what, 1)


@each
@LOSS
@AT
@pytest.mark.parametrize("service", UNRELIABLE)
def test_every_message(program, service, at, what):
    sweep_messages(program, service, at, what, 1)


@pytest.mark.parametrize("at", DMAS)
def test_some_accesses_fail(program, at):
    sweep_others(program, f"at={at} do=fail", 11, DMAS_AT_LEAST)


@each
@pytest.mark.parametrize("at", DMAS)
def test_every_access_fails(program, at):
    sweep_others(program, f"at={at} do=fail", 1, DMAS_AT_LEAST)


@pytest.mark.parametrize("status, step", ((NO_RESOURCE, 4), (DMA_ERROR, 7)))
def test_some_commands_fail(program, status, step):
    sweep_others(program, f"at=command do=fail status={status}", step,
                 COMMANDS_AT_LEAST)


@each
@pytest.mark.parametrize("status", (NO_RESOURCE, DMA_ERROR))
def test_every_command_fails(program, status):
    sweep_others(program, f"at=command do=fail status={status}", 1,
                 COMMANDS_AT_LEAST)


@pytest.fixture(name="hasty")
def program_with_a_hasty_driver(program):
    """A program whose driver waits one second for a command."""
    commands_may_take(program.client.guest, 1)
    yield program
    commands_may_take(program.client.guest)


def test_client_with_dead_card(hasty):
    """A client whose card dies cannot disconnect. The server finds out when
    the card is back, and serves the next client. By then the server has sent
    everything that the client has not read. The client's kernel keeps its own
    packets for 3 s after it lost the neighbour entry."""
    guest = hasty.client.guest
    recover = f"devlink health set {DEVLINK} reporter cmdq auto_recover "
    commands_may_take(guest, 5)
    guest.check(f"{recover} false")
    try:
        result, hits = hasty.hit("at=command cmd=ALLOC_UAR do=drop")
        assert hits == 1 and result.code == REFUSED, result
        guest.check("sleep 6")
    finally:
        guest.check(f"{recover} true")
        commands_may_take(guest, 1)
    hasty.works()


def sweep_lost_commands(program, step):
    """Commands that are executed but not completed: the driver times out and
    resets the card."""
    sweep_others(program, "at=command do=drop", step, COMMANDS_AT_LEAST)


def test_some_commands_time_out(hasty):
    sweep_lost_commands(hasty, 8)


@each
def test_every_command_times_out(hasty):
    sweep_lost_commands(hasty, 1)


class Life:
    """The driver's life in the first guest, from probe to removal, which must
    succeed when nothing is hit."""

    def __init__(self, lab, port, limit):
        self.lab, self.client = lab, port
        self.victim = port
        address = port.ip4
        gid = "".join(f"{int(byte):02x}" for byte in address.split("."))
        self.script = LIFE.format(
            address=address, gid=f"ffff:{gid[:4]}:{gid[4:]}", limit=limit,
            listens=rdma.LISTENS_TCP.format(port=18515), refused=REFUSED)
        port.guest.check("modprobe -r fakernic")

    def run(self):
        return self.client.guest.run(self.script, 100)

    hit = Program.hit

    def works(self):
        self.run().check()

    def end(self):
        self.lab.ports[0] = rdma.bring_up(self.client.vm, 1)


@pytest.fixture(name="life")
def a_drivers_life(ports, lab, request):
    life = Life(lab, ports[0], getattr(request, "param", 30))
    yield life
    life.end()


@pytest.mark.parametrize("status, step", ((NO_RESOURCE, 16), (DMA_ERROR, 25)))
def test_some_commands_of_probe_fail(life, status, step):
    sweep_others(life, f"at=command do=fail status={status}", step,
                 LIVES_AT_LEAST)


@each
@pytest.mark.parametrize("status", (NO_RESOURCE, DMA_ERROR))
def test_every_command_of_probe_fails(life, status):
    sweep_others(life, f"at=command do=fail status={status}", 1,
                 LIVES_AT_LEAST)


@each
@pytest.mark.parametrize("life", [1], indirect=True)
def test_every_command_of_probe_times_out(life):
    sweep_others(life, "at=command do=drop", 1, LIVES_AT_LEAST)
