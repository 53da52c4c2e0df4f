# SPDX-License-Identifier: GPL-2.0-or-later
"""The limits that ibv_query_device_ex() reports are the real ones.

As many objects as reported can be created, and not one more. Queues can be as
large as reported, and not larger. Small limits are set by properties of the
device: max-qp includes the numbers 0 and 1, max-mr the number 0. The Ethernet
port uses a QP, and it and the kernel's MADs each use a CQ, a PD and a key.
"""

import errno

import pytest

from fakernic_test import rdma

SMALL = {"max_qp": 128, "max_cq": 48, "max_srq": 16, "max_pd": 24, "max_mr": 64,
         "dm_size": 65536}
# The limits with these properties; None: those that do not depend on them.
COUNTS = {
    "max_qp": 125, "max_raw_qp": 125, "max_wq": 125, "max_cq": 46, "max_srq": 16,
    "max_pd": 22, "max_mr": 61, "max_mw": 61, "max_tables": None,
    "max_mcast_grp": None, "max_mcast_qp_attach": None, "max_dm_size": 65536,
}
SIZES = {
    "max_cqe", "max_cqe_resized", "max_qp_wr_send", "max_qp_wr_recv",
    "max_sge_send", "max_sge_recv", "max_srq_wr", "max_srq_sge",
    "max_qp_rd_atom", "max_qp_init_rd_atom", "max_table_size",
}


@pytest.mark.guests(count=1, **SMALL)
def test_reported_limits_are_reached(ports):
    """As many objects of each kind as reported can be created, and not one
    more."""
    (port,) = ports
    before = rdma.resources(port)
    lines = port.guest.check("rdma_limits", 100).splitlines()
    rows = {name: tuple(map(int, numbers)) for name, *numbers in
            map(str.split, lines)}
    assert set(rows) == {*COUNTS, *SIZES, "max_pkeys"}
    for name, (reported, reached, error) in rows.items():
        assert reported == reached > 0, (name, rows[name])
        assert COUNTS.get(name) in (None, reported), (name, rows[name])
        assert error == (errno.ENOMEM if name in COUNTS else errno.ENOENT
                         if name == "max_pkeys" else errno.EINVAL), name
    # More than libfabric needs, and as many as mlx5 has.
    assert rows["max_cqe"][0] >= 1 << 22
    rdma.wait_for_resources(port, before)
    rdma.pingpong("rc", port, port, "-n 50").check()


def test_queue_depths_match_limits(ports):
    """SQ, RQ and SRQ accept as many work requests as reported and not one
    more, and each completes."""
    rdma.judged(ports[0], "rdma_queue_depth", 9)
