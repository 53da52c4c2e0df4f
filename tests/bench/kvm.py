#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures fakernic with KVM and leaves one file to send back: kvm.py [--tcg]

The file has what a message costs (cost.py), rates and latencies (bench.py), and the
versions of this computer's parts. It has no name of a computer, user or folder. KVM.md
says what the numbers decide.
"""

import argparse
import getpass
import json
import os
import platform
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vm"), str(HERE.parent / "lab")]

from fakernic_lab import places                     # noqa: E402

DEVICES = ("rxe", "stream", "link", "null", "link+awake", "link+nice10")
ROWS = ("write-64", "send-64", "read-64", "write-4096", "write-65536", "read-65536",
        "send-65536", "write-65536-q64", "write-64-q8", "*-lat", "pingpong-*")
NO_KVM = ("bench-kvm: {}. Run it on a computer with KVM as a user in the group kvm, "
          "or add BENCH=--tcg to test the command without KVM")
# Options of a run that only tests this command.
SHORT = {"cost.py": ["--rows", "write-64", "--wires", "link", "--idle", "60"],
         "bench.py": ["--rows", "write-64", "--devices", "link", "--runs", "1",
                      "--boots", "1", "--minutes", "2"]}
USUAL = {"cost.py": ["--wires", "link", "stream", "link+awake"],
         "bench.py": ["--rows", *ROWS, "--devices", *DEVICES, "--runs", "3",
                      "--boots", "2", "--minutes", "40"]}
PRIVATE = "(removed)"
# Shorter names would occur in other words.
PRIVATE_LENGTH = 4
# Modules whose parameters change what an exit costs.
PARAMETERS = ("kvm", "kvm_intel", "kvm_amd")
WANTED = ("halt_poll_ns", "nested", "ept", "npt", "avic", "enable_apicv",
          "ple_window", "mitigate_smt_rsb")
CPU = "/sys/devices/system/cpu"


def first_line(path):
    """The first line of a file; None: it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8").split("\n")[0]
    except OSError:
        return None


def host():
    """What decides the cost of an exit on this computer."""
    found = {"kernel": f"{platform.system()} {platform.release()}",
             "architecture": platform.machine(),
             "governor": first_line(f"{CPU}/cpu0/cpufreq/scaling_governor"),
             "threads per core": first_line(f"{CPU}/smt/active"),
             "nested": "hypervisor" in (Path("/proc/cpuinfo").read_text(
                 encoding="utf-8").split()),
             "python": platform.python_version()}
    for module in PARAMETERS:
        for name in WANTED:
            value = first_line(f"/sys/module/{module}/parameters/{name}")
            if value is not None:
                found[f"{module}.{name}"] = value
    folder = Path(CPU, "vulnerabilities")
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        found[f"mitigation {path.name}"] = first_line(path)
    return found


def private_words():
    """Names that must not be in the file."""
    words = {socket.gethostname(), platform.node(), str(Path.home()),
             os.environ.get("FAKERNIC_HOST_CACHE", "")}
    try:
        words.add(getpass.getuser())
    except (KeyError, OSError):
        pass
    return sorted((word for word in words if len(word) >= PRIVATE_LENGTH and
                   word not in ("root", "/root", "localhost")),
                  key=len, reverse=True)


def without(words, value):
    """VALUE of JSON without WORDS in its texts."""
    if isinstance(value, str):
        for word in words:
            value = value.replace(word, PRIVATE)
        return value
    if isinstance(value, list):
        return [without(words, one) for one in value]
    if isinstance(value, dict):
        return {without(words, key): without(words, one)
                for key, one in value.items()}
    return value


def run(tool, options, out):
    """Runs a tool of this folder; its result."""
    code = subprocess.run([sys.executable, str(HERE / tool), *options, "--out",
                           str(out)], check=False).returncode
    path = out / "result.json"
    if not path.exists():
        raise SystemExit(f"{tool} ended with {code} and left no result")
    return {"exit": code, **json.loads(path.read_text(encoding="utf-8"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--tcg", action="store_true",
                        help="without KVM and with few rows: tests this command")
    parser.add_argument("--check", action="store_true",
                        help="only check that it can run")
    parser.add_argument("--out", type=Path, default=Path("/cache/bench-kvm"))
    options = parser.parse_args()
    reason = places.why_no_kvm()
    if reason and not options.tcg:
        raise SystemExit(NO_KVM.format(reason))
    if options.check:
        return 0
    os.environ["FAKERNIC_ACCEL"] = "tcg" if options.tcg else "kvm"
    chosen = SHORT if options.tcg else USUAL
    result = {"accelerator": os.environ["FAKERNIC_ACCEL"], "host": host()}
    for tool in ("cost.py", "bench.py"):
        result[tool] = run(tool, chosen[tool], options.out / tool)
    path = options.out / "fakernic-kvm.json"
    path.write_text(json.dumps(without(private_words(), result), indent=1) + "\n",
                    encoding="utf-8")
    shown = str(path).replace("/cache", os.environ.get("FAKERNIC_HOST_CACHE",
                                                       "/cache"), 1)
    print(f"bench-kvm: send this file: {shown}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
