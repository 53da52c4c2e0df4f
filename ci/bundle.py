# SPDX-License-Identifier: GPL-2.0-or-later
"""The bundle: one archive that runs on any Linux of this architecture with Python.

  fakernic-lab          starts the launcher (ci/bundled)
  bundle.list           the size of each file, by which the launcher finds gaps
  lib/                  the launcher, a Python package
  bin/                  QEMU and setpriv with the loader below, the wire, the agent
  qemu/                 Debian's QEMU, the device, loader, libraries, firmware
  images/               what a machine boots: kernel, initrd, base, payload; the
                        provider for the libibverbs of other systems
  PACKAGES              the Debian packages that all this comes from

The archive depends on its contents, VERSION and one date only. Files are sorted
and belong to root; the date is $FAKERNIC_DATE, which the Makefile sets, or that of
the last commit. The archive is two xz streams. The second is the data of the base,
which is large and changes seldom, so its compressed form is kept.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from fakernic_lab.arches import HOST

import image

SRC = Path("/src")
BUILD = Path("/cache/build")
OUT = Path("/cache/bundle")
BUNDLED = SRC / "ci/bundled"
LAB = SRC / "tests/lab"
LIBRARIES = Path("/usr/lib") / HOST.triplet
QEMU = Path("/usr/bin") / HOST.qemu
SETPRIV = Path("/usr/bin/setpriv")
# Files of BUNDLED -> their names in the bundle. @FACT@ in them is one of ci/arches.
FILLED = {"README": "README", "fakernic-lab": "fakernic-lab", "setpriv": "bin/setpriv",
          "qemu": f"bin/{HOST.wrapper}"}
DEVICE = "fakernic-device.so"
# Those that the architecture lacks are left out: only x86_64 needs SeaBIOS.
FIRMWARE = ("seabios/*.bin", "qemu/kvmvapic.bin", "qemu/linuxboot*.bin",
            "qemu/multiboot*.bin", "qemu/pvh.bin", "qemu/efi-virtio.rom",
            "qemu/efi-e1000*.rom", "qemu/keymaps/*")
BASE = "images/base.erofs"
# The first files of the archive, so that a truncated one has what reports it.
FIRST = ("fakernic-lab", "bundle.list", "VERSION", "README", "lib")
PROGRAMS = ("bin/", "lib/fakernic-lab", "qemu/lib/ld-", "qemu/qemu-", "qemu/setpriv")
# The bytes depend on the size of a block, not on the number of processors. Preset 1
# makes 100 MB in 45 s of processor time, preset 6 makes 90 MB in 200 s.
XZ = ("xz", "-T2", "-1", "--block-size=64MiB", "--check=crc64", "--stdout")
PIECE = 1 << 20


def version():
    return (SRC / "VERSION").read_text(encoding="utf-8").strip()


def name():
    return f"fakernic-lab-{version()}-{HOST.cpu}"


def date():
    """The time of all files, in seconds since 1970."""
    wanted = os.environ.get("FAKERNIC_DATE")
    if wanted:
        return int(wanted)
    if shutil.which("git"):
        shown = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", SRC, "log", "-1",
             "--format=%ct"], check=False, capture_output=True, text=True)
        if shown.returncode == 0:
            return int(shown.stdout)
    return int((SRC / "VERSION").stat().st_mtime)


# ---- what is in it -----------------------------------------------------------

def linked(program):
    """The loader and libraries of a program or module, as paths; None if one is
    missing in the root."""
    shown = subprocess.run(["ldd", program], check=True, capture_output=True,
                           text=True).stdout
    if "not found" in shown:
        return None
    return {Path(path) for path in re.findall(r"(/\S+) \(0x", shown)}


def device():
    """The device for Debian's QEMU."""
    (path,) = (BUILD / "qemu-plugin/qemu").glob("*.so")
    return path


def programs():
    """Name in the bundle -> file of the root, for QEMU and what it loads. A module
    that needs more libraries than QEMU itself is left out."""
    needed = linked(QEMU) | linked(SETPRIV) | linked(device())
    found = {f"qemu/{HOST.qemu}": QEMU, "qemu/setpriv": SETPRIV}
    for module in sorted((LIBRARIES / "qemu").glob("*.so")):
        wanted = linked(module)
        if wanted is not None and wanted <= needed:
            found[f"qemu/modules/{module.name}"] = module
    found.update((f"qemu/lib/{path.name}", path) for path in needed)
    for pattern in FIRMWARE:
        for path in sorted(Path("/usr/share").glob(pattern)):
            kept = path.relative_to("/usr/share").parts[1:]
            found["/".join(("qemu/share", *kept))] = path
    return found


def own_parts(kernel):
    """Name in the bundle -> file, for what is made of the checkout."""
    found = {f"qemu/lib/{DEVICE}": device(),
             "lib/fakernic-lab": LAB / "fakernic-lab",
             "VERSION": SRC / "VERSION",
             "CHANGES": SRC / "CHANGES"}
    for path in (LAB / "fakernic_lab").rglob("*"):
        if path.suffix in (".py", ".lua", ".txt"):
            found[f"lib/{path.relative_to(LAB)}"] = path
    for tool in ("fakernic-lab-relay", "fakernic-lab-agent"):
        found[f"bin/{tool}"] = BUILD / "lab" / tool
    for part in (f"vmlinuz-{kernel}", f"initrd-{kernel}", "base.erofs",
                 "payload.erofs"):
        found[f"images/{part}"] = image.IMAGES / part
    for path in (image.IMAGES / "providers").glob(f"{HOST.name}/*/*.so"):
        found[f"images/{path.relative_to(image.IMAGES)}"] = path
    for path in (SRC / "LICENSES").iterdir():
        found[f"LICENSES/{path.name}"] = path
    return found


def packages_of(paths):
    """The installed packages that these files belong to."""
    owner = {}
    for listing in Path("/var/lib/dpkg/info").glob("*.list"):
        package = listing.stem.partition(":")[0]
        for line in listing.read_text(encoding="utf-8").splitlines():
            owner[os.path.realpath(os.path.dirname(line)) + "/" +
                  os.path.basename(line)] = package
    found = set()
    for path in paths:
        real = os.path.realpath(path)
        found.add(owner.get(real) or owner[
            os.path.realpath(os.path.dirname(path)) + "/" + path.name])
    return found


def package_lines(packages):
    """A line "NAME VERSION SOURCE SOURCE-VERSION" for each installed package."""
    shown = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${Version} ${source:Package} "
         "${source:Version}\\n", *sorted(packages)],
        check=True, capture_output=True, text=True).stdout
    return "".join(f"{line}\n" for line in sorted(set(shown.splitlines())))


def filled(text):
    """The text with the version and the facts of this architecture."""
    for fact, value in {"VERSION": version(), **HOST._asdict()}.items():
        text = text.replace(f"@{fact}@", value)
    return text


def texts(files, kernel):
    """Name in the bundle -> text, for files that are written here."""
    guest = image.guest_packages(image.first_stage(), "guest")
    return {
        **{target: filled((BUNDLED / source).read_text(encoding="utf-8"))
           for source, target in FILLED.items()},
        "PACKAGES": "# Debian packages: name, version, source, version of the "
        "source.\n\n# Programs, libraries and firmware in qemu:\n" +
        package_lines(packages_of(files.values())) +
        "\n# Files of the machines, in images/base.erofs:\n" +
        package_lines(guest) +
        f"\n# Their kernel:\nlinux {image.kernel_version(kernel)}\n"}


# ---- the archive -------------------------------------------------------------

def order(path):
    """Sorts what reports an incomplete bundle first, the base last."""
    top = path.partition("/")[0]
    return (path == BASE, FIRST.index(top) if top in FIRST else len(FIRST), path)


def size_of(source):
    return len(source.encode()) if isinstance(source, str) else source.stat().st_size


def header(path, source, when):
    info = tarfile.TarInfo(f"{name()}/{path}")
    info.size, info.mtime = size_of(source), when
    program = path == "fakernic-lab" or path.startswith(PROGRAMS)
    info.mode = 0o755 if program else 0o644
    info.uname = info.gname = "root"
    return info.tobuf(tarfile.GNU_FORMAT)


def data(source):
    """The data of a file in a tar, in pieces: whole blocks of 512 bytes."""
    if isinstance(source, str):
        yield source.encode()
    else:
        with open(source, "rb") as file:
            while piece := file.read(PIECE):
                yield piece
    yield bytes(-size_of(source) % tarfile.BLOCKSIZE)


def head(parts, when):
    """All of the tar up to the data of the base."""
    for path in sorted(parts, key=order):
        yield header(path, parts[path], when)
        if path != BASE:
            yield from data(parts[path])


def tail(base):
    """The data of the base and the end of the tar."""
    yield from data(base)
    yield bytes(2 * tarfile.BLOCKSIZE)


def compress(pieces, target):
    """Write these bytes as one xz stream."""
    with open(target, "wb") as out, subprocess.Popen(
            XZ, stdin=subprocess.PIPE, stdout=out) as xz:
        for piece in pieces:
            xz.stdin.write(piece)
    if xz.returncode:
        raise OSError(f"xz ended with {xz.returncode}")


def join(streams, target):
    """Concatenate the streams; the archive has its name when it is complete."""
    partial = target.with_suffix(".partial")
    total = hashlib.sha256()
    with open(partial, "wb") as out:
        for stream in streams:
            with open(stream, "rb") as file:
                while piece := file.read(PIECE):
                    total.update(piece)
                    out.write(piece)
    partial.rename(target)
    target.with_name(f"{target.name}.sha256").write_text(
        f"{total.hexdigest()}  {target.name}\n", encoding="utf-8")


def inputs():
    """Files of the checkout that go into it, whatever else was built."""
    return [SRC / "ci/bundle.py", BUNDLED, LAB / "fakernic-lab", LAB / "fakernic_lab",
            SRC / "VERSION", SRC / "CHANGES", SRC / "LICENSES", SRC / "ci/versions",
            SRC / "ci/arches"]


def build(step, digest, kernel):
    """The archive of what the other steps have built."""
    base = image.IMAGES / "base.erofs"
    tail_stream, head_stream = BUILD / "bundle-base.xz", BUILD / "bundle-rest.xz"
    key = digest([*XZ, *image.versions("xz-utils")], [base])
    with step("bundle-base", key, "bundle: the base, compressed", whole=True) as this:
        if this is not None:
            compress(tail(base), tail_stream)
    when = date()
    parts = {**programs(), **own_parts(kernel)}
    key = digest([when, key], [*inputs(), *(set(parts.values()) - {base})])
    with step("bundle", key, "bundle") as this:
        if this is None:
            return
        parts.update(texts(programs(), kernel))
        parts["bundle.list"] = "".join(
            f"{size_of(parts[path])} {path}\n" for path in sorted(parts))
        OUT.mkdir(parents=True, exist_ok=True)
        for old in OUT.iterdir():
            old.unlink()
        compress(head(parts, when), head_stream)
        archive = OUT / f"{name()}.tar.xz"
        join((head_stream, tail_stream), archive)
        this.note(f"{archive}: {archive.stat().st_size} bytes, {len(parts)} files")


# ---- foreign systems, for tests/bundle ------------------------------------------

# Each has Python and what Debian calls essential.
ROOTS = ("bullseye", "bookworm", "trixie", "sid")
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")


def root_folder(suite):
    return BUILD / "bundle-roots" / suite


def build_root(step, digest, suite):
    with step(f"bundle-root-{suite}", digest([suite, "python3"]),
              f"foreign system {suite}") as this:
        if this is None:
            return
        mirror = re.search(r"^URIs: (\S+)", SOURCES.read_text(encoding="utf-8"), re.M)[1]
        root = root_folder(suite)
        shutil.rmtree(root, ignore_errors=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        this.run("mmdebstrap", "--mode=root", "--variant=essential",
                 "--aptopt=/etc/apt/apt.conf.d/99host", "--include=python3", suite, root,
                 f"deb {mirror} {suite} main")
