# SPDX-License-Identifier: GPL-2.0-or-later
"""Machines of another architecture than the host's."""

import pytest

from command import fakernic_lab
from fakernic_lab.arches import FOREIGN, HOST

# Runs "PORT PROGRAM..." of both machines: the server in node1, and once it listens
# the client.
SCRIPT = """
set -e
pair() {
    port=$1
    shift
    if [ $FAKERNIC_NODE = node1 ]; then
        "$@" & job=$!
        until ss -Hltn "sport = :$port" | grep -q .; do
            kill -0 $job
            sleep 0.05
        done
        fakernic-wait "$port"
        wait $job
    else
        fakernic-wait "$port"
        "$@" $FAKERNIC_PEER_IP
    fi
    echo "passed: $*"
}
echo "machine: $(uname -m)"
"""
PAIRS = ("18601 rdma_verify -n 12", "18601 rdma_verify -t uc -n 6",
         "18601 rdma_verify -t ud -n 6", "18601 rdma_verify -t srq -n 6",
         "18602 rdma_atomics -n 200", "18515 ib_write_bw -F -n 20 -s 65536")


@pytest.mark.parametrize("arch", FOREIGN, ids=lambda arch: arch.name)
def test_every_byte_crosses_between_architectures(tmp_path, arch):
    """A machine of the host's architecture and one of another start from snapshots. They
    run programs of every kind of message, which compare every byte, and atomics."""
    pairs = "".join(f"pair {words}\n" for words in PAIRS)
    result = fakernic_lab(tmp_path, "run", "-v", "--arch", f"{HOST.name},{arch.name}",
                          "--timeout", "200", "--", SCRIPT + pairs)
    assert result.returncode == 0 and "the machines boot" not in result.stderr, result
    for node, which in (("node1", HOST), ("node2", arch)):
        machine = which.triplet.partition("-")[0]
        assert f"{node}: machine: {machine}\n" in result.stdout, result
        for words in PAIRS:
            program = words.partition(" ")[2]
            assert f"{node}: passed: {program}\n" in result.stdout, result
