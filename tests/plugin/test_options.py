# SPDX-License-Identifier: GPL-2.0-or-later
"""qemu-hw/plugin/options.txt, the list of QEMU options that do or do not change the code
of the device, is correct and complete."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import SRC, Work

OPTIONS = SRC / "qemu-hw/plugin/options.py"


def options(verdict):
    text = (SRC / "qemu-hw/plugin/options.txt").read_text()
    return re.findall(rf"^(\w+) +{verdict}\b", text, re.M)


def configured(work, folder, names):
    """A copy of the build folder in which these configuration macros are inverted."""
    folder.mkdir()
    for path in work.build.iterdir():
        if path.name != "config-host.h":
            (folder / path.name).symlink_to(path)
    text = (work.build / "config-host.h").read_text()
    for name in names:
        text, count = re.subn(rf"^#define {name}\b.*$", f"#undef {name}", text,
                              flags=re.M)
        if not count:
            text += f"#define {name} 1\n"
    (folder / "config-host.h").write_text(text)
    # Replacements for headers of libraries that the root lacks.
    (folder / "liburing.h").write_text("struct io_uring { char room[216]; };\n"
                                       "struct io_uring_cqe { char room[16]; };\n"
                                       "struct io_uring_sqe;\n")
    (folder / "capstone.h").write_text("")
    other = Work()
    other.build = folder
    return other


def code(work, folder):
    """Compiles the device. Returns {source: bytes of the object}."""
    folder.mkdir()
    found = {}
    for part in ("device", "link"):
        for source in sorted((SRC / "qemu-hw" / part).rglob("*.c")):
            name = source.relative_to(SRC / "qemu-hw")
            target = folder / name.with_suffix(".o")
            target.parent.mkdir(parents=True, exist_ok=True)
            work.compile(source, target, f"-I{work.build}")
            found[str(name)] = target.read_bytes()
    return found


def test_irrelevant_options_do_not_change_code(work, tmp_path):
    plain = code(configured(work, tmp_path / "a", []), tmp_path / "plain")
    flipped = code(configured(work, tmp_path / "b", options("same")),
                   tmp_path / "flipped")
    assert [name for name in plain if plain[name] != flipped[name]] == []


def test_flipped_option_is_detected(work, tmp_path):
    """An option that changes the code does change it in this test's way of compiling."""
    plain = tmp_path / "plain.o"
    flipped = tmp_path / "flipped.o"
    source = SRC / "qemu-hw/device/vcpus.c"
    work.compile(source, plain)
    configured(work, tmp_path / "a", ["CONFIG_TCG"]).compile(source, flipped)
    assert plain.read_bytes() != flipped.read_bytes()


def test_all_options_are_known(work):
    subprocess.run([OPTIONS, "headers", work.source, work.build], check=True)


def every_include(*folders):
    """The headers of QEMU that the files in these folders include."""
    return {name for folder in folders
            for path in (SRC / "qemu-hw" / folder).rglob("*.[ch]")
            for name in re.findall(r'^#include "([a-z0-9-]+/[^"]+)"',
                                   path.read_text(), re.M)}


# config-host.h, and the headers that only the files in link/ include.
@pytest.mark.parametrize("header", ("config-host.h", *sorted(
    every_include("link") - every_include("device", "plugin"))))
def test_unknown_option_is_refused(work, tmp_path, header):
    other = configured(work, tmp_path / "a", [])
    (other.build / "linux-headers").unlink(missing_ok=True)
    planted = other.build / header
    planted.parent.mkdir(exist_ok=True)
    text = next(path.read_text() for path in (planted, work.source / "include" / header)
                if path.exists())
    planted.write_text(f"{text}#ifdef CONFIG_OF_TOMORROW\n#endif\n")
    result = subprocess.run([OPTIONS, "headers", work.source, other.build],
                            check=False, capture_output=True, text=True)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "CONFIG_OF_TOMORROW" in result.stderr


def test_option_of_package_that_matters_is_found(work, tmp_path):
    debian = tmp_path / "debian"
    debian.mkdir()
    for name in ("rules", "control"):
        shutil.copy(work.source / "debian" / name, debian)
    subprocess.run([OPTIONS, "rules", debian], check=True)
    rules = Path(debian / "rules")
    text = rules.read_text()
    assert "--enable-modules" in text
    rules.write_text(text.replace("--enable-modules",
                                  "--enable-modules --enable-tsan"))
    result = subprocess.run([OPTIONS, "rules", debian], check=False,
                            capture_output=True, text=True)
    assert result.returncode == 1
    assert "--enable-tsan" in result.stderr
