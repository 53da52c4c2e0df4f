# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests of a newer rdma-core, 65.0, with the same provider built into it.

It is on a disk of its own, in addition to Debian's release in the guest.
pyverbs_65.txt has the expected result of each test with Linux 6.12.
"""

import pytest

from fakernic_lab import images
from fakernic_test import lab, pyverbs, rdma

IMAGE = images.images() / "rdma-core-65.erofs"
PREFIX = "/opt/rdma-core-65"
SUITE = pyverbs.Suite("65", f"{PREFIX}/tests",
                      f"LD_LIBRARY_PATH={PREFIX}/lib PYTHONPATH={PREFIX}/python")


@pytest.fixture(autouse=True)
def image():
    assert IMAGE.exists(), (
        f"{IMAGE.name} is not there: ci/enter.sh ci/build.py rdma-core-65")


@pytest.mark.long
@pytest.mark.timeout(pyverbs.LIMIT_S + 120)
@pytest.mark.guests(count=1, options={"memory": 1536,
                                      "extra": tuple(images.disk(IMAGE))})
def test_rdma_core_65_tests(vms):
    (vm,) = vms
    lab.mount(vm.guest, IMAGE, PREFIX)
    port = rdma.bring_up(vm, 1, "fakernic")
    used = vm.guest.check(f"{SUITE.environment} python3 -c 'import pyverbs.device;"
                          "print(open(\"/proc/self/maps\").read())'")
    assert f"{PREFIX}/lib/libibverbs.so" in used, used
    SUITE.check(*SUITE.run(port))
