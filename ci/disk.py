# SPDX-License-Identifier: GPL-2.0-or-later
"""A plain Debian on a disk, with the packages of fakernic: /cache/images.

  debian-13.ext4      the root file system; LABEL=root
  debian-13.vmlinuz   the kernel and the initramfs in its /boot; also
  debian-13.initrd    debian-13-cloud.vmlinuz and .initrd, of the cloud kernel

mmdebstrap makes the system from the mirror, apt installs the packages, and
mke2fs writes the disk. This needs no loop device and no privilege outside a user
namespace. For Debian 12 the names have 12 instead of 13.
"""

import re
import shutil
import sys
from pathlib import Path

SRC = Path("/src")
IMAGES = Path("/cache/images")
STAGE = Path("/cache/build/disk")
PACKAGES = Path("/cache/packages")
APT = Path("/etc/apt")

# Release -> suite, and the file of the root's apt sources that has the suite.
SUITES = {"13": ("trixie", "debian.sources"), "12": ("bookworm", "old.sources")}
# The systemd of Debian 13 loads the agent of fakernic-lab itself; Debian 12 needs a package.
INSTALLED = {"13": ("fakernic-dkms", "fakernic-provider"),
             "12": ("fakernic-dkms", "fakernic-provider", "fakernic-lab-guest")}

# The packages of an RDMA user's machine, and the dependencies of fakernic's packages, which
# are later installed without a network.
SYSTEM = """
systemd-sysv udev dbus linux-image-amd64 linux-headers-amd64
linux-image-cloud-amd64 linux-headers-cloud-amd64 initramfs-tools zstd kmod dkms iproute2 iputils-ping ethtool pciutils
rdma-core ibverbs-providers ibverbs-utils perftest rdmacm-utils python3-pyverbs
""".split()

# Suffix of a Debian kernel's name -> suffix of its files here.
FLAVOURS = {"amd64": "", "cloud-amd64": "-cloud"}

# Debian's cloud images also run DHCP on all interfaces.
NETWORKD = """[Match]
Name=en*
[Network]
DHCP=yes
"""

LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
SIZE = "3G"

# dkms and update-initramfs look into /proc and /dev.
INSIDE = """set -e
for folder in proc sys dev; do mount --rbind /$folder "$1/$folder"; done
mount -t tmpfs tmp "$1/tmp"
root=$1
shift
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root \\
    DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"
"""


def run_inside(this, root, *command):
    """Runs a command in the new system. Its mounts end with it."""
    this.run("unshare", "--mount", "sh", "-c", INSIDE, "inside", root, *command)


def make_system(this, release, root):
    suite, sources = SUITES[release]
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    this.run("mmdebstrap", "--mode=root", "--variant=apt",
             f"--aptopt={APT}/apt.conf.d/99host",
             '--aptopt=APT::Install-Recommends "false"',
             *(f"--dpkgopt=path-exclude={path}" for path in LEFT_OUT),
             f"--include={','.join(SYSTEM)}", suite, root,
             APT / "sources.list.d" / sources)
    (root / "etc/fstab").write_text("LABEL=root / ext4 defaults 0 1\n")
    (root / "etc/hostname").write_text("debian\n")
    (root / "etc/systemd/network/90-default.network").write_text(NETWORKD)
    run_inside(this, root, "systemctl", "enable", "systemd-networkd")
    run_inside(this, root, "passwd", "--delete", "root")


def packages(release):
    """The .deb of each package that the machines get. There must be one of each."""
    found = []
    for name in INSTALLED[release]:
        debs = list(PACKAGES.glob(f"{name}_*.deb"))
        if len(debs) != 1:
            sys.exit(f"fakernic: {len(debs)} versions of package {name} in {PACKAGES}, "
                     "expected 1: remove them, run 'make packages'")
        found += debs
    return found


def install(this, root, debs):
    folder = root / "root/packages"
    folder.mkdir(exist_ok=True)
    for deb in debs:
        shutil.copy(deb, folder)
    run_inside(this, root, "apt-get", "install", "--yes",
               *(f"/root/packages/{deb.name}" for deb in debs))
    run_inside(this, root, "update-initramfs", "-u", "-k", "all")


def write_disk(this, root, name):
    IMAGES.mkdir(parents=True, exist_ok=True)
    for flavour, suffix in FLAVOURS.items():
        found = (root / "boot").glob(f"vmlinuz-*[0-9]-{flavour}")
        release = max(found, key=version_of).name.removeprefix("vmlinuz-")
        for part, source in (("vmlinuz", "vmlinuz"), ("initrd", "initrd.img")):
            shutil.copy(root / f"boot/{source}-{release}",
                        IMAGES / f"{name}{suffix}.{part}")
            if not suffix:
                (root / source).unlink(missing_ok=True)
                (root / source).symlink_to(f"boot/{source}-{release}")
    partial = IMAGES / f"{name}.partial"
    partial.unlink(missing_ok=True)
    this.run("mke2fs", "-q", "-t", "ext4", "-L", "root", "-d", root, partial, SIZE)
    partial.rename(IMAGES / f"{name}.ext4")


def version_of(path):
    return [int(number) for number in re.findall(r"\d+", path.name)]


def build(step, digest, release):
    """Builds the disk of a Debian release with the current packages."""
    base = STAGE / release
    key = digest([SUITES[release], SYSTEM, LEFT_OUT, NETWORKD])
    with step(f"disk-base-{release}", key, f"Debian {release} for a disk") as this:
        if this is not None:
            make_system(this, release, base)
    name = f"debian-{release}"
    debs = packages(release)
    key = digest([key, SIZE], [__file__, *debs])
    with step(f"disk-{release}", key, f"Debian {release} with fakernic") as this:
        if this is None:
            return
        root = STAGE / f"{release}-fakernic"
        shutil.rmtree(root, ignore_errors=True)
        this.run("cp", "-a", base, root)
        install(this, root, debs)
        write_disk(this, root, name)
        shutil.rmtree(root)
