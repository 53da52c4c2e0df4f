# SPDX-License-Identifier: GPL-2.0-or-later
"""The packages themselves: what lintian says, and that each provider is for one
libibverbs and refuses the others.
"""

import re
import subprocess
from pathlib import Path

import pytest

PACKAGES = Path("/cache/packages")

# Folder: release of rdma-core, its private ABI, and the releases between which
# libibverbs' structures are the same: from this one on, before that one.
PROVIDERS = {".": ("56.1", 34, 45, 57), "bookworm": ("44.0", 34, 44, 45),
             "forky": ("65.0", 65, 65, 66)}
# Debian 12's glibc; the others are not older than what they are built with.
GLIBC = {"bookworm": (2, 36)}


def read(*command):
    return subprocess.run([str(word) for word in command], text=True, check=True,
                          capture_output=True, timeout=300,
                          stdin=subprocess.DEVNULL).stdout


@pytest.fixture(name="provider", params=PROVIDERS)
def provider_of_a_release(request):
    """The one package of a folder, and what it should be; of forky only while
    the mirror has its source."""
    (deb,) = (PACKAGES / request.param).glob("fakernic-provider_*.deb")
    return request.param, deb, *PROVIDERS[request.param]


def test_provider_says_what_it_is_for(provider):
    """By its file name, and to apt."""
    folder, deb, release, _, first, end = provider
    assert f"+rdma{release}_amd64.deb" in deb.name
    depends = read("dpkg-deb", "-f", deb, "Depends").strip().split(", ")
    assert [words for words in depends if words.startswith("libibverbs1")] == [
        f"libibverbs1 (>= {first}~)", f"libibverbs1 (<< {end}~)"], depends
    (libc,) = re.findall(r"libc6 \(>= ([\d.]+)\)", ", ".join(depends))
    if folder in GLIBC:
        assert tuple(map(int, libc.split("."))) <= GLIBC[folder], libc


def test_provider_is_of_that_private_abi(provider, tmp_path):
    """By its file's name, which libibverbs looks for, and in its symbols."""
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
    """Of errors and warnings."""
    done = subprocess.run(["lintian", "--allow-root", deb], text=True, check=False,
                          capture_output=True, timeout=300,
                          stdin=subprocess.DEVNULL)
    assert not re.search("^[EW]: ", done.stdout, re.M), done.stdout
