# SPDX-License-Identifier: GPL-2.0-or-later
"""Many short client/server pairs between two guests, in one run.

guest/pairs_runner.py runs them in the guests and describes the protocol.
rdma.run_pair() runs single pairs.
"""

import json

from fakernic_lab.guest import Result

from . import rdma

RUNNER = "/usr/share/fakernic/pairs_runner.py"
CONTROL_PORT = 18000
TIMED_OUT = 124


class Job:
    """A pair: name, the two command lines, and how the server listens."""

    def __init__(self, name, server, client, listen=18515):
        self.name = name
        self.server = server
        self.client = client
        self.listen = listen


def results(output, commands):
    """Returns a map from name to Result, from the output of a runner."""
    found = {}
    for line in output.splitlines():
        row = json.loads(line)
        code = TIMED_OUT if row["code"] is None else row["code"]
        found[row["name"]] = Result(commands[row["name"]], code, row["output"],
                                    "")
    return found


def run(server, client, jobs, timeout=240):
    """Returns a map from job name to rdma.Pair; a side that did not start has
    code 255."""
    sides = []
    patience = server.guest.vm.patience
    for port, side in ((server, "server"), (client, "client")):
        lines = [json.dumps([job.name, getattr(job, side), job.listen])
                 for job in jobs]
        port.guest.write(f"/tmp/{side}.jobs", "\n".join(lines) + "\n")
        sides.append(f"exec python3 {RUNNER} {side} {server.ip4} "
                     f"{CONTROL_PORT} {patience} </tmp/{side}.jobs")
    job = server.guest.start(sides[0], timeout)
    answer = client.guest.run(sides[1], timeout)
    served = job.wait()
    if not (served.ok and answer.ok):
        raise AssertionError(f"the runners failed\n{served}\n{answer}")
    outputs = [results(result.out, {job.name: getattr(job, side)
                                    for job in jobs})
               for result, side in ((served, "server"), (answer, "client"))]
    return {job.name: rdma.Pair(*(
        found.get(job.name, Result("not started", 255, "", ""))
        for found in outputs)) for job in jobs}
