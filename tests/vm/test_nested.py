# SPDX-License-Identifier: GPL-2.0-or-later
"""A virtual function in a nested guest: Debian's QEMU and libvirt run in a guest, and
libvirt gives a VF of the guest's card to a guest of its own, by a hostdev network.

The XML of the network and of the interface is from qemu-hw/VFS.md. The nested guest boots
the project's own image from the disks of the outer guest, in KVM, which needs a processor
with virtualization: QEMU emulates one. Its agent's ports and its console are ports of the
outer guest. So the tests run commands in both guests alike.
"""

import json
import re
import time
from pathlib import Path

import pytest

from fakernic_test import rdma, recovery    # first: it sets the path of fakernic_lab
from fakernic_lab import images
from fakernic_lab.guest import Guest
from fakernic_lab.machine import PORT_NAME, Machine, socket_arguments
from fakernic_test.lab import RUNS, find_disk, mount
from test_vfs import ENABLE, Inside, Outside, rping_passes, write_passes

IMAGE = images.images() / "nested.erofs"
FOLDER = "/opt/nested"
RECIPE = Path(__file__).parents[2] / "qemu-hw/VFS.md"
VFS = 4
GIVEN, OTHER = 0, 3         # the VF that libvirt chooses, and one that the guest uses
PORTS = 4                   # of the nested guest's agent
PATIENCE = 5                # factor of all time limits in the nested guest
BOOT_S = 600
MOVES_S = 60


def port_arguments():
    """The arguments of the outer guest's ports for the nested guest."""
    yield from ("-device", f"virtio-serial-pci,id=nested,max_ports={PORTS + 2}",
                "-chardev", f"file,id=nested,path={RUNS / 'console'}",
                "-device", "virtserialport,bus=nested.0,chardev=nested,name=nested.console")
    for number in range(PORTS):
        name = f"nested{number}"
        yield from socket_arguments(
            ["-device", f"virtserialport,bus=nested.0,chardev={name},name=nested.{number}"],
            name, RUNS / f"agent{number}")


# no5lvl: the nested guest's page tables have a level less, so that it is faster.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.guests(
    count=1, vfs=VFS, append="intel_iommu=on no5lvl", options={"memory": 2048, "extra": (
        "-device", "intel-iommu,caching-mode=on", *port_arguments(),
        *(images.disk(IMAGE) if IMAGE.exists() else ()))})]

# The files of the packages appear as if these were installed. Without systemd, libvirt
# uses no control groups.
INSTALL = f"""
set -e
mount -t overlay -o lowerdir={FOLDER}/usr:/usr overlay /usr
cp -rn {FOLDER}/etc/. /etc/
umount /sys/fs/cgroup
modprobe -a vfio-pci
modprobe vfio_iommu_type1 allow_unsafe_interrupts=1
insmod {FOLDER}/ccp.ko
modprobe kvm_amd || modprobe kvm_intel || {{
    echo "this processor cannot virtualize: set FAKERNIC_ACCEL=tcg" >&2
    exit 1
}}
"""
# No user of its own for QEMU, and no service besides libvirtd.
QEMU_CONF = """
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
stdio_handler = "file"
"""
LIBVIRTD_CONF = """
auth_unix_ro = "none"
auth_unix_rw = "none"
"""
ANSWERS = "for try in $(seq 300); do virsh list && exit; sleep 0.2; done; exit 1"
# Prints "NAME DEVICE" of each port for the nested guest.
PORT_NAMES = """
for port in /sys/class/virtio-ports/*; do
    read -r name <$port/name
    echo $name /dev/${port##*/}
done 2>/dev/null | grep ^nested
"""
DOMAIN = """
<domain type='kvm'>
  <name>nested</name>
  <memory unit='MiB'>512</memory>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>{folder}/vmlinuz</kernel>
    <initrd>{folder}/initrd</initrd>
    <cmdline>{words}</cmdline>
  </os>
  <features><acpi/></features>
  <cpu mode='maximum'/>
  <devices>
    {devices}
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
  </devices>
</domain>
"""
DISK = """
<disk type='block' device='disk'>
  <driver name='qemu' type='raw'/>
  <source dev='{path}'/>
  <target dev='vd{letter}' bus='virtio'/>
  <readonly/>
</disk>
"""
SERIAL = "<serial type='pipe'><source path='{path}'/></serial>"
CHANNEL = """
<channel type='pipe'>
  <source path='{path}'/>
  <target type='virtio' name='{name}'/>
</channel>
"""


def recipe(tag):
    """The XML with this tag in the document for users."""
    (found,) = re.findall(rf"^ +<{tag}\b.*?</{tag}>$", RECIPE.read_text(encoding="utf-8"),
                          re.M | re.S)
    return found


def domain(guest):
    """The XML of the nested guest."""
    paths = dict(line.split() for line in guest.check(PORT_NAMES).splitlines())
    _, _, *disks = images.ProjectImage().parts
    devices = [recipe("interface"), SERIAL.format(path=paths["nested.console"])]
    devices += [DISK.format(path=find_disk(guest, path), letter=letter)
                for letter, path in zip("ab", disks)]
    devices += [CHANNEL.format(path=paths[f"nested.{number}"], name=f"{PORT_NAME}{number}")
                for number in range(PORTS)]
    return DOMAIN.format(folder=FOLDER, devices="".join(devices), words=(
        f"{images.common_words()} loglevel=5 panic=-1 mitigations=off nokaslr "
        "fakernic_host=nested"))


def nested_machine(vm):
    """The nested guest, as a Machine that uses the launcher's agent. QEMU in the outer
    guest does not open a port again after a client has left it. So clients come now and
    stay."""
    machine = Machine.running("nested", RUNS, RUNS, None)
    machine.image = images.ProjectImage()
    machine.patience = PATIENCE
    machine.is_running = vm.is_running
    machine.guest = Guest(machine, [RUNS / f"agent{number}" for number in range(PORTS)])
    machine.guest.idle = [machine.guest.new_session() for _ in range(PORTS)]
    return machine


def prepare(port):
    """Installs libvirt in the guest, starts the network and enables the VFs. Returns the
    VF for the guest itself, in a network namespace."""
    assert IMAGE.exists(), f"no {IMAGE.name}: make test-nested"
    guest = port.guest
    port.vm.patience = PATIENCE
    guest.check("rdma system set netns exclusive")
    names = guest.check(ENABLE.format(netdev=port.netdev, total=VFS, count=VFS), 100)
    mount(guest, IMAGE, FOLDER)
    guest.check(INSTALL)
    guest.write("/etc/libvirt/qemu.conf", QEMU_CONF)
    guest.write("/etc/libvirt/libvirtd.conf", LIBVIRTD_CONF)
    daemon = guest.start("exec libvirtd", timeout=None)
    assert guest.run(ANSWERS, 100).ok, daemon.texts
    guest.write("/tmp/rdma.xml", recipe("network").replace("eth0", port.netdev))
    guest.check("virsh net-define /tmp/rdma.xml && virsh net-start rdma")
    # libvirt starts no network with a VF whose interface is in another namespace.
    return Inside(port, names.splitlines()[OTHER].split(), "red", 100)


def start(port, machine):
    """Starts the nested guest in the guest of a card. Returns the Port of its VF."""
    port.guest.write("/tmp/domain.xml", domain(port.guest))
    port.guest.check("virsh create /tmp/domain.xml", 100)
    machine.wait_booted(BOOT_S)
    return rdma.bring_up(machine, 2)


@pytest.fixture(name="guests")
def both_guests(lab, ports):
    """The Ports of the PF and of the VF in the nested guest, and the other VF. They stay
    from one test to the next."""
    if getattr(lab, "nested_of", None) != lab.serial:
        other = prepare(ports[0])
        machine = nested_machine(ports[0].vm)
        try:
            lab.nested = start(ports[0], machine), other
        except BaseException:
            machine.guest.close()
            raise
        lab.nested_of = lab.serial
    yield ports[0], *lab.nested
    machine = lab.nested[0].vm
    machine.assert_uncomplaining()
    if lab.worn:
        machine.guest.close()


def vf_info(port):
    """What "ip link" shows of the VF in the nested guest."""
    shown = json.loads(port.guest.check(f"ip -j link show {port.netdev}"))
    return shown[0]["vfinfo_list"][GIVEN]


def test_libvirt_gives_a_vf_to_a_nested_guest(guests):
    """The VF has the MAC address of the domain, belongs to VFIO, and is the only RDMA
    device in the nested guest."""
    pf, vf, _ = guests
    mac = re.search(r"mac address='(.*?)'", recipe("interface"))[1]
    assert vf_info(pf)["address"] == mac
    assert vf.guest.check(f"cat /sys/class/net/{vf.netdev}/address").strip() == mac
    driver = f"/sys/class/net/{pf.netdev}/device/virtfn{GIVEN}/driver"
    assert pf.guest.check(f"readlink {driver}").strip().endswith("/vfio-pci")
    shown = vf.guest.check("ibv_devices")
    assert len(shown.splitlines()) == 3 and vf.ibdev in shown, shown


def test_rdma_between_a_nested_guest_and_the_pf(guests):
    pf, vf, _ = guests
    for server, client in ((pf, vf), (vf, pf)):
        write_passes(Outside(server), Outside(client))


def test_rdma_between_a_nested_guest_and_another_vf(guests):
    _, vf, other = guests
    for server, client in ((other, Outside(vf)), (Outside(vf), other)):
        write_passes(server, client)
    rping_passes(other, Outside(vf))


def moves(port, jobs):
    """Waits until the port has received acknowledgements of running programs."""
    before = port.counters()["rx_roce"]
    deadline = time.monotonic() + MOVES_S
    while port.counters()["rx_roce"] < before + 20:
        assert time.monotonic() < deadline, "no packet passes"
        time.sleep(0.1)
    for job in jobs:
        assert job.poll() is None, job.poll()


def test_reload_of_the_pf(guests):
    """devlink dev reload of the PF does not disturb a connection of the nested guest."""
    pf, vf, other = guests
    address = pf.guest.check(
        f"basename $(readlink /sys/class/net/{pf.netdev}/device)").strip()
    common = "-F -D 60 -s 4096"
    server = other.guest.start(
        f"{other.inside} ib_write_bw -d {other.ibdev} -x {other.gid_index()} {common}", 100)
    other.guest.check(f"until {other.inside} ss -Hltn 'sport = :18515' | grep -q .; "
                      "do sleep 0.1; done")
    client = vf.guest.start(f"ib_write_bw -d {vf.ibdev} -x {vf.gid_index()} {common} "
                            f"{other.ip4}", 100)
    moves(vf, (server, client))
    pf.guest.check(f"devlink dev reload pci/{address}")
    moves(vf, (server, client))
    client.wait().check()
    server.wait().check()
    pf.indexes.clear()
    write_passes(Outside(pf), Outside(vf))


def test_vf_returns_when_the_nested_guest_ends(lab, guests):
    """libvirt gives the VF back to the driver when the domain ends."""
    pf, _, other = guests
    lab.worn = True             # without the nested guest, this one is of no use
    folder = f"/sys/class/net/{pf.netdev}/device/virtfn{GIVEN}"
    pf.guest.check("virsh destroy nested")
    recovery.until(pf.guest, f"ls {folder}/infiniband {folder}/net", 60)
    names = pf.guest.check(f"ls {folder}/infiniband; ls {folder}/net").split()
    write_passes(Inside(pf, names, "blue", 102), other)
