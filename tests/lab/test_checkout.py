# SPDX-License-Identifier: GPL-2.0-or-later
"""The launcher of a checkout, run as users run it: outside the Debian tree, on a system
that has neither QEMU nor the libraries of QEMU. The tests run on a system that has
both, so they check which libraries QEMU has mapped.
"""

import re
import subprocess
import time
from pathlib import Path

import pytest

from command import fakernic_lab
from fakernic_lab import places

START_S = 60


@pytest.fixture(name="step", params=("qemu", "qemu-plugin"))
def step_that_made_a_qemu(request):
    return request.param


@pytest.fixture(name="cache")
def cache_of_that_step(step, tmp_path):
    """A cache in which only this step has built a QEMU."""
    cache = tmp_path / "cache"
    (cache / "build").mkdir(parents=True)
    for name in (f"build/{step}", "build/lab", "images",
                 places.debian_root().name):
        (cache / name).symlink_to(places.cache() / name)
    return cache


@pytest.fixture(name="qemu")
def qemu_outside(cache, monkeypatch):
    """The command that starts QEMU outside the tree."""
    monkeypatch.setattr(places, "INSIDE", False)
    monkeypatch.setenv("FAKERNIC_CACHE", str(cache))
    monkeypatch.delenv("FAKERNIC_QEMU", raising=False)
    return places.qemu_command()


def mapped(command, monitor):
    """The libraries that a QEMU has mapped after it has created its devices."""
    words = ["-machine", "q35", "-nodefaults", "-S", "-display", "none",
             "-netdev", "hubport,hubid=0,id=n0", "-device", "fakernic,netdev=n0",
             "-qmp", f"unix:{monitor},server=on,wait=off"]
    with subprocess.Popen([*command, *words], stdin=subprocess.DEVNULL) as qemu:
        try:
            deadline = time.monotonic() + START_S
            while not monitor.exists():
                assert qemu.poll() is None and time.monotonic() < deadline
                time.sleep(0.05)
            maps = Path(f"/proc/{qemu.pid}/maps").read_text("utf-8")
        finally:
            qemu.kill()
    return set(map(Path, re.findall(r" (/\S+\.so\S*)$", maps, re.M)))


def test_a_qemu_and_its_libraries(step, cache, qemu, tmp_path):
    """QEMU has the device, and maps libraries of the tree only."""
    places.require_device(qemu)
    tree = places.debian_root().resolve()
    own = (cache / "build" / step).resolve()
    libraries = mapped(qemu, tmp_path / "qmp")
    assert len(libraries) > 10
    assert not [path for path in libraries
                if not path.is_relative_to(tree) and
                not path.is_relative_to(own)], libraries
    if step == "qemu-plugin":
        assert own / "fakernic-qemu.so" in libraries


def test_a_run(cache, tmp_path):
    """A machine with an RDMA device."""
    done = fakernic_lab(tmp_path, "run", "-n", "1", "--", "ibv_devinfo",
                        FAKERNIC_ROOT="0", FAKERNIC_CACHE=str(cache),
                        FAKERNIC_QEMU="")
    assert done.returncode == 0, done
    assert "node1: hca_id:\tfakernic0" in done.stdout, done
    assert "PORT_ACTIVE" in done.stdout, done
