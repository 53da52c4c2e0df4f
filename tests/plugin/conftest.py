# SPDX-License-Identifier: GPL-2.0-or-later
"""The plug-in from the build step qemu-plugin, and copies of it that tests may damage."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

SRC = Path("/src")
BUILT = Path("/cache/build/qemu-plugin")
QEMU = Path("/usr/bin/qemu-system-x86_64")


def build_id(program):
    notes = subprocess.run(["readelf", "-n", program], check=True,
                           capture_output=True, text=True).stdout
    return re.search(r"Build ID: (\w+)", notes).group(1)


class Plugin:
    """An installed plug-in: loader, folder of devices, wrapper."""

    def __init__(self, folder):
        self.folder = folder
        self.wrapper = folder / "qemu-system-x86_64-fakernic"
        self.device = folder / f"qemu/{build_id(QEMU)}.so"

    def run(self, *arguments, **environment):
        environment = {"PATH": "/usr/bin:/bin", **environment}
        return subprocess.run([self.wrapper, *arguments], env=environment,
                              check=False, capture_output=True, text=True,
                              timeout=60)

    def refusal(self, *arguments, **environment):
        """The one-line error of QEMU, which must exit with 1."""
        result = self.run(*arguments, **environment)
        assert result.returncode == 1, result
        assert result.stdout == ""
        lines = result.stderr.splitlines()
        assert len(lines) == 1, lines
        return lines[0]


@pytest.fixture
def plugin(tmp_path):
    """A copy of the installed plug-in."""
    folder = tmp_path / "plugin"
    (folder / "qemu").mkdir(parents=True)
    for name in ("fakernic-qemu.so", f"qemu/{build_id(QEMU)}.so"):
        shutil.copy(BUILT / name, folder / name)
    text = (SRC / "qemu-hw/plugin/wrapper.sh").read_text()
    wrapper = folder / "qemu-system-x86_64-fakernic"
    wrapper.write_text(text.replace("@LIBRARY@", str(folder)))
    wrapper.chmod(0o755)
    return Plugin(folder)


class Work:
    """The sources and objects of the plug-in, for compiling it in other ways."""

    def __init__(self):
        self.build = BUILT / "work/build"
        self.source = next((BUILT / "work").glob("qemu-*"))
        self.objects = max((BUILT / "work").glob("objects-*"),
                           key=lambda path: path.stat().st_mtime)

    def flags(self, *before):
        """The compiler flags, with BEFORE ahead of those that name QEMU's headers."""
        words = subprocess.run(
            [SRC / "qemu-hw/plugin/flags.py", self.build / "compile_commands.json"],
            check=True, capture_output=True, text=True).stdout
        compiler, *rest = shlex.split(words)
        return [compiler, *before, *rest]

    def compile(self, source, target, *before):
        """Compiles a file without optimization. That is fast, and keeps all effects of the
        headers in the code."""
        subprocess.run(
            [*self.flags(*before), "-fPIC", "-fvisibility=hidden", "-g0", "-w",
             "-O0", "-U_FORTIFY_SOURCE", f"-I{SRC / 'firmware-spec/include'}",
             f"-I{self.objects}", f'-DFAKERNIC_PLUGIN_BUILD_ID="{build_id(QEMU)}"', "-c", source,
             "-o", target], cwd=self.build, check=True)

    def link(self, check, target):
        """Links the device with another check.o. Leaves out objects whose source no longer
        exists, because make does not remove them."""
        sources = (path.relative_to(self.objects).with_suffix(".c")
                   for path in self.objects.glob("*/**/*.o"))
        objects = [self.objects / name.with_suffix(".o") for name in sources
                   if name.parts[0] == "trace" or
                   (SRC / "qemu-hw" / name).exists() and name.name != "check.c"]
        subprocess.run(["cc", "-shared", "-o", target, check, *objects,
                        "-lglib-2.0", "-ldeflate"], check=True)


@pytest.fixture(scope="session")
def work():
    return Work()
