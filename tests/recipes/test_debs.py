# SPDX-License-Identifier: GPL-2.0-or-later
"""lintian accepts the packages, and each provider depends on the libibverbs that it was
built for and refuses others.
"""

import re
import subprocess
from pathlib import Path

import pytest

PACKAGES = Path("/cache/packages")

# Folder -> release of rdma-core, its private ABI, and the range of releases with the same
# structures: the first one, and the first one after the range.
PROVIDERS = {".": ("56.1", 34, 45, 57), "bookworm": ("44.0", 34, 44, 45),
             "forky": ("65.0", 65, 65, 66)}
# Newest glibc that a package may need: Debian 12's. The others are built where they run.
GLIBC = {"bookworm": (2, 36)}


def read(*command):
    return subprocess.run([str(word) for word in command], text=True, check=True,
                          capture_output=True, timeout=300,
                          stdin=subprocess.DEVNULL).stdout


@pytest.fixture(name="provider", params=PROVIDERS)
def provider_of_a_release(request):
    """The package in a folder, with its row of PROVIDERS. The package for forky exists only
    while the mirror has its source."""
    (deb,) = (PACKAGES / request.param).glob("fakernic-provider_*.deb")
    return request.param, deb, *PROVIDERS[request.param]


def test_provider_says_what_it_is_for(provider):
    """The file name has the release, and the dependencies have its range."""
    folder, deb, release, _, first, end = provider
    assert f"+rdma{release}_amd64.deb" in deb.name
    depends = read("dpkg-deb", "-f", deb, "Depends").strip().split(", ")
    assert [words for words in depends if words.startswith("libibverbs1")] == [
        f"libibverbs1 (>= {first}~)", f"libibverbs1 (<< {end}~)"], depends
    (libc,) = re.findall(r"libc6 \(>= ([\d.]+)\)", ", ".join(depends))
    if folder in GLIBC:
        assert tuple(map(int, libc.split("."))) <= GLIBC[folder], libc


def test_provider_is_of_that_private_abi(provider, tmp_path):
    """The file name of the library, which libibverbs looks for, and the versions of its
    symbols have the private ABI."""
    _, deb, _, abi, *_ = provider
    read("dpkg-deb", "-x", deb, tmp_path)
    (library,) = tmp_path.glob("usr/lib/*/libibverbs/*")
    assert library.name == f"libfakernic-rdmav{abi}.so"
    assert (tmp_path / "etc/libibverbs.d/fakernic.driver").exists()
    wanted = read("readelf", "-VW", library)
    assert set(re.findall(r"IBVERBS_PRIVATE_(\d+)", wanted)) == {str(abi)}, wanted


@pytest.mark.parametrize(
    "deb", sorted(PACKAGES.rglob("*.deb")),
    ids=lambda path: str(path.relative_to(PACKAGES)).partition("_")[0])
def test_lintian_says_nothing(deb):
    """lintian prints no error and no warning."""
    done = subprocess.run(["lintian", "--allow-root", deb], text=True, check=False,
                          capture_output=True, timeout=300,
                          stdin=subprocess.DEVNULL)
    assert not re.search("^[EW]: ", done.stdout, re.M), done.stdout
