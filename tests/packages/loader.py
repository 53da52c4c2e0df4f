# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes a disk such as users have, with partitions and GRUB as its boot loader, for BIOS
and for UEFI; also as qcow2, the format of downloaded images. It contains the file
system of ci/disk.py. No loop device is needed.
"""

import struct
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from fakernic_lab.qmp import QMP

GRUB = Path("/usr/lib/grub")
OVMF = Path("/usr/share/ovmf/OVMF.fd")
SECTOR = 512
MIB = 1 << 20
ESP_MIB = 16
LINUX, ESP = 0x83, 0xef         # partition types
COMMON = ["linux", "ext2", "part_msdos", "search", "search_label", "boot",
          "echo", "normal"]
CONFIG = """search --label --set=root root
linux /vmlinuz root=LABEL=root rw console=ttyS0 no_timer_check mitigations=off {append}
initrd /initrd.img
boot
"""


def run(*words, **options):
    subprocess.run([str(word) for word in words], check=True, timeout=400,
                   stdin=subprocess.DEVNULL, capture_output=True, **options)


def grub(kind, modules, config, target):
    """Makes a GRUB image that contains its configuration."""
    run("grub-mkimage", "-O", kind, "-d", GRUB / kind, "-p", "/", "-c", config,
        "-o", target, *modules, *COMMON)


def make_esp(folder, config):
    """Makes a FAT file system with GRUB at the path where UEFI looks for a boot loader."""
    esp = folder / "esp"
    grub("x86_64-efi", ["fat", "part_gpt"], config, folder / "bootx64.efi")
    with open(esp, "wb") as file:
        file.truncate(ESP_MIB * MIB)
    run("mkfs.fat", esp)
    for name in ("::EFI", "::EFI/BOOT"):
        run("mmd", "-i", esp, name)
    run("mcopy", "-i", esp, folder / "bootx64.efi",
        "::EFI/BOOT/BOOTX64.EFI")
    return esp


def entry(kind, first_mib, mib):
    """An entry of a partition table. Its cylinder addresses are not used."""
    return struct.pack("<B3sB3sII", 0x80 if kind == LINUX else 0, b"\xfe" * 3,
                       kind, b"\xfe" * 3, first_mib * MIB // SECTOR,
                       mib * MIB // SECTOR)


def make(system, disk, append=""):
    """Makes DISK, which boots the file system SYSTEM. Its first MiB has GRUB."""
    folder = disk.parent
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "grub.cfg"
    config.write_text(CONFIG.format(append=append), encoding="utf-8")
    esp = make_esp(folder, config)
    grub("i386-pc", ["biosdisk"], config, folder / "core.img")
    core = (folder / "core.img").read_bytes()
    first = (GRUB / "i386-pc/boot.img").read_bytes()
    size = system.stat().st_size // MIB
    table = entry(LINUX, 1, size) + entry(ESP, 1 + size, ESP_MIB) + bytes(32)
    assert len(first) == SECTOR and len(core) < MIB - SECTOR
    disk.write_bytes(first[:446] + table + first[510:] + core)
    for part, at in ((system, 1), (esp, 1 + size)):
        run("dd", f"if={part}", f"of={disk}", "bs=1M", f"seek={at}",
            "conv=notrunc,sparse")
    with open(disk, "r+b") as file:
        file.truncate((1 + size + ESP_MIB) * MIB)
    return disk


# ---- qcow2 -------------------------------------------------------------------

@contextmanager
def qemu():
    """The monitor of a QEMU without a machine, which can convert disks."""
    with tempfile.TemporaryDirectory(prefix="fakernic-") as folder:
        path = Path(folder) / "qmp"
        with subprocess.Popen(
                ["qemu-system-x86_64", "-M", "none", "-nodefaults", "-display",
                 "none", "-qmp", f"unix:{path},server=on,wait=off"],
                stdin=subprocess.DEVNULL) as process:
            try:
                while not path.exists() and process.poll() is None:
                    time.sleep(0.05)
                monitor = QMP(path)
                yield monitor
                monitor.close()
            finally:
                process.kill()


def do_job(monitor, command, **words):
    """Runs a monitor command that starts a job, and waits for the end of the job."""
    monitor.cmd(command, {"job-id": "job", **words})
    while True:
        (job,) = monitor.cmd("query-jobs")
        if job["status"] == "concluded":
            break
        time.sleep(0.1)
    monitor.cmd("job-dismiss", {"id": "job"})
    assert "error" not in job, job


def make_qcow2(raw, disk):
    """Makes DISK, a qcow2 with the contents of RAW."""
    size = raw.stat().st_size
    disk.unlink(missing_ok=True)
    with qemu() as monitor:
        def add(name, driver, **words):
            monitor.cmd("blockdev-add", {"node-name": name, "driver": driver, **words})
        add("raw", "raw", **{"read-only": True, "file": {
            "driver": "file", "filename": str(raw), "read-only": True}})
        do_job(monitor, "blockdev-create", options={
            "driver": "file", "filename": str(disk), "size": 0})
        add("file", "file", filename=str(disk))
        do_job(monitor, "blockdev-create", options={
            "driver": "qcow2", "file": "file", "size": size})
        add("qcow2", "qcow2", file="file")
        do_job(monitor, "blockdev-backup", device="raw", target="qcow2",
               sync="full", **{"auto-dismiss": False})
        monitor.cmd("quit")
    return disk
