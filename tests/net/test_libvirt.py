# SPDX-License-Identifier: GPL-2.0-or-later
"""Two libvirt domains, made from domain.xml, in the session of an ordinary user.

They boot the project's guest instead of a user's disk, and have the ports of the
launcher's agent. The rest is as in the file.
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fakernic_lab import images, rdma as ports_of
from fakernic_lab.guest import PORTS
from fakernic_lab.machine import PORT_NAME, Machine
from fakernic_lab.net import mac
from fakernic_test import rdma

DOMAIN = Path(__file__).with_name("domain.xml")
EMULATOR = "/cache/build/qemu-plugin/qemu-system-x86_64-fakernic"
RULES = Path(__file__).parents[2] / "qemu-hw/plugin/apparmor"
TEMPLATE = Path("/etc/apparmor.d/libvirt/TEMPLATE.qemu")
USER = 65534
NAMES = ("node1", "node2")
START_S = 60
LOGS = Path(os.environ.get("FAKERNIC_VM_LOG", "/cache/log/net"))

ElementTree.register_namespace(
    "qemu", "http://libvirt.org/schemas/domain/qemu/1.0")


class Session:
    """A libvirt session daemon of an ordinary user, whose files are in FOLDER."""

    def __init__(self, folder):
        self.environment = {"HOME": folder, "XDG_RUNTIME_DIR": folder,
                            "PATH": os.environ["PATH"], "LIBVIRT_AUTOSTART": "0"}
        with open(LOGS / "libvirtd.log", "wb") as log:
            self.daemon = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "libvirtd"], user=USER,
                group=USER, extra_groups=[], env=self.environment, stdout=log,
                stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + START_S
        while self.run("version").returncode:
            assert self.daemon.poll() is None and time.monotonic() < deadline, (
                (LOGS / "libvirtd.log").read_text())
            time.sleep(0.2)

    def run(self, *words):
        return subprocess.run(
            ["virsh", "--connect", "qemu:///session", *map(str, words)],
            user=USER, group=USER, extra_groups=[], env=self.environment,
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
            timeout=START_S, check=False)

    def check(self, *words):
        done = self.run(*words)
        assert done.returncode == 0, (words, done.stderr, (
            LOGS / "libvirtd.log").read_text()[-3000:])
        return done.stdout

    def stop(self):
        self.daemon.kill()
        self.daemon.wait(START_S)


def add(parent, tag, text=None, **attributes):
    element = ElementTree.SubElement(parent, tag, attributes)
    element.text = text
    return element


def boot_project_image(domain, name):
    """Makes the domain boot the project's kernel and disks instead of the file's disk."""
    kernel, initrd, *disks = images.ProjectImage().parts
    system = domain.find("os")
    add(system, "kernel", str(kernel))
    add(system, "initrd", str(initrd))
    add(system, "cmdline", f"{images.common_words()} loglevel=5 panic=-1 mitigations=off "
        f"nokaslr fakernic_host={name}")
    devices = domain.find("devices")
    devices.remove(devices.find("disk"))
    for letter, path in zip("ab", disks):
        disk = add(devices, "disk", type="file", device="disk")
        add(disk, "driver", name="qemu", type="raw")
        add(disk, "source", file=str(path))
        add(disk, "target", dev=f"vd{letter}", bus="virtio")
        add(disk, "readonly")
        add(disk, "serial", path.name.partition(".")[0])


def add_agent(domain, sockets, console):
    devices = domain.find("devices")
    devices.remove(devices.find("serial"))
    serial = add(devices, "serial", type="file")
    add(serial, "source", path=str(console))
    for number in range(PORTS):
        channel = add(devices, "channel", type="unix")
        add(channel, "source", mode="bind", path=str(sockets / f"agent{number}"))
        add(channel, "target", type="virtio", name=f"{PORT_NAME}{number}")


def described(name, number, folder, machine):
    """The XML of a domain, made from domain.xml, the file for users."""
    text = DOMAIN.read_text(encoding="utf-8")
    changes = {"NAME": name, "/usr/bin/qemu-system-x86_64-fakernic": EMULATOR,
               "/tmp/wire": f"{folder}/wire", mac(1): mac(number),
               "server=on": "server=on" if number == 1 else "server=off"}
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    domain = ElementTree.fromstring(text)
    boot_project_image(domain, name)
    add_agent(domain, machine.sockets, folder / f"{name}.console")
    return ElementTree.tostring(domain, encoding="unicode")


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory(prefix="fakernic-lab-") as name:
        os.chown(name, USER, USER)
        LOGS.mkdir(parents=True, exist_ok=True)
        yield Path(name)


@pytest.fixture(scope="module")
def session(folder):
    found = Session(str(folder))
    yield found
    for name in NAMES:
        found.run("destroy", name)
    found.stop()


@pytest.fixture(scope="module")
def machines(session, folder):
    """The domains, as Machines that use the launcher's agent."""
    found = []
    for number, name in enumerate(NAMES, start=1):
        sockets = folder / name
        sockets.mkdir()
        os.chown(sockets, USER, USER)
        machine = Machine.running(name, folder, sockets, None)
        machine.console.path = folder / f"{name}.console"
        machine.image = images.ProjectImage()
        machine.is_running = lambda name=name: (
            session.check("domstate", name).strip() == "running")
        xml = folder / f"{name}.xml"
        xml.write_text(described(name, number, folder, machine))
        xml.chmod(0o644)
        session.check("create", xml)
        found.append(machine)
    for machine in found:
        machine.wait_booted()
    return found


def test_apparmor_rules_compile(tmp_path):
    """The rules compile as part of a domain's profile, which includes them from the folder
    for local additions."""
    own = tmp_path / "abstractions/libvirt-qemu.d/fakernic"
    own.parent.mkdir(parents=True)
    shutil.copy(RULES, own)
    text = TEMPLATE.read_text(encoding="utf-8").replace(
        "LIBVIRT_TEMPLATE", "libvirt-00000000-0000-0000-0000-000000000001")
    parser = ["apparmor_parser", "--skip-kernel-load", "--skip-cache",
              "--Include", str(tmp_path)]
    for how in ([], ["--preprocess"]):
        done = subprocess.run([*parser, *how], input=text, text=True, check=False,
                              capture_output=True, timeout=START_S)
        assert done.returncode == 0, done.stderr
    assert "/fakernic/fakernic-qemu.so mr," in done.stdout


def test_libvirt_knows_the_emulator(session):
    """libvirt has probed the wrapper and accepts it as an emulator."""
    found = session.check("domcapabilities", "--emulatorbin", EMULATOR,
                          "--machine", "q35", "--virttype", "qemu")
    assert f"<path>{EMULATOR}</path>" in found


def test_rdma_between_domains(machines, session):
    a, b = ports_of.bring_up_all(machines)
    rdma.pingpong("rc", a, b, "-c -n 100").check()
    rdma.rping(b, a, family=6).check()
    assert session.check("list", "--name").split() == list(NAMES)
    for machine in machines:
        machine.assert_healthy()


def test_domain_is_paused_and_resumed(machines, session):
    """libvirt pauses and resumes a domain during a transfer."""
    a, b = (ports_of.Port(machine, number, *machine.guest.check(
        ports_of.FIND).split()) for number, machine in enumerate(machines, 1))
    # -u 20: the sender waits 4 s for the paused machine before it retransmits.
    words = "-F -D 8 -u 20"
    job = a.guest.start(f"ib_write_bw -d {a.ibdev} {words} -x {a.gid_index()}",
                        60)
    a.guest.check("until ss -Hltn 'sport = :18515' | grep -q .; do sleep 0.1; done")
    begun = b.counters()["tx_roce"] + 1000
    client = b.guest.start(f"ib_write_bw -d {b.ibdev} {words} -x "
                           f"{b.gid_index()} {a.ip4}", 60)
    while b.counters()["tx_roce"] < begun:
        assert client.poll() is None, client.result
        time.sleep(0.1)
    session.check("suspend", NAMES[0])
    assert session.check("domstate", NAMES[0]).strip() == "paused"
    session.check("resume", NAMES[0])
    client.wait().check()
    job.wait().check()
