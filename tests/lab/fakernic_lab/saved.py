# SPDX-License-Identifier: GPL-2.0-or-later
"""snapshot: saves and loads all machines that stay, at one moment.

A load goes back in time with all machines together. So the connections between them
continue: their cards have snapshot-qps=keep. A frame that was sent after the moment of the
save must not arrive after the load, because the PSNs of its connection are used again.
drain() discards such frames.

Each machine has the saved states in the file FILE of its results. It is a disk without
data, which the guest does not see.
"""

import os
import time
from contextlib import ExitStack, contextmanager

from .errors import CommandFailed, GuestCrashed, LabError
from .qmp import QMPError

NODE = "fakernic-saved"         # the disk, as QEMU names it
FILE = "saved.qcow2"
DISK_BYTES = 1 << 20
JOB = "fakernic-lab"
JOB_S = 600
# Each answer of a monitor comes after another turn of QEMU's main loop, in which it reads
# up to 64 KiB from the wire. That many turns empty the largest socket buffer.
TURNS = 100
SETTLE_S = 0.1
DELAYS = ("do=delay", "do=reorder")

# QEMU cannot save a machine with a mounted folder. The list of mounts is a file in the
# guest until the folders are mounted again, so after a load it is the one of the save. A
# launcher that was killed has left its list: these folders are mounted first.
MOUNTS = "/run/fakernic-lab.mounts"
REMOUNT = f"""
set -e
if [ -e {MOUNTS} ]; then
    while read -r tag target kind options rest; do
        target=$(printf %b "$target")
        mountpoint -q "$target" || mount -t 9p -o "$options" "$tag" "$target"
    done <{MOUNTS}
    rm {MOUNTS}
fi
"""
UNMOUNT = f"""{REMOUNT}
grep ' 9p ' /proc/mounts >{MOUNTS} || true
tac {MOUNTS} | while read -r tag target rest; do    # a folder in another one first
    umount "$(printf %b "$target")"
done
"""


def end_job(vm):
    """Waits for the end of the job and removes it. Returns what QEMU says about it; None:
    there is no job. QEMU's monitor does not answer while QEMU saves or loads a machine."""
    deadline = time.monotonic() + JOB_S
    while True:
        vm.assert_alive()
        found = next((job for job in vm.qmp("query-jobs", within=JOB_S)
                      if job["id"] == JOB), None)
        if found is None:
            return None
        if found["status"] == "concluded":
            vm.qmp("job-dismiss", id=JOB)
            return found
        if time.monotonic() > deadline:
            raise LabError(f"{vm.name}: a job of QEMU takes more than {JOB_S} s")
        time.sleep(0.02)


def run_job(vm, command, **arguments):
    """Runs a QMP command that is a job, to its end."""
    end_job(vm)             # of a launcher that was killed
    vm.qmp(command, within=JOB_S, job_id=JOB, **arguments)
    found = end_job(vm) or {}
    if "error" in found:
        raise LabError(f"{vm.name}: {found['error']}")


def names_in(vm):
    """The names of the states that a machine has."""
    for node in vm.qmp("query-named-block-nodes"):
        if node.get("node-name") == NODE:
            return [found["name"] for found in node["image"].get("snapshots", [])]
    return []


def has_node(vm, name):
    return any(node.get("node-name") == name
               for node in vm.qmp("query-named-block-nodes"))


def add_disk(vm):
    """Gives QEMU the disk for its states."""
    if has_node(vm, NODE):
        return
    file = f"{NODE}-file"
    if has_node(vm, file):              # of an attempt that failed
        end_job(vm)
        vm.qmp("blockdev-del", node_name=file)
    with vm.folder.create(FILE) as disk:
        os.fchmod(disk.fileno(), 0o600)     # it will have the guest's memory
    vm.qmp("blockdev-add", driver="file", node_name=file,
           filename=str(vm.directory / FILE))
    run_job(vm, "blockdev-create",
            options={"driver": "qcow2", "file": file, "size": DISK_BYTES})
    vm.qmp("blockdev-add", driver="qcow2", node_name=NODE, file=file)


def resume(vm):
    """Continues a machine, also if the connection to its monitor cannot be used again."""
    try:
        if vm.is_running():
            vm.qmp("cont")
    except OSError:
        vm.close_monitor()
        vm.qmp("cont", within=JOB_S)


@contextmanager
def stopped(vms):
    """Inside the with, no machine runs. If it fails, they continue as they are: each one,
    also if another cannot."""
    with ExitStack() as last:
        for vm in reversed(vms):
            last.callback(resume, vm)
        for vm in vms:
            vm.qmp("stop")
        yield


def save(vms, name):
    """Saves the machines under this NAME, in place of an older state of that name."""
    for vm in vms:
        add_disk(vm)
    with stopped(vms):
        for vm in vms:
            if name in names_in(vm):
                run_job(vm, "snapshot-delete", tag=name, devices=[NODE])
        for vm in vms:
            run_job(vm, "snapshot-save", tag=name, vmstate=NODE, devices=[NODE])


def require_no_delay(relay):
    """Raises LabError if the wire itself may keep frames."""
    for way in relay.ways if relay and relay.pid else ():
        if any(words in relay.rules(way) for words in DELAYS):
            raise LabError("a rule of the wire delays frames, and a late one could "
                           "arrive after the load: 'fakernic-lab fault wire "
                           "remove=all' removes it")


def drain(vms, relay=None):
    """Discards all frames under way. A card whose link is down sends no frame, and drops
    those that arrive."""
    for vm in vms:
        vm.set_link(False)
    before = None
    while True:
        for _ in range(TURNS):
            for vm in vms:
                vm.qmp("query-name")
        now = relay.counts() if relay and relay.pid else None
        if now == before:
            return
        before = now
        time.sleep(SETTLE_S)


def load(vms, name, relay=None):
    """Goes back to the moment of save()."""
    for vm in vms:
        if name not in names_in(vm):
            found = ", ".join(names_in(vm)) or "none"
            raise LabError(f"{vm.name} has no snapshot {name}. Its snapshots: {found}")
    require_no_delay(relay)
    try:
        drain(vms, relay)
        for vm in vms:
            vm.qmp("stop")
        for vm in vms:
            run_job(vm, "snapshot-load", tag=name, vmstate=NODE, devices=[NODE])
    except (LabError, GuestCrashed, QMPError, OSError) as error:
        raise LabError(f"{error}. The states of the machines no longer match: "
                       "'fakernic-lab down' ends them") from error
    for vm in vms:
        vm.set_link(True)
    for vm in vms:
        vm.qmp("cont")


# ---- the command -----------------------------------------------------------------

def require_fit(lab):
    """Raises LabError if these machines cannot go back in time together."""
    if lab.record:
        raise LabError("records of devices cannot go back in time: start the machines "
                       "without --timeline")
    if lab.on_network:
        raise LabError("machines on a network of the host (--netdev) have peers that "
                       "cannot go back in time")
    if lab.captured:
        raise LabError("a capture cannot go back in time: start the machines without "
                       "--pcap")
    if any(node.vm.console.stamped for node in lab.nodes):
        raise LabError("machines of an --image have a disk, which is not saved")
    require_no_tree(lab)


def require_no_tree(lab):
    """Raises LabError if the programs of machines are in a mounted folder."""
    if lab.shell:
        raise LabError("the programs of --root are in a folder of this host, and QEMU saves "
                       "no machine that uses one: start the machines without --root")


def remount(nodes):
    for node in nodes:
        node.guest.check(REMOUNT)


def unmount(nodes):
    """Unmounts the folders in the guests. Raises LabError if programs use one."""
    try:
        for node in nodes:
            node.guest.check(UNMOUNT)
            node.guest.close()
    except CommandFailed as error:
        remount(nodes)
        raise LabError(f"programs of {node.name} use a mounted folder: end them, or "
                       "start them after 'cd /'") from error


def snapshot(options):
    """snapshot: save or load all machines that stay."""
    from .stay import exclusively
    with exclusively() as lab:
        require_fit(lab)
        vms = [node.vm for node in lab.nodes]
        try:
            if options.what == "save":
                unmount(lab.nodes)
                try:
                    save(vms, options.name)
                finally:
                    remount(lab.nodes)
            else:
                for node in lab.nodes:
                    node.guest.close()
                load(vms, options.name, lab.relay)
                remount(lab.nodes)
                for vm in vms:
                    vm.console.forget()
        except QMPError as error:
            raise LabError(str(error)) from error
        finally:
            for vm in vms:
                vm.close_monitor()
    return 0
