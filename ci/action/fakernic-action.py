#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs commands in fakernic's virtual machines, as one step of a CI job.

Fetches the bundle of a release, checks its sum, unpacks it and calls
"fakernic-lab run". Needs Python 3.9 and nothing else. The options are environment
variables, because that is what both GitHub and GitLab pass on:

  FAKERNIC_RUN       the commands, one line for each machine; without it the step
                     only puts fakernic-lab and its pytest plug-in where the next
                     steps find them
  FAKERNIC_MACHINES  the number of machines (default: one for each line, at least 2)
  FAKERNIC_IMAGE     a disk image in place of the project's own guest
  FAKERNIC_FAULTS    fault rules, one in each line
  FAKERNIC_TIMELINE  true: record a timeline
  FAKERNIC_KVM       auto, true or false (default: auto)
  FAKERNIC_OPTIONS   more options of "fakernic-lab run"
  FAKERNIC_RELEASE   URL of the folder that has the bundle and SHA256SUMS
  FAKERNIC_LOGS      folder of the logs (default: fakernic-lab.out)
  FAKERNIC_REPORT    file of the JUnit report (default: fakernic-lab.xml)

The exit code is that of "fakernic-lab run", or 125 if the bundle cannot be had.
"""

import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from xml.etree import ElementTree

FAILED = 125
SUMS = "SHA256SUMS"
TRIES = 3
TIMEOUT_S = 60
PIECE = 1 << 20
TRUE = ("true", "yes", "1")
FALSE = ("false", "no", "0", "")
SHOWN = 60          # characters of a command in the summary


class Failed(Exception):
    """One line for the user."""


def setting(name, default=""):
    return os.environ.get(f"FAKERNIC_{name}", "").strip() or default


def flag(name, *more):
    """The value of a setting: True, False, or one of the other words allowed."""
    value = setting(name, more[0] if more else "false").lower()
    if value in more:
        return value
    if value not in TRUE + FALSE:
        raise Failed(f"{name.lower()} is '{value}': write true or false")
    return value in TRUE


def lines(name):
    return [line.strip() for line in setting(name).splitlines() if line.strip()]


# ---- the bundle --------------------------------------------------------------

def fetch(url, target):
    """Saves the file at the URL, and returns its SHA-256."""
    for left in reversed(range(TRIES)):
        digest = hashlib.sha256()
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as source, \
                    open(target, "wb") as file:
                for piece in iter(lambda: source.read(PIECE), b""):
                    digest.update(piece)
                    file.write(piece)
            return digest.hexdigest()
        except urllib.error.HTTPError as error:
            if error.code < 500 or not left:
                raise Failed(f"{url}: {error}: does this release exist?") from None
        except OSError as error:
            if not left:
                raise Failed(f"{url}: {error}") from None
        time.sleep(TRIES - left)
    raise AssertionError


def listed(sums):
    """(SHA-256, name) of the bundle for this machine in a list of sums."""
    machine = platform.machine()
    found = re.findall(rf"^([0-9a-f]{{64}})  (fakernic-lab-[\w.~+-]+-{machine}"
                       r"\.tar\.xz)$", sums, re.M)
    if len(found) != 1:
        raise Failed(f"the release has no bundle for {machine}")
    return found[0]


def kept_in():
    """The folder of unpacked bundles."""
    place = os.environ.get("RUNNER_TOOL_CACHE") or os.environ.get(
        "XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(place) / "fakernic-bundle"


def unpack(archive, target):
    """Unpacks the archive into TARGET, and returns the only folder there."""
    with tarfile.open(archive) as tar:
        # Some distributions' Python 3.9 lacks this filter.
        if hasattr(tarfile, "data_filter"):
            tar.extraction_filter = tarfile.tar_filter
        tar.extractall(target)
    (folder,) = target.iterdir()
    return folder


def bundle(release):
    """The folder of the release's bundle. Fetches, checks and unpacks it if this was
    not done before."""
    kept = kept_in()
    try:
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept) as work:
            work = Path(work)
            fetch(f"{release}/{SUMS}", work / SUMS)
            wanted, name = listed((work / SUMS).read_text(encoding="utf-8"))
            place = kept / wanted[:16]
            if place.exists():
                return place
            if fetch(f"{release}/{name}", work / name) != wanted:
                raise Failed(f"{release}/{name}: its sum is not the one in {SUMS}")
            folder = unpack(work / name, work / "unpacked")
            try:
                folder.rename(place)
            except OSError:
                # If it exists now, another job has unpacked the same bundle.
                if not place.exists():
                    raise
            return place
    except (OSError, EOFError, tarfile.TarError) as error:
        raise Failed(f"cannot unpack the bundle in {kept}: {error}") from None


# ---- the run -----------------------------------------------------------------

def allow_kvm():
    """Makes /dev/kvm usable. On a runner of GitHub the user may not open it, but may
    become root."""
    kvm = Path("/dev/kvm")
    if kvm.exists() and not os.access(kvm, os.R_OK | os.W_OK) and shutil.which("sudo"):
        subprocess.run(["sudo", "-n", "chmod", "a+rw", kvm], check=False)


def command(program, report, logs):
    """The command "fakernic-lab run" with its arguments."""
    words = [program, "run", "--junit", report, "--out", logs]
    for name, option in (("MACHINES", "-n"), ("IMAGE", "--image")):
        if setting(name):
            words += [option, setting(name)]
    for rule in lines("FAULTS"):
        words += ["--fault", rule]
    if flag("TIMELINE"):
        words.append("--timeline")
    words += shlex.split(setting("OPTIONS"))
    words.append("--")
    for number, line in enumerate(lines("RUN")):
        words += [":"] * bool(number) + [line]
    return words


def cell(text):
    """TEXT, shortened and escaped for a cell of a Markdown table."""
    text = " ".join(text.split())
    text = text if len(text) <= SHOWN else f"{text[:SHOWN - 3]}..."
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("`", "'")


def table(report):
    """The report as a Markdown table."""
    rows = ["| machine | command | result | seconds |", "|---|---|---|---|"]
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        machine, _, words = case.get("name").partition(": ")
        failure = case.find("failure")
        result = ("skipped" if case.find("skipped") is not None else
                  "passed" if failure is None else
                  f"**{cell(failure.get('message'))}**")
        shown = f"`{cell(words)}`" if words else ""
        rows.append(f"| {cell(machine)} | {shown} | {result} | "
                    f"{float(case.get('time') or 0):.1f} |")
    return "".join(f"{row}\n" for row in rows)


def tell(variable, text):
    """Appends TEXT to a file that the CI service reads after the step. VARIABLE is the
    environment variable that names the file; without it, does nothing."""
    name = os.environ.get(variable)
    if name:
        with open(name, "a", encoding="utf-8") as file:
            file.write(text)


def install(folder):
    """Lets the next steps find the launcher and its pytest plug-in."""
    paths = os.pathsep.join(filter(None, (str(folder / "lib"),
                                          os.environ.get("PYTHONPATH"))))
    tell("GITHUB_PATH", f"{folder}\n")
    tell("GITHUB_ENV", f"PYTHONPATH={paths}\n"
         "PYTEST_PLUGINS=fakernic_lab.pytest_plugin\n")
    print(f"fakernic-lab is {folder}/fakernic-lab")


def run(folder):
    logs = setting("LOGS", "fakernic-lab.out")
    report = setting("REPORT", "fakernic-lab.xml")
    try:
        words = command(str(folder / "fakernic-lab"), report, logs)
    except ValueError as error:
        raise Failed(f"options: {error}") from None
    print("+", shlex.join(words), flush=True)
    code = subprocess.run(words, check=False).returncode
    tell("GITHUB_OUTPUT", f"report={report}\nlogs={logs}\n")
    if Path(report).exists():
        tell("GITHUB_STEP_SUMMARY", table(report))
    return code if code >= 0 else FAILED


def main():
    try:
        release = setting("RELEASE").rstrip("/")
        if not release:
            raise Failed("FAKERNIC_RELEASE is not set: give the URL of a release")
        kvm = flag("KVM", "auto")
        if kvm is not False:
            allow_kvm()
        if kvm != "auto":
            os.environ["FAKERNIC_ACCEL"] = "kvm" if kvm else "tcg"
        folder = bundle(release)
        if not lines("RUN"):
            install(folder)
            return 0
        return run(folder)
    except Failed as error:
        print(f"fakernic: {error}", file=sys.stderr)
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
