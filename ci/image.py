# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest: what the virtual machines boot, in /cache/images.

  vmlinuz-K, initrd-K   Debian's kernel K and a tiny initrd (tests/vm/guest/init.c)
  base.erofs            userland cut from this root, modules of its kernel
  guest-test.erofs      files that only tests need, such as all of rdma-core as
                        built here; if it exists, it is laid over the base
  kernel-K.erofs        the modules of another kernel, with its driver
  payload.erofs         fakernic's driver and provider, the guest-side test
                        programs; laid over the base at boot
  vmlinuz-K-ARCH, base-ARCH.erofs, …   the same for another architecture

The files of another architecture are not cut from this root but from a tree of
that architecture (ci/fetch-arch.sh), in which no program ran: /etc is this root's.

The base changes with the package list only. The payload is what a developer
changes, and takes seconds to make.
"""

import lzma
import os
import re
import shutil
import stat
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fakernic_lab.arches import HOST

SRC = Path("/src")
IMAGES = Path("/cache/images")
STAGE = Path("/cache/build/image")
STATUS = Path("/var/lib/dpkg/status")
NAMES = uuid.uuid5(uuid.NAMESPACE_URL, "fakernic")
RDMA = Path("/cache/build/rdma-core")
RDMA_INSTALLED = Path("/cache/build/rdma-core-install")
LIBRARIES = f"usr/lib/{HOST.triplet}"
GUEST = SRC / "tests/vm/guest"
MODULES = SRC / "tests/vm/module"
SPEC = SRC / "firmware-spec"
AGENT = SRC / "tests/lab/guest/agent.c"
# The agent, for a guest image that does not contain one.
AGENT_PROGRAM = Path("/cache/build/lab/fakernic-lab-agent")

# The modules that the initrd needs to mount its root. module_order() sorts them.
# erofs requests crc32c_generic by its crypto name, so depmod does not list it.
BOOT_MODULES = ("virtio_pci", "virtio_blk", "crc32c_generic", "erofs", "overlay",
                "virtio_console")

# Module folders that a guest may need, with their subfolders. MODULE_FOLDERS has those
# whose subfolders are not needed.
MODULE_TREES = (
    "arch", "block", "crypto", "fs", "lib", "mm", "net", "security",
    "drivers/block", "drivers/char/hw_random", "drivers/dma-buf",
    "drivers/infiniband", "drivers/iommu", "drivers/md", "drivers/net/bonding",
    "drivers/net/ipvlan", "drivers/net/team", "drivers/net/vxlan",
    "drivers/nvme", "drivers/ptp", "drivers/pps", "drivers/target",
    "drivers/virtio", "drivers/vfio", "drivers/vhost",
    "virt",                                 # which drivers/vfio wants
)
MODULE_FOLDERS = ("drivers/char", "drivers/net", "drivers/scsi")
SKIPPED_TREES = ("net/bluetooth", "net/mac80211", "net/wireless", "net/nfc",
                 "net/can", "net/batman-adv", "fs/xfs", "fs/btrfs",
                 "fs/bcachefs", "fs/ocfs2", "fs/gfs2", "fs/ubifs", "fs/jfs")

# Essential packages with programs that users miss: no other package names them as
# its dependency.
ESSENTIAL = ("diffutils", "libc-bin")

# What programs for another architecture are linked with. This root has it anyway.
CROSS_PACKAGES = ("libc6-dev", "libnl-3-dev", "libnl-route-3-dev", "libudev-dev")

# Of the build root's /etc: addresses and names of this machine and its mirror, secrets, and
# copies that are made before a change. The machines need none of it.
LOCAL_ETC = ("apt", "hosts", "hostname", "resolv.conf", "machine-id", "ssh/ssh_host_*", "*-",
             ".pwd.lock")
# In /etc/shadow, the day on which a password was changed.
PASSWORD_DAY = re.compile(r"^([^:]*:[^:]*:)[0-9]+(:)", re.M)

SKIPPED_FILES = re.compile(
    r"/usr/(include|share/(doc|man|info|locale|lintian|bug|perl|gdb|i18n|"
    r"bash-completion|zsh|fish|applications|icons))(/|$)|\.a$|/gconv/.*\.so$")


def kernel_folder(kernel):
    """The folder of a kernel, in the root or in the cache if it was fetched later. Next to
    the folder are KERNEL.version and KERNEL.headers."""
    of_root = Path(f"/opt/kernels/{kernel}")
    return of_root if of_root.exists() else Path(f"/cache/kernels/{kernel}")


def kernel_version(kernel):
    return Path(f"{kernel_folder(kernel)}.version").read_text().strip()


def kernel_name(kernel, arch):
    """The name of a kernel of an architecture in /cache and in build steps."""
    return f"{kernel}{arch.suffix}"


def tree_of(arch):
    """The root folder of Debian for an architecture."""
    return Path("/") if arch == HOST else Path(f"/cache/arch/{arch.debian}")


def links_of(tree):
    """The folders of a root that are links into its /usr. Only some architectures have
    lib64."""
    return [name for name in ("bin", "sbin", "lib", "lib64") if (tree / name).is_symlink()]


def rdma_of(arch):
    """The folder in which rdma-core is built."""
    return Path(f"{RDMA}{arch.suffix}")


def tool_of(arch, name):
    """A program of the compiler or binutils for an architecture."""
    return name if arch == HOST else f"{arch.triplet}-{name}"


def compiler_of(arch):
    """The C compiler with what it needs to find headers and libraries."""
    cross = [] if arch == HOST else [f"--sysroot={tree_of(arch)}"]
    return [tool_of(arch, "gcc"), *cross, "-O2", "-Wall", "-Wextra", "-Werror"]


def kernel_image(kernel):
    """The path of a kernel's image. Packages since 7.0 put it into the modules' folder."""
    version = kernel_version(kernel)
    top = kernel_folder(kernel)
    beside = top / "usr/lib/modules" / version / "vmlinuz"
    if beside.exists():
        return beside
    # riscv64 has a vmlinux there.
    return next((top / "boot").glob(f"vmlinu[xz]-{version}"))


# ---- base ------------------------------------------------------------------

def first_stage():
    """The state of the root's packages without those that only tests need."""
    kept = Path("/opt/first-stage.status")
    return (kept if kept.exists() else STATUS).read_text(encoding="utf-8")


def first_etc():
    """The folder with /etc as it was before the second stage."""
    kept = Path("/opt/first-stage.etc")
    return kept if kept.exists() else Path("/etc")


def versions(pattern):
    """"NAME VERSION" of each installed package whose name matches, of either stage."""
    found = re.findall(r"^Package: (.*)$(?:\n.+)*?\nVersion: (.*)$",
                       STATUS.read_text(encoding="utf-8"), re.M)
    return [f"{name} {version}" for name, version in found
            if re.fullmatch(pattern, name)]


def listed_packages(word):
    text = (SRC / "ci/packages.txt").read_text(encoding="utf-8")
    return " ".join(re.findall(f"^{word} (.*)$", text, re.M)).split()


def installed_packages(status):
    """Two dictionaries: package -> its dependencies, each a list of alternatives; and
    package or virtual package -> the installed package that provides it."""
    depends, provides = {}, {}
    for stanza in status.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", stanza, re.M))
        if "installed" not in fields.get("Status", "").split():
            continue
        name = fields["Package"]
        wanted = ", ".join(fields[field] for field in ("Pre-Depends", "Depends")
                           if field in fields)
        depends[name] = [[re.split(r"[ :(]", choice.strip())[0]
                          for choice in group.split("|")]
                         for group in wanted.split(",") if group.strip()]
        provides.setdefault(name, name)
        for virtual in fields.get("Provides", "").split(","):
            if virtual.strip():
                provides.setdefault(virtual.split()[0], name)
    return depends, provides


def guest_packages(status, *words):
    """The packages that these words mark and all they depend on."""
    depends, provides = installed_packages(status)
    todo = [*ESSENTIAL,
            *(name for word in words for name in listed_packages(word))]
    done = set()
    while todo:
        name = provides.get(todo.pop())
        if name is None or name in done:
            continue
        done.add(name)
        for group in depends[name]:
            todo += [choice for choice in group if choice in provides][:1]
    return done


def package_files(packages, etc):
    """Every existing path of these packages except those below /etc. Also the links in
    /usr/bin and /usr/sbin to the alternatives (awk, nc, …) in ETC, a copy of /etc."""
    info = Path("/var/lib/dpkg/info")
    paths = set()
    for name in packages:
        for listing in [*info.glob(f"{name}.list"), *info.glob(f"{name}:*.list")]:
            paths.update(listing.read_text(encoding="utf-8").split("\n"))
    # Byte code is made at installation and belongs to no package.
    paths.update(re.sub(r"([^/]+)\.py$", r"__pycache__/\1.cpython-313.pyc", path)
                 for path in list(paths) if path.endswith(".py"))
    alternatives = {f"/etc/alternatives/{name}"
                    for name in os.listdir(etc / "alternatives")}
    for folder in ("/usr/bin", "/usr/sbin"):
        paths.update(entry.path for entry in os.scandir(folder)
                     if entry.is_symlink()
                     and os.readlink(entry.path) in alternatives)
    paths.add(f"/{LIBRARIES}/{HOST.loader}")
    return sorted(path for path in paths
                  if path and os.path.lexists(path)
                  and not path.startswith("/etc/")
                  and not SKIPPED_FILES.search(path)
                  and not (os.path.isdir(path) and not os.path.islink(path)))


def wanted_module(name):
    """Whether a module, by its path below kernel/, goes into the base."""
    folder = os.path.dirname(name)
    if any(folder == tree or folder.startswith(tree + "/")
           for tree in SKIPPED_TREES):
        return False
    return folder in MODULE_FOLDERS or any(
        folder == tree or folder.startswith(tree + "/") for tree in MODULE_TREES)


def read_module(path):
    """The bytes of a module, uncompressed."""
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def stage_modules(this, kernel, root):
    """Copies the wanted modules uncompressed: an emulated CPU decompresses slowly."""
    version = kernel_version(kernel)
    for lib in ("usr/lib", "lib"):
        source = kernel_folder(kernel) / lib / "modules" / version
        if source.is_dir():
            break
    target = root / "usr/lib/modules" / version

    def unpack(name):
        copy = target / "kernel" / name.removesuffix(".xz")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(read_module(source / "kernel" / name))

    names = (str(path.relative_to(source / "kernel"))
             for path in (source / "kernel").rglob("*.ko*"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(unpack, filter(wanted_module, names)))
    for name in ("modules.builtin", "modules.builtin.modinfo"):
        shutil.copy(source / name, target / name)
    # depmod drops entries of modules that are not here.
    order = (source / "modules.order").read_text(encoding="utf-8")
    (target / "modules.order").write_text(order, encoding="utf-8")
    this.run("depmod", "-b", root / "usr", version)


def erofs(this, folder, name):
    """An uncompressed erofs: the guest reads it from the host's page cache."""
    partial = IMAGES / f"{name}.partial"
    partial.unlink(missing_ok=True)
    # A random UUID would make each build differ.
    this.run("mkfs.erofs", "-T0", "--all-root", "-U", uuid.uuid5(NAMES, name), partial, folder)
    partial.rename(IMAGES / name)


def copy_etc(this, etc, root):
    """Copies /etc without what depends on the machine or the day of the installation."""
    target = root / "etc"
    this.run("cp", "-a", f"{etc}/.", target)
    for pattern in LOCAL_ETC:
        for path in target.glob(pattern):
            this.run("rm", "-r", path)
    shadow = target / "shadow"
    shadow.write_text(re.sub(PASSWORD_DAY, r"\1\2", shadow.read_text(encoding="utf-8")),
                      encoding="utf-8")


def copy_packages(this, packages, etc, root):
    """Copies the files of these packages to another root, at the same paths. Copies ETC
    too, because most of /etc is written at installation and belongs to no package."""
    copy_files(this, package_files(packages, etc), root)
    copy_etc(this, etc, root)


def copy_files(this, paths, root, tree="/"):
    """Copies files of a tree, by default this root, to another root, at the same paths."""
    listing = Path(f"{root}.files")
    listing.write_text("".join(f".{path}\n" for path in paths), encoding="utf-8")
    this.run("sh", "-c",
             f"tar -C {tree} --hard-dereference -cf - -T {listing} | "
             f"tar -C {root} --keep-directory-symlink -xf -")


def base_key(digest, kernels):
    return digest([*(kernel_version(kernel) for kernel in kernels),
                   str(first_etc()), *listed_packages("guest")],
                  [SRC / "ci/image.py"])


def build_base(step, digest, kernels):
    key = base_key(digest, kernels)
    with step("image-base", key, "guest base image") as this:
        if this is None:
            return
        root = STAGE / "base"
        # guest-test.erofs must come from the same root, so it is rebuilt with the base.
        (IMAGES / "guest-test.erofs").unlink(missing_ok=True)
        (STAGE.parent / "image-guest-test.stamp").unlink(missing_ok=True)
        make_empty_root(root, links_of(tree_of(HOST)))
        copy_packages(this, guest_packages(first_stage(), "guest"), first_etc(),
                      root)
        for kernel in kernels:
            stage_modules(this, kernel, root)
        erofs(this, root, "base.erofs")


def make_empty_root(root, links):
    """A root folder with the usual folders, and links into its /usr."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for link in links:
        (root / link).symlink_to(f"usr/{link}")
    for folder in ("dev", "proc", "sys", "run", "root", "mnt", "etc",
                   "var/log", "var/tmp", "var/lib", "usr/lib/modules",
                   *(f"usr/{link}" for link in links)):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "var/run").symlink_to("/run")


def tree_files(tree):
    """The paths of a guest's files in the tree of another architecture."""
    for folder, folders, names in os.walk(tree / "usr"):
        names += [name for name in folders if Path(folder, name).is_symlink()]
        for name in names:
            path = f"/{Path(folder, name).relative_to(tree)}"
            if not SKIPPED_FILES.search(path):
                yield path


def add_etc(this, tree, root):
    """Copies this root's /etc, except the files that are only right for its architecture.
    Also copies the links in /usr to the alternatives."""
    etc = first_etc()
    copy_etc(this, etc, root)
    (root / "etc/ld.so.cache").unlink(missing_ok=True)
    this.run("cp", "-a", f"{tree}/etc/ld.so.conf.d/.", root / "etc/ld.so.conf.d")
    alternatives = {f"/etc/alternatives/{name}"
                    for name in os.listdir(etc / "alternatives")}
    for folder in ("usr/bin", "usr/sbin"):
        for entry in os.scandir(f"/{folder}"):
            if entry.is_symlink() and os.readlink(entry.path) in alternatives:
                link = root / folder / entry.name
                link.unlink(missing_ok=True)
                link.symlink_to(os.readlink(entry.path))


def build_foreign_base(step, digest, arch, kernel, fetched):
    """The base of another architecture. FETCHED is the key of its tree."""
    key = digest([fetched, str(first_etc())], [SRC / "ci/image.py"])
    name = f"base{arch.suffix}"
    with step(f"image-{name}", key, f"guest base image for {arch.name}") as this:
        if this is None:
            return
        tree, root = tree_of(arch), STAGE / name
        make_empty_root(root, links_of(tree))
        copy_files(this, sorted(tree_files(tree)), root, tree)
        add_etc(this, tree, root)
        # No byte code was made at installation. Times of files are not kept.
        this.run("python3", "-m", "compileall", "-q", "-j0", "-s", root, "-p", "/",
                 "--invalidation-mode", "unchecked-hash",
                 *sorted(root.glob("usr/lib/python3*")))
        stage_modules(this, kernel, root)
        erofs(this, root, f"{name}.erofs")


def stage_rdma_core(root):
    """Copies rdma-core as built here, except fakernic's provider, which the payload has."""
    skipped = ("doc", "man", "pkgconfig", "cmake", "systemd", "udev",
               "libfakernic*", "fakernic.driver")
    for part in ("usr/bin", "usr/sbin", "usr/lib", "usr/share", "etc"):
        if (RDMA_INSTALLED / part).is_dir():
            shutil.copytree(RDMA_INSTALLED / part, root / part, symlinks=True,
                            dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns(*skipped))
    for part in ("sbin", "lib"):
        if (RDMA_INSTALLED / part).is_dir():
            raise RuntimeError("rdma-core installed outside /usr")


def build_guest_test(step, digest, kernels, rdma_core):
    """Builds the image with those files of "guest-test" that the base lacks. It also has
    all of /etc, whose tables (users, shared libraries) grow with the packages. RDMA_CORE
    is the key of rdma-core without the provider."""
    status = STATUS.read_text(encoding="utf-8")
    key = digest([base_key(digest, kernels), status, rdma_core,
                  *listed_packages("guest-test")])
    with step("image-guest-test", key, "guest image for tests") as this:
        if this is None:
            return
        root = STAGE / "guest-test"
        shutil.rmtree(root, ignore_errors=True)
        (root / "etc").mkdir(parents=True)
        for link in links_of(tree_of(HOST)):
            (root / f"usr/{link}").mkdir(parents=True)
            (root / link).symlink_to(f"usr/{link}")
        packages = guest_packages(status, "guest", "guest-test")
        base = guest_packages(first_stage(), "guest")
        copy_packages(this, packages - base, Path("/etc"), root)
        whole = STAGE / "rdma-core"
        shutil.rmtree(whole, ignore_errors=True)
        stage_rdma_core(whole)
        strip_programs(this, whole)
        this.run("cp", "-a", "--remove-destination", f"{whole}/.", root)
        erofs(this, root, "guest-test.erofs")


# ---- initrd ----------------------------------------------------------------

def module_order(root, version):
    """The files of the boot modules. Dependencies come first."""
    depends = {}
    folder = root / "usr/lib/modules" / version
    for line in (folder / "modules.dep").read_text().splitlines():
        path, _, needs = line.partition(":")
        depends[path] = needs.split()
    by_name = {Path(path).stem.replace("-", "_"): path for path in depends}
    order = []
    for name in BOOT_MODULES:
        if name not in by_name:     # built in
            continue
        for path in [*reversed(depends[by_name[name]]), by_name[name]]:
            if path not in order:
                order.append(path)
    return [folder / path for path in order]


def build_initrd(step, digest, kernel, arch=HOST, modules=None):
    """Builds the initrd of a kernel. Its modules are in the base; if MODULES is another
    folder, the guest finds them on a disk of their own."""
    version = kernel_version(kernel)
    key = digest([version, *BOOT_MODULES],
                 [GUEST / "init.c", SRC / "ci/image.py"])
    with step(f"image-initrd-{kernel}", key, f"guest kernel {version}") as this:
        if this is None:
            return
        root = STAGE / f"initrd-{kernel}"
        shutil.rmtree(root, ignore_errors=True)
        own = ["kernel"] if modules else []
        modules = modules or STAGE / f"base{arch.suffix}"
        for folder in ("modules", "proc", "dev", "base", "payload", "tests",
                       "tmpfs", "root", *own):
            (root / folder).mkdir(parents=True)
        this.run(*compiler_of(arch), "-static",
                 f'-DCONSOLE="/dev/{arch.console}"', "-o", root / "init",
                 GUEST / "init.c")
        this.run(tool_of(arch, "strip"), root / "init")
        names = []
        for path in module_order(modules, version):
            shutil.copy(path, root / "modules")
            names.append(f"/modules/{path.name}")
        (root / "modules/order").write_text("\n".join(names) + "\n")
        partial = IMAGES / f"initrd-{kernel}.partial"
        this.run("sh", "-c", f"cd {root} && find . -exec touch -hd @0 {{}} + && "
                 "find . | LC_ALL=C sort | cpio --quiet --reproducible -R 0:0 "
                 f"-H newc -o >{partial}")
        partial.rename(IMAGES / f"initrd-{kernel}")
        shutil.copy(kernel_image(kernel), IMAGES / f"vmlinuz-{kernel}")


# ---- payload ---------------------------------------------------------------

def compile_programs(this, target, arch):
    """Compiles each tests/vm/guest/*.c except init.c to one program of the guest. Headers
    are from rdma-core's tree, libraries from Debian's packages of the same release."""
    target.mkdir(parents=True, exist_ok=True)
    for source in sorted(GUEST.glob("*.c")):
        if source.name == "init.c":
            continue
        this.run(*compiler_of(arch), "-g", f"-I{rdma_of(arch)}/include",
                 f"-I{SPEC}", f"-I{SPEC}/include",
                 "-o", target / source.stem, source,
                 "-l:librdmacm.so.1", "-l:libibverbs.so.1", "-lpthread")


def compile_agent(this, target, arch):
    """Compiles the agent of fakernic-lab, statically, so that it runs in any guest of its
    architecture."""
    program = AGENT_PROGRAM.with_name(f"{AGENT_PROGRAM.name}{arch.suffix}")
    program.parent.mkdir(parents=True, exist_ok=True)
    partial = program.with_suffix(".partial")
    this.run(*compiler_of(arch), "-static", "-s", "-o", partial, AGENT)
    partial.rename(program)
    shutil.copy(program, target / AGENT_PROGRAM.name)


def strip_programs(this, root, arch=HOST):
    for path in root.rglob("*"):
        if is_elf(path) and path.suffix != ".ko":
            this.run(tool_of(arch, "strip"), "--strip-debug", path)


def stage_provider(root, arch):
    """Stages the provider, for Debian's own libibverbs."""
    libraries = root / f"usr/lib/{arch.triplet}/libibverbs"
    libraries.mkdir(parents=True)
    shutil.copy(rdma_of(arch) / "lib/libfakernic-rdmav34.so", libraries)
    drivers = root / "etc/libibverbs.d"
    drivers.mkdir(parents=True)
    (drivers / "fakernic.driver").write_text("driver fakernic\n")


def is_elf(path):
    if path.is_symlink() or not stat.S_ISREG(path.stat().st_mode):
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def driver_of(kernel):
    return Path(f"/cache/build/driver-{kernel}/kernel-driver/fakernic.ko")


def add_driver(this, driver, root, version, arch=HOST):
    """Adds fakernic.ko to a kernel's own modules and to their index."""
    updates = root / "lib/modules" / version / "updates"
    updates.mkdir()
    shutil.copy(driver, updates)
    this.run(tool_of(arch, "strip"), "--strip-debug", updates / driver.name)
    this.run("depmod", "-b", root, version)


def stage_driver(this, kernel, root, arch):
    """Stages fakernic.ko and a module index that covers the base and the driver."""
    driver = driver_of(kernel)
    version = kernel_version(kernel)
    base = STAGE / f"base{arch.suffix}/usr/lib/modules" / version
    target = root / "usr/lib/modules" / version
    if not driver.exists():
        this.note(f"no driver for Linux {version} yet")
        return
    merged = STAGE / f"depmod-{kernel}"
    shutil.rmtree(merged, ignore_errors=True)
    folder = merged / "lib/modules" / version
    folder.mkdir(parents=True)
    (folder / "kernel").symlink_to(base / "kernel")
    for name in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copy(base / name, folder)
    add_driver(this, driver, merged, version, arch)
    shutil.copytree(folder, target, symlinks=True,
                    ignore=shutil.ignore_patterns("kernel"))


def build_payload(step, digest, kernels, arch=HOST):
    drivers = [driver_of(kernel) for kernel in kernels]
    stamps = [Path(f"/cache/build/{name}{arch.suffix}.stamp").read_text()
              for name in ("provider", "image-base")]
    key = digest(stamps, [GUEST, AGENT, SPEC, SRC / "ci/image.py", *drivers])
    name = f"payload{arch.suffix}"
    title = "guest payload image" + (f" for {arch.name}" if arch.suffix else "")
    with step(f"image-{name}", key, title) as this:
        if this is None:
            return
        root = STAGE / name
        shutil.rmtree(root, ignore_errors=True)
        stage_provider(root, arch)
        (root / "usr/bin").mkdir()
        compile_programs(this, root / "usr/bin", arch)
        compile_agent(this, root / "usr/bin", arch)
        shutil.copy(GUEST / "show_gids", root / "usr/bin")
        strip_programs(this, root, arch)
        share = root / "usr/share/fakernic"
        share.mkdir(parents=True, exist_ok=True)
        for path in GUEST.iterdir():
            if path.suffix not in (".c", ".pyc") and path.is_file() and (
                    path.name != "show_gids"):
                shutil.copy(path, share)
        for kernel in kernels:
            stage_driver(this, kernel, root, arch)
        # The modes of the checkout's files depend on the umask of its owner.
        this.run("chmod", "-R", "u=rwX,go=rX", root)
        erofs(this, root, f"{name}.erofs")


def build_modules(step, digest, kernels):
    """Builds the kernel modules of the tests: a folder for the release of each kernel
    that is installed."""
    there = [kernel for kernel in kernels
             if Path(f"{kernel_folder(kernel)}.version").exists()]
    versions = [kernel_version(kernel) for kernel in there]
    key = digest(versions, [MODULES, SRC / "ci/image.py"])
    with step("modules", key, "kernel modules of tests") as this:
        if this is None:
            return
        root = STAGE / "modules"
        shutil.rmtree(root, ignore_errors=True)
        for kernel, version in zip(there, versions):
            copy = STAGE / "modules-built"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(MODULES, copy)
            this.run("make", "-C", f"{kernel_folder(kernel)}.headers",
                     f"M={copy}", "KCFLAGS=-Werror", "modules")
            (root / version).mkdir(parents=True)
            for module in copy.glob("*.ko"):
                shutil.copy(module, root / version)
                this.run("strip", "--strip-debug", root / version / module.name)
        IMAGES.mkdir(parents=True, exist_ok=True)
        erofs(this, root, "modules.erofs")


# ---- a kernel on a disk of its own -----------------------------------------

def build_kernel(step, digest, kernel, arch=HOST):
    version = kernel_version(kernel)
    driver = driver_of(kernel)
    root = STAGE / f"kernel-{kernel}"
    IMAGES.mkdir(parents=True, exist_ok=True)
    key = digest([version], [SRC / "ci/image.py", driver])
    name = f"kernel-{kernel}.erofs"
    with step(f"image-kernel-{kernel}", key, f"modules of {version}") as this:
        if this is not None:
            # If this step fails, no test may use the image of an earlier driver.
            (IMAGES / name).unlink(missing_ok=True)
            shutil.rmtree(root, ignore_errors=True)
            stage_modules(this, kernel, root)
            add_driver(this, driver, root / "usr", version, arch)
            erofs(this, root, name)
    build_initrd(step, digest, kernel, arch, modules=root)


def build(step, digest, kernels):
    IMAGES.mkdir(parents=True, exist_ok=True)
    build_base(step, digest, kernels)
    for kernel in kernels:
        build_initrd(step, digest, kernel)
    build_payload(step, digest, kernels)


def build_foreign(step, digest, arch, kernel, fetched):
    """The images of another architecture, with one kernel."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    build_foreign_base(step, digest, arch, kernel, fetched)
    build_initrd(step, digest, kernel, arch)
    build_payload(step, digest, [kernel], arch)
