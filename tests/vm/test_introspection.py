# SPDX-License-Identifier: GPL-2.0-or-later
"""What the device reports of its objects agrees with verbs and `rdma`, and
reading it changes nothing. Fault rules from the guest take effect and are
counted."""

import json
import re
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from fakernic_lab.show import NIC, Device
from fakernic_test import rdma
from fakernic_test.recovery import DEVLINK, FAULTS, MOUNT_DEBUGFS

pytestmark = pytest.mark.guests(count=1, x_guest_faults="on")

# Queue pairs of all types, in a state and with attributes drawn from a seed.
CROWD, SEED = 120, 20
TOLD = "/tmp/states"
MESSAGES = 20           # messages of a pair before it is stopped
TYPES = {"RC": "RC", "UC": "UC", "UD": "UD", "GSI": "GSI",
         "RAW_PACKET": "RAW_PACKET"}

# Names of `rdma resource show qp` -> names of the device.
RDMA_NAMES = {"type": "type", "state": "state", "rqpn": "dest-qpn",
              "rq-psn": "rq-psn", "sq-psn": "sq-psn"}


@pytest.fixture(name="device")
def device_of(ports):
    """The card of the only guest, as QMP sees it."""
    vm = ports[0].vm
    qmp = SimpleNamespace(cmd=lambda command, words: vm.qmp(command, **words))
    return Device(qmp, NIC)


@pytest.fixture(name="faulty")
def faulty_port(ports):
    """The guest's port, whose root may write fault rules."""
    (port,) = ports
    port.guest.check(MOUNT_DEBUGFS)
    yield port
    port.guest.check(f"echo remove=all >{FAULTS}")


@pytest.fixture(name="pair")
def connected_pair(ports):
    """A pingpong that waits for its peer, and one that is connected and
    stopped, so there are QPs in several states."""
    (port,) = ports
    tool = (f"ibv_rc_pingpong -d {port.ibdev} -g {port.gid_index()} "
            "-n 100000000")
    jobs = [port.guest.start(f"exec {tool}", 100)]
    listens = rdma.LISTENS_TCP.format(port=18515)
    port.guest.check(f"until {listens}; do sleep 0.05; done")
    sent = port.counters()["tx_roce"]
    jobs.append(port.guest.start(f"exec {tool} localhost", 100))
    port.guest.check("until rdma resource show qp | grep -c 'state RTS.*pingpong'"
                     " | grep -q 2; do sleep 0.05; done")
    while port.counters()["tx_roce"] < sent + MESSAGES:
        assert jobs[1].poll() is None, jobs[1].poll()
    port.guest.check("pkill -STOP -f '^ibv_rc_pingpong'; sleep 0.3")
    yield port
    port.guest.check("pkill -KILL -f '^ibv_rc_pingpong'; "
                     "while pidof ibv_rc_pingpong; do sleep 0.05; done")
    for job in jobs:
        job.wait()


@contextmanager
def standing_still(vm):
    """Stops the kernel's own queries, too: the driver checks from time to time
    whether the card answers."""
    vm.qmp("stop")
    try:
        yield
    finally:
        vm.qmp("cont")


@pytest.fixture(name="crowd")
def many_pairs(ports):
    """A port with many queue pairs, and what ibv_query_qp() reports of each."""
    (port,) = ports
    before = rdma.resources(port)
    port.guest.check(f"rm -f {TOLD}")       # old output would look complete
    job = port.guest.start(f"exec rdma_qp_states {CROWD} {SEED} >{TOLD}", 200)
    ready = port.guest.run(f"until grep -qs ready {TOLD}; do kill -0 {job.pid} "
                           "|| exit 1; sleep 0.1; done", 100)
    if not ready.ok:
        job.wait().check()
    rows = [dict(word.split("=") for word in line.split()) for line in
            port.guest.check(f"grep qpn= {TOLD}").splitlines()]
    yield port, rows
    port.guest.check(f"kill {job.pid}")
    job.wait()
    rdma.wait_for_resources(port, before)


def resources(port, kind, flags="-j -d"):
    return [item for item in json.loads(port.guest.check(
        f"rdma {flags} resource show {kind}"))
            if item.get("ifname") == port.ibdev]


def raw(item):
    """Returns what the device reports of an object: JSON, as bytes."""
    return json.loads(bytes(int(str(byte), 0) for byte in item["data"]))


# An entry of the flight recorder: its number, its kind, its values.
EVENT = re.compile(r"\b(\d+) \d{6,} ([a-z_]+)((?: \w+=\w+)*)")
# Number of the failed write, writes, packets of each, and the status.
WRITES, FAILING, PACKETS = 200, 150, 4
REM_ACCESS_ERR, VENDOR_ERR = 10, 77
WRITE = f"-n {WRITES} -s {1024 * PACKETS} -m 1024"


@pytest.mark.usefixtures("power_on")
def test_devlink_reports_first_failed_request(faulty):
    """devlink shows the first failed request since power on as it was; later
    ones do not replace it, and the card works."""
    port, reporter = faulty, f"{DEVLINK} reporter fw"
    port.vm.expect_repair()
    rdma.perftest("ib_write_bw", port, port, WRITE).check()
    port.guest.check(f"echo 'at=send-wqe nth={FAILING} status={REM_ACCESS_ERR} "
                     f"code={VENDOR_ERR} do=fail' >{FAULTS}")
    client = rdma.perftest("ib_write_bw", port, port, WRITE).client
    assert not client.ok, client
    assert f"Failed status {REM_ACCESS_ERR}:" in client.out + client.err, client
    qpn, psn = (int(word, 0) for word in re.search(
        r"local address: .*QPN (\w+) PSN (\w+)", client.out).groups())
    rdma.pingpong("rc", port, port, "-n 10").check()

    text = port.guest.check(f"devlink health dump show {reporter}")
    port.guest.check(f"devlink health dump clear {reporter}")
    events = [(kind, {name: int(value, 0) for name, value in
                      (word.split("=") for word in words.split())})
              for _, kind, words in EVENT.findall(text)]
    assert len(events) >= 256, text[-2000:]
    assert events[-1] == ("qp_error", {"qpn": qpn, "vendor_err": VENDOR_ERR})
    (rule,) = [at for at, (kind, _) in enumerate(events) if kind == "fault"]
    assert events[rule][1]["qpn"] == qpn
    failed = next(of for kind, of in events[rule:] if kind == "wqe")
    assert failed["qpn"] == qpn
    # The rule also counts packets of other queue pairs, such as MADs.
    number = failed["index"] // failed["blocks"]
    assert FAILING - 4 <= number < FAILING
    sent = [of for kind, of in events if kind == "tx" and of["qpn"] == qpn]
    # The last packet before it; the failed write sends none.
    assert sent[-1]["index"] == (number - 1) * failed["blocks"]
    assert sent[-1]["psn"] == (psn + number * PACKETS - 1) % 2**24

    port.guest.check(f"devlink health recover {reporter}")
    rdma.pingpong("rc", port, port, "-n 10").check()


def test_queue_pairs_match_rdma(pair, device):
    """Queue pairs of the device are those of `rdma resource`."""
    known = {item["qpn"]: item for item in device.objects("qps")}
    seen = resources(pair, "qp")
    # The RDMA core does not know that of the Ethernet port.
    (port,) = set(known) - {item["lqpn"] for item in seen}
    assert known[port]["type"] == "RAW_PACKET"
    assert sum(item["type"] == "RC" for item in seen) == 2
    for item in seen:
        mine = known[item["lqpn"]]
        assert mine["type"] == TYPES.get(item["type"], mine["type"])
        assert mine["state"] == item["state"]
        if item["type"] == "RC":
            assert mine["dest-qpn"] == item["rqpn"]
            assert mine["una-psn"] <= mine["tx-psn"]
    for item in resources(pair, "qp", "-j -r"):
        assert raw(item) == known[raw(item)["qpn"]]


def test_many_queue_pairs_match_verbs_and_rdma(crowd, device):
    """Device, verbs and `rdma` agree in every field that they share, for many
    queue pairs."""
    port, rows = crowd
    assert len({int(row["qpn"]) for row in rows}) == CROWD
    assert {row["type"] for row in rows} == {
        "RC", "UC", "UD", "RAW_PACKET", "XRC_INI", "XRC_TGT"}
    assert len({(row["type"], row["state"]) for row in rows}) >= 25
    known = {item["qpn"]: item for item in device.objects("qps")}
    seen = {item["lqpn"]: item for item in resources(port, "qp")}
    dumped = {item["qpn"]: item for item in map(
        raw, resources(port, "qp", "-j -r"))}
    for row in rows:
        mine = known[int(row["qpn"])]
        assert {name: str(mine[name]) for name in row} == row
        its = seen[mine["qpn"]]
        assert {name: mine[ours] for name, ours in RDMA_NAMES.items()
                if name in its} == {name: its[name] for name in RDMA_NAMES
                                    if name in its}
        assert {"type", "state", "sq-psn"} <= set(its)
        assert dumped[mine["qpn"]] == mine


def test_shared_receive_queues_match(crowd, device):
    """Device, verbs and `rdma` agree about an SRQ for RC and one for XRC, with
    different receives and limits."""
    port, _ = crowd
    known = {item["srqn"]: item for item in device.objects("srqs")}
    dumped = [raw(item) for item in resources(port, "srq", "-j -r")]
    assert len(dumped) == 2
    assert {item["srqn"]: item for item in dumped} == known
    plain, xrc = [dict(word.split("=") for word in line.split()) for line in
                  port.guest.check(f"grep srqn= {TOLD}").splitlines()]
    seen = {item["type"]: item for item in resources(port, "srq")}
    assert set(seen) == {"BASIC", "XRC"}
    queues = {"XRC": known.pop(int(xrc["srqn"]))}
    (queues["BASIC"],) = known.values()
    for kind, said, posted in (("BASIC", plain, 3), ("XRC", xrc, 6)):
        mine = queues[kind]
        assert mine["limit"] == int(said["limit"]) == posted - 1
        assert mine["depth"] >= int(said["max-wr"])
        assert (mine["pi"], mine["ci"]) == (posted, 0)
        users = [qp["qpn"] for qp in device.objects("qps")
                 if qp["srqn"] == mine["srqn"]]
        assert mine["users"] == len(users)
        assert sorted(map(int, seen[kind].get("lqpn", []))) == sorted(users)
    assert queues["BASIC"]["users"] > 0


def test_queues_and_keys_match_rdma(pair, device):
    """CQs, PDs and keys of the device are those of `rdma resource`."""
    cqs = {item["cqn"]: item for item in device.objects("cqs")}
    seen = resources(pair, "cq")
    assert len(seen) == len(cqs) - 1    # without that of the Ethernet port
    for item in resources(pair, "cq", "-j -r"):
        assert raw(item) == cqs[raw(item)["cqn"]]
    keys = {item["key"]: item for item in device.objects("keys")}
    reported = [raw(item) for item in resources(pair, "mr", "-j -r")]
    assert all(mine == keys[mine["key"]] for mine in reported)
    assert sum(mine["type"] == "MEMORY" for mine in reported) == 2


def test_addresses_and_counters_match_guest(pair, device):
    """GIDs and counters of the device are those of the guest."""
    path = f"/sys/class/infiniband/{pair.ibdev}/ports/1/gids"
    gids = {index: gid for index, gid in enumerate(pair.guest.check(
        f"for i in $(seq 0 15); do cat {path}/$i; done").split())
            if not re.fullmatch("[0:]+", gid)}
    reported = {item["index"]: item["gid"] for item in device.objects("gids")}
    assert gids and reported == gids
    counters = device.one("counters", 0)
    names = set(re.findall(r"(\w+): \d+", pair.guest.check(
        f"ethtool -S {pair.netdev}")))
    assert set(counters) - {"counter"} <= names
    shown = pair.guest.check(f"ethtool -S {pair.netdev}")
    for name in ("tx_roce", "rx_roce", "rx_loopback"):
        assert f" {name}: {counters[name]}\n" in shown


def test_rings_match_verbs(pair, device):
    """Rings show what verbs wrote, and reading them changes nothing."""
    with standing_still(pair.vm):
        look_at_rings(device)


def look_at_rings(device):
    first, _ = [item for item in device.objects("qps") if item["type"] == "RC"]
    before = device.get("x-qps"), device.get("x-recorder")
    seen = device.ring("sq", first["qpn"], max(first["sq-ci"] - 1, 0), 1)
    (entry,) = seen["entries"]
    assert entry["opcode"] == "SEND" and entry["vendor-err"] == 0
    (segment,) = entry["sges"]
    assert segment["length"] == 4096
    keys = {item["key"]: item for item in device.objects("keys")}
    key = keys[segment["lkey"]]
    assert key["start"] <= segment["address"] < key["start"] + key["length"]
    (done,) = device.ring("cq", first["send-cqn"], count=1)["entries"]
    assert done["status"] == "SUCCESS" and done["opcode"] in ("SEND", "RECV")
    assert (device.get("x-qps"), device.get("x-recorder")) == before


def test_fault_rules_from_guest(faulty):
    """Fault rules that the guest writes take effect and are counted."""
    port = faulty
    rdma.pingpong("rc", port, port, "-n 10").check()
    port.guest.check(f"echo 'id=mine at=tx opcode=rc-send-only nth=2 do=drop' "
                     f">{FAULTS}")
    rdma.pingpong("rc", port, port, "-n 10 -s 64").check()
    rules = port.guest.check(f"cat {FAULTS}")
    assert "id=mine" in rules and " hits=1\n" in rules, rules
    wrong = port.guest.run(f"echo at=moon do=drop >{FAULTS}")
    assert not wrong.ok
    rules = port.guest.check(f"cat {FAULTS}")
    assert "id=mine" in rules and "# fault rule:" in rules and "moon" in rules
    port.guest.check(f"echo remove=all >{FAULTS}")
    assert "id=" not in port.guest.check(f"cat {FAULTS}")


def test_devlink_dumps_first_error(faulty):
    """The devlink dump shows what led to the first error. The test of the
    reporter makes the device die, and it is recovered."""
    port = faulty
    port.vm.expect_repair()
    rdma.pingpong("rc", port, port, "-n 100").check()
    port.guest.check(f"dmesg -C; devlink health test {DEVLINK} reporter fw")
    port.guest.check("for i in $(seq 300); do dmesg | grep -q 'device is "
                     "recovered' && exit 0; sleep 0.1; done; exit 1", 60)
    text = port.guest.check(f"devlink health dump show {DEVLINK} reporter fw")
    assert len(re.findall(r"\b\d+ \d{6,} [a-z_]+ ", text)) >= 256, text[-2000:]
    assert re.search(r" fatal code=6\b", text), text[-2000:]
    assert " cqe cqn=" in text and " tx qpn=" in text
    rules = port.guest.check(f"cat {FAULTS}")
    assert "do=fatal" in rules and " hits=1\n" in rules
    port.guest.check(f"echo remove=all >{FAULTS}; until rdma link | grep -q "
                     "ACTIVE; do sleep 0.1; done")
    rdma.pingpong("rc", port, port, "-n 10").check()
