# SPDX-License-Identifier: GPL-2.0-or-later
"""A lab: machines on one wire, each with an RDMA device that is up.

They are named node1, node2, … and can resolve these names. They see the folders of the
host that MOUNTS names. The results of each machine go into a folder of its own.
"""

import fcntl
import os
import re
import shlex
import shutil
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path

from . import captures, meeting, places, rdma, recordings, snapshots, ssh, tree
from .arches import HOST
from .cards import WIRES, Cards
from .errors import CommandFailed, GuestCrashed, GuestTimeout, LabError
from .faults import set_fault, text_of
from .images import ProjectImage
from .machine import Machine, Mount, Nic
from .net import LINK, mac, wires
from .outputs import require_apart
from .places import escaped
from .qmp import QMPError
from .recordings import RECORD
from .snapshots import Unusable
from .timeline import files
from .waiting import Waiting

NODES_MAX = 32
PROCESSORS = os.cpu_count() or 1
# From the load of a snapshot to the agent's answer, if a processor is free.
WAKES_S = 30
TIMELINE = "timeline"           # the folder of the timeline's files
OUT = "fakernic-lab.out"
OUT_UP = "fakernic-lab.up"      # the same for machines that stay
MARK = ".fakernic-lab"
IN_USE_S = 5
WORK = "/work"
# How a shell reports a missing program, and the Debian packages an image needs.
NOT_FOUND = re.compile(r"(\w+): command not found")
NEEDED = ("it needs Debian's kmod, iproute2, iputils-ping, rdma-core and "
          "hostname, or what has their programs")

UNSIGNED = ("the image's kernel loads no module whose signer it does not know "
            "(Secure Boot, or module.sig_enforce=1): 'mokutil --import "
            "/var/lib/dkms/mok.pub' in it, once, or boot it without these")

# File of the results -> the command whose output it gets, at the end of a machine.
LEFT_BEHIND = {
    "dmesg": "dmesg",
    "rdma-resource": "for kind in pd cq qp mr cm_id ctx srq; do "
                     "rdma resource show $kind 2>/dev/null; done; "
                     "rdma resource show",
    "rdma-statistic": "cd /sys/class/infiniband && "
                      "grep -H . */ports/1/hw_counters/*",
    "ethtool": "for net in /sys/class/net/*; do [ -e $net/device ] && "
               "ethtool -S ${net##*/}; done",
}

# Sets the name of a machine and writes a line of /etc/hosts for each machine. Loads the
# module that infiniband-diags needs. Installs fakernic-wait.
INTRODUCE = """
set -e
[ "$HOSTNAME" = {name} ] || hostname {name}
[[ ! -e /etc/hosts || $(</etc/hosts) != *fakernic-lab* ]] || sed -i /fakernic-lab/d /etc/hosts
while read line; do
    echo "$line # fakernic-lab"
done >>/etc/hosts <<'EOF'
{names}EOF
[ -d /sys/module/ib_umad ] || modprobe -q ib_umad || true
{{ [ -d /usr/local/bin ] || mkdir -p /usr/local/bin; }} && IFS= read -r -d '' script <<'EOF' || true
{script}EOF
{{ printf %s "$script" >{tool} && chmod 755 {tool}; }} || true
"""

DRIVER_SAYS = "dmesg | grep -E 'fakernic [0-9a-f]{4}:[0-9a-f:.]+: '"
QUOTED_MAX = 300                # characters of a guest's line in a message
# Ends with 0 if libibverbs can find the provider: that of Debian, or one built in the image.
HAS_PROVIDER = """
for folder in /etc /usr/local/etc; do
    [ -e $folder/libibverbs.d/fakernic.driver ] && exit
done
exit 1
"""
LACKS_PROVIDER = ("the image has no provider of fakernic for libibverbs: its "
                  "programs see no RDMA device. Put fakernic-provider_*.deb "
                  "into it and run 'apt install ./*.deb' there")
LACKS_9P = ("the kernel {} has no 9p, as Debian's cloud kernels: install "
            f"linux-image-{HOST.debian} in the image, or boot another by --kernel")
NO_9P = 19                      # ENODEV
MOUNT = """
[ -d /sys/module/9p ] || modprobe -qa 9pnet_virtio 9p
[[ $(</proc/filesystems) == *9p* ]] || exit {no_9p}
[ -d {target} ] || mkdir -p {target} && mount -t 9p -o {how},{options} {tag} {target}
"""


def occupy(mark, folder):
    """Locks a folder through its open mark. Machines keep the mark open, so they hold the
    lock too. A QEMU that was just killed may hold it for a moment."""
    deadline = time.monotonic() + IN_USE_S
    while True:
        try:
            return fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise LabError(f"{folder} is in use by machines that are up: "
                               "choose another --out") from error
        time.sleep(0.05)


def empty(folder):
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            for record in path.glob(f"{RECORD}*"):
                recordings.forget(record)
            shutil.rmtree(path)
        elif path.name != MARK:
            path.unlink()


def open_mark(path, _flags):
    """An opener that does not follow a symbolic link at PATH."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK |
                   os.O_CLOEXEC, 0o666)


def prepare_out(folder):
    """Empties the folder for the results. Returns it and its open mark; the folder is in
    use until the mark is closed. Refuses a folder with other files."""
    folder = Path(folder)
    try:
        if folder.exists() and any(folder.iterdir()) and (
                not (folder / MARK).exists()):
            raise LabError(f"{folder} holds other things: choose another --out")
        folder.mkdir(parents=True, exist_ok=True)
        mark = open(folder / MARK, "rb", opener=open_mark)
        occupy(mark, folder)
        empty(folder)
    except OSError as error:
        raise LabError(f"{folder}: {error.strerror}: choose another --out") from error
    return folder.resolve(), mark


def leave_out(folder, mark):
    """Stops using the folder for the results. Removes it if there are none."""
    mark.close()
    with suppress(OSError):
        if os.listdir(folder) == [MARK]:
            (folder / MARK).unlink()
            folder.rmdir()


def find_qemus(images, wanted):
    """For each architecture of these images, the command of a QEMU that has the device.
    Raises LabError if one is missing. WANTED is a QEMU that the user chose."""
    arches = {image.arch: None for image in images}
    if wanted and len(arches) > 1:
        raise LabError("--qemu is one program, but --arch names several "
                       "architectures: leave one of them out")
    for image in dict.fromkeys(images):
        image.check()
    for arch in arches:
        arches[arch] = places.qemu_command(wanted, arch)
        places.require_device(arches[arch])
    return arches


def side_by_side(work, *each, at_once=PROCESSORS):
    """Calls WORK for each in parallel, by default as many as there are processors. If one
    call fails, does not wait for the others: they end with their machines."""
    pool = ThreadPoolExecutor(at_once)
    try:
        for one in as_completed([pool.submit(work, *arguments)
                                 for arguments in zip(*each)]):
            one.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def ask_what_is_left(node):
    """Writes the result files of a machine that still answers."""
    for name, script in LEFT_BEHIND.items():
        try:
            text = node.guest.run(script, 20).out
        except Exception:     # pylint: disable=broad-except
            break             # a lost machine leaves its console only
        node.vm.folder.write(name, text)


def last_words(error):
    """The last output of a failed command and its exit code, in one line."""
    return " ".join(line[:QUOTED_MAX] for line in str(error).splitlines()[-2:])


def why_not_bound(node):
    """The last kernel messages of the driver about its device, in one line."""
    lines = [line.partition("fakernic ")[2][:QUOTED_MAX] for line in
             node.guest.run(DRIVER_SAYS).out.splitlines()]
    return "; ".join(lines[-2:]) or (
        f"the driver has logged no reason, see {node.vm.directory}/console")


class Node:
    """A machine of a lab. Once it is set up its RDMA device is up: see Guest and Port."""

    def __init__(self, lab, machine):
        self.lab = lab
        self.vm = machine
        self.name = machine.name
        self.guest = machine.guest
        self.port = None
        self.work = None
        self.without_9p = None      # the release of a kernel that lacks it
        self.without_provider = False

    @property
    def ip(self):
        return self.port.ip4

    def environment(self):
        """The variables of a command."""
        peers = [node for node in self.lab.nodes if node is not self]
        found = {
            "FAKERNIC_NODE": self.name,
            "FAKERNIC_NODES": " ".join(node.name for node in self.lab.nodes),
            "FAKERNIC_IP": self.port.ip4,
            "FAKERNIC_IBDEV": self.port.ibdev,
            "FAKERNIC_NETDEV": self.port.netdev,
        }
        if 6 in self.port.families:
            found["FAKERNIC_IP6"] = self.port.ip6
        if peers:
            found["FAKERNIC_PEER"] = peers[0].name
            found["FAKERNIC_PEER_IP"] = peers[0].port.ip4
            found["FAKERNIC_PEERS"] = " ".join(peer.name for peer in peers)
        if self.lab.meeting:
            found[meeting.VARIABLE] = self.lab.meeting.folder
        if self.lab.shell:
            found["PATH"] = tree.PATH
        return {**found, **ssh.MPI, **self.lab.environment}

    def script(self, command):
        """A shell script that runs a command, a string or a list of words, in the
        environment and the folder of this machine."""
        if not isinstance(command, str):
            command = shlex.join(map(str, command))
        exports = [self.port.gid_variables()] if self.port else []
        exports += [f"export {name}={shlex.quote(value)}\n"
                   for name, value in self.environment().items()]
        if self.work:
            command = f"cd {self.work} || exit 126\n{command}"
        if self.lab.shell:
            command = tree.enter(self.lab.shell, command)
        return "".join(exports) + command

    def start(self, command, timeout=60, **options):
        """Start a command and return its Job."""
        return self.guest.start(self.script(command), timeout, **options)

    def run(self, command, timeout=60):
        """Run a command to its end and return its Result, whatever the exit code."""
        return self.start(command, timeout).wait()

    def check(self, command, timeout=60):
        """Run a command that must succeed and return its standard output."""
        return self.run(command, timeout).check().out

    def faults(self, rules=""):
        """Adds fault rules to the device. Returns all its rules, one a line."""
        if rules:
            set_fault(self.vm, rules)
        return text_of(self.vm)


class Lab:
    """Machines on one wire. As a context manager it starts and stops them.

    IMAGE: what the machines boot, or a list with one image for each.
    MOUNTS: Mount objects.
    ENVIRONMENT: variables of all commands.
    WIRE_RULES: fault rules for every end of the wire (relay.py), set when all are up.
    PCAP: a file that gets all frames.
    WIRE: "link" joins the machines by shared memory. The rules are then set in their
    cards, and PCAP is merged at the end from the captures of all machines.
    NETDEV: a -netdev of QEMU, in which {n} is a machine's number. It joins the machines
    to a network of the host. Machines of another host can be on it if their numbers
    differ; FIRST is the number of the first machine here.
    STAYS: the machines outlive this process.
    FAULTS: pairs of a machine's name, or None for all, and a rule for its device
    (qemu-hw/FAULTS.md).
    RECORD: each device writes the file "record", for make_timeline().
    SAY: a function that gets a line now and then while the machines boot.
    ROOT: a distribution's tree, in which all commands run (tree.py).
    VFS: virtual functions that each card has, for the guest to enable.
    BOOT: the machines boot, also if they could start from a snapshot (snapshots.py).
    EXPLAIN: a function that gets the reason why machines boot without BOOT.
    """

    tree = shell = None         # of --root: the tree, the shell that runs commands
    snapshots = {}              # what the machines of each architecture start from

    def __init__(self, count=2, image=None, out=OUT, mounts=(), memory=None,
                 cpus=1, cpu_nice=0, mtu=None, wire_rules=(), pcap=None, environment=None,
                 qemu=None, extra=(), sockets=None, stays=False, wire=None,
                 netdev=None, first=1, faults=(), record=False, say=None,
                 root=None, vfs=0, boot=False, explain=None):
        if not 1 <= first <= first + count - 1 <= NODES_MAX:
            raise LabError(f"machines {first} to {first + count - 1}: between "
                           f"1 and {NODES_MAX}")
        if netdev and (wire_rules or pcap):
            raise LabError("--netdev excludes fault options and --pcap: use 'tc "
                           "qdisc add dev TAP root netem loss 1%' and 'tcpdump -i "
                           "TAP' on the host")
        self.numbers = range(first, first + count)
        self.names = [f"node{number}" for number in self.numbers]
        for name, rule in faults:
            if name not in (None, *self.names):
                raise LabError(f"fault rule '{name}: {rule}': there is no "
                               f"{name}, only {', '.join(self.names)}")
        self.images = image if isinstance(image, list) else (
            [image or ProjectImage()] * count)
        self.image = self.images[0]
        self.qemus = find_qemus(self.images, qemu)
        if root:
            self.tree = tree.Tree(root, *{image.arch.name for image in self.images})
            self.shell = self.tree.shell
        self.mounts = [*mounts, *(self.tree.mounts() if self.tree else ())]
        self.wire = wire or os.environ.get("FAKERNIC_WIRE")
        self.require_apart(out, sockets, stays and pcap)
        self.out, self.mark = prepare_out(out)
        try:
            self.pcap_file = places.opened(pcap)
        except LabError:
            leave_out(self.out, self.mark)
            raise
        self.options = {"memory": memory, "cpus": cpus, "cpu_nice": cpu_nice,
                        "extra": extra, "stays": stays}
        self.boots = boot
        self.explain = explain or (lambda _: None)
        self.mtu = mtu
        self.vfs = vfs
        self.faults = list(faults)
        self.record = record
        self.say = say
        self.wire_rules = list(wire_rules)
        self.pcap = pcap and os.path.abspath(pcap)
        self.captured = None        # path of the merged capture, with shared memory
        self.netdev = netdev
        self.environment = environment or {}
        self.sockets = Path(sockets or places.socket_folder())
        self.relay = self.meeting = None
        self.nodes = []
        self.spoilt = False

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def __getattr__(self, name):
        for node in self.__dict__.get("nodes", ()):
            if node.name == name:
                return node
        raise AttributeError(name)

    def require_apart(self, out, sockets, pcap):
        """Raises a LabError if a machine could write where the launcher writes while the
        machines run or, for machines that stay, when they end."""
        others = {sockets or places.temporary():
                  "set FAKERNIC_LAB_STATE to a folder outside of it" if sockets
                  else "set TMPDIR to a folder outside of it"}
        if pcap and self.wire == "link":
            others[os.path.dirname(os.path.abspath(pcap))] = "choose another --pcap"
        require_apart(self.mounts, out, others)

    # ---- life --------------------------------------------------------------

    def start(self):
        """Starts all machines, brings their devices up and connects them."""
        self.launch()
        self.await_boot()

    def await_boot(self):
        """The second part of start(), after launch()."""
        # As many machines boot at a time as there are processors.
        share = max(1, len(self.nodes) / PROCESSORS)
        up = []

        def so_far():
            return f"{len(up)} of {len(self.nodes)} machines have started"
        with Waiting(so_far, self.say):
            with self.booting_instead():
                if self.snapshots:
                    self.wake()
            since = time.monotonic()
            for node in self.nodes:
                node.vm.wait_booted(self.image.boot_timeout_s * share, since)
                up.append(node)
            self.set_up()

    def launch(self):
        """Starts the machines: from a snapshot, or they begin to boot."""
        self.snapshots = self.find_snapshots()
        with self.booting_instead():
            self.launch_machines()

    @contextmanager
    def booting_instead(self):
        """If a snapshot fails inside the with, starts other machines, which boot."""
        try:
            yield
        except (GuestCrashed, GuestTimeout, CommandFailed, QMPError, Unusable) as error:
            if not self.snapshots:
                raise
            self.explain(f"the machines boot: {error}")
            for snapshot in self.snapshots.values():
                if snapshot.is_tried:           # else QEMU has not even started
                    snapshots.remove(snapshot)
            self.take_back()
            self.launch_machines()
            self.relaunched()

    def relaunched(self):
        """Called when other processes run than after launch()."""

    def find_snapshots(self):
        """{architecture: the snapshot that its machines start from}; empty if all must
        boot."""
        found = {}
        if self.boots:
            return found
        try:
            for image in self.images:
                snapshots.require_fit(image, self.options["extra"], self.vfs)
            with Waiting(lambda: "preparing a snapshot of a booted machine", self.say):
                for image in self.images:
                    if image.arch not in found:
                        found[image.arch] = snapshots.chosen(
                            image, self.qemus[image.arch], self.options["memory"],
                            self.options["cpus"], len(self.mounts))
            return found
        except Unusable as error:
            self.explain(f"the machines boot: {error}")
            for snapshot in found.values():
                snapshot.close()
            return {}

    def wake(self):
        """Waits until machines from a snapshot run, each with a name and clock of its own."""
        deadline = time.monotonic() + WAKES_S * max(1, len(self.nodes) / PROCESSORS)

        def wake(node):
            node.vm.wait_booted(max(1, deadline - time.monotonic()))
            snapshots.wake(node.vm)
        side_by_side(wake, self.nodes)

    def take_back(self):
        """Ends machines whose snapshot fails."""
        for path in self.records():
            recordings.forget(path)
        while self.nodes:
            self.nodes.pop().vm.stop()
        if self.relay:
            self.relay.stop()
        self.relay = self.captured = None
        self.close_snapshots()
        for path in self.sockets.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def close_snapshots(self):
        for snapshot in self.snapshots.values():
            snapshot.close()
        self.snapshots = {}

    def launch_machines(self):
        for number, name, netdev, image in zip(self.numbers, self.names,
                                               self.join(), self.images):
            folder = self.sockets / name
            folder.mkdir()
            machine = Machine(name, self.out / name,
                              self.nics(number, name, netdev), image,
                              mounts=self.mounts, qemu=self.qemus[image.arch],
                              sockets=folder, keeps=[self.mark],
                              files=[captures.CAPTURE] if self.captured else [],
                              snapshot=self.snapshots.get(image.arch),
                              **self.options)
            self.nodes.append(Node(self, machine))
        recordings.prepare(self.records())
        # The first machine may listen for the second.
        first, *others = (node.vm for node in self.nodes)
        first.spawn()
        first.await_monitor()
        for vm in others:
            vm.spawn()
        for vm in others:
            vm.await_monitor()
        side_by_side(Machine.begin, [first, *others])
        for vm, _ in self.capturing():
            vm.dump(vm.file_name(captures.CAPTURE))
            vm.close_monitor()

    def capturing(self):
        """(machine, MAC address of its card) of all machines that capture frames."""
        return [(node.vm, mac(number)) for number, node in
                zip(self.numbers, self.nodes)] if self.captured else []

    def join(self):
        """Connects the machines. Returns the -netdev option of each."""
        if self.netdev:
            return [self.netdev.replace("{n}", str(number))
                    for number in self.numbers]
        relayed = self.wire != "link" and bool(self.wire_rules or self.pcap)
        netdevs, self.relay = wires(
            self.sockets, self.names, relayed, wire=self.wire, pcap=self.pcap,
            stays=self.options["stays"])
        if netdevs[0].startswith(LINK):
            self.relay, self.captured = Cards(self.nodes), self.pcap
        return netdevs

    def nics(self, number, name, netdev):
        """The cards of a machine. Its name belongs to the address of the first."""
        return [Nic("fakernic", netdev, mac=mac(number),
                    **self.nic_properties(name))]

    def nic_properties(self, name):
        rules = [rule for node, rule in self.faults if node in (None, name)]
        found = {}
        if rules:
            found["x_fault"] = "; ".join(rules)
        if self.vfs:
            found["vfs"] = self.vfs
        if self.options["stays"]:
            found["snapshot_qps"] = "keep"      # saved.py loads all machines together
        if self.record:
            found["x_record"] = escaped(*self.records_of(name))
        return found

    def records_of(self, name):
        """The files to which the devices of a machine write their records."""
        return [self.out / name / RECORD] if self.record else []

    def records(self):
        """The record files of all machines."""
        return [path for node in self.nodes
                for path in self.records_of(node.name)]

    def records_are_whole(self):
        """Whether the records contain both ends of every frame."""
        return not self.wire_rules and not self.netdev

    def make_timeline(self):
        """Makes the timeline from the records, in a folder of its own. Returns the result,
        one finding a line."""
        model = files.make(
            {node.name: self.records_of(node.name) for node in self.nodes},
            self.out / TIMELINE, True, self.records_are_whole())
        return files.verdict(model)

    def faults_missed(self):
        """The rules of FAULTS without a hit, one a line."""
        missed = []
        for node in self.nodes if self.faults else ():
            missed += [f"{node.name}: {line}"
                       for line in node.faults().splitlines()
                       if line.endswith(" hits=0") and
                       not line.startswith(f"id={WIRES}")]
        return missed

    def set_up(self):
        side_by_side(self.set_up_loaded if self.has_steps() else self.set_up_node,
                     self.nodes, self.numbers)
        self.report_missing_parts()
        self.connect()
        if self.wire_rules:
            self.relay.add_rules("; ".join(self.wire_rules))
            for node in self.nodes:
                node.vm.close_monitor()

    def set_up_node(self, node, number):
        with self.explained(node):
            node.vm.stamp_console()
            self.set_up_mounts(node)
            node.port = rdma.bring_up(node.vm, number, mtu=self.mtu)
            if self.tree:
                node.guest.check(self.tree.script(self.mounts))
            else:
                node.without_provider = not node.guest.run(HAS_PROVIDER).ok

    def has_steps(self):
        """Whether the agent sets the machines up by steps, and not by scripts: those from a
        snapshot have the launcher's own agent. What belongs to a tree is a script."""
        return self.snapshots and not self.tree

    def set_up_loaded(self, node, number):
        """What set_up_node() does, by steps."""
        with self.explained(node):
            said = node.guest.set_up(
                *(mount.step(index) for index, mount in enumerate(self.mounts)),
                rdma.step_up(number, self.mtu))
        node.port = rdma.port_of(node.vm, number, said, self.mtu)
        if any(mount.target == WORK for mount in self.mounts):
            node.work = WORK

    @contextmanager
    def explained(self, node):
        """Inside the with, the error of a failed command is replaced by one that explains
        it, for example by what the image lacks."""
        try:
            yield
        except CommandFailed as error:
            missing = NOT_FOUND.search(str(error))
            if missing:
                raise LabError(f"the image has no program {missing[1]}: "
                               f"{NEEDED}") from error
            if "Key was rejected" in str(error):
                raise LabError(UNSIGNED) from error
            if rdma.NO_DEVICE in str(error):
                raise LabError(f"{node.name} has {rdma.NO_DEVICE}: "
                               f"{why_not_bound(node)}") from error
            if "fakernic not found" not in str(error):
                raise LabError(f"{node.name} could not be set up: "
                               f"{last_words(error)}") from error
            release = node.guest.run("uname -r").out.strip()
            raise LabError(
                f"the image has no driver fakernic for its kernel {release}: "
                f"{self.image.lacks_driver}") from error

    def connect(self):
        """Gives the machines their names and waits until each reaches the next."""
        known = range(1, NODES_MAX + 1) if self.netdev else self.numbers
        names = "".join(f"{rdma.ip4(number)} node{number}\n"
                        f"{rdma.ip6(number)} node{number}-v6\n"
                        for number in known)
        ports = [node.port for node in self.nodes]

        def introduce(node, port, following):
            script = INTRODUCE.format(name=node.name, names=names, tool=meeting.TOOL,
                                      script=meeting.SCRIPT)
            if self.tree:
                script += f"set +e\n{tree.INTRODUCE}\nset -e\n"
            pings = rdma.pings(port, [following])
            with self.explained(node):
                node.guest.check("\n".join([script, *pings]),
                                 rdma.PING_S * (len(pings) + 3))

        def introduce_loaded(node, port, following):
            hosts = snapshots.HOSTS.format(name=node.name) + "".join(
                f"{line} # fakernic-lab\n" for line in names.splitlines())
            with self.explained(node):
                node.guest.set_up(("write", 644, "/etc/hosts", hosts),
                                  ("write", 755, meeting.TOOL, meeting.SCRIPT),
                                  *rdma.steps_reach(port, [following]))
        side_by_side(introduce_loaded if self.has_steps() else introduce,
                     self.nodes, ports, ports[1:] + ports[:1])
        if not self.options["stays"]:
            self.meeting = meeting.Meeting(self.nodes, self.has_steps())
        ssh.connect(self.nodes, self.tree, side_by_side, self.has_steps())

    def set_up_mounts(self, node):
        for index, mount in enumerate(self.mounts):
            script = MOUNT.format(target=shlex.quote(mount.target), no_9p=NO_9P,
                                  how=mount.how(), options=mount.options(),
                                  tag=f"mount{index}")
            result = node.guest.run(script)
            if result.code == NO_9P:
                node.without_9p = node.guest.run("uname -r").out.strip()
                if mount.implied:
                    continue
                raise LabError(f"{node.name} cannot mount {mount.source}: "
                               f"{LACKS_9P.format(node.without_9p)}")
            if not result.ok:
                raise LabError(f"{node.name} cannot mount {mount.source}: "
                               f"{result.err.strip() or result.code}")
            if mount.target == WORK:
                node.work = WORK

    def report_missing_parts(self):
        """Reports what the machines lack although they are up, once for all of them."""
        lines = [f"your folder is not {WORK} in the machines: "
                 f"{LACKS_9P.format(release)}" for release in
                 {node.without_9p for node in self.nodes} - {None}]
        if any(node.without_provider for node in self.nodes):
            lines.append(LACKS_PROVIDER)
        for line in lines if self.say else ():
            self.say(line)

    def stop(self):
        records, captured = self.records(), self.capturing()
        if self.meeting:
            self.meeting.end(machines_stay=False)
        while self.nodes:
            self.nodes.pop().vm.stop()
        if self.relay:
            self.relay.stop()
            self.relay = None
        for path in records:
            recordings.leave(path)
        if captured:
            captures.leave(self.captured, captured, self.pcap_file)
        self.close_snapshots()
        shutil.rmtree(self.sockets, ignore_errors=True)
        leave_out(self.out, self.mark)

    # ---- health ------------------------------------------------------------

    def judge(self):
        """Raises GuestCrashed for the first complaint of a machine since the last call, or
        if the relay has ended."""
        for node in self.nodes:
            node.vm.assert_healthy()
        if self.relay:
            self.relay.assert_alive()

    def expect(self, kinds):
        """Ignores these kinds of kernel traces (console.EXPECTED) from now on."""
        for node in self.nodes:
            node.vm.console.expect(kinds)

    def traces_missed(self):
        """The traces of expect() that no machine has printed."""
        consoles = [node.vm.console for node in self.nodes]
        return sorted({name for log in consoles for name in log.expected} -
                      {name for log in consoles for name in log.met})

    def collect(self):
        """Writes the result files of all machines that still answer. In parallel, because
        a machine that does not answer costs its time limit."""
        with Waiting(lambda: "collecting the machines' results"):
            side_by_side(ask_what_is_left, self.nodes, at_once=NODES_MAX)


def parse_mount(text):
    """The Mount of an option HOST:GUEST[:ro|:rw]; read-only by default."""
    match = re.fullmatch(r"(.+?):(/[^:]*)(?::(ro|rw))?", text)
    if not match:
        raise LabError(f"--mount {text}: want HOST:/GUEST, HOST:/GUEST:ro or "
                       "HOST:/GUEST:rw")
    source, target, how = match.groups()
    if not os.path.isdir(source):
        raise LabError(f"--mount {text}: {source} is no folder")
    if target == "/":
        raise LabError(f"--mount {text}: the target must not be /")
    return Mount(source, target.rstrip("/"), how == "rw")
