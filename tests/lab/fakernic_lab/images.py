# SPDX-License-Identifier: GPL-2.0-or-later
"""What a machine boots: the project's own guest, or a disk of the user's.

An image returns the arguments with which QEMU boots it. No machine writes to an
image, so any number of machines can boot the same one.
"""

import base64
import io
import os
import tarfile
from pathlib import Path

from . import places, versions
from .arches import HOST
from .errors import LabError

# The first is the main kernel, which the image contains.
KERNELS = versions.listed("kernel")
HOST_ROLES = ("main", "old", "new", "long", "watch")
# Kernels that check their drivers, which costs memory and time. RACE_KERNEL looks for data
# races and finds more with two CPUs.
RACE_KERNEL = "kcsan"
DEBUG_KERNELS = versions.listed("kernel", "watch")
# KCSAN watches one access in 100 instead of 4,000, for this many microseconds. In the same
# time it checks twenty times as many accesses.
OFTEN = "kcsan.skip_watch=100 kcsan.udelay_task=100 kcsan.udelay_interrupt=50"
DEBUG_PATIENCE = 5          # factor by which these kernels are slower
# The modules of these kernels are on a disk of their own, not in the base.
OTHER_KERNELS = KERNELS[1:]
INSTALLED = Path("/usr/share/fakernic-lab/images")
SECTOR = 512
BOOT_MARK = b"\x55\xaa"          # at the end of the first sector, if there are partitions

# Runs the agent in an image that has systemd 256 and no agent. The unit is passed as a
# credential and the program on a disk. The condition skips an image with an agent of its
# own, because a port can have only one reader. The tmpfs is needed because Debian mounts
# /run with noexec.
UNIT = """[Unit]
Description=Agent of fakernic-lab
ConditionPathExists=!/usr/lib/systemd/system/fakernic-lab-agent.service
DefaultDependencies=no
After=systemd-udev-trigger.service local-fs.target
[Service]
ExecStartPre=-/sbin/modprobe -a virtio_console virtio_blk
ExecStartPre=/bin/sh -c 'cd /run && mkdir -p fakernic-lab && \
mount -t tmpfs -o mode=755 lab fakernic-lab && for try in $(seq 300); \
do tar -C fakernic-lab -xf /dev/disk/by-id/virtio-fakernic-lab \
&& exit; sleep 0.2; done; exit 1'
ExecStart=/run/fakernic-lab/fakernic-lab-agent
Restart=on-failure
StandardOutput=journal+console
"""
CREDENTIAL = "io.systemd.credential.binary:systemd.extra-unit.fakernic-lab.service"
WANTS = ("io.systemd.credential.binary:systemd.unit-dropin.multi-user.target~"
         "fakernic-lab")
WANTS_TEXT = "[Unit]\nWants=fakernic-lab.service\n"


def kernels_of(arch):
    """The kernels that machines of an architecture boot."""
    roles = HOST_ROLES if arch == HOST else ("main",)
    return versions.listed("kernel", *roles, arch.name)


def common_words(arch=HOST):
    """What every kernel gets in its command line. It suppresses RCU's stall warnings at
    boot: on a busy host an emulated CPU may stall for a while."""
    return (f"console={arch.console} {arch.append} random.trust_cpu=on "
            "rcupdate.rcu_cpu_stall_suppress_at_boot=1")


def images():
    """The folder of the project's own guest: a checkout's, or the package's."""
    own = places.cache() / "images"
    # os.path.isdir(), because Path.exists() raises if the home is not accessible.
    return INSTALLED if INSTALLED.exists() and not os.path.isdir(own) else own


def disk(path):
    """The arguments of a read-only raw disk. Its serial number is the name of the file."""
    path = Path(path)
    node = path.name.partition(".")[0]
    return ["-blockdev", f"driver=file,node-name={node},read-only=on,"
            f"locking=off,filename={places.escaped(path)}",
            "-device", f"virtio-blk-pci,drive={node},serial={node},romfile="]


class ProjectImage:
    """The guest of `make build-image`, with one of its kernels. For another
    architecture, the guest of `make build-ARCH`, which has fewer kernels. DISKS: paths of
    more disks that it has, read-only."""

    boot_timeout_s = 240
    memory = 768                # MiB, the default
    patience = 1                # factor of all time limits in the guest
    lacks_agent = lacks_driver = "build it again with 'make build-image'"

    def __init__(self, kernel=versions.MAIN_KERNEL, append="", arch=HOST, disks=()):
        if kernel not in KERNELS:
            raise LabError(f"--kernel {kernel}: one of {', '.join(KERNELS)}, or "
                           "with --image the path of a kernel")
        if kernel not in kernels_of(arch):
            raise LabError(f"--kernel {kernel}: machines with --arch {arch.name} "
                           f"boot {', '.join(kernels_of(arch))}")
        self.kernel = kernel
        self.arch = arch
        self.append = append
        self.disks = list(disks)
        if kernel in DEBUG_KERNELS:
            self.boot_timeout_s, self.memory = 600, 2048
            self.patience = DEBUG_PATIENCE
            # The reports about other drivers would overflow a smaller log.
            self.append += " log_buf_len=16M"
        if kernel == RACE_KERNEL:
            self.append += f" {OFTEN}"
        self.parts = [images() / name for name in (
            f"vmlinuz-{kernel}{arch.suffix}", f"initrd-{kernel}{arch.suffix}",
            f"base{arch.suffix}.erofs", f"payload{arch.suffix}.erofs")]
        if kernel in OTHER_KERNELS:
            self.parts.append(images() / f"kernel-{kernel}{arch.suffix}.erofs")
        self.tests = images() / f"guest-test{arch.suffix}.erofs"

    def check(self):
        for part in self.parts:
            if not part.exists():
                disk_instead = ", or name a disk with --image" if self.arch == HOST else ""
                raise LabError(f"no {part.name} in {part.parent}: {self.made_by()}"
                               f"{disk_instead}")

    def files(self):
        """All files that a machine reads."""
        return [*self.parts, *filter(Path.exists, [self.tests]), *self.disks]

    def made_by(self):
        if self.kernel in OTHER_KERNELS:
            return (f"run 'ci/enter.sh ci/build.py image{self.arch.suffix} kernel-"
                    f"{self.kernel}{self.arch.suffix}' in a checkout")
        if self.arch != HOST:
            return f"run 'make build-{self.arch.name}' in a checkout"
        return ("install the package fakernic-lab-image, run 'make build-image' "
                "in a checkout")

    def arguments(self, name, _directory):
        kernel, initrd, *disks = self.parts
        words = [common_words(self.arch), "loglevel=5 panic=-1 mitigations=off nokaslr",
                 f"fakernic_host={name}", self.append]
        # Files that only the project's tests need, if they were built.
        if self.tests.exists():
            words.append(f"fakernic_tests=vd{'abcd'[len(disks)]}")
            disks.append(self.tests)
        return ["-kernel", str(kernel), "-initrd", str(initrd),
                "-append", " ".join(words),
                *(word for path in (*disks, *self.disks) for word in disk(path))]


class DiskImage:
    """A bootable disk, qcow2 or raw, with systemd. With KERNEL, and perhaps INITRD, its
    boot loader is not used."""

    boot_timeout_s = 600        # a whole Debian, emulated on a busy machine
    memory = 1024
    patience = 1
    arch = HOST
    lacks_agent = ("it needs systemd 256, or the package fakernic-lab-guest in "
                   "it; and virtio_blk and virtio_console in its kernel")
    lacks_driver = ("put fakernic-dkms_*.deb and fakernic-provider_*.deb into "
                    "it and run 'apt install ./*.deb' there")

    def __init__(self, path, kernel=None, initrd=None, append=""):
        self.path = Path(path)
        self.kernel = kernel
        self.initrd = initrd
        self.append = append

    def check(self):
        for path in filter(None, (self.path, self.kernel, self.initrd)):
            try:
                with open(path, "rb"):
                    pass
            except OSError as error:
                raise LabError(f"{path}: {error.strerror}") from error
        if (self.initrd or self.append) and not self.kernel:
            raise LabError("--initrd and --append need --kernel: without it the "
                           "image's own boot loader decides")

    def format(self):
        with open(self.path, "rb") as file:
            return "qcow2" if file.read(4) == b"QFI\xfb" else "raw"

    def root(self):
        """The usual device of the root file system: the first partition, or the whole disk."""
        with open(self.path, "rb") as file:
            sector = file.read(SECTOR)
        plain = self.format() == "raw" and sector[-2:] != BOOT_MARK
        return "/dev/vda" if plain else "/dev/vda1"

    def boot_arguments(self):
        if not self.kernel:
            return []
        root = "" if "root=" in self.append else f"root={self.root()} rw"
        initrd = ["-initrd", str(self.initrd)] if self.initrd else []
        return ["-kernel", str(self.kernel), *initrd,
                "-append", f"{common_words()} {root} {self.append}"]

    def arguments(self, _name, directory):
        tools = directory / "fakernic-lab.tar"
        write_tools(tools)
        return [*self.boot_arguments(),
                "-drive", f"if=none,id=root,snapshot=on,format={self.format()},"
                f"file={places.escaped(self.path)}",
                "-device", "virtio-blk-pci,drive=root,bootindex=1",
                *disk(tools), *credential(CREDENTIAL, UNIT),
                *credential(WANTS, WANTS_TEXT)]


def credential(name, text):
    """The arguments that pass systemd a credential."""
    value = base64.b64encode(text.encode()).decode()
    return ["-smbios", f"type=11,value={name}={value}"]


def write_tools(path):
    """Writes the disk, a tar, that has the agent for an image without one."""
    program = places.tool("fakernic-lab-agent").read_bytes()
    info = tarfile.TarInfo("fakernic-lab-agent")
    info.size, info.mode = len(program), 0o755
    with tarfile.open(path, "w") as tar:
        tar.addfile(info, io.BytesIO(program))


def chosen(disk_file=None, kernel=None, initrd=None, append="", arch=HOST):
    """The image that the options select: a disk, or the project's own guest."""
    if disk_file and arch != HOST:
        raise LabError(f"--arch {arch.name} boots the project's own guest only, "
                       "and no --image")
    if disk_file:
        return DiskImage(disk_file, kernel, initrd, append)
    if initrd:
        raise LabError("--initrd needs --image and --kernel")
    return ProjectImage(kernel or versions.MAIN_KERNEL, append, arch)
