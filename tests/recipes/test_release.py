# SPDX-License-Identifier: GPL-2.0-or-later
"""What "make release" has collected: sums, the bill of materials, and the container,
which runs a program.
"""

import hashlib
import json
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from plain import run_inside

SRC = Path(__file__).parents[2]
RELEASE = Path("/cache/release")
# Of this machine's apt, as ci/bootstrap.sh has read them.
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
VERSION = (SRC / "VERSION").read_text(encoding="utf-8").strip()


def digest_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def listed():
    """File name -> SHA-256."""
    lines = (RELEASE / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


def test_sums_are_those_of_all_files():
    assert listed() == {path.name: digest_of(path) for path in RELEASE.iterdir()
                        if path.name != "SHA256SUMS"}


def test_files_of_a_release():
    names = set(listed())
    for wanted in (f"fakernic-lab-{VERSION}-x86_64.tar.xz",
                   f"fakernic-docs-{VERSION}.tar.xz", "fakernic-action.py",
                   f"fakernic-container-{VERSION}.tar", "fakernic-gitlab.yml",
                   f"fakernic-{VERSION}.spdx.json"):
        assert wanted in names
    debs = {name.split("_")[0] for name in names if name.endswith(".deb")}
    assert debs == {"fakernic-qemu", "fakernic-lab", "fakernic-lab-image",
                    "fakernic-lab-guest", "fakernic-dkms", "fakernic-provider"}


def test_gitlab_job_names_this_release():
    text = (RELEASE / "fakernic-gitlab.yml").read_text(encoding="utf-8")
    assert f"/releases/download/v{VERSION}" in text


def test_bill_of_materials_describes_each_file():
    bill = json.loads((RELEASE / f"fakernic-{VERSION}.spdx.json").read_text())
    assert bill["spdxVersion"] == "SPDX-2.3"
    packages = {one["SPDXID"]: one for one in bill["packages"]}
    described = {packages[one["relatedSpdxElement"]]["name"]:
                 packages[one["relatedSpdxElement"]]["checksums"][0]["checksumValue"]
                 for one in bill["relationships"]
                 if one["relationshipType"] == "DESCRIBES"}
    sums = listed()
    del sums[f"fakernic-{VERSION}.spdx.json"]
    assert described == sums
    inside = {packages[one["relatedSpdxElement"]]["name"]
              for one in bill["relationships"]
              if one["relationshipType"] == "CONTAINS" and
              one["spdxElementId"].endswith("x86-64.tar.xz")}
    assert {"qemu-system-x86", "seabios", "libc6", "libibverbs1"} <= inside


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """(the image's configuration, its unpacked layers)"""
    folder = tmp_path_factory.mktemp("oci")
    with tarfile.open(RELEASE / f"fakernic-container-{VERSION}.tar") as tar:
        tar.extractall(folder, filter="data")

    def blob(descriptor):
        path = folder / "blobs" / descriptor["digest"].replace(":", "/")
        assert f"sha256:{digest_of(path)}" == descriptor["digest"]
        assert path.stat().st_size == descriptor["size"]
        return path

    (entry,) = json.loads((folder / "index.json").read_text())["manifests"]
    manifest = json.loads(blob(entry).read_text())
    config = json.loads(blob(manifest["config"]).read_text())
    root = folder / "root"
    root.mkdir()
    for layer in manifest["layers"]:
        subprocess.run(["tar", "-xzpf", blob(layer), "-C", root], check=True)
    return config["config"], root


def test_container_has_the_mirror_of_the_build_and_no_host_name(image):
    etc = image[1] / "etc"
    assert not (etc / "hostname").exists() and not (etc / "resolv.conf").exists()
    assert not (etc / "apt/apt.conf.d/99mmdebstrap").exists()
    sources = "".join(path.read_text() for path in (etc / "apt/sources.list.d").iterdir())
    assert sorted(re.findall("^URIs: .*", sources, re.M)) == sorted(
        re.findall("^URIs: .*", SOURCES.read_text(encoding="utf-8"), re.M))


def test_container_runs_a_program(image):
    config, root = image
    done = run_inside(root, *config["Entrypoint"], "run", "-n", "1", "--", "ibv_devinfo",
                      folder=config["WorkingDir"])
    assert done.returncode == 0 and "PORT_ACTIVE" in done.stdout, done
