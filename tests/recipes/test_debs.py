# SPDX-License-Identifier: GPL-2.0-or-later
"""lintian accepts the packages, and the package of the provider chooses the one that fits
the installed libibverbs.
"""

import re
import subprocess
from pathlib import Path

import pytest

PACKAGES = Path("/cache/packages")

# Where a distribution's libibverbs is, and the provider that it gets.
CHOICES = {"libibverbs.so.1.14.39.0": "37-43/libfakernic-rdmav34.so",
           "libibverbs.so.1.14.44.0": "44-44/libfakernic-rdmav34.so",
           "libibverbs.so.1.14.56.1": "45-56/libfakernic-rdmav34.so",
           "libibverbs.so.1.15.61.0": "59-61/libfakernic-rdmav59.so",
           "libibverbs.so.1.18.65.0": "65-65/libfakernic-rdmav65.so"}


def read(*command):
    return subprocess.run([str(word) for word in command], text=True, check=True,
                          capture_output=True, timeout=300,
                          stdin=subprocess.DEVNULL).stdout


@pytest.fixture(name="unpacked")
def unpacked_provider(tmp_path):
    """The files of the provider's package, with a folder for libibverbs."""
    (deb,) = PACKAGES.glob("fakernic-provider_*.deb")
    read("dpkg-deb", "-x", deb, tmp_path)
    (tmp_path / "lib").mkdir()
    return tmp_path


def choose(root, library):
    """Runs the package's program for a libibverbs of this name."""
    link = root / "lib/libibverbs.so.1"
    link.unlink(missing_ok=True)
    (root / "lib" / library).touch()
    link.symlink_to(library)
    installed = root / "usr/lib/fakernic"
    done = subprocess.run([installed / "choose.sh", installed / "providers", root / "lib"],
                          text=True, check=False, capture_output=True, timeout=60)
    found = [path.resolve().relative_to(installed / "providers")
             for path in (root / "lib").glob("libibverbs/*")]
    return done.returncode, done.stderr, [str(path) for path in found]


def test_provider_follows_libibverbs(unpacked):
    """Each new release of libibverbs gets its provider, and only that one."""
    for library, wanted in CHOICES.items():
        assert choose(unpacked, library) == (0, "", [wanted])


def test_unknown_libibverbs_gets_no_provider(unpacked):
    """One line names the library, and the link to another release's provider is removed."""
    choose(unpacked, "libibverbs.so.1.14.56.1")
    code, line, found = choose(unpacked, "libibverbs.so.1.99.99.0")
    assert code == 1 and found == []
    assert line.count("\n") == 1 and "no provider for libibverbs.so.1.99.99.0" in line


def test_provider_has_a_trigger(tmp_path):
    """dpkg runs the package's postinst again when libibverbs is installed."""
    (deb,) = PACKAGES.glob("fakernic-provider_*.deb")
    read("dpkg-deb", "-e", deb, tmp_path)
    assert "/libibverbs.so.1\n" in (tmp_path / "triggers").read_text()
    assert "triggered" in (tmp_path / "postinst").read_text()
    depends = read("dpkg-deb", "-f", deb, "Depends")
    (libc,) = re.findall(r"libc6 \(>= ([\d.]+)\)", depends)
    assert tuple(map(int, libc.split("."))) <= (2, 34), depends


@pytest.mark.parametrize(
    "deb", sorted(PACKAGES.glob("*.deb")),
    ids=lambda path: path.name.partition("_")[0])
def test_lintian_says_nothing(deb):
    """lintian prints no error and no warning."""
    done = subprocess.run(["lintian", "--allow-root", deb], text=True, check=False,
                          capture_output=True, timeout=300,
                          stdin=subprocess.DEVNULL)
    assert not re.search("^[EW]: ", done.stdout, re.M), done.stdout
