# SPDX-License-Identifier: GPL-2.0-or-later
"""The command fakernic-lab: its arguments and its messages."""

import argparse
import atexit
import os
import re
import shlex
import signal
import sys
import time
from contextlib import suppress
from importlib import metadata

from . import arches, doctor, images, junit, launch, places, saved, show, stay
from .cards import SEEDS, WIRES
from .console import EXPECTED
from .errors import CommandFailed, GuestCrashed, GuestTimeout, LabError, reason
from .lab import NODES_MAX, OUT, OUT_UP, TIMELINE, WORK, Lab, parse_mount
from .machine import Mount
from .outputs import printable
from .qmp import QMPError
from .timeline import files
from .timeline.records import RecordError
from .waiting import WIPED

# Options that damage frames at random -> the action of a fault rule.
HARM = {"loss": "drop", "duplicate": "duplicate", "reorder": "reorder",
        "corrupt": "corrupt"}
MILLION = 1000000
SAID_MAX = 20000                # characters of an error, which may quote a guest
LONGEST_US = 3600e6             # the longest delay of a fault rule

CODE_USAGE = 2
CODE_CANNOT = 125
CODE_INTERRUPTED = 130
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN_S = 0.01          # after which a dropped interrupt is raised again

DESCRIPTION = """Runs programs in virtual machines that have RDMA: each has a
fakernic, a RoCEv2 card in software. Needs no root, hardware or configuration."""

EPILOG = """exit codes of run and exec: that of the first command that failed;
120 if a machine was lost or its kernel reported an error, 124 after a timeout,
125 if fakernic-lab itself fails."""

FAULT = """Adds fault rules to the device of a running machine and prints all its rules
with their hit counts. remove=ID removes one rule, remove=all removes all.
NODE "wire" means the wire between the machines. It takes rules if there are
three machines or more, or after --pcap, --loss or a similar option. A rule is
for every end of the wire, or with NODE: RULE for one end. With --link shared
the cards get the rules instead."""

RULES = """A rule is a quoted list of words NAME=VALUE. at and do are required:
  point      at=tx rx doorbell cmd-doorbell command send-wqe recv-wqe cqe eqe
             interrupt dma-read dma-write dma-atomic dma-flush page-list device
  subject    qpn peer psn rpsn attempt opcode class=roce cnp gsi ether, syndrome
             len cmd number address why=any wqe record page-list payload cqe eqe
             cmd
  hits       nth (1: the first) times (1; 0: all from then on) every percent ppm
             seed after from-ns until-ns
  action     do=drop duplicate mark count pause overrun dead, or with options:
             delay (delay-ns) reorder (by) corrupt (offset mask
             fix-icrc) truncate (bytes) throttle (mbps) fail (status code bytes)
             fatal (code) freeze, link-down (for-ns) aer (severity=correctable
             nonfatal fatal)
  name       id

A wrong word is answered with what could stand there. All of them are explained
in fakernic's qemu-hw/FAULTS.md.

  fakernic-lab fault node1 "at=tx opcode=rc-send* nth=3 do=drop"
  fakernic-lab fault node2 "at=command cmd=CREATE_CQ status=7 do=fail"
"""

EXAMPLES = """examples:
  fakernic-lab run -- ib_write_bw : ib_write_bw node1
  fakernic-lab run -- ./server_test : ./client_test node1
  fakernic-lab run -n 3 --loss 1% --pcap out.pcap -- ./everywhere
  fakernic-lab up; fakernic-lab exec node1 -- ibv_devinfo; fakernic-lab down
"""


def say(text):
    """Prints a message in place of the progress line, if there is one."""
    wiped = WIPED if sys.stderr.isatty() else ""
    print(f"{wiped}fakernic-lab: {printable(text[-SAID_MAX:])}", file=sys.stderr,
          flush=True)


def version():
    """The version of the bundle or of the installed package."""
    if places.BUNDLE:
        return (places.BUNDLE / "VERSION").read_text("utf-8").strip()
    try:
        return metadata.version("fakernic-lab")
    except metadata.PackageNotFoundError:
        return "of a checkout"


# ---- values of options -----------------------------------------------------

def probability(text):
    """1% or 0.01."""
    try:
        value = (float(text[:-1]) / 100 if text.endswith("%") else float(text))
    except ValueError:
        value = -1
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(
            f"'{text}': a share of the frames, such as 1% or 0.01")
    return value


def microseconds(text):
    """100us, 2ms, or a number of microseconds."""
    units = {"us": 1, "ms": 1000, "s": 1000000}
    number = text.rstrip("ums")
    try:
        value = float(number) * units.get(text[len(number):] or "us", -1)
    except ValueError:
        value = -1
    if not 0 <= value <= LONGEST_US:
        raise argparse.ArgumentTypeError(f"'{text}': such as 100us or 2ms")
    return value


def between(lowest, highest):
    """A parser of numbers in this range."""
    def check(text):
        if not text.isdigit() or not lowest <= int(text) <= highest:
            raise argparse.ArgumentTypeError(
                f"'{text}': a number from {lowest} to {highest}")
        return int(text)
    return check


def fault_rule(text):
    """RULE for all machines, or NODE: RULE."""
    node, colon, rule = text.partition(":")
    if not colon:
        node, rule = None, text
    if "," in rule or "at=" not in rule or "do=" not in rule:
        raise argparse.ArgumentTypeError(
            f"'{text}': such as \"at=rx nth=3 do=drop\", or \"node2: at=...\"")
    return node and node.strip(), rule.strip()


def record(text):
    node, sign, path = text.partition("=")
    if not sign or not node or not path:
        raise argparse.ArgumentTypeError(f"'{text}': want NODE=FILE")
    return node, path


def snapshot_name(text):
    if not re.fullmatch(r"[A-Za-z][\w.-]{0,63}", text, re.A):
        raise argparse.ArgumentTypeError(
            f"'{text}': a letter, then letters, digits, '.', '_' and '-'")
    return text


def variable(text):
    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"'{text}': want NAME=VALUE")
    return name, value


# ---- the arguments ---------------------------------------------------------

def add_machine_options(parser, out=OUT):
    group = parser.add_argument_group("the machines")
    group.add_argument("-n", type=between(1, NODES_MAX), metavar="N",
                       help=f"number of machines, 1 to {NODES_MAX} (default: "
                       "one per command, at least 2)")
    group.add_argument("--arch", default=arches.HOST.name, metavar="ARCH[,ARCH]...",
                       help=f"architecture of the machines: {', '.join(arches.ARCHES)}; "
                       "one for all, or one for each. Others than the host's "
                       "are emulated")
    group.add_argument("--image", metavar="FILE", help="disk image to boot, "
                       "qcow2 or raw, with systemd and fakernic's packages; "
                       "it is not modified (default: the project's own guest)")
    group.add_argument("--kernel", metavar="KERNEL", help=f"{', '.join(images.KERNELS)}; "
                       "with --image, a kernel file to boot instead of the "
                       "image's kernel")
    group.add_argument("--initrd", metavar="FILE", help="initrd for a kernel file")
    group.add_argument("--append", metavar="WORDS", default="",
                       help="more words for the kernel's command line")
    group.add_argument("--root", metavar="DIR", help="run the commands inside "
                       "this distribution's tree, made by debootstrap or "
                       "exported from a container, with fakernic's provider in "
                       "it; each machine writes to a copy of its own in memory")
    group.add_argument("--cpus", type=between(1, 64), default=1, metavar="N",
                       help="virtual CPUs of each machine (default: 1)")
    group.add_argument("--cpu-nice", type=between(0, 19), default=0, metavar="N",
                       help="lower the priority of the CPU threads by N, compared "
                       "with the thread that receives frames: shorter latency on "
                       "an idle host, slower machines on a busy one (default: 0)")
    group.add_argument("--vfs", type=between(0, 127), default=0, metavar="N",
                       help="virtual functions of each card: a machine enables "
                       "them by sriov_numvfs in sysfs (default: 0)")
    group.add_argument("--memory", type=between(128, 1 << 20), default=None,
                       metavar="MIB", help="memory of each machine in MiB "
                       "(default: 768, with --image 1024)")
    group.add_argument("--mount", action="append", default=[], metavar=
                       "HOST:/GUEST[:rw]", help="mount a folder of the "
                       "host in each machine, read-only without :rw; a "
                       "writable folder must not contain --out. .:/work is "
                       "mounted unless /work is mounted otherwise")
    group.add_argument("--env", action="append", type=variable, default=[],
                       metavar="NAME=VALUE", help="environment variable of the "
                       "commands")
    group.add_argument("--qemu", metavar="FILE", help="QEMU program to run")
    group.add_argument("--qemu-arg", action="append", default=[],
                       metavar="WORD", help="one more argument of QEMU: "
                       "--qemu-arg=-bios --qemu-arg=OVMF.fd")
    group.add_argument("--boot", action="store_true", help="boot the machines, also "
                       "if they could start from a snapshot")
    group.add_argument("-v", "--verbose", action="store_true", help="if machines "
                       "boot without --boot, say why")
    group.add_argument("--out", default=out, metavar="FOLDER",
                       help="folder for consoles, dmesg, counters (default: "
                       f"{out})")


def add_wire_options(parser):
    group = parser.add_argument_group("the wire")
    group.add_argument("--link", choices=("netdev", "shared"), default="netdev",
                       help="netdev: frames pass through QEMU's sockets; "
                       "shared: through shared memory, which is faster; then "
                       "the cards drop, delay and capture frames")
    group.add_argument("--netdev", metavar="OPTIONS", help="connect each "
                       "machine to a network of the host: a -netdev option of "
                       "QEMU, with {n} for the machine's number, such as "
                       "'tap,ifname=tap{n},script=no,downscript=no'")
    group.add_argument("--first", type=between(1, NODES_MAX), default=1,
                       metavar="N", help="with --netdev: number of the first "
                       "machine here, if other hosts run more machines")
    group.add_argument("--mtu", type=between(576, 9000), metavar="BYTES",
                       help="MTU of the interfaces, 576 to 9000")
    for fault in HARM:
        group.add_argument(f"--{fault}", type=probability, metavar="SHARE",
                           help=f"probability of {fault} per frame: 1%% or 0.01")
    group.add_argument("--delay", type=microseconds, metavar="TIME",
                       help="delay of every frame: 100us, 2ms")
    group.add_argument("--seed", type=int, default=0,
                       help="seed that selects the frames (default: 0)")
    group.add_argument("--fault", action="append", type=fault_rule, default=[],
                       metavar="[NODE:]RULE", help="fault rule of a device: "
                       '"node2: at=rx opcode=rc-read-response-first nth=3 '
                       'do=drop" (syntax: fakernic-lab fault --help); the run '
                       'fails if nothing hits the rule')
    group.add_argument("--timeline", action="store_true", help="record what "
                       "each device does, and make a page, a picture, a text "
                       f"and a capture of it in {TIMELINE}/ of --out")
    group.add_argument("--pcap", metavar="FILE",
                       help="capture all frames as sent; with --link shared "
                       "the file is written at the end, from a capture of "
                       "each card")


def add_expect(parser):
    parser.add_argument("--expect", action="append", default=[], choices=EXPECTED,
                        metavar="TRACE", help="kernel trace that the commands "
                        f"cause on purpose: {', '.join(EXPECTED)} (README.md). "
                        "The run fails if the trace does not appear, and still "
                        "ends at any other trace")


def add_show(commands):
    seen = commands.add_parser(
        "show", help="show the state of a device", description="Shows the "
        "state of a device, its objects, or the entries of a ring as the "
        "device decodes them. It changes nothing.")
    seen.add_argument("where", metavar="NODE|SOCKET", help="a running "
                      "machine, or the QMP socket of any QEMU: a path with a /")
    seen.add_argument("what", choices=show.WHATS, metavar="WHAT",
                      help=", ".join(show.WHATS))
    seen.add_argument("number", nargs="?", type=between(0, (1 << 32) - 1),
                      metavar="NUMBER", help="number of the object; required "
                      "for rings (sq, rq, srq, cq, eq)")
    seen.add_argument("--json", action="store_true", help="print all members "
                      "as JSON")
    seen.add_argument("--device", metavar="ID", help="device, if there are several")
    seen.add_argument("--from", dest="first", type=between(0, (1 << 32) - 1),
                      metavar="INDEX", help="first entry of a ring "
                      "(default: the entry that the device fetches next, or "
                      "wrote last)")
    seen.add_argument("--count", type=between(1, 256), metavar="N",
                      help="maximum number of entries (default: 16)")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message):
        self.exit(CODE_USAGE, f"{self.prog}: {message}: see '{self.prog} --help'\n")


def build_parser():
    parser = Parser(
        prog="fakernic-lab", description=DESCRIPTION,
        epilog=f"{EXAMPLES}\n{EPILOG}",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version",
                        version=f"fakernic-lab {version()}")
    commands = parser.add_subparsers(dest="action", metavar="COMMAND",
                                     required=True)
    run = commands.add_parser(
        "run", help="start machines, run a command in each, stop them",
        epilog=EPILOG, description="Starts machines, runs a command in each, "
        "prints their output and stops the machines.")
    add_machine_options(run)
    add_wire_options(run)
    run.add_argument("--ready", default="auto", metavar="HOW", help="when the "
                     "commands after the servers' start (the first is the server, or "
                     "with --until all but that one): auto (when the servers "
                     f"listen, or after {launch.READY_S} s), now, cm (when they "
                     "listen with rdma_cm), a TCP port, or a shell command "
                     "that succeeds in their machines")
    run.add_argument("--until", metavar="NODE", help="end the run when the "
                     "command of this machine ends, with its exit code. The other "
                     "commands are servers: they start first, and are stopped")
    run.add_argument("--timeout", type=between(1, 1 << 20), default=600,
                     metavar="SECONDS", help="time limit of the commands "
                     "(default: 600)")
    run.add_argument("-t", "--tty", action="store_true", help="run the "
                     "commands at a terminal, so most print line by line")
    run.add_argument("--junit", metavar="FILE", help="write a JUnit report")
    add_expect(run)
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND "
                     "[: COMMAND]...", help="one command for all machines, or one "
                     "for each")
    up = commands.add_parser("up", help="start machines that keep running")
    add_machine_options(up, OUT_UP)
    add_wire_options(up)
    execute = commands.add_parser("exec", help="run a command in a running machine")
    execute.add_argument("--timeout", type=between(1, 1 << 20), default=600,
                         metavar="SECONDS")
    add_expect(execute)
    execute.add_argument("node", help="node1, node2, …, or all")
    execute.add_argument("command", nargs=argparse.REMAINDER,
                         metavar="-- COMMAND")
    for name, text in (("shell", "a shell in a machine (also: ssh)"),
                       ("console", "a machine's serial console; Ctrl-] leaves it")):
        one = commands.add_parser(name, help=text,
                                  aliases=["ssh"] if name == "shell" else [])
        one.add_argument("node", nargs="?", default="node1")
    add_show(commands)
    fault = commands.add_parser(
        "fault", help="add fault rules to a device", description=FAULT,
        epilog=RULES, formatter_class=argparse.RawDescriptionHelpFormatter)
    fault.add_argument("node", metavar="NODE|wire")
    fault.add_argument("rule", nargs="*", help='"at=rx '
                       'opcode=rc-read-response-first nth=3 do=drop"')
    story = commands.add_parser(
        "timeline", help="make a timeline of records", description="Makes a "
        "timeline of the records of one host's devices (property x-record). "
        "Its exit code is 1 if records contradict each other.")
    story.add_argument("records", nargs="*", type=record, metavar="NODE=FILE",
                       help="record of a device (default: those of the running "
                       "machines)")
    story.add_argument("--out", metavar="FOLDER", help="folder for the files; "
                       "without it the records are only checked")
    story.add_argument("--lost", action="store_true", help="accept records "
                       "whose first events were overwritten")
    story.add_argument("--partial", action="store_true", help="accept "
                       "machines without a record, or a wire that loses frames")
    saves = commands.add_parser(
        "snapshot", help="save or load all running machines", description="Saves the "
        "running machines at one moment, or goes back to that moment with all of them. "
        "Their connections to each other continue.")
    saves.add_argument("what", choices=("save", "load"))
    saves.add_argument("name", metavar="NAME", type=snapshot_name)
    moves = commands.add_parser(
        "migrate", help="move a running machine to another QEMU", description="Moves a "
        "running machine to another QEMU on this host. Its connections continue.")
    moves.add_argument("node", metavar="NODE")
    commands.add_parser("doctor", help="show what this computer offers", description=
                        "Shows what machines need, whether this computer has it, "
                        "and what to do. The exit code is 125 if machines cannot run.")
    commands.add_parser("status", help="list the running machines")
    commands.add_parser("down", help="stop the running machines")
    return parser


def split_commands(words):
    """The commands, shell scripts, that " : " separates."""
    words = words[1:] if words[:1] == ["--"] else words
    commands = [[]]
    for word in words:
        if word == ":":
            commands.append([])
        else:
            commands[-1].append(word)
    if not all(commands):
        raise LabError("no command: give one for all machines, or one for "
                       "each with ' : ' between them, behind ' -- '")
    # A single word may be a script: "a | b".
    return [words[0] if len(words) == 1 else shlex.join(words)
            for words in commands]


def spread(values, count, what="commands"):
    """One value per machine."""
    if count is None:
        count = max(2, len(values))
    if len(values) == 1:
        return values * count
    if len(values) != count:
        raise LabError(f"{len(values)} {what} for {count} machines: one "
                       "for all, or one for each")
    return values


def make_mounts(options):
    mounts = [parse_mount(text) for text in options.mount]
    targets = [mount.target for mount in mounts]
    if len(set(targets)) < len(targets):
        raise LabError("two --mount options have the same target in the machines")
    if WORK not in targets:
        try:
            mounts.insert(0, Mount(os.getcwd(), WORK, implied=True))
        except FileNotFoundError as error:
            raise LabError("your current folder no longer exists: change to another "
                           "one") from error
    return mounts


def make_wire_rules(options):
    """The fault rules of --loss and the similar options. At most one rule hits a
    frame: each takes its share of the frames that earlier rules leave. With
    --link shared the cards drop frames on receive, so that captures have them."""
    shared = options.link == "shared"
    harm_at, delay_at = ("rx", "tx") if shared else ("tx", "rx")
    shares = {act: getattr(options, name) or 0 for name, act in HARM.items()}
    if sum(shares.values()) > 1:
        raise LabError("--loss, --duplicate, --reorder and --corrupt are more "
                       "than 100% together")
    rules, left = [], 1
    for number, (act, share) in enumerate(shares.items()):
        if share:
            ppm = round(MILLION * share / max(left, 1 / MILLION))
            ppm = min(max(ppm, 1), MILLION)
            seed = (options.seed * len(HARM) + number) % SEEDS
            rules.append((act, f"at={harm_at} times=0 ppm={ppm} seed={seed}"))
        left -= share
    if options.delay:
        # At the other point: only one rule per point hits a frame, and
        # duplicates are delayed, too.
        delay = max(round(options.delay * 1000), 1)
        rules.append(("delay", f"at={delay_at} times=0 delay-ns={delay}"))
    return [(f"id={WIRES}{act} " if shared else "") + f"{words} do={act}"
            for act, words in rules]


def lab_arguments(options, count):
    """The arguments of Lab() that the options give."""
    wire_rules = make_wire_rules(options)
    if options.link == "shared" and options.netdev:
        raise LabError("--link shared and --netdev are two networks: choose one")
    if options.first > 1 and not options.netdev:
        raise LabError("--first is for machines of several hosts, on a network "
                       "of theirs: it needs --netdev")
    return {"count": count, "image": [images.chosen(
                options.image, options.kernel, options.initrd, options.append, arch)
                for arch in spread(arches.all_named(options.arch), count,
                                   "architectures")],
            "out": options.out,
            "mounts": make_mounts(options), "cpus": options.cpus,
            "cpu_nice": options.cpu_nice, "vfs": options.vfs,
            "memory": options.memory,
            "netdev": options.netdev, "first": options.first,
            "mtu": options.mtu, "wire_rules": wire_rules, "pcap": options.pcap,
            "environment": dict(options.env), "qemu": options.qemu,
            "extra": options.qemu_arg, "faults": options.fault,
            "record": options.timeline, "say": say, "root": options.root,
            "wire": "link" if options.link == "shared" else None,
            "boot": options.boot, "explain": say if options.verbose else None}


# ---- what the commands do --------------------------------------------------

def report_accelerator(chosen):
    """Reports whether machines with the images CHOSEN are emulated."""
    reason = places.why_no_kvm()
    if reason and places.accelerator() == "tcg":
        say(f"no KVM ({reason}): the machines are emulated. A boot takes 10 to "
            "20 s, minutes with --image, and programs run 10 times slower or more")
        return
    for arch in sorted({image.arch for image in chosen} - {arches.HOST}):
        say(f"no KVM for {arch.name} on this host: these machines are emulated")


def warn_of_memory(count, each):
    """Warns if the machines may use more memory than is free."""
    free = places.free_memory()
    if count * each > free:
        say(f"{count} machines may use {count * each} MiB of memory, but only "
            f"{free} MiB are free: give them less (--memory), or run fewer (-n)")


def show_verdict(verdict):
    if verdict.code:
        if verdict.detail:
            print(printable(verdict.detail.rstrip()), file=sys.stderr)
        say(verdict.reason)


def report_timeline(lab):
    """Makes the timeline if the devices recorded. Its result does not change the
    verdict on the commands."""
    if not lab.record:
        return 0
    try:
        lines = lab.make_timeline()
    except Exception as error:
        words = " ".join(str(error).split())
        if not isinstance(error, RecordError):
            words = f"{type(error).__name__}: {words}"
        say(f"no timeline: {words}")
        return CODE_CANNOT
    for line in lines:
        say(f"timeline: {line.strip()}")
    say(f"it is in {os.path.relpath(lab.out / TIMELINE)}")
    return 0


def timeline(options):
    """timeline: from files, or from the running machines."""
    if not options.records:
        return report_timeline(stay.recorded())
    records = dict(options.records)
    if len(records) < len(options.records):
        raise LabError("two records of one name")
    model = files.make(records, options.out, options.lost, not options.partial)
    print("\n".join(files.verdict(model)))
    return 1 if model.problems else 0


def require_node(name, count, first):
    names = [f"node{number}" for number in range(first, first + count)]
    if name not in (None, *names):
        raise LabError(f"--until {name}: there is no {name}, only "
                       f"{', '.join(names)}")


def remove_if_empty(folder):
    with suppress(OSError):
        os.rmdir(folder)


def place_results(options, usual):
    """Choose a folder in $TMPDIR for the results if the user named none and the
    current folder is read-only."""
    if options.out == usual and not os.path.exists(usual) and not os.access(
            os.curdir, os.W_OK):
        options.out = str(places.temporary_folder(f"{usual}-"))
        atexit.register(remove_if_empty, options.out)
        say(f"your current folder is read-only: results go to {options.out}")


def run(options):
    commands = split_commands(options.command)
    commands = spread(commands, options.n)
    require_node(options.until, len(commands), options.first)
    places.require_whole()
    place_results(options, OUT)
    lab = Lab(**lab_arguments(options, len(commands)))
    try:
        report = places.opened(options.junit)
    except LabError:
        lab.stop()
        raise
    report_accelerator(lab.images)
    warn_of_memory(len(commands), options.memory or lab.image.memory)
    begin = time.monotonic()
    with lab:
        took = time.monotonic() - begin
        say(f"{len(lab.nodes)} machines up in {took:.{0 if took > 9.9 else 1}f} s")
        lab.expect(options.expect)
        verdict, runs = launch.run_all(lab, commands, options.timeout,
                                       options.ready, options.tty,
                                       until=options.until)
        verdict = launch.without_misses(
            verdict, ("nothing hit a fault rule, so the run did not test it",
                      lab.faults_missed()),
            (launch.NO_TRACE, lab.traces_missed()))
        try:
            lab.collect()
            report_timeline(lab)
        except LabError as error:
            # An earlier failure of the run takes precedence.
            if not verdict.code:
                raise
            say(f"some results are missing: {error}")
    if report:
        with report:
            junit.write(report, verdict, runs)
    show_verdict(verdict)
    say(f"ended with {verdict.code}; results are in {options.out}")
    return verdict.code


def up(options):
    count = options.n or 2
    places.require_whole()
    place_results(options, OUT_UP)
    arguments = lab_arguments(options, count)
    report_accelerator(arguments["image"])
    warn_of_memory(count, options.memory or arguments["image"][0].memory)
    for node in stay.up(arguments):
        print(f"{node.name}  {node.port.ip4}  {node.port.ibdev}  "
              f"{node.port.netdev}")
    return 0


ACTIONS = {"run": run, "up": up, "exec": stay.execute, "shell": stay.shell,
           "ssh": stay.shell, "console": stay.console, "show": show.show,
           "fault": stay.fault, "timeline": timeline, "status": stay.status,
           "snapshot": saved.snapshot, "migrate": stay.migrate,
           "doctor": doctor.doctor, "down": stay.down}


def interrupted(*_):
    """Raises KeyboardInterrupt once: nothing interrupts the cleanup that follows."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def interrupt_again(unraisable):
    """Raises an interrupt again that came while Python destroyed an object. Python
    drops it there, and the machines would keep running."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        signal.signal(signal.SIGALRM, interrupted)
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
    else:
        sys.__unraisablehook__(unraisable)


def take_signals():
    """Handles the signals that end a run. Signals that were ignored at the start,
    as with nohup, stay ignored."""
    sys.unraisablehook = interrupt_again
    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupted)


def main(arguments=None):
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.reconfigure(errors="backslashreplace")
    options = build_parser().parse_args(arguments)
    take_signals()
    try:
        return ACTIONS[options.action](options)
    except (LabError, GuestTimeout, GuestCrashed, CommandFailed,
            RecordError) as error:
        say(str(error))
        return CODE_CANNOT
    except KeyboardInterrupt:
        return CODE_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CODE_CANNOT
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        say(f"{where}{reason(error)}")
        return CODE_CANNOT
    except (QMPError, LookupError, ValueError) as error:
        say(f"{type(error).__name__}: {error}")
        return CODE_CANNOT

