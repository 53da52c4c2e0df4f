# SPDX-License-Identifier: GPL-2.0-or-later
"""Two users of RDMA during an event at one of two ports: a program there, and
the kernel's NVMe over Fabrics between both, whose data is compared.

What happens to the disk is Linux's design: a host retries while its target is
away, and removes its controllers when its own RDMA device is removed.
"""

import itertools
import time

from fakernic_lab.guest import Result
from . import rdma, ulp

TARGET, HOST = 0, 1
LIMIT_S = 200           # time limit of the writer and of the program
# How long a target may keep objects of a host that was lost.
FORGETS_S = 60


class Detached:
    """A job that its guest's agent does not know. The agent ends its jobs when
    its port is closed, as happens over S3."""

    serial = itertools.count(1)

    def __init__(self, guest, script, timeout):
        self.guest, self.script = guest, script
        self.timeout = timeout * guest.vm.patience
        self.file = f"/tmp/detached{next(self.serial)}"
        guest.write(self.file, script)
        guest.write(f"{self.file}.sh", f"""
            echo $$ >{self.file}.pid
            timeout --foreground {self.timeout} bash {self.file} >{self.file}.out 2>&1
            echo $? >{self.file}.new
            mv {self.file}.new {self.file}.code
            """)
        self.pid = guest.check(f"""
            setsid -f sh {self.file}.sh </dev/null >/dev/null 2>&1
            until [ -s {self.file}.pid ]; do sleep 0.05; done
            cat {self.file}.pid""").strip()

    def poll(self):
        """Returns its Result once it has ended."""
        code = self.guest.run(f"cat {self.file}.code 2>/dev/null").out.strip()
        return Result(self.script, int(code), self.guest.check(
            f"cat {self.file}.out"), "") if code else None

    def wait(self):
        deadline = time.monotonic() + self.timeout + 20
        while not (result := self.poll()):
            assert time.monotonic() < deadline, f"no end of {self.script}"
            time.sleep(0.2)
        return result

    def end(self):
        """Ends it and its children."""
        self.guest.check(f"kill -- -{self.pid}")


class Traffic:
    """Both users at work; AFFECTED is the number of the port with the program.
    end() checks that nothing is left."""

    def __init__(self, lab, affected):
        self.ports = lab.ports
        self.affected = affected
        self.before = ulp.counts(self.ports)
        self.disk = ulp.Nvme(self.ports)
        self.disk.start()
        self.start_writing()
        self.program = None

    @property
    def port(self):
        return self.ports[self.affected]

    @property
    def peer(self):
        return self.ports[1 - self.affected]

    # ---- the program ---------------------------------------------------------

    def start_program(self, once=""):
        """Starts a program that writes to itself until the device is removed.
        ONCE, as rdma_unplug has it: the device does not come back."""
        self.program = Detached(
            self.port.guest, "RDMAV_ALLOW_DISASSOC_DESTROY=1 exec rdma_unplug "
            f"{once}", LIMIT_S)
        self.port.guest.check(
            f"for i in $(seq 300); do grep -q running {self.program.file}.out && "
            "exit; sleep 0.1; done; exit 1")

    def program_was_notified(self):
        result = self.program.wait()
        assert result.ok and result.out.split() == ["running", "done"], result

    def end_program(self):
        """Ends a program that has got no event and is at work."""
        assert self.program.poll() is None, self.program.poll()
        self.program.end()

    # ---- the disk ------------------------------------------------------------

    def start_writing(self):
        self.writing = ulp.Writing(self.disk, LIMIT_S, count=1,
                                   start=lambda script, timeout: Detached(
                                       self.ports[HOST].guest, script, timeout))

    def goes_on(self):
        """Checks that reads return what was written before, during and after
        the event."""
        self.writing.goes_on()
        self.writing.stop()

    def was_lost(self):
        """Checks that its writer got an error and its node is removed."""
        result = self.writing.job.wait()
        assert not result.ok and not result.timed_out, result
        self.disk.on_host("again test ! -e /dev/nvme0")

    def recovers(self):
        """After a removal of the target's RDMA device the host continues once
        the target listens again. After one of its own device the host has to
        connect again."""
        if self.affected == TARGET:
            self.disk.serve_again()
            self.goes_on()
        else:
            self.was_lost()
            self.disk.connect_again()
        self.disk.move(1)

    def end(self):
        self.disk.stop()
        self.nothing_left()

    def nothing_left(self):
        deadline = time.monotonic() + FORGETS_S
        while (now := ulp.counts(self.ports)) != self.before:
            assert time.monotonic() < deadline, (now, self.before)
            time.sleep(0.5)


def across(server, client, seconds):
    """Returns jobs of a pair that writes for that long from one port to the
    other."""
    words = f"-F -D {seconds} -s 4096"
    jobs = [Detached(
        server.guest, f"exec ib_write_bw -d {server.ibdev} -x {server.gid_index()} "
        f"{words}", seconds + 60)]
    server.guest.check(f"for i in $(seq 300); do "
                       f"{rdma.LISTENS_TCP.format(port=18515)} && exit; "
                       "sleep 0.1; done; exit 1")
    jobs.append(Detached(
        client.guest, f"exec ib_write_bw -d {client.ibdev} -x {client.gid_index()} "
        f"{words} {server.ip4}", seconds + 60))
    return jobs
