# SPDX-License-Identifier: GPL-2.0-or-later
"""Every step of ci/recipes, as it stands there, in a plain Debian 13; lintian."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from plain import BASE, Plain

SRC = Path(__file__).parents[2]
RECIPES = SRC / "ci/recipes"
PACKAGES = Path("/cache/packages")
HELLO = SRC / "tests/lab/example/hello.c"
CHECKOUT = "/builds/mine"


@pytest.fixture
def plain():
    """A Debian with a user's checkout, and in it the packages."""
    made = Plain(BASE.with_name("run"))
    made.put(HELLO, f"{CHECKOUT}/hello.c")
    packages = made.root / CHECKOUT.lstrip("/") / "fakernic-packages"
    packages.mkdir()
    for deb in PACKAGES.glob("*.deb"):
        os.link(deb, packages / deb.name)
    yield made
    made.remove()


def instructions():
    """[(word, rest)] of the Containerfile, continued lines joined."""
    text = (RECIPES / "Containerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line]


def test_containerfile(plain):
    """FROM, RUN with the context bound, WORKDIR and ENTRYPOINT, by hand."""
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
    told = (RECIPES / "Containerfile").read_text(encoding="utf-8")
    assert "-v .:/work fakernic run -- " in told
    done = plain.run(*entry, "run", "-n", "1", "--", "ibv_devinfo",
                     folder=rest["WORKDIR"])
    assert done.returncode == 0 and "PORT_ACTIVE" in done.stdout, done


@pytest.mark.parametrize("deb", sorted(PACKAGES.glob("*.deb")),
                         ids=lambda path: path.name.partition("_")[0])
def test_lintian_says_nothing(deb):
    """Of errors and warnings."""
    done = subprocess.run(["lintian", "--allow-root", deb], text=True, check=False,
                          capture_output=True, timeout=300,
                          stdin=subprocess.DEVNULL)
    assert not re.search("^[EW]: ", done.stdout, re.M), done.stdout
