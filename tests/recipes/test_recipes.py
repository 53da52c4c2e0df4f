# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs every step of ci/recipes, unchanged, in a plain Debian 13. Also tests the packages
there as an ordinary user, and after an update of QEMU.
"""

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from plain import BASE, STEP_S, Plain

SRC = Path(__file__).parents[2]
RECIPES = SRC / "ci/recipes"
PACKAGES = Path("/cache/packages")
CHECKOUT = "/builds/mine"
USER = 1000


@pytest.fixture
def checkout():
    """A Debian with the folder of a user's project."""
    made = Plain(BASE.with_name("run"))
    (made.root / CHECKOUT.lstrip("/")).mkdir(parents=True)
    yield made
    made.remove()


def put_packages(plain, folder):
    target = plain.root / folder.lstrip("/")
    target.mkdir(parents=True, exist_ok=True)
    for deb in PACKAGES.glob("*.deb"):
        os.link(deb, target / deb.name)


@pytest.fixture
def plain(checkout):
    """The same, with the packages in the checkout."""
    put_packages(checkout, f"{CHECKOUT}/fakernic-packages")
    return checkout


@pytest.mark.timeout(2 * STEP_S)
def test_cloud_image(checkout):
    """cloud-init accepts the file, the disk has the label that the file mounts, and its
    commands work, except mount and umount, which are not run."""
    reported = (RECIPES / "README.md").read_text("utf-8")
    (command,) = re.findall(r"^    (genisoimage .*?) +#", reported, re.M)
    checkout.put(RECIPES / "user-data", "/root/seed/user-data")
    checkout.step("apt-get update; apt-get install -y --no-install-recommends "
                  "cloud-init genisoimage; cloud-init schema --config-file "
                  f"seed/user-data; {command}", folder="/root")
    seen = checkout.step("blkid -o value -s LABEL seed.iso", folder="/root")
    text = (RECIPES / "user-data").read_text(encoding="utf-8")
    assert text.startswith("#cloud-config\n")
    wanted = yaml.safe_load(text)
    assert wanted.pop("power_state") == {"mode": "poweroff"}
    assert wanted.pop("package_update") is True
    mount, *commands = wanted.pop("runcmd")
    assert mount == f"mount -r LABEL={seen.stdout.strip()} /mnt"
    put_packages(checkout, "/mnt")
    checkout.step(f"apt-get install -y {' '.join(wanted.pop('packages'))}")
    assert not wanted
    for command in commands:
        if command != "umount /mnt":
            checkout.step(command)
    (driver,) = (checkout.root / "usr/lib/modules").glob(
        "*-amd64/updates/dkms/fakernic.ko*")
    assert "cloud" not in str(driver)
    assert (checkout.root / "etc/libibverbs.d/fakernic.driver").exists()


def instructions():
    """[(instruction, arguments)] from the Containerfile."""
    text = (RECIPES / "Containerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line]


def test_containerfile(plain):
    """The instructions of the Containerfile work. The test executes RUN, with the context
    mounted, and ENTRYPOINT itself."""
    found = instructions()
    assert found[0] == ("FROM", "debian:trixie")
    rest = dict(found[1:])
    assert len(rest) == len(found) - 1 and set(rest) == {
        "RUN", "WORKDIR", "ENTRYPOINT", "CMD"}
    mount, command = rest["RUN"].split(maxsplit=1)
    assert mount == "--mount=type=bind,target=/packages"
    shutil.copytree(plain.root / CHECKOUT.lstrip("/") / "fakernic-packages",
                    plain.root / "context", copy_function=os.link)
    plain.step(command)
    shutil.rmtree(plain.root / "context")
    entry = json.loads(rest["ENTRYPOINT"])
    (plain.root / "work").mkdir()
    usage = plain.run(*entry, *json.loads(rest["CMD"]), folder=rest["WORKDIR"])
    assert usage.returncode == 0 and "usage: fakernic-lab" in usage.stdout
    reported = (RECIPES / "Containerfile").read_text(encoding="utf-8")
    assert ("--device /dev/kvm --group-add keep-groups -v .:/work fakernic "
            "run -- ") in reported
    done = plain.run(*entry, "run", "-n", "1", "--", "ibv_devinfo",
                     folder=rest["WORKDIR"])
    assert done.returncode == 0 and "PORT_ACTIVE" in done.stdout, done


def test_ordinary_user_and_a_program_of_debians(plain):
    """An unmodified program of Debian, qperf, runs from the user's folder, into which its
    package was unpacked."""
    plain.step("apt-get update; apt-get install -y --no-install-recommends "
               "./fakernic-packages/fakernic-qemu_*.deb "
               "./fakernic-packages/fakernic-lab*_*.deb", folder=CHECKOUT)
    plain.step(f"apt-get download qperf; dpkg -x qperf_*.deb .; chown -R {USER} .",
               folder=CHECKOUT)
    done = plain.run(*shlex.split(
        "fakernic-lab run --ready 19765 -- 'timeout 300 usr/bin/qperf' : "
        "'usr/bin/qperf -cm 1 -t 2 -to 60 node1 rc_bw rc_lat rc_rdma_read_bw "
        "rc_compare_swap_mr; code=$?; usr/bin/qperf node1 quit; exit $code'"),
        folder=CHECKOUT, user=f"{USER}:{USER}")
    assert done.returncode == 0, done.stdout + done.stderr
    for line in ("rc_bw:", "rc_lat:", "rc_rdma_read_bw:", "rc_compare_swap_mr:"):
        assert f"node2: {line}" in done.stdout, done


MINE = """
def test_mine(lab):
    assert "PORT_ACTIVE" in lab.node1.check("ibv_devinfo")
    lab.node2.check("ping -c 1 node1")
"""


def test_pytest_finds_the_plugin_of_the_package(plain):
    """pytest loads the plug-in without -p. The package also has the manual page and the
    completion."""
    plain.step("apt-get update; apt-get install -y --no-install-recommends "
               "python3-pytest ./fakernic-packages/fakernic-qemu_*.deb "
               "./fakernic-packages/fakernic-lab*_*.deb", folder=CHECKOUT)
    plain.step("test -s man1/fakernic-lab.1.gz; "
               "test -s ../bash-completion/completions/fakernic-lab",
               folder="/usr/share/man")
    (plain.root / CHECKOUT.lstrip("/") / "test_mine.py").write_text(MINE)
    plain.step(f"chown {USER} .", folder=CHECKOUT)
    done = plain.step("python3 -m pytest -q -p no:cacheprovider test_mine.py",
                      folder=CHECKOUT, user=f"{USER}:{USER}")
    assert "1 passed" in done.stdout, done


def test_plugin_is_rebuilt_by_one_command(plain):
    """After an update of QEMU apt reports that the plug-in does not fit, and QEMU refuses
    it. fakernic-qemu-rebuild names missing packages, and then builds the plug-in without
    root rights, from the source that it fetches."""
    mine = {"user": "mine:mine", "folder": "/home/mine"}
    plain.step("apt-get update; apt-get install -y --no-install-recommends "
               "./fakernic-packages/fakernic-qemu_*.deb; useradd -m mine; "
               "rm /usr/lib/*/fakernic/qemu/*.so", folder=CHECKOUT)
    reported = plain.step("apt-get install -y --reinstall qemu-system-x86")
    refused = plain.run("qemu-system-x86_64-fakernic", "--version", **mine)
    assert refused.returncode == 1 and refused.stdout == "", refused
    for line in (reported.stdout + reported.stderr, refused.stderr):
        assert "was not built for this QEMU" in line, line
        assert "run fakernic-qemu-rebuild\n" in line, line
    rebuild = ("env", "HOME=/home/mine", "fakernic-qemu-rebuild")
    lacks = plain.run(*rebuild, **mine)
    found = re.fullmatch("fakernic: not found: .*: apt install (.*)\n", lacks.stderr)
    assert lacks.returncode == 1 and found, lacks
    plain.step(f"apt-get install -y --no-install-recommends {found[1]}")
    plain.step(" ".join(rebuild), **mine)
    shown = plain.step("HOME=/home/mine qemu-system-x86_64-fakernic "
                       "-device fakernic,help", **mine)
    assert "max-qp=<uint32>" in shown.stdout, shown
