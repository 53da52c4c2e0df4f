# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs each workflow of ci/action/README.md in a plain Debian, with the bundle from a
local server. A small interpreter of workflows stands in for GitHub.
"""

import functools
import hashlib
import re
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from plain import BASE, Plain

SRC = Path(__file__).parents[2]
ACTION = SRC / "ci/action"
BUNDLES = Path("/cache/bundle")
HELLO = SRC / "tests/lab/example/hello.c"
CHECKOUT = "/builds/mine"
ACTIONS = "/actions/fakernic"
OURS = "OWNER/fakernic/ci/action@v1"
OF_THE_SERVICE = ("actions/checkout@v4", "actions/upload-artifact@v4")
EXPRESSION = re.compile(r"\$\{\{ *([\w.]+) *\}\}")
FILES = ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH", "GITHUB_ENV")
# Like the tests of Rust bindings for verbs: it needs a device.
VERBS_RS = """
use std::os::raw::{c_char, c_int, c_void};
use std::ffi::CStr;
extern "C" {
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut c_void;
    fn ibv_get_device_name(device: *mut c_void) -> *const c_char;
    fn ibv_open_device(device: *mut c_void) -> *mut c_void;
}
#[test]
fn opens_the_device() {
    let mut count = 0;
    unsafe {
        let list = ibv_get_device_list(&mut count);
        assert_eq!(count, 1);
        let name = CStr::from_ptr(ibv_get_device_name(*list));
        assert_eq!(name.to_str().unwrap(), "fakernic0");
        assert!(!ibv_open_device(*list).is_null());
    }
}
"""
PYTEST = """
def test_ping(lab):
    assert "PORT_ACTIVE" in lab.node1.check("ibv_devinfo")
    lab.node2.check("ping -c 1 node1")
"""


def workflows():
    text = (ACTION / "README.md").read_text(encoding="utf-8")
    found = [yaml.safe_load(block) for block in
             re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S)]
    return {each["name"]: each for each in found if "jobs" in each}


class Handler(SimpleHTTPRequestHandler):
    """Serves the files of a release."""

    def translate_path(self, path):
        version = (SRC / "VERSION").read_text(encoding="utf-8").strip()
        found = re.fullmatch(
            rf"/OWNER/fakernic/releases/download/v{re.escape(version)}/([\w.-]+)",
            path)
        return super().translate_path(f"/{found[1]}" if found else "/nosuch")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Runs a server with a release; its URL."""
    folder = tmp_path_factory.mktemp("release")
    (archive,) = BUNDLES.glob("*.tar.xz")
    (folder / archive.name).symlink_to(archive)
    (folder / "fakernic-action.py").symlink_to(ACTION / "fakernic-action.py")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    (folder / "SHA256SUMS").write_text(f"{digest}  {archive.name}\n")
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(
            Handler, directory=folder)) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


class Runner:
    """Stands in for a runner of GitHub: a user with sudo, and a checkout."""

    def __init__(self, server):
        self.plain = Plain(BASE.with_name("action"))
        self.server = server
        self.env = {}
        self.path = []
        self.plain.step("apt-get update; apt-get install -y --no-install-recommends "
                        "sudo python3; useradd -m runner; mkdir -p /builds/mine; "
                        "chown runner /builds/mine; "
                        "echo 'runner ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/runner")
        self.plain.put(ACTION, f"{ACTIONS}/ci/action")
        self.plain.put(SRC / "VERSION", f"{ACTIONS}/VERSION")

    def file(self, name):
        return self.plain.root / CHECKOUT.lstrip("/") / name

    def shell(self, script, env=()):
        """Runs a script, and returns its output. The paths and variables that it
        writes to the files of the service apply to the next steps."""
        known = {"HOME": "/home/runner", "GITHUB_ACTION_PATH": f"{ACTIONS}/ci/action",
                 **{name: f"{CHECKOUT}/.{name}" for name in FILES},
                 **self.env, **dict(env)}
        words = [f"{name}={value}" for name, value in known.items()]
        path = ":".join([*self.path, "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"])
        done = self.plain.run("env", f"PATH={path}", *words, "sh", "-e", "-c", script,
                              folder=CHECKOUT, user="runner:runner")
        assert done.returncode == 0, f"{script}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        for name, keep in (("GITHUB_PATH", self.path.append), ("GITHUB_ENV", self.keep)):
            left = self.file(f".{name}")
            if left.exists():
                for line in left.read_text(encoding="utf-8").splitlines():
                    keep(line)
                left.unlink()
        return done.stdout

    def keep(self, line):
        name, _, value = line.partition("=")
        self.env[name] = value

    def use(self, inputs):
        """Runs the steps of our action, and returns their output."""
        action = yaml.safe_load((ACTION / "action.yml").read_text(encoding="utf-8"))
        assert set(inputs) <= set(action["inputs"])
        values = {f"inputs.{name}": str(inputs.get(name, one.get("default", "")))
                  for name, one in action["inputs"].items()}
        values |= {"github.server_url": self.server,
                   "github.action_repository": "OWNER/fakernic"}
        shown = ""
        for step in action["runs"]["steps"]:
            if step.get("uses") in OF_THE_SERVICE:
                continue
            shown += self.shell(step["run"], {
                name: EXPRESSION.sub(lambda found: values[found[1]], value)
                for name, value in step["env"].items()})
        return shown

    def run(self, workflow):
        """Runs the steps of the workflow's only job, and returns their output."""
        (job,) = workflow["jobs"].values()
        shown = ""
        for step in job["steps"]:
            if step.get("uses") == OURS:
                shown += self.use(step.get("with", {}))
            elif "uses" in step:
                assert step["uses"] in OF_THE_SERVICE
            else:
                shown += self.shell(step["run"])
        return shown


@pytest.fixture
def runner(server):
    made = Runner(server)
    yield made
    made.plain.remove()


def test_server_and_client(runner):
    runner.file("hello.c").write_bytes(HELLO.read_bytes())
    shown = runner.run(workflows()["pair"])
    assert "node1: Hello from the other machine\n" in shown
    assert runner.file(".GITHUB_STEP_SUMMARY").read_text().count("| passed |") == 2
    assert runner.file(".GITHUB_OUTPUT").read_text() == (
        "report=fakernic-lab.xml\nlogs=fakernic-lab.out\n")
    assert "fakernic" in runner.file("fakernic-lab.out/node2/dmesg").read_text()


def test_binary_with_one_machine(runner):
    runner.file("verbs.rs").write_text(VERBS_RS)
    assert "test opens_the_device ... ok" in runner.run(workflows()["loopback"])


def test_pytest_suite_on_the_runner(runner):
    runner.file("test_mine.py").write_text(PYTEST)
    assert "1 passed" in runner.run(workflows()["pytest"])


def test_gitlab_job(runner, server):
    """As root in a container, with the variables of the job in the README."""
    text = (ACTION / "README.md").read_text(encoding="utf-8")
    (block,) = [block for block in re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S)
                if "extends: .fakernic" in block]
    variables = yaml.safe_load(block)["rdma"]["variables"]
    version = (SRC / "VERSION").read_text(encoding="utf-8").strip()
    hidden = (ACTION / "gitlab.yml").read_text(encoding="utf-8").replace(
        "https://github.com", server).replace("VERSION", version)
    job = yaml.safe_load(hidden)[".fakernic"]
    runner.file("hello.c").write_bytes(HELLO.read_bytes())
    runner.plain.step("apt-get install -y --no-install-recommends gcc libc6-dev "
                      "librdmacm-dev; gcc -o hello hello.c -lrdmacm -libverbs",
                      folder=CHECKOUT)
    exports = "".join(f"export {name}='{value}'\n"
                      for name, value in {**job["variables"], **variables}.items())
    script = "\n".join([*job["before_script"], *job["script"]])
    shown = runner.plain.step(exports + script, folder=CHECKOUT).stdout
    assert "node1: Hello from the other machine\n" in shown
    for path in (*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]):
        assert runner.file(path).exists()


def test_workflows_have_at_most_fifteen_lines():
    text = (ACTION / "README.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```yaml\n(.*?)^```", text, re.M | re.S):
        assert len(block.splitlines()) <= 15
