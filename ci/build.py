#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Build steps, run inside the Debian 13 root: build.py [--together] STEP...

Each step is keyed by a hash of what goes into it (versions, overlay files,
options, this program, the root's packages) and does nothing when that is
unchanged; otherwise it is incremental where its build system is. One progress
line per step that works, with its time; the full log is /cache/log/STEP.log.
With --together, steps that do not depend on each other run in parallel.

  qemu         QEMU with qemu-hw/ overlaid         /cache/build/qemu
  qemu-fuzz    QEMU's fuzzing build, by clang      /cache/build/qemu-fuzz
  qemu-plugin  the device for Debian's QEMU binary /cache/build/qemu-plugin
  qemu-plugin-ARCH     for machines of another architecture: ci/arches lists them
  provider     the provider, in rdma-core's tree     /cache/build/rdma-core
  providers    the provider for each libibverbs of ci/versions  /cache/build/providers
  rdma-core    all of rdma-core, with rdma-provider/   /cache/build/rdma-core
  rdma-core-new  a newer one, for its own tests  /cache/images/rdma-core-new.erofs
  uabi         an older driver and provider, for the test that mixes ages
                                                      /cache/images/uabi.erofs
  driver-K     kernel-driver/ for kernel K of ci/versions; if it is in backports,
               the step fetches it                  /cache/build/driver-K
  kernel-K     guest kernel K (any but the main one) with the driver; K = debug
               reports errors of drivers, kcsan reports data races
               (ci/debug-kernel.sh)
  relay        the launcher's wire with faults      /cache/build/lab
  image        guest kernel, initrd, base, payload     /cache/images
  image-ARCH   the same for another architecture, cross-compiled
  modules      kernel modules that tests load        /cache/images/modules.erofs
  root-test    second stage of the root: what only tests and packages need
  guest-test   second stage of the guest               /cache/images
  packages     the Debian packages of ci/packages      /cache/packages
  bundle       all of it in one archive, ci/bundle.py  /cache/bundle
  release      everything that a release publishes: ci/release.py
                                                      /cache/release
  bundle-root-SUITE  a plain Debian to test it in     /cache/build/bundle-roots
  disk-13      plain Debian 13 with these packages     /cache/images
  disk-12      Debian 12
  trees        trees for fakernic-lab --root            /cache/build/trees
  all          the steps above up to image, except those that only tests need:
               qemu-fuzz, qemu-plugin, providers, rdma-core-new, uabi, other kernels
"""

import contextlib
import fcntl
import filecmp
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, "/src/tests/lab")

from fakernic_lab import versions   # noqa: E402
from fakernic_lab.arches import ARCHES, FOREIGN, HOST   # noqa: E402

import bundle
import disk
import image
import release
import trees
from progress import Progress

SRC = Path("/src")
CACHE = Path("/cache")
SOURCES = CACHE / "src"
BUILD = CACHE / "build"
LOG = CACHE / "log"
# The kernel of the guest image, and the kernel of the root's second stage.
KERNELS = (versions.MAIN_KERNEL,)
OLD_KERNEL = versions.OLD_KERNEL
# From backports, which drop releases. So only the tests of these kernels depend on them.
NEW_KERNELS = versions.listed("kernel", "new", "long")
# The main kernel, compiled here with debugging options: ci/debug-kernel.sh.
DEBUG_KERNELS = versions.listed("kernel", "watch")
TOOLS_LOCK = threading.Lock()   # of apt-get
JOBS = str(os.cpu_count() or 1)
# A line by which a shell script sources another: ". /src/ci/apt.sh".
SOURCED = re.compile(r'^\s*\. (?:/src|"\$top)/([\w./-]+)', re.M)
HOST_CACHE = os.environ.get("FAKERNIC_HOST_CACHE", str(CACHE))

# Package version of a QEMU that ci/mend_qemu.py has patched. The launcher looks for it in
# the output of --version.
MENDED = "fakernic"
QEMU_OPTIONS = [
    f"--target-list={HOST.cpu}-softmmu", "--without-default-features",
    "--disable-install-blobs", "--disable-docs", "--disable-user",
    "--disable-guest-agent", "--disable-download",
    "--enable-tcg", "--enable-kvm", "--enable-slirp", "--enable-virtfs",
    "--enable-attr", "--enable-pixman", "--enable-fdt=system",
    "--enable-trace-backends=log", "--enable-werror",
    f"--with-pkgversion={MENDED}",
]

# Packages of the root's second stage. Their versions are in the keys of what clang builds.
CLANG = r"clang-[0-9]+|libclang-rt-[0-9]+-dev"

# Few devices and no code generator, because this QEMU boots nothing.
FUZZ_OPTIONS = [
    "--cc=clang", "--cxx=clang++", "--target-list=x86_64-softmmu",
    "--with-devices-x86_64=fakernic-fuzz", "--without-default-devices",
    "--without-default-features", "--disable-install-blobs", "--disable-docs",
    "--disable-user", "--disable-guest-agent", "--disable-download",
    "--disable-tools", "--disable-tcg", "--enable-kvm", "--enable-fdt=system",
    "--enable-trace-backends=nop", "--enable-fuzzing", "--enable-asan",
    "--enable-ubsan", "--disable-werror", "-Doptimization=1",
    "--extra-cflags=-gline-tables-only",
]

FIRMWARE = ["/usr/share/seabios", "/usr/share/qemu"]

RDMA_OPTIONS = [
    "-GNinja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DENABLE_STATIC=0",
    "-DNO_MAN_PAGES=1", "-DNO_PYVERBS=0", "-DPYTHON_EXECUTABLE=/usr/bin/python3",
    "-DCMAKE_INSTALL_PREFIX=/usr", "-DCMAKE_INSTALL_SYSCONFDIR=/etc",
    "-DCMAKE_INSTALL_LOCALSTATEDIR=/var", "-DCMAKE_INSTALL_RUNDIR=/run",
    f"-DCMAKE_INSTALL_LIBDIR={image.LIBRARIES.removeprefix('usr/')}",
    "-DCMAKE_INSTALL_LIBEXECDIR=lib", "-DCMAKE_INSTALL_UDEV_RULESDIR=/usr/lib/udev/rules.d",
    "-DCMAKE_INSTALL_SYSTEMD_SERVICEDIR=/usr/lib/systemd/system",
]

# From the newer rdma-core the tests need only themselves and what they import, such as
# mlx5 and efa. -O1 compiles faster.
NEW_RDMA = versions.listed("rdma-core", "new")[0]
NEW_RDMA_NAME = "rdma-core-new"
NEW_RDMA_ABI = NEW_RDMA.split(".", maxsplit=1)[0]   # private ABI, since release 57
NEW_RDMA_PREFIX = f"/opt/{NEW_RDMA_NAME}"
NEW_RDMA_OPTIONS = [
    "-GNinja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS_RELEASE=-O1",
    "-DENABLE_STATIC=0", "-DNO_MAN_PAGES=1", "-DNO_PYVERBS=0",
    "-DPYTHON_EXECUTABLE=/usr/bin/python3",
    f"-DCMAKE_INSTALL_PREFIX={NEW_RDMA_PREFIX}", "-DCMAKE_INSTALL_LIBDIR=lib",
    f"-DCMAKE_INSTALL_SYSCONFDIR={NEW_RDMA_PREFIX}/etc",
]
NEW_RDMA_TARGETS = ["libibverbs.so", "librdmacm.so", "libmlx5.so", "libefa.so",
                    *(f"lib{name}-rdmav{NEW_RDMA_ABI}.so"
                      for name in ("fakernic", "rxe"))]


class StepFailed(Exception):
    """A build command failed; the message is the one line to show."""


# ---- helpers ---------------------------------------------------------------

def files_below(*tops):
    """Every file below the given files and folders, sorted."""
    for top in tops:
        top = Path(top)
        if top.is_file():
            yield top
        for folder, folders, names in os.walk(top):
            folders[:] = sorted(f for f in folders
                                if f not in ("__pycache__", ".git"))
            for name in sorted(names):
                if not name.endswith((".pyc", ".swp", "~")):
                    yield Path(folder) / name


class Key(str):
    """A step's key: a hash. 'files' are the input files that the hash covers."""
    files = frozenset()


def with_sourced(paths):
    """Every file below these paths, and the files that shell scripts among them source."""
    for path in files_below(*paths):
        yield path
        if path.suffix == ".sh":
            names = SOURCED.findall(path.read_text(encoding="utf-8"))
            yield from with_sourced(SRC / name for name in names)


def digest(texts=(), paths=()):
    """The key of a step with these options and input files."""
    total = hashlib.sha256()
    for text in texts:
        total.update(str(text).encode() + b"\0")
    files = list(with_sourced(paths))
    for path in files:
        total.update(str(path).encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    key = Key(total.hexdigest())
    key.files = frozenset(map(str, files))
    return key


def sync_tree(source, target):
    """Make target a copy of source, touching only files that differ."""
    wanted = set()
    for path in files_below(source):
        name = path.relative_to(source)
        wanted.add(name)
        copy = target / name
        if not copy.exists() or not filecmp.cmp(path, copy, shallow=False):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    return wanted


class Step:
    """One named step: its lock, its log, its stamp and its progress line."""

    def __init__(self, name, key, own):
        self.name = name
        self.key = key
        self.own = own
        self.stamp = BUILD / f"{name}.stamp"
        self.log_path = LOG / f"{name}.log"
        self.log = None

    def is_current(self):
        return self.stamp.exists() and self.stamp.read_text() == self.key

    def run(self, *command, cwd=None, env=None):
        """Run a command with its output in the log; a failure names the log. A file of
        the checkout on the command line must be an input of the step's key."""
        command = [str(word) for word in command]
        for word in command:
            if Path(word).is_relative_to(SRC) and word not in self.own.files:
                raise StepFailed(f"{self.name}: {word} is not an input of its key")
        self.log.write(f"\n+ {' '.join(command)}\n")
        self.log.flush()
        merged = dict(os.environ, **(env or {}))
        result = subprocess.run(command, cwd=cwd, env=merged, check=False,
                                stdin=subprocess.DEVNULL, stdout=self.log,
                                stderr=subprocess.STDOUT)
        if result.returncode:
            raise StepFailed(f"{self.name}: '{command[0]}' failed: see "
                             f"{HOST_CACHE}/log/{self.name}.log")

    def note(self, text):
        self.log.write(text + "\n")


@contextlib.contextmanager
def step(name, key, title, whole=False):
    """Yields a Step to fill, or None when its result is up to date. KEY covers the
    step's own inputs. With WHOLE it covers all inputs, so this program and the
    packages of the root are not added to it."""
    all_of_it = key if whole else digest([key, image.first_stage()], [__file__])
    this = Step(name, all_of_it, key)
    BUILD.mkdir(parents=True, exist_ok=True)
    LOG.mkdir(parents=True, exist_ok=True)
    with open(BUILD / f"{name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if this.is_current():
            yield None
            return
        this.stamp.unlink(missing_ok=True)
        start = time.monotonic()
        with open(this.log_path, "w", encoding="utf-8") as this.log:
            with Progress(title, this.log_path):
                yield this
        this.stamp.write_text(this.key)
        print(f"  {title:<44} {time.monotonic() - start:5.0f}s", flush=True)


def unpack(this, name, copy=""):
    """Unpacks the upstream tar of a source package, unless it was done before, and
    returns the folder. COPY names a separate folder for a build with another overlay."""
    tars = sorted(Path(f"/opt/sources/{name}").glob("*.orig.tar.*"))
    if not tars:
        raise StepFailed(f"no source of {name} in the root: run 'make distclean'")
    version = tars[-1].name.split("_")[1].split(".orig")[0]
    target = SOURCES / f"{name}{copy}-{version}"
    if not target.exists():
        partial = SOURCES / f"{name}{copy}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        this.run("tar", "-xf", tars[-1], "-C", partial, "--strip-components=1",
                 "--no-same-owner")
        partial.rename(target)
    link = SOURCES / f"{name}{copy}"
    link.unlink(missing_ok=True)
    link.symlink_to(target.name)
    return target


def source_name(name):
    return [tar.name for tar in Path(f"/opt/sources/{name}").glob("*.orig.tar.*")]


def link_firmware(target):
    """Links SeaBIOS and the option ROMs of Debian's packages into the folder where a QEMU
    that is not installed looks for them."""
    bundle = target / "qemu-bundle/usr/local/share/qemu"
    bundle.mkdir(parents=True, exist_ok=True)
    for folder in FIRMWARE:
        for path in sorted(Path(folder).glob("*.bin")):
            link = bundle / path.name
            if not link.exists():
                link.unlink(missing_ok=True)
                link.symlink_to(path)


def overlay(this, script, target):
    if script.exists():
        this.run("sh", script, target)
    else:
        this.note(f"{script} does not exist yet: building {target.name} plain")


def stand_in_blobs(source):
    """Creates empty files in place of the EDK2 blobs. Debian's tar lacks them, meson
    requires them once it finds bzip2, and nothing here uses them."""
    pc_bios = source / "pc-bios"
    text = (pc_bios / "meson.build").read_text(encoding="utf-8")
    for name in re.findall(r"edk2-[a-z0-9_-]+\.fd", text):
        (pc_bios / f"{name}.bz2").touch()


# ---- steps -----------------------------------------------------------------

def configure(this, source, target, wanted, command, cwd=None, env=None):
    """Configures a source, unless it is configured with these options already."""
    configured = target / "fakernic.configured"
    options = digest([source, wanted])
    if not configured.exists() or configured.read_text() != options:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        this.run(*command, *wanted, cwd=cwd, env=env)
        configured.write_text(options)


def configure_qemu(this, source, target, wanted):
    configure(this, source, target, wanted, [source / "configure"], cwd=target)
    # First bring build.ninja up to date with the overlaid meson files.
    this.run("ninja", "-C", target, "build.ninja")


def build_qemu():
    mend = SRC / "ci/mend_qemu.py"
    own = digest([source_name("qemu"), QEMU_OPTIONS, FIRMWARE],
                 [SRC / "qemu-hw", SRC / "firmware-spec", SRC / "tests/qtest",
                  mend])
    with step("qemu", own, "QEMU with fakernic") as this:
        if this is None:
            return
        source = unpack(this, "qemu")
        stand_in_blobs(source)
        overlay(this, SRC / "qemu-hw/overlay.sh", source)
        this.run(mend, source)
        target = BUILD / "qemu"
        configure_qemu(this, source, target, QEMU_OPTIONS)
        targets = [HOST.qemu]
        ninja = (target / "build.ninja").read_text(encoding="utf-8")
        if "build tests/qtest/fakernic-test:" in ninja:
            targets.append("tests/qtest/fakernic-test")
        this.run("ninja", "-C", target, *targets)
        link_firmware(target)


def build_qemu_fuzz():
    build_root_test()
    fuzz = SRC / "tests/fuzz"
    own = digest([source_name("qemu"), FUZZ_OPTIONS, FIRMWARE,
                  *image.versions(CLANG)],
                 [SRC / "qemu-hw", SRC / "firmware-spec/include",
                  fuzz / "guest", fuzz / "overlay.sh", fuzz / "records.c",
                  fuzz / "records.h"])
    with step("qemu-fuzz", own, "QEMU's fuzzing build") as this:
        if this is None:
            return
        source = unpack(this, "qemu", "-fuzz")
        stand_in_blobs(source)
        overlay(this, SRC / "qemu-hw/overlay.sh", source)
        overlay(this, fuzz / "overlay.sh", source)
        target = BUILD / "qemu-fuzz"
        configure_qemu(this, source, target, FUZZ_OPTIONS)
        this.run("ninja", "-C", target, "qemu-fuzz-x86_64")
        link_firmware(target)


def build_qemu_plugin(arch=HOST):
    """Builds the plug-in for Debian's QEMU, and the wrapper that the package also has. The
    wrapper is a program that FAKERNIC_QEMU can name. All architectures share the work folder."""
    build_root_tools(arch)
    plugin = SRC / "qemu-hw/plugin"
    own = digest(source_name("qemu"),
                 [SRC / "qemu-hw", SRC / "firmware-spec/include"])
    name = f"qemu-plugin{arch.suffix}"
    with step(name, own, f"fakernic for Debian's {arch.qemu}") as this:
        if this is None:
            return
        target = BUILD / name
        target.mkdir(parents=True, exist_ok=True)
        for old in target.glob("qemu/*.so"):
            old.unlink()
        this.run(plugin / "build.sh", "--qemu", f"/usr/bin/{arch.qemu}",
                 "--source", "/opt/sources/qemu",
                 "--work", BUILD / "qemu-plugin/work", target / "qemu", env={
                     "FAKERNIC_PLUGIN_LOADER": str(target / "fakernic-qemu.so")})
        wrapper = target / arch.wrapper
        text = (plugin / "wrapper.sh").read_text(encoding="utf-8")
        wrapper.write_text(text.replace("@LIBRARY@", str(target))
                           .replace("qemu-system-x86_64", arch.qemu))
        wrapper.chmod(0o755)


def configure_rdma_core(this, source, target, wanted):
    configure(this, source, target, wanted,
              ["cmake", "-S", source, "-B", target])


def provider_key():
    return digest([source_name("rdma-core"), RDMA_OPTIONS],
                  [SRC / "rdma-provider", SRC / "firmware-spec/include",
                   SRC / "kernel-driver/uapi"])


def overlaid_rdma_core(this):
    """Puts the provider into rdma-core and configures it: (source folder, build folder)."""
    source = unpack(this, "rdma-core")
    overlay(this, SRC / "rdma-provider/overlay.sh", source)
    target = BUILD / "rdma-core"
    configure_rdma_core(this, source, target, RDMA_OPTIONS)
    return source, target


def build_provider():
    """Builds the provider, and only those parts of rdma-core that it is linked with."""
    with step("provider", provider_key(), "provider for libibverbs") as this:
        if this is None:
            return
        _, target = overlaid_rdma_core(this)
        this.run("ninja", "-C", target, "libfakernic-rdmav34.so")


def providers_key():
    return digest([provider_key()],
                  [SRC / "rdma-provider/providers.py", SRC / "ci/versions",
                   SRC / "tests/lab/fakernic_lab/versions.py"])


def build_providers():
    """One for each private interface, by the differences of their headers."""
    build_provider()
    with step("providers", providers_key(), "providers for other libibverbs") as this:
        if this is not None:
            target = BUILD / "providers"
            shutil.rmtree(target, ignore_errors=True)
            this.run(SRC / "rdma-provider/providers.py", BUILD / "rdma-core", target)
            shutil.rmtree(image.IMAGES / "providers" / HOST.name, ignore_errors=True)
            for path in target.glob("*/*.so"):
                offer_provider(this, path, path.relative_to(target), HOST)


def offer_provider(this, path, name, arch):
    """Copies it to where the launcher finds it: for fakernic-lab --root."""
    target = image.IMAGES / "providers" / arch.name / name
    target.parent.mkdir(parents=True, exist_ok=True)
    this.run(image.tool_of(arch, "strip"), "--strip-debug", "-o", target, path)


def cross_options(arch):
    """CMake's options for rdma-core without pyverbs, and their environment."""
    tree = image.tree_of(arch)
    libraries = f"lib/{arch.triplet}"
    options = [option for option in RDMA_OPTIONS
               if "PYVERBS" not in option and "LIBDIR" not in option]
    return [*options, "-DNO_PYVERBS=1", f"-DCMAKE_INSTALL_LIBDIR={libraries}",
            "-DCMAKE_SYSTEM_NAME=Linux",
            f"-DCMAKE_SYSTEM_PROCESSOR={arch.triplet.partition('-')[0]}",
            f"-DCMAKE_C_COMPILER={image.tool_of(arch, 'gcc')}",
            f"-DCMAKE_SYSROOT={tree}"], {
                "PKG_CONFIG_SYSROOT_DIR": str(tree),
                "PKG_CONFIG_LIBDIR": f"{tree}/usr/{libraries}/pkgconfig"}


def build_foreign_provider(arch, fetched):
    """Builds the provider for another architecture, in its own copy of rdma-core."""
    options, environment = cross_options(arch)
    own = digest([fetched, options, source_name("rdma-core")],
                 [SRC / "rdma-provider", SRC / "firmware-spec/include",
                  SRC / "kernel-driver/uapi"])
    name = f"provider{arch.suffix}"
    with step(name, own, f"provider for {arch.name}") as this:
        if this is None:
            return
        source = unpack(this, "rdma-core", arch.suffix)
        overlay(this, SRC / "rdma-provider/overlay.sh", source)
        target = image.rdma_of(arch)
        configure(this, source, target, options,
                  ["cmake", "-S", source, "-B", target], env=environment)
        this.run("ninja", "-C", target, "libfakernic-rdmav34.so")
        main = versions.listed("rdma-core", "main")[0]
        offer_provider(this, target / "lib/libfakernic-rdmav34.so",
                       versions.provider_for(f"libibverbs.so.1.0.{main}"), arch)


def build_rdma_core():
    build_provider()
    with step("rdma-core", provider_key(),
              "rdma-core with the fakernic provider") as this:
        if this is None:
            return
        source, target = overlaid_rdma_core(this)
        this.run("ninja", "-C", target)
        install = BUILD / "rdma-core-install"
        shutil.rmtree(install, ignore_errors=True)
        this.run("ninja", "-C", target, "install", env={"DESTDIR": str(install)})
        shutil.copytree(source / "tests", install / "usr/share/rdma-core-tests")


def stage_new_rdma_core(source, target, root):
    """Fills ROOT, which a guest mounts at NEW_RDMA_PREFIX: the libraries that were built,
    two providers, pyverbs and the tests. fakernic's provider is the build that other
    distributions get."""
    shutil.rmtree(root, ignore_errors=True)
    library = root / "lib"
    (library / "libibverbs").mkdir(parents=True)
    (root / "etc/libibverbs.d").mkdir(parents=True)
    for path in sorted((target / "lib").glob("*.so.*")):
        if path.exists():
            shutil.copy(path, library, follow_symlinks=False)
    own = versions.provider_for(f"libibverbs.so.1.0.{NEW_RDMA}")
    if own is None:
        raise StepFailed(f"ci/versions has no provider for rdma-core {NEW_RDMA}")
    for name, made in (("fakernic", BUILD / "providers" / own),
                       ("rxe", target / f"lib/librxe-rdmav{NEW_RDMA_ABI}.so")):
        shutil.copy(made, library / "libibverbs")
        (root / f"etc/libibverbs.d/{name}.driver").write_text(f"driver {name}\n")
    shutil.copytree(target / "python/pyverbs", root / "python/pyverbs")
    shutil.copytree(source / "tests", root / "tests")


def fetch_new_rdma_core(this):
    """Fetches the newer rdma-core, under a name without the release."""
    this.run(SRC / "ci/fetch-source.sh", "rdma-core", NEW_RDMA)
    link = Path("/opt/sources") / NEW_RDMA_NAME
    link.unlink(missing_ok=True)
    link.symlink_to(f"rdma-core-{NEW_RDMA_ABI}")


def build_new_rdma_core():
    build_providers()
    fetch = SRC / "ci/fetch-source.sh"
    own = digest([NEW_RDMA, NEW_RDMA_OPTIONS, NEW_RDMA_TARGETS, providers_key()],
                 [SRC / "rdma-provider", SRC / "firmware-spec/include",
                  SRC / "kernel-driver/uapi", fetch])
    with step(NEW_RDMA_NAME, own, f"rdma-core {NEW_RDMA} for its tests") as this:
        if this is None:
            return
        # If this step fails, no test may use the image of an earlier provider.
        (image.IMAGES / f"{NEW_RDMA_NAME}.erofs").unlink(missing_ok=True)
        fetch_new_rdma_core(this)
        source = unpack(this, NEW_RDMA_NAME)
        overlay(this, SRC / "rdma-provider/overlay.sh", source)
        target = BUILD / NEW_RDMA_NAME
        configure_rdma_core(this, source, target, NEW_RDMA_OPTIONS)
        ninja = (target / "build.ninja").read_text(encoding="utf-8")
        modules = re.findall(r"^build (python/pyverbs/\S+\.so):", ninja, re.M)
        this.run("ninja", "-C", target, *NEW_RDMA_TARGETS, *modules)
        root = BUILD / "image" / NEW_RDMA_NAME
        stage_new_rdma_core(source, target, root)
        image.IMAGES.mkdir(parents=True, exist_ok=True)
        image.erofs(this, root, f"{NEW_RDMA_NAME}.erofs")


def fetch_kernel(kernel, arch=HOST):
    """Fetches a kernel that the root does not have, unless it is there."""
    name = image.kernel_name(kernel, arch)
    if Path(f"/cache/kernels/{name}.version").exists():
        return
    fetch = SRC / "ci/fetch-kernel.sh"
    never_current = digest([time.time()], [fetch])
    with step(f"fetch-{name}", never_current, f"fetch Linux {name}") as this:
        this.run(fetch, kernel, arch.debian, name)


def build_debug_kernel(kernel):
    build_root_test()           # has the tools that Linux is compiled with
    parts = ("debug-kernel.sh", "debug-kernel.config", "fetch-linux.sh",
             *(["kcsan-kernel.config"] if kernel == "kcsan" else []))
    own = digest(image.versions("gcc-[0-9]+|binutils"),
                 [SRC / "ci" / part for part in parts])
    title = "Linux that watches its drivers"
    with step(f"linux-{kernel}", own, title, whole=True) as this:
        if this is not None:
            this.run(SRC / "ci/debug-kernel.sh", JOBS, kernel)


def build_driver(kernel):
    if kernel in NEW_KERNELS:
        fetch_kernel(kernel)
    elif kernel == OLD_KERNEL:
        build_root_test()
    elif kernel in DEBUG_KERNELS:
        build_debug_kernel(kernel)
    name = f"driver-{kernel}"
    version = image.kernel_version(kernel)
    compiler = image.versions("gcc-12") if kernel == OLD_KERNEL else []
    own = digest([version, *compiler],
                 [SRC / "kernel-driver", SRC / "firmware-spec/include"])
    with step(name, own, f"driver for Linux {version}") as this:
        if this is None:
            return
        target = BUILD / name
        if not (SRC / "kernel-driver/Makefile").exists():
            this.note("kernel-driver/Makefile does not exist yet: no driver")
            return
        for part in ("kernel-driver", "firmware-spec/include"):
            folder = target / part
            wanted = sync_tree(SRC / part, folder)
            for path in list(files_below(folder)):
                gone = path.relative_to(folder) not in wanted
                if gone and path.suffix in (".c", ".h"):
                    path.unlink()
        this.run("make", "-C", target / "kernel-driver", f"-j{JOBS}",
                 f"KDIR={image.kernel_folder(kernel)}.headers", "W=1",
                 "KCFLAGS=-Werror")


def build_uabi():
    """Builds the older driver and provider that tests/vm/test_uabi.py combines with
    today's. Their source is a tar, because a shallow clone has no history."""
    tar = SRC / "tests/vm/uabi-2bad078.tar.xz"
    kernel = KERNELS[0]
    own = digest([kernel, source_name("rdma-core"), RDMA_OPTIONS], [tar])
    with step("uabi", own, "older driver and provider") as this:
        if this is None:
            return
        top = BUILD / "uabi"
        shutil.rmtree(top, ignore_errors=True)
        (top / "old").mkdir(parents=True)
        this.run("tar", "-xf", tar, "-C", top / "old")
        source = unpack(this, "rdma-core", "-uabi")
        overlay(this, top / "old/rdma-provider/overlay.sh", source)
        configure_rdma_core(this, source, top / "rdma", RDMA_OPTIONS)
        this.run("ninja", "-C", top / "rdma", "libfakernic-rdmav34.so")
        this.run("make", "-C", top / "old/kernel-driver", f"-j{JOBS}",
                 f"KDIR=/opt/kernels/{kernel}.headers")
        root = top / "root"
        root.mkdir()
        for path in (top / "rdma/lib/libfakernic-rdmav34.so",
                     top / "old/kernel-driver/fakernic.ko"):
            shutil.copy(path, root)
            this.run("strip", "--strip-debug", root / path.name)
        image.IMAGES.mkdir(parents=True, exist_ok=True)
        image.erofs(this, root, "uabi.erofs")


def build_kernel(kernel, arch=HOST):
    if arch.name in versions.roles(kernel):
        build_root_tools(arch)
        fetch_kernel(kernel, arch)
    name = image.kernel_name(kernel, arch)
    build_driver(name)
    image.build_kernel(step, digest, name, arch)


def build_relay():
    """Builds the relay, which connects machines by a wire with faults. It is linked
    statically, as the agent is, to run on any host."""
    relay = SRC / "tests/lab/relay"
    own = digest([], [relay, SRC / "qemu-hw/roce", SRC / "qemu-hw/fault",
                      SRC / "qemu-hw/link",
                      SRC / "firmware-spec/include"])
    with step("relay", own, "wire with faults") as this:
        if this is not None:
            this.run("make", "-B", f"BUILD={BUILD / 'lab'}",
                     "CFLAGS=-O2 -Werror", "LDFLAGS=-static -s", cwd=relay)


def build_image():
    build_relay()               # not in the image, but the launcher needs it
    build_provider()
    for kernel in KERNELS:
        build_driver(kernel)
    build_providers()
    image.build(step, digest, KERNELS)


def build_root_tools(arch):
    """Installs the compiler and the QEMU of another architecture in the root, unless
    its second stage has them."""
    if arch == HOST:
        return
    build_root_test()
    with TOOLS_LOCK:
        if not all(map(shutil.which, arch.tools)):
            install_tools(arch)


def install_tools(arch):
    with step(f"root{arch.suffix}", digest([time.time()]),
              f"Debian packages for {arch.name}") as this:
        this.run("apt-get", "update", "--error-on=any")
        this.run("apt-get", "install", "--yes", "--no-install-recommends",
                 *arch.tools.values())


def fetch_arch(arch, kernel):
    """Fetches the root folder and the kernel of another architecture. Returns the key of
    what was fetched. Fetches again if the packages of the build root have changed."""
    fetch = SRC / "ci/fetch-arch.sh"
    packages = [*image.ESSENTIAL, *image.listed_packages("guest"),
                *image.CROSS_PACKAGES]
    own = digest([kernel, image.first_stage(), *packages], [fetch])
    with step(f"fetch{arch.suffix}", own, f"Debian 13 for {arch.name}",
              whole=True) as this:
        if this is not None:
            this.run(fetch, arch.debian, KERNELS[0], kernel, *packages)
    return own


def build_foreign_image(arch):
    """Builds what machines of another architecture boot: the main kernel, and a guest."""
    build_root_tools(arch)
    kernel = image.kernel_name(KERNELS[0], arch)
    fetched = fetch_arch(arch, kernel)
    build_foreign_provider(arch, fetched)
    build_driver(kernel)
    image.build_foreign(step, digest, arch, kernel, fetched)


def build_root_test():
    # The result is in the root, not in the cache, so the stamp may be wrong.
    if not Path("/.fakernic-test").exists():
        (BUILD / "root-test.stamp").unlink(missing_ok=True)
    own = digest([], [SRC / "ci/root-test.sh", SRC / "ci/packages.txt",
                      SRC / "ci/arch.sh", SRC / "ci/arches"])
    with step("root-test", own, "Debian packages for the tests") as this:
        if this is not None:
            this.run(SRC / "ci/root-test.sh")


def build_guest_test():
    build_root_test()
    build_rdma_core()
    build_image()
    image.build_guest_test(step, digest, KERNELS,
                           digest([source_name("rdma-core"), RDMA_OPTIONS]))


def build_package(name):
    """Builds a package. build.sh has its own key and log, and prints the closing line."""
    with Progress(f"package {name}", LOG / f"package-{name}.log"):
        done = subprocess.run([SRC / "ci/packages/build.sh", name], check=False,
                              capture_output=True, text=True)
    print(done.stdout, end="", flush=True)
    if done.returncode:
        raise StepFailed(f"packages: {name} is missing: "
                         f"{done.stderr.strip().removeprefix('fakernic: ')}")


def build_packages():
    build_root_test()
    build_image()               # a package contains it
    build_kernel(OLD_KERNEL)    # likewise
    for control in sorted((SRC / "ci/packages").glob("*/debian/control")):
        build_package(control.parent.parent.name)


def make_packages():
    """Builds packages and prints their folder."""
    build_packages()
    print(f"  the packages are in {HOST_CACHE}/packages", flush=True)


def build_trees():
    build_root_test()
    trees.build(step, digest)


def build_bundle():
    build_qemu_plugin()
    build_image()
    build_providers()
    bundle.build(step, digest, KERNELS[0])
    print(f"  the bundle is in {HOST_CACHE}/bundle", flush=True)


def build_release():
    build_packages()
    build_bundle()
    with Progress("release", LOG / "release.log"):
        release.build()
    print(f"  the release is in {HOST_CACHE}/release", flush=True)


def build_bundle_root(suite):
    build_root_test()           # it has mmdebstrap
    bundle.build_root(step, digest, suite)


def build_disk(release):
    build_packages()
    disk.build(step, digest, release)


STEPS = {
    "qemu": build_qemu,
    "qemu-fuzz": build_qemu_fuzz,
    "qemu-plugin": build_qemu_plugin,
    "provider": build_provider,
    "providers": build_providers,
    "rdma-core": build_rdma_core,
    "rdma-core-new": build_new_rdma_core,
    "uabi": build_uabi,
    "relay": build_relay,
    "modules": lambda: image.build_modules(step, digest,
                                           (*KERNELS, *DEBUG_KERNELS)),
    "image": build_image,       # also builds the parts of the payload
    "root-test": build_root_test,
    "guest-test": build_guest_test,
    "packages": make_packages,
    "bundle": build_bundle,
    "release": build_release,
    "disk-13": lambda: build_disk("13"),
    "disk-12": lambda: build_disk("12"),
    "trees": build_trees,
}
for _arch in FOREIGN:
    STEPS[f"qemu-plugin{_arch.suffix}"] = functools.partial(build_qemu_plugin, _arch)
    STEPS[f"image{_arch.suffix}"] = functools.partial(build_foreign_image, _arch)
for _kernel in (*KERNELS, OLD_KERNEL, *NEW_KERNELS, *DEBUG_KERNELS):
    STEPS[f"driver-{_kernel}"] = functools.partial(build_driver, _kernel)
for _kernel in (OLD_KERNEL, *NEW_KERNELS, *DEBUG_KERNELS):
    STEPS[f"kernel-{_kernel}"] = functools.partial(build_kernel, _kernel)
for _arch in ARCHES.values():
    for _kernel in versions.listed("kernel", _arch.name):
        STEPS[f"kernel-{_kernel}{_arch.suffix}"] = functools.partial(
            build_kernel, _kernel, _arch)
for _suite in bundle.ROOTS:
    STEPS[f"bundle-root-{_suite}"] = functools.partial(build_bundle_root, _suite)

# Not a part of "all".
EXTRA = ("qemu-fuzz", "qemu-plugin", "providers", NEW_RDMA_NAME, "uabi", "modules",
         "root-test", "guest-test", "packages", "bundle", "release", "disk-13",
         "disk-12", "trees", *(f"bundle-root-{suite}" for suite in bundle.ROOTS),
         *(f"{what}{arch.suffix}" for what in ("qemu-plugin", "image")
           for arch in FOREIGN),
         *(f"kernel-{kernel}{arch.suffix}" for arch in ARCHES.values()
           for kernel in versions.listed("kernel", arch.name)),
         *(f"{what}-{kernel}" for what in ("driver", "kernel")
           for kernel in (OLD_KERNEL, *NEW_KERNELS, *DEBUG_KERNELS)))


def make(names, together):
    """Makes these steps; raises an exception if one fails. Together, the other steps
    complete first."""
    if not together:
        for name in names:
            STEPS[name]()
        return
    with ThreadPoolExecutor(len(names)) as pool:
        for made in [pool.submit(STEPS[name]) for name in names]:
            made.result()


def main(names):
    together = "--together" in names
    names = [name for name in names if name != "--together"]
    if "all" in names or not names:
        names = [name for name in STEPS if name not in EXTRA]
    for name in names:
        if name not in STEPS:
            print(f"fakernic: no build step '{name}': one of "
                  f"{', '.join(STEPS)}, all", file=sys.stderr)
            return 2
    try:
        make(names, together)
    except StepFailed as failure:
        print(f"fakernic: {failure}", file=sys.stderr)
        return 1
    except OSError as failure:
        print(f"fakernic: {failure}: is the disk of {HOST_CACHE} full?",
              file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
