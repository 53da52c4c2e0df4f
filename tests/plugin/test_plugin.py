# SPDX-License-Identifier: GPL-2.0-or-later
"""The device works in Debian's unmodified QEMU. Programs that the plug-in does not fit
refuse it with a one-line error."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from conftest import QEMU, build_id

# Programs that the plug-in was not built for: another configuration of the same
# source in the same package, this project's own QEMU, and no QEMU at all.
OTHERS = [Path("/usr/bin/qemu-system-x86_64-microvm"),
          Path("/cache/build/qemu/qemu-system-x86_64"), Path("/bin/true")]


def test_help_of_the_device(plugin):
    result = plugin.run("-device", "fakernic,help")
    assert result.returncode == 0 and result.stderr == ""
    assert "max-qp=<uint32>" in result.stdout
    assert "dm-size=<size>" in result.stdout


def test_listed_among_devices(plugin):
    result = plugin.run("-device", "help")
    assert result.returncode == 0
    assert 'name "fakernic", bus PCI' in result.stdout


def test_wrong_property(plugin):
    """The device refuses a wrong property through QEMU's error functions."""
    line = plugin.refusal("-M", "q35", "-display", "none",
                          "-device", "fakernic,max-qp=17")
    assert "property 'max-qp' must be a power of two" in line


def test_trace_events(plugin):
    result = plugin.run("-trace", "help")
    assert result.returncode == 0
    assert "fakernic_send_wr" in result.stdout


def test_qmp(plugin):
    """Two devices, one of them behind a root port, are realized, shown by QMP and reset."""
    commands = [{"execute": "qmp_capabilities"}, {"execute": "query-version"},
                {"execute": "query-pci"},
                {"execute": "qom-get", "arguments": {
                    "path": "/machine/peripheral/card", "property": "max-qp"}},
                {"execute": "system_reset"}, {"execute": "quit"}]
    result = subprocess.run(
        [plugin.wrapper, "-M", "q35", "-accel", "tcg", "-display", "none",
         "-nodefaults", "-S", "-qmp", "stdio",
         "-device", "pcie-root-port,id=rp,chassis=1",
         "-netdev", "hubport,hubid=0,id=net",
         "-device", "fakernic,id=card,bus=pcie.0,netdev=net,max-qp=64",
         "-netdev", "hubport,hubid=0,id=other",
         "-device", "fakernic,bus=rp,netdev=other"],
        input="".join(json.dumps(command) + "\n" for command in commands),
        check=False, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    returned = [answer["return"] for answer in answers if "return" in answer]
    assert returned[1]["package"].startswith("Debian ")
    assert '"card"' in json.dumps(returned[2])
    assert returned[3] == 64


def test_inspection_and_faults(plugin):
    """Inspection and fault rules work through properties, without additions to QEMU's QMP
    schema."""
    path = "/machine/peripheral/card"
    commands = [{"execute": "qmp_capabilities"}]
    for name in ("x-state", "x-qps", "x-cqs", "x-srqs", "x-eqs", "x-keys",
                 "x-gids", "x-flows", "x-counters", "x-activity"):
        commands.append({"execute": "qom-get", "arguments": {
            "path": path, "property": name}})
    refused = {"x-ring": ("sq 17", "there is no sq 17"),
               "x-fault": ("at=moon do=drop", "moon")}
    for name, (value, _) in refused.items():
        commands.append({"execute": "qom-set", "arguments": {
            "path": path, "property": name, "value": value}})
    commands += [{"execute": "qom-set", "arguments": {
        "path": path, "property": "x-fault",
        "value": "id=a at=device severity=correctable do=aer"}},
                 {"execute": "qom-get", "arguments": {
                     "path": path, "property": "x-fault"}},
                 {"execute": "quit"}]
    result = subprocess.run(
        [plugin.wrapper, "-M", "q35", "-accel", "tcg", "-display", "none",
         "-nodefaults", "-S", "-qmp", "stdio", "-device", "fakernic,id=card"],
        input="".join(json.dumps(command) + "\n" for command in commands),
        check=False, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    errors = [answer["error"]["desc"] for answer in answers if "error" in answer]
    assert len(errors) == len(refused)
    assert all(why in error for (_, why), error in
               zip(refused.values(), errors)), errors
    returned = [answer["return"] for answer in answers if "return" in answer]
    seen = [json.loads(text) for text in returned[1:11]]
    assert seen[0]["qp"]["limit"] == 4096 and seen[1:8] == [[]] * 7
    assert seen[8][0]["counter"] == 0 and seen[9]["interrupt"] == 0
    assert returned[12].startswith("id=a at=device do=aer severity=correctable")


def test_children_are_left_alone(plugin, tmp_path):
    """Programs that QEMU starts do not preload the plug-in, but keep the user's LD_PRELOAD."""
    seen = tmp_path / "environment"
    other = "/usr/lib/x86_64-linux-gnu/libz.so.1"
    command = [plugin.wrapper, "-M", "none", "-display", "none", "-nodefaults",
               "-incoming", f"exec:env >{seen}.new; mv {seen}.new {seen}"]
    with subprocess.Popen(command, env=dict(os.environ, LD_PRELOAD=other)) as qemu:
        try:
            for _ in range(600):
                if seen.exists():
                    break
                time.sleep(0.1)
        finally:
            qemu.kill()
    assert f"LD_PRELOAD={other}" in seen.read_text().splitlines()


def make_stale(device, work):
    """Gives the device the mark of another release than the loader's."""
    header = (work.objects / "source-id.h").read_text()
    own = header.split('"')[1].encode()
    data = device.read_bytes()
    assert data.count(own) == 1
    device.write_bytes(data.replace(own, b"0" * len(own)))


# ---- refusals --------------------------------------------------------------

@pytest.mark.parametrize("program", OTHERS, ids=lambda path: path.name)
def test_built_for_another(plugin, program):
    line = plugin.refusal("--version", FAKERNIC_QEMU_BINARY=str(program))
    assert line.startswith("fakernic: the plug-in was not built for this QEMU")
    assert build_id(program) in line
    assert line.endswith("run fakernic-qemu-rebuild")


@pytest.mark.parametrize("program", OTHERS, ids=lambda path: path.name)
def test_wrong_build_id(plugin, program):
    """A device whose file name has the program's build ID, but that was built for another
    program, is refused."""
    plugin.device.rename(plugin.folder / f"qemu/{build_id(program)}.so")
    line = plugin.refusal("--version", FAKERNIC_QEMU_BINARY=str(program))
    assert line.startswith("fakernic: ")
    assert line.endswith("run fakernic-qemu-rebuild")


def test_no_device(plugin):
    plugin.device.unlink()
    assert build_id(QEMU) in plugin.refusal("--version")


def test_no_loader(plugin):
    (plugin.folder / "fakernic-qemu.so").unlink()
    assert "install fakernic-qemu again" in plugin.refusal("--version")


def test_device_of_another_release(plugin, work):
    """A device that was built before an update of the package is refused."""
    make_stale(plugin.device, work)
    line = plugin.refusal("--version")
    assert line.endswith("another release of fakernic: run fakernic-qemu-rebuild")


def test_damaged_device(plugin):
    os.truncate(plugin.device, 100)
    line = plugin.refusal("--version")
    assert line.endswith("run fakernic-qemu-rebuild")


def test_world_writable_device_is_refused(plugin):
    plugin.device.chmod(0o666)
    assert "can be written by others" in plugin.refusal("--version")


@pytest.mark.parametrize("mode", (0o777, 0o775), ids=oct)
def test_world_writable_folder_is_refused(plugin, mode):
    os.chown(plugin.folder, -1, 100)
    plugin.folder.chmod(mode)
    assert "can be written by others" in plugin.refusal("--version")


def test_foreign_folder_is_refused(plugin):
    os.chown(plugin.folder, 1, -1)
    assert "another user's" in plugin.refusal("--version")


def test_folder_of_the_users_own_group(plugin):
    """A folder that the user's own group may write, as umask 002 makes it, is accepted."""
    plugin.folder.chmod(0o775)
    assert plugin.run("--version").returncode == 0


def test_link_into_a_folder_that_others_can_write(plugin, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    plugin.device.rename(other / "device")
    plugin.device.symlink_to(other / "device")
    other.chmod(0o777)
    assert "can be written by others" in plugin.refusal("--version")


def test_device_of_the_user(plugin, tmp_path):
    """A device in the user's folder, built without root rights, is loaded."""
    own = tmp_path / "data/fakernic/qemu"
    own.mkdir(parents=True)
    plugin.device.rename(own / plugin.device.name)
    result = plugin.run("-device", "fakernic,help",
                        XDG_DATA_HOME=str(tmp_path / "data"))
    assert result.returncode == 0 and "max-qp" in result.stdout


def put(plugin, folder):
    """Puts a copy of the device into FOLDER."""
    folder.mkdir(parents=True)
    copy = folder / plugin.device.name
    shutil.copy(plugin.device, copy)
    return copy


@pytest.mark.parametrize("spoil", ("stale", "damaged", "writable"))
def test_user_device_is_found_after_unfit_one(plugin, work, tmp_path,
                                                         spoil):
    """A device of the user is loaded if an unusable one precedes it in the system's folder,
    which only root can remove, or also in the first of the user's two folders."""
    data, home = tmp_path / "data", tmp_path / "home"
    copies = [plugin.device, put(plugin, data / "fakernic/qemu")]
    last = put(plugin, home / ".local/share/fakernic/qemu")
    where = {"XDG_DATA_HOME": str(data), "HOME": str(home)}
    for copy in copies:
        if spoil == "stale":
            make_stale(copy, work)
        elif spoil == "damaged":
            os.truncate(copy, 100)
        else:
            copy.chmod(0o666)
        result = plugin.run("-device", "fakernic,help", **where)
        assert result.returncode == 0 and "max-qp" in result.stdout, result
        assert result.stderr == ""
    last.unlink()
    assert str(plugin.device) in plugin.refusal("--version", **where)


# A header, the line after which the test adds a field, and the structure that the error
# names.
LAYOUTS = [
    ("hw/pci/pci_device.h", "struct PCIDevice {\n    DeviceState qdev;",
     "PCIDevice"),
    ("hw/pci/pci_device.h", "struct PCIDeviceClass {\n    DeviceClass parent_class;",
     "PCIDeviceClass"),
    ("hw/qdev-core.h", "    DECLARE_BITMAP(categories, DEVICE_CATEGORY_MAX);",
     "PCIDeviceClass"),
    ("hw/qdev-core.h", "    MemReentrancyGuard mem_reentrancy_guard;", "PCIDevice"),
    ("exec/memory.h", "struct MemoryRegion {\n    Object parent_obj;", "PCIDevice"),
    ("qemu/timer.h", "struct QEMUTimer {", "QEMUTimer"),
]


@pytest.mark.parametrize("header, behind, what", LAYOUTS,
                         ids=lambda word: word.split("{")[0].split("/")[-1])
def test_other_layout(plugin, work, tmp_path, header, behind, what):
    """A device with the right build ID that was compiled with other structures is refused."""
    text = (work.source / "include" / header).read_text()
    assert text.count(behind) == 1
    planted = tmp_path / "include" / header
    planted.parent.mkdir(parents=True)
    planted.write_text(text.replace(behind, f"{behind}\n    uint64_t planted;"))
    check = tmp_path / "check.o"
    work.compile("/src/qemu-hw/plugin/check.c", check, "-iquote",
                 str(tmp_path / "include"))
    plugin.device.unlink()
    work.link(check, plugin.device)
    line = plugin.refusal("-device", "fakernic,help")
    assert f"this QEMU's {what} differs" in line
    assert line.endswith("run fakernic-qemu-rebuild")
