# SPDX-License-Identifier: GPL-2.0-or-later
"""The launcher with a user's image: a plain Debian with the packages, on a disk with
its own boot loader. The launcher runs as an ordinary user."""

import os
import re
from pathlib import Path

import pytest

import loader
from command import fakernic_lab
from fakernic_lab import images

NOBODY = 65534
LOST, CANNOT = 120, 125
LIMIT_S = 1500
WORK = Path("/cache/build/disk/loader")

pytestmark = pytest.mark.timeout(2 * LIMIT_S)


@pytest.fixture(scope="module")
def disk(release):
    """A disk that boots with printk.time=0, as some images do. It is not in /tmp, which
    may be in memory."""
    made = loader.make(images.images() / f"debian-{release}.ext4",
                       WORK / f"debian-{release}.disk", "printk.time=0")
    yield made
    made.unlink()


@pytest.fixture(scope="module")
def qcow2(disk):
    """The same disk as qcow2, the usual format of downloaded images."""
    made = loader.make_qcow2(disk, disk.with_suffix(".qcow2"))
    yield made
    made.unlink()


@pytest.fixture
def kernel(release):
    """The options that boot a kernel of the disk from outside."""
    def options(flavour=""):
        name = f"debian-{release}{flavour}"
        return ("--kernel", images.images() / f"{name}.vmlinuz", "--initrd",
                images.images() / f"{name}.initrd", "--append", "root=LABEL=root")
    return options


@pytest.fixture
def home(tmp_path):
    """A folder of an ordinary user."""
    for path in (tmp_path, *list(tmp_path.parents)[:2]):
        path.chmod(0o755)
    os.chown(tmp_path, NOBODY, NOBODY)
    return tmp_path


def test_own_boot_loader(disk, home):
    """One command boots two machines by the disk's boot loader, and RDMA works between
    them by name."""
    done = fakernic_lab(home, "run", "--image", disk, "--", "ib_write_bw -F -R "
                        "-n 200", ":", "ib_write_bw -F -R -n 200 node1",
                        user=NOBODY, timeout=LIMIT_S)
    assert done.returncode == 0, done
    assert "node2: ---" in done.stdout and "65536" in done.stdout, done


def test_uefi_and_a_kernel_that_complains(disk, home):
    """The disk boots by UEFI. A kernel complaint fails the run although the image's kernel
    prints no times."""
    done = fakernic_lab(home, "run", "-n", "1", "--image", disk, "--qemu-arg=-bios",
                        f"--qemu-arg={loader.OVMF}", "--",
                        "ls -d /sys/firmware/efi; ibv_devinfo; echo '<4>WARNING: "
                        "planted' >/dev/kmsg; sleep 2", user=NOBODY,
                        timeout=LIMIT_S)
    assert "node1: /sys/firmware/efi" in done.stdout, done
    assert "PORT_ACTIVE" in done.stdout, done
    assert done.returncode == LOST and "WARNING: planted" in done.stderr, done


def test_three_machines_of_a_qcow2_with_external_kernel(qcow2, kernel, home):
    """Options for processors, a mount, the MTU and the link work together."""
    (home / "mine").write_text("of the user\n")
    done = fakernic_lab(
        home, "run", "-n", "3", "--image", qcow2, *kernel(), "--cpus", "2",
        "--mount", ".:/src", "--mtu", "9000", "--link", "shared", "--ready", "cm", "--",
        "ib_write_bw -F -R -n 200", ":", "ib_write_bw -F -R -n 200 node1", ":",
        "cat /src/mine; nproc; ibv_devinfo", user=NOBODY, timeout=LIMIT_S)
    assert done.returncode == 0, done
    assert "node2: ---" in done.stdout and "65536" in done.stdout, done
    for line in ("of the user", "2"):
        assert f"node3: {line}\n" in done.stdout, done
    assert re.search(r"node3: \s*active_mtu:\s*4096 ", done.stdout), done


def test_cloud_kernel(qcow2, kernel, home):
    """Debian's cloud kernel has the driver but no 9p. The run works and reports that once;
    --mount is refused."""
    done = fakernic_lab(
        home, "run", "--image", qcow2, *kernel("-cloud"), "--ready", "cm", "--",
        "ib_write_bw -F -R -n 200", ":", "uname -r; ib_write_bw -F -R -n 200 node1",
        user=NOBODY, timeout=LIMIT_S)
    assert done.returncode == 0, done
    assert re.search("node2: .*-cloud-amd64\n", done.stdout), done
    assert "node2: ---" in done.stdout and "65536" in done.stdout, done
    assert done.stderr.count("has no 9p") == 1, done
    done = fakernic_lab(
        home, "run", "-n", "1", "--image", qcow2, *kernel("-cloud"), "--mount",
        ".:/src", "--", "true", user=NOBODY, timeout=LIMIT_S)
    assert done.returncode == CANNOT, done
    assert "cannot mount" in done.stderr and "linux-image-amd64" in done.stderr
