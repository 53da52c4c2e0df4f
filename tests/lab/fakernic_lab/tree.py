# SPDX-License-Identifier: GPL-2.0-or-later
"""--root: commands run inside a distribution's tree, with fakernic's provider in it.

Each machine mounts the tree read-only by 9p, lays a tmpfs over it, and runs commands
in the result, the view. The provider in the view fits the tree's libibverbs:

- ci/versions names the releases of rdma-core that each is for;
- its number of the private interface is that in libibverbs;
- it needs no newer glibc than the tree has.

images/providers/MACHINE/RELEASES/libfakernic-rdmavABI.so are the providers.
"""

import os
import re
import shlex
import stat
import struct
from pathlib import Path

from . import images, meeting, versions
from .errors import LabError
from .machine import Mount

LIBRARY = "libibverbs.so.1"
LIBC = "libc.so.6"
# In the order in which the loader of a distribution searches them.
LIBRARY_FOLDERS = ("usr/local/lib/*-linux-gnu*", "usr/local/lib64", "usr/local/lib",
                   "lib/*-linux-gnu*", "usr/lib/*-linux-gnu*", "lib64", "usr/lib64",
                   "lib", "usr/lib")
SHELLS = ("/bin/bash", "/bin/sh")
# A tree may have programs in /bin that are not in /usr/bin.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LINKS_MAX = 40
ELF = b"\x7fELF"
BITS_64 = 2
MACHINES = {3: "i386", 21: "ppc64", 22: "s390x", 40: "arm", 62: "x86_64",
            183: "arm64", 243: "riscv64", 258: "loongarch64"}
# In libibverbs: its folder of providers, with their names' pattern; that of .driver files.
PROVIDERS = re.compile(rb"(/[^\0\n]*)/lib%s-rdmav(\d{1,5})\.so\0")
DRIVERS = re.compile(rb"(/[^\0\n]*/libibverbs\.d)\0")
GLIBC = re.compile(rb"GLIBC_(\d+)\.(\d+)")
READ_MAX = 16 << 20             # bytes of a library that are looked at

# Folders of the machine: the tree, the provider, what is written, and all of them.
TREE, PROVIDER = "/.fakernic/tree", "/.fakernic/provider"
WRITTEN, VIEW = "/.fakernic/written", "/.fakernic/view"
SYSTEM = ("/proc", "/sys", "/dev", "/run")

# A folder that the machine mounts may be a link in the tree, which would lead out of
# the view. sshd enters the view only if its top belongs to root alone. An ordinary user
# of this host cannot read the home of a tree's root.
MAKE_VIEW = f"""
set -e
modprobe -qa overlay || true
mkdir -p {WRITTEN} {VIEW}
mount -t tmpfs -o mode=755 fakernic-root {WRITTEN}
mkdir {WRITTEN}/upper {WRITTEN}/work
mount -t overlay -o lowerdir={TREE},upperdir={WRITTEN}/upper,workdir={WRITTEN}/work \
fakernic-root {VIEW}
chown 0:0 {VIEW}
chmod 755 {VIEW}
for folder in {{mounts}} /root /tmp; do
    [ ! -L {VIEW}$folder ] || rm {VIEW}$folder
    mkdir -p {VIEW}$folder
done
chmod 1777 {VIEW}/tmp
ls {VIEW}/root >/dev/null 2>&1 || mount -t tmpfs -o mode=700 home {VIEW}/root
for folder in {{mounts}}; do mount --rbind $folder {VIEW}$folder; done
"""
ADD_PROVIDER = f"""
mkdir -p {VIEW}{{providers}} {VIEW}{{drivers}}
cp {PROVIDER}/{{name}} {VIEW}{{providers}}/
echo 'driver fakernic' >{VIEW}{{drivers}}/fakernic.driver
"""
# What knows the other machines.
INTRODUCE = f"""
hostname >/etc/hostname
for file in /etc/hosts /etc/hostname {meeting.TOOL}; do
    [ -e $file ] || continue
    mkdir -p $(dirname {VIEW}$file) && rm -f {VIEW}$file && cp -p $file {VIEW}$file
done
"""


def inside(root, path):
    """PATH of the tree ROOT on this host, its symbolic links followed as in a
    chroot; None if they never end."""
    todo, done, links = path.split("/")[::-1], [], 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            done = done[:-1]
            continue
        try:
            link = os.readlink(os.path.join(root, *done, part))
        except OSError:
            done.append(part)
            continue
        links += 1
        if links > LINKS_MAX:
            return None
        if link.startswith("/"):
            done = []
        todo += link.split("/")[::-1]
    return os.path.join(root, *done)


class Binary:
    """What an ELF file says of itself; MACHINE is None if it is no ELF file."""

    def __init__(self, path):
        self.path = Path(path)
        with open(path, "rb") as file:
            self.data = file.read(READ_MAX)
        self.machine = None
        if self.data[:4] == ELF and len(self.data) > 20:
            order = "<" if self.data[5] == 1 else ">"
            number, = struct.unpack_from(f"{order}H", self.data, 18)
            self.machine = MACHINES.get(number, f"machine {number}")
            if self.machine == "x86_64" and self.data[4] != BITS_64:
                self.machine = "x32"

    def glibc(self):
        """The newest version of glibc that it names, needed or offered."""
        return max((tuple(map(int, found)) for found in
                    GLIBC.findall(self.data)), default=(0, 0))


class Tree:
    """A distribution's tree on this host, and the provider that fits it."""

    def __init__(self, path, *machines):
        # Not resolved: /proc/PID/root is a link that only opening it follows.
        self.path = os.path.abspath(path)
        self.machines = machines        # the architectures of all machines
        try:
            if not stat.S_ISDIR(os.stat(self.path).st_mode):
                self.refuse("it is a file: unpack it into a folder first ('tar -xf')")
            self.look()
        except OSError as error:
            raise LabError(f"--root {error.filename}: {error.strerror}") from error

    def refuse(self, why):
        raise LabError(f"--root {self.path}: {why}")

    def look(self):
        self.shell = next((shell for shell in SHELLS if self.has(shell)), None)
        if not self.shell:
            self.refuse("no system's tree: it has no /bin/sh")
        self.machine = self.require_machine(Binary(inside(self.path, self.shell)))
        self.library = self.find(LIBRARY)
        if not self.library:
            self.refuse(f"no {LIBRARY} in it: install the package libibverbs1 "
                        "(Debian, Ubuntu) or libibverbs (others) there")
        library = Binary(self.library)
        self.require_machine(library)
        found = PROVIDERS.search(library.data)
        if not found:
            self.refuse(f"{self.library} does not say which providers it loads")
        self.providers, self.abi = found[1].decode(), int(found[2])
        found = DRIVERS.search(library.data)
        self.drivers = found[1].decode() if found else "/etc/libibverbs.d"
        self.provider = None
        if not self.has(f"{self.providers}/{self.provider_name}"):
            self.provider = self.choose_provider()

    @property
    def provider_name(self):
        return f"libfakernic-rdmav{self.abi}.so"

    def has(self, path):
        return os.path.isfile(inside(self.path, path) or "")

    def find(self, name):
        """The file of a shared library on this host; None."""
        for pattern in LIBRARY_FOLDERS:
            for folder in sorted(Path(self.path).glob(pattern)):
                path = f"{folder.relative_to(self.path)}/{name}"
                if self.has(path):
                    return inside(self.path, path)
        return None

    def require_machine(self, binary):
        """The architecture of a file, which must be that of all machines."""
        if not binary.machine:
            self.refuse(f"{binary.path} is no program and no library")
        for machine in self.machines:
            if binary.machine != machine:
                self.refuse(f"a tree for {binary.machine}, but the machines are "
                            f"{machine}: use a tree for {machine}, or --arch")
        return binary.machine

    def choose_provider(self):
        """The file on this host."""
        wanted = versions.provider_for(self.library)
        if not wanted or wanted.name != self.provider_name:
            there = ", ".join(releases for releases, _ in versions.providers())
            self.refuse(f"no provider for {os.path.basename(self.library)} (private ABI "
                        f"{self.abi}), only for rdma-core {there}")
        path = images.images() / "providers" / self.machine / wanted
        if not path.exists():
            self.refuse(f"no {path} here: run 'make build-image' in a checkout, or "
                        "install the package fakernic-lab-image")
        needed = Binary(path).glibc()
        libc = self.find(LIBC)
        has = Binary(libc).glibc() if libc else (0, 0)
        if has < needed:
            self.refuse("the provider needs glibc {}.{}, but the tree has {}".format(
                *needed, "{}.{}".format(*has) if libc else "another C library"))
        return path

    # ---- in the machines -------------------------------------------------------

    def mounts(self):
        found = [TreeMount(self.path, TREE)]
        if self.provider:
            found.append(TreeMount(self.provider.parent, PROVIDER))
        return found

    def script(self, mounts):
        """Makes the view, in which these mounts are, too."""
        script = MAKE_VIEW.format(mounts=" ".join(
            map(shlex.quote, [*SYSTEM, *(mount.target for mount in mounts
                                         if not isinstance(mount, TreeMount))])))
        if self.provider:
            script += ADD_PROVIDER.format(
                name=self.provider_name, providers=shlex.quote(self.providers),
                drivers=shlex.quote(self.drivers))
        return script


class TreeMount(Mount):
    """A read-only folder whose files do not change: a machine may cache them."""

    cache = "loose"

    def __init__(self, source, target):
        super().__init__(source, target)
        self.source = Path(source)


def enter(shell, script):
    """The script that runs SCRIPT in the view."""
    return (f"exec /usr/sbin/chroot {VIEW} {shell} -c {shlex.quote(script)}")
