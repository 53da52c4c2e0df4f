# SPDX-License-Identifier: GPL-2.0-or-later
"""The CI step (ci/action). The launcher in the test's bundle boots no machine: it only
records its arguments.
"""

import functools
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

ACTION = Path(__file__).parents[2] / "ci/action"
PROGRAM = ACTION / "fakernic-action.py"
NAME = f"fakernic-lab-1.2-{platform.machine()}"
FAILED = 125
# Writes its arguments and environment to ran.json. Also writes a report.
LAUNCHER = f"""#!{sys.executable}
import json, os, sys
json.dump([sys.argv[1:], dict(os.environ)], open("ran.json", "w"))
report = sys.argv[sys.argv.index("--junit") + 1]
open(report, "w").write('''<testsuite>
<testcase name="node1: ./a | b" time="1.25"/>
<testcase name="node2: ./c" time="0.5"><failure message="exit code 3"/></testcase>
<testcase name="node3: ./d"><skipped/></testcase>
<testcase name="machines"><failure message="node2 was lost"/></testcase>
</testsuite>''')
sys.exit(3)
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Step:
    """Serves a release on this host, and runs the step with that release."""

    def __init__(self, folder):
        self.folder = folder
        self.release = folder / "release"
        self.release.mkdir()
        self.archive = self.release / f"{NAME}.tar.xz"
        with tarfile.open(self.archive, "w:xz") as tar:
            entry = tarfile.TarInfo(f"{NAME}/fakernic-lab")
            entry.mode, entry.size = 0o755, len(LAUNCHER)
            tar.addfile(entry, io.BytesIO(LAUNCHER.encode()))
        self.list()
        self.server = ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Quiet, directory=self.release))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def list(self):
        digest = hashlib.sha256(self.archive.read_bytes()).hexdigest()
        (self.release / "SHA256SUMS").write_text(
            f"{'0' * 64}  fakernic-qemu_1.2_amd64.deb\n"
            f"{digest}  {self.archive.name}\n")

    def run(self, **settings):
        """Runs the step, and returns its CompletedProcess. The files that it writes
        (ran.json, summary and others) are in work/."""
        work = self.folder / "work"
        work.mkdir(exist_ok=True)
        known = {"PATH": os.environ["PATH"], "HOME": str(self.folder / "home"),
                 "FAKERNIC_RELEASE": self.url, "GITHUB_OUTPUT": "output",
                 "GITHUB_STEP_SUMMARY": "summary", "GITHUB_PATH": "path",
                 "GITHUB_ENV": "env"}
        known.update((f"FAKERNIC_{name}", value)
                     for name, value in settings.items())
        return subprocess.run([sys.executable, PROGRAM], cwd=work, env=known,
                              check=False, capture_output=True, text=True,
                              timeout=60)

    def left(self, name):
        return (self.folder / "work" / name).read_text(encoding="utf-8")

    def ran(self):
        return json.loads(self.left("ran.json"))

    def refused(self, **settings):
        """Runs the step, which has to fail. Returns the one line that it prints."""
        done = self.run(**settings)
        assert done.returncode == FAILED and not done.stdout, done
        (line,) = done.stderr.splitlines()
        return line

    def kept(self):
        """The names of what the step leaves in its cache."""
        return sorted(path.name for path in
                      (self.folder / "home/.cache/fakernic-bundle").iterdir())


@pytest.fixture
def step(tmp_path):
    made = Step(tmp_path)
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_inputs_become_options_of_run(step):
    done = step.run(RUN="./server 'a b'\n\n  ./client node1\n", MACHINES="3",
                    IMAGE="my.qcow2", FAULTS="at=rx do=drop\nat=tx nth=2 do=drop\n",
                    TIMELINE="true", KVM="false", OPTIONS="--cpus 2 --env 'A=b c'")
    assert done.returncode == 3
    words, env = step.ran()
    assert words == [
        "run", "--junit", "fakernic-lab.xml", "--out", "fakernic-lab.out", "-n", "3",
        "--image", "my.qcow2", "--fault", "at=rx do=drop", "--fault",
        "at=tx nth=2 do=drop", "--timeline", "--cpus", "2", "--env", "A=b c", "--",
        "./server 'a b'", ":", "./client node1"]
    assert env["FAKERNIC_ACCEL"] == "tcg"


def test_empty_inputs_become_no_options(step):
    step.run(RUN="./a", MACHINES="", IMAGE="", FAULTS="", TIMELINE="", KVM="",
             OPTIONS="")
    words, env = step.ran()
    assert words == ["run", "--junit", "fakernic-lab.xml", "--out",
                     "fakernic-lab.out", "--", "./a"]
    assert "FAKERNIC_ACCEL" not in env


def test_summary_shows_each_machine(step):
    step.run(RUN="./a")
    assert step.left("summary").splitlines()[2:] == [
        "| node1 | `./a \\| b` | passed | 1.2 |",
        "| node2 | `./c` | **exit code 3** | 0.5 |",
        "| node3 | `./d` | skipped | 0.0 |",
        "| machines |  | **node2 was lost** | 0.0 |"]


def test_outputs_name_report_and_logs(step):
    step.run(RUN="./a", LOGS="logs", REPORT="r.xml")
    assert step.left("output") == "report=r.xml\nlogs=logs\n"


def test_second_run_uses_the_unpacked_bundle(step):
    step.run(RUN="./a")
    step.archive.unlink()
    assert step.run(RUN="./b").returncode == 3
    assert step.ran()[0][-1] == "./b" and len(step.kept()) == 1


def test_without_commands_the_next_steps_find_the_launcher(step):
    assert step.run().returncode == 0
    folder = Path(step.left("path").strip())
    assert (folder / "fakernic-lab").exists()
    assert step.left("env") == (f"PYTHONPATH={folder}/lib\n"
                                "PYTEST_PLUGINS=fakernic_lab.pytest_plugin\n")


def test_wrong_sum_is_refused_and_nothing_kept(step):
    with open(step.archive, "ab") as file:
        file.write(b"x")
    assert "its sum is not the one in SHA256SUMS" in step.refused(RUN="./a")
    assert step.kept() == []


def test_archive_that_cannot_be_unpacked(step):
    whole = step.archive.read_bytes()
    step.archive.write_bytes(whole[:len(whole) // 2])
    step.list()
    assert "cannot unpack the bundle in " in step.refused(RUN="./a")
    assert step.kept() == []


def test_release_that_does_not_exist(step):
    step.url += "/nosuch"
    assert "does this release exist?" in step.refused(RUN="./a")


def test_release_without_a_bundle_for_this_machine(step):
    (step.release / "SHA256SUMS").write_text(
        f"{'0' * 64}  fakernic-lab-1.2-vax.tar.xz\n")
    assert step.refused(RUN="./a") == (
        f"fakernic: the release has no bundle for {platform.machine()}")


@pytest.mark.parametrize("settings, line", [
    ({"KVM": "maybe"}, "kvm is 'maybe': write true or false"),
    ({"RUN": "./a", "TIMELINE": "2"}, "timeline is '2': write true or false"),
    ({"RUN": "./a", "OPTIONS": "'"}, "options: No closing quotation"),
    ({"RELEASE": ""}, "FAKERNIC_RELEASE is not set: give the URL of a release"),
], ids=["kvm", "timeline", "options", "release"])
def test_bad_input_is_refused(step, settings, line):
    assert step.refused(**settings) == f"fakernic: {line}"


def test_action_passes_each_input():
    action = yaml.safe_load((ACTION / "action.yml").read_text(encoding="utf-8"))
    run, upload = action["runs"]["steps"]
    passed = {name: value for name, value in run["env"].items()
              if name.startswith("FAKERNIC_")}
    used = set(re.findall(r"inputs\.(\w+)", json.dumps([run, upload])))
    assert used == set(action["inputs"])
    text = PROGRAM.read_text(encoding="utf-8").split('"""')[1]
    assert set(passed) <= set(re.findall(r"FAKERNIC_[A-Z]+", text))
