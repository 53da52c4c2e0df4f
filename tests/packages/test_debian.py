# SPDX-License-Identifier: GPL-2.0-or-later
"""fakernic's packages in a plain Debian, with its unchanged kernel, initramfs, systemd,
udev and RDMA programs."""

import json
import re
from pathlib import Path

import pytest

from fakernic_lab.net import mac
from fakernic_lab.rdma import FIND, bring_up
from fakernic_test import rdma

HERE = Path(__file__).parent

# Packages of Debian that use the card.
DEBIANS = ("libibverbs1 ibverbs-providers ibverbs-utils rdma-core librdmacm1t64 "
           "rdmacm-utils perftest python3-pyverbs")


def test_nothing_has_failed_at_boot(machines):
    """No unit has failed, and udev has loaded the driver, which nothing else loads."""
    for vm in machines:
        state = vm.guest.run("systemctl is-system-running --wait", 300)
        failed = vm.guest.check("systemctl --failed --no-legend")
        assert state.ok, f"{state}{failed}"
        vm.guest.check("lsmod | grep -q '^fakernic '")


def test_udev_names_the_device(machines):
    """The device has a name by its PCI address, not the name from the driver."""
    for vm in machines:
        ibdev, netdev = vm.guest.check(FIND).split()
        assert re.fullmatch(r"rocep\d+s\d+", ibdev), ibdev
        assert netdev == ibdev.replace("roce", "en"), (ibdev, netdev)


def test_debian_is_untouched(machines):
    """The files of Debian's packages are unchanged, except omitted documentation."""
    (vm, _) = machines
    names = vm.guest.check(
        f"dpkg-query -W -f '${{db:Status-Status}} ${{Package}}\\n' {DEBIANS} "
        "2>/dev/null | sed -n 's/^installed //p'; true").split()
    assert len(names) >= 7
    changed = vm.guest.run(f"dpkg --verify {' '.join(names)} | "
                           "grep -v ' /usr/share/\\(doc\\|man\\|locale\\)/'")
    assert changed.out == ""
    owner = vm.guest.check(
        "dpkg -S $(readlink -f /usr/lib/*/libibverbs/libfakernic-*.so)")
    assert owner.startswith("fakernic-provider:")


def test_device_is_listed(ports):
    port = ports[0]
    assert port.ibdev in port.guest.check("ibv_devices")
    assert "PORT_ACTIVE" in port.guest.check(f"ibv_devinfo -d {port.ibdev}")
    assert (f"{port.ibdev}/1 state ACTIVE" in
            port.guest.check("rdma link show"))


def test_pyverbs_opens_device(ports):
    port = ports[0]
    out = port.guest.check(
        "python3 -c 'import pyverbs.device as d; "
        f"print(d.Context(name=\"{port.ibdev}\").query_device().max_qp)'")
    assert int(out) > 0


def test_extended_posting(ports):
    """ibv_wr_* work: a program finds these functions in a structure of its release of
    libibverbs, and the provider has filled them in."""
    port = ports[0]
    program = "/root/extended_posting.py"
    port.guest.write(program, (HERE / "extended_posting.py").read_text())
    reported = port.guest.check(
        f"python3 {program} {port.ibdev} {port.gid_index()}", 100)
    assert reported.split() == ["8"], reported


NO_GRH = """
from pyverbs.addr import AH, AHAttr
from pyverbs.device import Context
from pyverbs.pd import PD
try:
    AH(PD(Context(name="{device}")), attr=AHAttr(port_num=1))
except Exception as error:
    print(error)
"""


def test_refusals_are_explained(ports):
    """The reason of an error is logged as the provider's TROUBLESHOOTING.md says.
    Debian's libibverbs is a release build, which logs to a file only."""
    port = ports[0]
    port.guest.write("/root/no_grh.py", NO_GRH.format(device=port.ibdev))
    ask = "VERBS_LOG_LEVEL=4 {} python3 /root/no_grh.py"
    loud = port.guest.run(ask.format("VERBS_LOG_FILE=/dev/stderr"), 100)
    quiet = port.guest.run(ask.format(""), 100)
    assert "Failed to create AH" in loud.out and loud.out == quiet.out, loud
    assert "address without GRH: RoCE needs one" in loud.err, loud
    assert quiet.err == "", quiet


@pytest.mark.parametrize("kind", ("rc", "uc", "ud", "srq", "xsrq"))
def test_pingpong(ports, kind):
    rdma.pingpong(kind, *ports, "-n 200").check()


def test_rping(ports):
    a, b = ports
    rdma.rping(a, b).check()
    rdma.rping(b, a, family=6).check()


@pytest.mark.parametrize("tool", ("ib_write_bw", "ib_read_bw", "ib_send_lat"))
def test_perftest(ports, tool):
    pair = rdma.perftest(tool, *ports, "-n 200").check()
    assert rdma.perftest_numbers(pair.client.out)


def test_perftest_by_rdma_cm(ports):
    a, b = ports
    rdma.run_pair(a, b, "ib_write_bw -F -R -n 200",
                  f"ib_write_bw -F -R -n 200 {a.ip4}", "cm").check()


def test_driver_is_unloaded_and_loaded(machines, ports):
    """After modprobe -r and modprobe, udev gives the device the same name."""
    port = ports[0]
    port.guest.check("modprobe -r fakernic && modprobe fakernic && "
                     "udevadm settle", 100)
    assert bring_up(machines[0], 1).ibdev == port.ibdev


# The last step of installing the package, except compiling. That takes many
# minutes in an emulated machine, and was done when the disk was made.
CONFIGURE = """
set -e
is_there() { [ -d /sys/module/fakernic ]; }
modprobe -r fakernic
udevadm settle -t 60
sleep 1
if is_there; then exit 1; fi
mount --bind /bin/true /usr/lib/dkms/common.postinst
trap 'umount /usr/lib/dkms/common.postinst' EXIT
/var/lib/dpkg/info/fakernic-dkms.postinst configure ''
for try in $(seq 100); do
    if is_there; then exit 0; fi
    sleep 0.3
done
exit 1
"""


def test_installing_the_driver_loads_it(machines, ports):
    """Installing the package loads the driver for a card that is there already. Neither
    a reboot nor modprobe is needed."""
    (vm, _) = machines
    vm.guest.check(CONFIGURE, 200)
    vm.guest.check("udevadm settle -t 60", 100)
    assert bring_up(vm, 1).ibdev == ports[0].ibdev


OTHER_LIBIBVERBS = """
set -e
libraries=$(dirname /usr/lib/*/libibverbs.so.1)
own=$(readlink $libraries/libibverbs.so.1)
other=libibverbs.so.1.15.{release}.0
touch $libraries/$other
ln -sf $other $libraries/libibverbs.so.1
dpkg-trigger --by-package=libibverbs1 $libraries/libibverbs.so.1
dpkg --configure --pending 1>&2
readlink $libraries/libibverbs/libfakernic-*.so || echo none
ln -sf $own $libraries/libibverbs.so.1
rm $libraries/$other
dpkg-trigger --by-package=libibverbs1 $libraries/libibverbs.so.1
dpkg --configure --pending 1>&2
readlink $libraries/libibverbs/libfakernic-*.so
"""


def test_provider_follows_libibverbs(machines, release):
    """When another release of libibverbs is installed, dpkg's trigger links its provider."""
    (vm, _) = machines
    own = {"13": "45-56/libfakernic-rdmav34.so", "12": "44-44/libfakernic-rdmav34.so"}
    for other, wanted in (("61", "59-61/libfakernic-rdmav59.so"), ("99", "none")):
        links = vm.guest.check(OTHER_LIBIBVERBS.format(release=other), 100).split()
        assert [link.removeprefix("/usr/lib/fakernic/providers/") for link in links] == [
            wanted, own[release]]


# Of udev, and of networkd: the files of an administrator.
VFS_LINK = """[Match]
MACAddress={mac}
[Link]
NamePolicy=keep kernel database onboard slot path
SR-IOVVirtualFunctions=4
"""
VFS_NETWORK = """[Match]
Name={netdev}
[Network]
KeepConfiguration=yes
[SR-IOV]
VirtualFunction=1
MACAddress=52:54:00:aa:bb:01
VLANId=100
QualityOfService=2
VLANProtocol=802.1ad
MACSpoofCheck=no
Trust=yes
LinkState=yes
QueryReceiveSideScaling=yes
[SR-IOV]
VirtualFunction=2
LinkState=no
"""
SET = {"address": "52:54:00:aa:bb:01", "spoofchk": False, "trust": True,
       "link_state": "enable", "query_rss_en": True,
       "vlan_list": [{"vlan": 100, "qos": 2, "protocol": "802.1ad"}]}
UNTIL = "for try in $(seq 300); do {} && exit; sleep 0.1; done; exit 1"


def test_systemd_enables_and_sets_vfs(machines, ports):
    """A .link file enables VFs, and [SR-IOV] of a .network file sets them."""
    vm, netdev = machines[1], ports[1].netdev
    folder, files = "/run/systemd/network", f"/sys/class/net/{netdev}/device"
    vm.guest.check(f"mkdir -p {folder}")
    vm.guest.write(f"{folder}/10-vfs.link", VFS_LINK.format(mac=mac(2)))
    vm.guest.check(f"udevadm control --reload; udevadm trigger --action=add "
                   f"--settle /sys/class/net/{netdev}", 100)
    vm.guest.check(UNTIL.format(f"[ $(cat {files}/sriov_numvfs) = 4 ]"), 60)
    vm.guest.check(UNTIL.format(f"[ $(ls -d {files}/virtfn*/net/* | wc -l) = 4 ]"), 60)
    vm.guest.write(f"{folder}/10-vfs.network", VFS_NETWORK.format(netdev=netdev))
    vm.guest.check(f"networkctl reload; networkctl reconfigure {netdev}", 60)
    vm.guest.check(UNTIL.format(f"ip link show {netdev} | grep -q 'vf 2 .*disable'"), 60)
    shown = json.loads(vm.guest.check(f"ip -j link show {netdev}"))[0]["vfinfo_list"]
    assert shown[1].items() >= SET.items(), shown
    assert shown[2]["link_state"] == "disable", shown
    vm.guest.check(f"""
        rm {folder}/10-vfs.link {folder}/10-vfs.network
        udevadm control --reload; networkctl reload
        echo 0 >{files}/sriov_numvfs
        """, 60)
    assert bring_up(vm, 2).ibdev == ports[1].ibdev
