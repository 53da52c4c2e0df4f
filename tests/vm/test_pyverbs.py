# SPDX-License-Identifier: GPL-2.0-or-later
"""rdma-core's own tests, as they come, against the device in loopback.

Most of its tests are for other devices or for what fakernic does not offer
yet, and skip themselves inside that run; what runs must pass.
"""

import re

import pytest

LEAST_PASSED = 85


@pytest.mark.guests(count=1, options={"memory": 1536})
def test_rdma_core_tests(ports):
    (port,) = ports
    port.guest.check("mkdir -p /tmp/verbs; "
                     "cp -r /usr/share/rdma-core-tests /tmp/verbs/tests")
    result = port.guest.run(
        "cd /tmp/verbs/tests; python3 run_tests.py -v "
        f"--dev {port.ibdev} --gid {port.gid_index()} 2>&1", 240)
    bad = re.findall(r"^(.*) \.\.\. (?:FAIL|ERROR)$", result.out, re.M)
    passed = len(re.findall(r"\.\.\. ok$", result.out, re.M))
    assert result.ok and not bad, f"{bad}\n{result.out[-6000:]}"
    assert passed >= LEAST_PASSED, f"only {passed} ran\n{result.out[-3000:]}"
