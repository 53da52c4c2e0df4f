# SPDX-License-Identifier: GPL-2.0-or-later
"""The launcher with an image of the user's: a plain Debian with the packages, on
a disk with a boot loader of its own; as an ordinary user."""

import os
from pathlib import Path

import pytest

import loader
from command import fakernic_lab
from fakernic_lab import images

NOBODY = 65534
LOST = 120
LIMIT_S = 1500
WORK = Path("/cache/build/disk/loader")

pytestmark = pytest.mark.timeout(2 * LIMIT_S)


@pytest.fixture(scope="module")
def disk(request):
    """It boots with printk.time=0, as some do. Not in /tmp, which is memory."""
    release = request.config.getoption("--release")
    made = loader.make(images.images() / f"debian-{release}.ext4",
                       WORK / f"debian-{release}.disk", "printk.time=0")
    yield made
    made.unlink()


@pytest.fixture
def home(tmp_path):
    """An ordinary user's folder."""
    for path in (tmp_path, *list(tmp_path.parents)[:2]):
        path.chmod(0o755)
    os.chown(tmp_path, NOBODY, NOBODY)
    return tmp_path


def test_own_boot_loader(disk, home):
    """RDMA between two, each other by name; all by one command."""
    done = fakernic_lab(home, "run", "--image", disk, "--", "ib_write_bw -F -R "
                        "-n 200", ":", "ib_write_bw -F -R -n 200 node1",
                        user=NOBODY, timeout=LIMIT_S)
    assert done.returncode == 0, done
    assert "node2: ---" in done.stdout and "65536" in done.stdout, done


def test_uefi_and_a_kernel_that_complains(disk, home):
    """By firmware that knows no BIOS; lines of the kernel without their time
    are its own nevertheless."""
    done = fakernic_lab(home, "run", "-n", "1", "--image", disk, "--qemu-arg=-bios",
                        f"--qemu-arg={loader.OVMF}", "--",
                        "ls -d /sys/firmware/efi; ibv_devinfo; echo '<4>WARNING: "
                        "planted' >/dev/kmsg; sleep 2", user=NOBODY,
                        timeout=LIMIT_S)
    assert "node1: /sys/firmware/efi" in done.stdout, done
    assert "PORT_ACTIVE" in done.stdout, done
    assert done.returncode == LOST and "WARNING: planted" in done.stderr, done
