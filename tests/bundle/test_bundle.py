# SPDX-License-Identifier: GPL-2.0-or-later
"""The bundle runs in a foreign system as it is unpacked, and says in one line why it
does not.
"""

import re
import shutil
import subprocess

import bundle
from conftest import HOME, USER, commands

MIB = 1 << 20
CANNOT = 125
RUN_S = 420
# Libraries and modules that the bundle must not take from its user.
FOREIGN = {"LD_LIBRARY_PATH": f"{HOME}/foreign", "PYTHONPATH": f"{HOME}/foreign",
           "PYTHONHOME": "/nonexistent"}
SPOILED = ("libglib-2.0.so.0", "libpixman-1.so.0", "libfdt.so.1", "libdeflate.so.0")


def refused(done, *words):
    """A command was refused by one line with these words."""
    assert done.returncode == CANNOT, done
    assert done.stderr.count("\n") == 1 and not done.stdout, done
    assert all(word in done.stderr for word in words), done.stderr


def test_size(archive):
    size = archive.stat().st_size
    print(f"\n{archive.name}: {size} bytes")
    assert size <= 120 * 1000 * 1000


def test_unpacks_with_python_alone(system, top):
    print(f"\n{system.name}: unpacked in {system.unpacked.seconds:.0f} s")
    assert (system.home / top / "PACKAGES").read_text().count("\n") > 100


def test_image_has_no_data_of_the_building_machine(system, top):
    """Neither its names, addresses and mirror nor keys that were made there."""
    def listed(folder):
        return subprocess.run(
            ["dump.erofs", "--ls", f"--path={folder}", system.home / top / bundle.BASE],
            check=True, capture_output=True, text=True).stdout.split()

    names, keys = listed("/etc"), listed("/etc/ssh")
    assert "passwd" in names and "sshd_config" in keys
    assert not {"apt", "hosts", "hostname", "machine-id", "resolv.conf"} & set(names), names
    assert not [name for name in keys if "host" in name], keys


def test_doctor(system, top):
    done = system.run(f"{top}/fakernic-lab doctor")
    print(done.stdout)
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert len(lines) <= 12 and lines[-1] == "Machines can run here.", done
    for word in ("Python", "KVM", "memory", "results", "shared memory",
                 "user namespaces"):
        assert word in done.stdout, done


def test_first_section_of_the_readme(system, top):
    """Its commands do RDMA between two machines, from a read-only file system and among
    foreign libraries. Only /tmp can be written."""
    foreign = system.home / "foreign"
    foreign.mkdir()
    for name in SPOILED:
        (foreign / name).write_bytes(b"no library\n")
    (foreign / "argparse.py").write_text("raise SystemExit('foreign module')\n")
    unpack, enter, doctor, run = commands()
    assert "tarfile" in unpack and "doctor" in doctor
    done = system.run(f"{enter} && {doctor} && {run} && ls /tmp", RUN_S, read_only=True,
                      **FOREIGN)
    print(f"{system.name}: RDMA in {done.seconds:.0f} s\n{done.stderr}")
    assert done.returncode == 0 and "ended with 0" in done.stderr, done
    assert "t_typical" in done.stdout, done
    # Nothing is left but the results.
    assert re.fullmatch(r"fakernic-lab\.out-\w+", done.stdout.splitlines()[-1]), done
    assert not [path for path in (system.home / top).iterdir() if "out" in path.name]


def test_emulator_alone(system, top):
    """bin/qemu-system-x86_64-fakernic by a link, as libvirt would start it."""
    done = system.run(
        f'ln -s "$PWD/{top}/bin/qemu-system-x86_64-fakernic" /tmp/emulator && '
        "cd / && LD_PRELOAD=/nonexistent.so exec /tmp/emulator -device fakernic,help")
    assert done.returncode == 0 and "x-record" in done.stdout, done


# ---- bad input -----------------------------------------------------------------

def test_truncated_archive(system, archive):
    """What was unpacked of it says so, and starts nothing."""
    cut = system.home / "cut"
    cut.mkdir()
    shutil.chown(cut, USER, USER)
    with open(archive, "rb") as file:
        (cut / "cut.tar.xz").write_bytes(file.read(archive.stat().st_size // 4))
    system.run("cd cut && python3 -m tarfile -e cut.tar.xz")
    refused(system.run(f"cd cut && {bundle.name()}/fakernic-lab run -- true"),
            "is incomplete", "unpack it again")
    assert not (cut / "fakernic-lab.out").exists()
    shutil.rmtree(cut)


def test_file_that_is_too_short(system, top):
    """As after a full disk."""
    path = system.home / top / "qemu/share/kvmvapic.bin"
    data = path.read_bytes()
    path.write_bytes(data[:100])
    done = system.run(f"{top}/fakernic-lab run -- true")
    path.write_bytes(data)
    refused(done, "kvmvapic.bin has 100 of", "unpack it again")


def test_no_python(system, top):
    refused(system.run(f"{top}/fakernic-lab run -- true", FAKERNIC_PYTHON="/bin/false"),
            "Python 3.9 or newer", "FAKERNIC_PYTHON")


def test_other_architecture(system, top):
    refused(system.run("mkdir -p /tmp/bin && printf '#!/bin/sh\\necho riscv64\\n' "
                       "> /tmp/bin/uname && chmod 755 /tmp/bin/uname && "
                       f"PATH=/tmp/bin:$PATH && {top}/fakernic-lab run -- true"),
            "for x86_64", "riscv64")


def test_path_with_a_colon(system, top):
    refused(system.run(f"mkdir a:b && cp {top}/fakernic-lab a:b && "
                       "a:b/fakernic-lab doctor; code=$?; rm -r a:b; exit $code"),
            "colon", "move the folder")


def test_full_disk(system, top):
    """The results' disk is full."""
    done = system.run(f"bundle=$PWD/{top}; cd /tmp && head -c 1M /dev/zero >full "
                      "2>/dev/null; exec \"$bundle/fakernic-lab\" run -- true",
                      tmp_size="512k")
    assert done.returncode == CANNOT and "No space left" in done.stderr, done
    assert "choose another --out" in done.stderr.splitlines()[-1], done


def test_nothing_can_be_written(system, top):
    refused(system.run(f"{top}/fakernic-lab run -- true", read_only=True,
                       tmp_size="4k,ro"), "TMPDIR")


def test_no_memory(system, top):
    """QEMU cannot have the memory of a machine."""
    done = system.run(f"ulimit -v 700000; {top}/fakernic-lab run --out /tmp/out -- true")
    assert done.returncode == CANNOT, done
    assert "run fewer (-n)" in done.stderr.splitlines()[-1], done
