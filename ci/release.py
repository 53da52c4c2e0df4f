# SPDX-License-Identifier: GPL-2.0-or-later
"""Everything that a release publishes, in one folder (CONTRIBUTING.md, "A release").

  fakernic-lab-VERSION-ARCH.tar.xz   the bundle
  *.deb                              the Debian packages
  fakernic-container-VERSION.tar     the bundle as a container image (OCI)
  fakernic-docs-VERSION.tar.xz       the site of all documents
  fakernic-action.py, fakernic-gitlab.yml   the CI step for other services
  fakernic-VERSION.spdx.json         the bill of materials (SPDX 2.3)
  SHA256SUMS                         the sum of each file

Every file depends on its inputs and on the date of the bundle only. The packages of
the mirror are an input: when it has newer ones, the container changes.
"""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from datetime import datetime, timezone
from pathlib import Path

import bundle

SRC = Path("/src")
CACHE = Path("/cache")
OUT = CACHE / "release"
WORK = CACHE / "build/release"
ACTION = SRC / "ci/action"
SOURCES = "/etc/apt/sources.list.d/debian.sources"
# Removes names of this machine and apt's settings from the container. Its apt has the
# mirror of SOURCES, so FAKERNIC_MIRROR (ci/bootstrap.sh) chooses that of a release.
PUBLIC = 'rm -f "$1"/etc/hostname "$1"/etc/resolv.conf "$1"/etc/apt/apt.conf.d/99mmdebstrap'
SUMS = "SHA256SUMS"
# The bill of materials: package and its architecture at Debian.
PURL = "pkg:deb/debian/{}@{}?arch={}"
OURS = "GPL-2.0-or-later AND GPL-2.0-only AND (GPL-2.0-only OR BSD-2-Clause)"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def sha256_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def plain_tar(folder, target, when, prefix=""):
    """A tar of the folder whose bytes depend on names and contents alone."""
    with open(target, "wb") as out:
        subprocess.run(
            ["tar", "--sort=name", f"--mtime=@{when}", "--owner=0", "--group=0",
             "--numeric-owner", "--format=gnu", f"--transform=s,^\\.,{prefix or '.'},S",
             "-C", folder, "-cf", "-", "."], check=True, stdout=out)


# ---- the container -----------------------------------------------------------

class Oci:
    """The files of an image layout (OCI image specification 1.0), in a tar."""

    def __init__(self):
        self.files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def add(self, data, kind):
        """Adds a blob; its descriptor."""
        digest = sha256(data)
        self.files[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}",
                "digest": f"sha256:{digest}", "size": len(data)}

    def add_json(self, value, kind):
        return self.add(json.dumps(value, sort_keys=True).encode(), kind)

    def write(self, target, when):
        with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
            for name, data in sorted(self.files.items()):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mtime = len(data), when
                tar.addfile(entry, io.BytesIO(data))


def require_public(sources):
    """Ends if apt's SOURCES name a mirror that must not be published."""
    for uri in re.findall(r"^URIs: *(.*)", sources, re.M):
        if "@" in uri or not uri.startswith(("http://", "https://")):
            raise SystemExit(f"release: the container would have the mirror {uri}: set "
                             "FAKERNIC_MIRROR to a public one, then make distclean")


def layers(when):
    """Tars of a small Debian with Python, and of the bundle in /fakernic."""
    base, own = WORK / "base.tar", WORK / "bundle.tar"
    require_public(Path(SOURCES).read_text(encoding="utf-8"))
    subprocess.run(
        ["mmdebstrap", "--mode=root", "--variant=essential",
         "--aptopt=/etc/apt/apt.conf.d/99host", "--include=python3",
         f"--customize-hook={PUBLIC}", "--skip=output/dev", "--format=tar", "trixie", base,
         SOURCES], check=True,
        env=dict(os.environ, SOURCE_DATE_EPOCH=str(when)), stdin=subprocess.DEVNULL)
    unpacked = WORK / "bundle"
    unpacked.mkdir()
    subprocess.run(["tar", "-xf", bundle.OUT / f"{bundle.name()}.tar.xz", "-C", unpacked,
                    "--strip-components=1", "--no-same-owner"], check=True)
    plain_tar(unpacked, own, when, "fakernic")
    return base, own


def container(target, when):
    """The image; the names and versions of its Debian packages."""
    oci = Oci()
    made = datetime.fromtimestamp(when, timezone.utc).isoformat()
    sums, blobs = [], []
    tars = layers(when)
    for tar in tars:
        data = tar.read_bytes()
        sums.append(f"sha256:{sha256(data)}")
        blobs.append(oci.add(gzip.compress(data, 6, mtime=0), "layer.v1.tar+gzip"))
    config = {
        "architecture": bundle.HOST.debian, "os": "linux", "created": made,
        "config": {"Entrypoint": ["/fakernic/fakernic-lab"], "Cmd": ["--help"],
                   "WorkingDir": "/work",
                   "Env": ["PATH=/fakernic:/usr/sbin:/usr/bin:/sbin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": sums},
        "history": [{"created": made, "created_by": name}
                    for name in ("Debian with Python", "fakernic")]}
    manifest = {"schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": oci.add_json(config, "config.v1+json"), "layers": blobs}
    entry = oci.add_json(manifest, "manifest.v1+json")
    entry["annotations"] = {"org.opencontainers.image.ref.name":
                            f"fakernic:{bundle.version()}"}
    oci.files["index.json"] = json.dumps(
        {"schemaVersion": 2, "manifests": [entry]}, sort_keys=True).encode()
    oci.write(target, when)
    with tarfile.open(tars[0]) as tar:
        status = tar.extractfile("./var/lib/dpkg/status").read().decode()
    return debian_packages(status)


def debian_packages(status):
    """(name, version, architecture) of each installed package of dpkg's status."""
    found = set()
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines()
                      if ": " in line and not line.startswith(" "))
        if fields.get("Status") == "install ok installed":
            found.add((fields["Package"], fields["Version"], fields["Architecture"]))
    return sorted(found)


# ---- the bill of materials ---------------------------------------------------

def bundled_packages():
    """(name, version, architecture) of what the bundle's file PACKAGES lists."""
    with tarfile.open(bundle.OUT / f"{bundle.name()}.tar.xz") as tar:
        for entry in tar:
            if entry.name.endswith("/PACKAGES"):
                text = tar.extractfile(entry).read().decode()
                break
    lines = [line.split() for line in text.splitlines()
             if line and not line.startswith("#")]
    return sorted({(words[0], words[1], bundle.HOST.debian) for words in lines})


def spdx_id(*words):
    return "SPDXRef-" + "-".join("".join(c if c.isalnum() or c in ".-" else "-"
                                         for c in word) for word in words)


def spdx_package(name, title, version, licence, **more):
    return {"SPDXID": name, "name": title, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": licence, "licenseDeclared": licence,
            "copyrightText": "NOASSERTION", **more}


def described(files, contents, when):
    """The bill of materials: each file, and the Debian packages that it contains."""
    packages, relations = {}, []
    for path in files:
        name = spdx_id("file", path.name)
        packages[name] = spdx_package(
            name, path.name, bundle.version(), OURS,
            checksums=[{"algorithm": "SHA256", "checksumValue": sha256_of(path)}])
        relations.append(("SPDXRef-DOCUMENT", "DESCRIBES", name))
        for package, version, arch in contents.get(path, ()):
            part = spdx_id("deb", package, version)
            packages[part] = spdx_package(
                part, package, version, "NOASSERTION", externalRefs=[{
                    "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                    "referenceLocator": PURL.format(package, version, arch)}])
            relations.append((name, "CONTAINS", part))
    text = json.dumps(sorted(packages.items()), sort_keys=True)
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT", "name": f"fakernic-{bundle.version()}",
        "documentNamespace": f"urn:sha256:{sha256(text.encode())}",
        "creationInfo": {
            "created": datetime.fromtimestamp(when, timezone.utc).strftime(
                "%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: fakernic ci/release.py"]},
        "packages": list(packages.values()),
        "relationships": [dict(zip(
            ("spdxElementId", "relationshipType", "relatedSpdxElement"), words))
            for words in relations]}


# ---- all of it ---------------------------------------------------------------

def documents(target, when):
    """The site, built here by Sphinx, and its links checked."""
    site = WORK / "docs"
    subprocess.run([SRC / "ci/check_docs.py", site], check=True,
                   env=dict(os.environ, SOURCE_DATE_EPOCH=str(when)),
                   stdout=subprocess.DEVNULL)
    plain = WORK / "docs.tar"
    plain_tar(site, plain, when, f"fakernic-docs-{bundle.version()}")
    with open(target, "wb") as out:
        subprocess.run(["xz", "-T1", "-6", "-c", plain], check=True, stdout=out)


def build():
    """Collects everything in OUT; what it is made of has been built before."""
    version, when = bundle.version(), bundle.date()
    for folder in (OUT, WORK):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    archive = OUT / f"{bundle.name()}.tar.xz"
    shutil.copy(bundle.OUT / archive.name, archive)
    for deb in (CACHE / "packages").glob("*.deb"):
        shutil.copy(deb, OUT)
    documents(OUT / f"fakernic-docs-{version}.tar.xz", when)
    image = OUT / f"fakernic-container-{version}.tar"
    inside = container(image, when)
    shutil.copy(ACTION / "fakernic-action.py", OUT)
    text = (ACTION / "gitlab.yml").read_text(encoding="utf-8")
    owner = os.environ.get("FAKERNIC_OWNER", "OWNER")
    (OUT / "fakernic-gitlab.yml").write_text(
        text.replace("OWNER", owner).replace("VERSION", version), encoding="utf-8")
    files = sorted(OUT.iterdir())
    from_debian = bundled_packages()
    bill = described(files, {archive: from_debian,
                             image: sorted({*inside, *from_debian})}, when)
    (OUT / f"fakernic-{version}.spdx.json").write_text(
        json.dumps(bill, indent=1) + "\n", encoding="utf-8")
    lines = [f"{sha256_of(path)}  {path.name}\n" for path in sorted(OUT.iterdir())]
    (OUT / SUMS).write_text("".join(lines), encoding="utf-8")
    shutil.rmtree(WORK)
