# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests of a newer rdma-core with the same provider in it.

This release is on a disk of its own, next to Debian's release in the guest.
pyverbs_new.txt lists the expected result of each test with the main kernel.
"""

import pytest

from fakernic_lab import images
from fakernic_test import lab, pyverbs, rdma

IMAGE = images.images() / "rdma-core-new.erofs"
PREFIX = "/opt/rdma-core-new"
SUITE = pyverbs.Suite("new", f"{PREFIX}/tests",
                      f"LD_LIBRARY_PATH={PREFIX}/lib PYTHONPATH={PREFIX}/python")


@pytest.fixture(autouse=True)
def image():
    assert IMAGE.exists(), (
        f"{IMAGE.name} is not there: ci/enter.sh ci/build.py rdma-core-new")


@pytest.mark.long
@pytest.mark.timeout(pyverbs.LIMIT_S + 120)
@pytest.mark.guests(count=1, options={"memory": 1536,
                                      "extra": tuple(images.disk(IMAGE))})
def test_tests_of_newer_rdma_core(vms):
    (vm,) = vms
    lab.mount(vm.guest, IMAGE, PREFIX)
    port = rdma.bring_up(vm, 1, "fakernic")
    used = vm.guest.check(f"{SUITE.environment} python3 -c 'import pyverbs.device;"
                          "print(open(\"/proc/self/maps\").read())'")
    assert f"{PREFIX}/lib/libibverbs.so" in used, used
    SUITE.check(*SUITE.run(port))
