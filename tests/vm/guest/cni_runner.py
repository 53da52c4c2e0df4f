# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the CNI plug-ins sriov and rdma on the VFs of a card, in a guest:
cni_runner.py PLUGINS PF options|load ROUNDS

PLUGINS is a folder with the plug-ins, PF the interface of the physical function, whose
VFs are enabled. "options" tries each option of sriov on VF 0, ROUNDS times, and prints
one line each: NAME, ok or the error. "load" adds and deletes VFs 0 to 3, all at the same
time and ROUNDS times each, by sriov and then rdma, and prints the number of rounds and
the errors.
"""

import json
import os
import subprocess
import sys
import threading
import time

# Name -> the words of sriov's configuration, and what "ip -j link" then shows of the VF.
OPTIONS = {
    "plain": ({}, {}),
    "mac": ({"mac": "52:54:00:aa:bb:cc"}, {"address": "52:54:00:aa:bb:cc"}),
    "vlan 100, QoS 2": ({"vlan": 100, "vlanQoS": 2},
                        {"vlan_list": [{"vlan": 100, "qos": 2}]}),
    "vlan 100, 802.1ad": ({"vlan": 100, "vlanProto": "802.1ad"},
                          {"vlan_list": [{"vlan": 100, "protocol": "802.1ad"}]}),
    "spoofchk off": ({"spoofchk": "off"}, {"spoofchk": False}),
    "trust on": ({"trust": "on"}, {"trust": True}),
    "link_state enable": ({"link_state": "enable"}, {"link_state": "enable"}),
    "link_state disable": ({"link_state": "disable"}, {"link_state": "disable"}),
    "link_state auto": ({"link_state": "auto"}, {"link_state": "auto"}),
    "max_tx_rate 100": ({"max_tx_rate": 100}, {"rate": {"max_tx": 100, "min_tx": 0}}),
    "min_tx_rate 40, max_tx_rate 100": (
        {"min_tx_rate": 40, "max_tx_rate": 100}, {"rate": {"max_tx": 100, "min_tx": 40}}),
}
LOADED_VFS = 4
BACK_S = 20                 # time limit for an RDMA device to come back


def run(*command, **keywords):
    return subprocess.run(command, capture_output=True, text=True, check=False,
                          timeout=120, **keywords)


class Failed(Exception):
    """A plug-in failed, or did something else."""


class Vf:
    """A virtual function and the network namespace that gets it."""

    def __init__(self, plugins, netdev, number):
        self.plugins, self.netdev, self.number = plugins, netdev, number
        self.slot = os.path.basename(os.readlink(
            f"/sys/class/net/{netdev}/device/virtfn{number}"))
        self.space = f"pod{number}"
        self.serial = 0

    def begin(self):
        """A container begins."""
        self.serial += 1
        run("ip", "netns", "add", self.space)

    def end(self):
        run("ip", "netns", "del", self.space)

    def call(self, plugin, command, words):
        """Runs a plug-in, which must succeed, and returns what it prints."""
        done = run(
            f"{self.plugins}/{plugin}",
            input=json.dumps({"cniVersion": "0.3.1", "name": f"net-{plugin}",
                              "type": plugin, "deviceID": self.slot, **words}),
            env={"CNI_COMMAND": command, "CNI_IFNAME": "net1",
                 "CNI_CONTAINERID": f"{self.space}-{self.serial}",
                 "CNI_NETNS": f"/var/run/netns/{self.space}",
                 "CNI_PATH": self.plugins, "PATH": os.environ["PATH"]})
        if done.returncode:
            raise Failed(f"{plugin} {command}: {message(done)}")
        return json.loads(done.stdout) if done.stdout.strip() else None

    def shown(self):
        """What "ip link" of the PF shows of the VF, without counters."""
        found = json.loads(run("ip", "-j", "link", "show", self.netdev).stdout)
        return {name: value for name, value in
                found[0]["vfinfo_list"][self.number].items() if name != "stats"}

    def inside(self, *command):
        return run("ip", "netns", "exec", self.space, *command)

    def rdma_devices(self):
        """The RDMA devices of the VF that the initial namespace has."""
        folder = f"/sys/bus/pci/devices/{self.slot}/infiniband"
        return os.listdir(folder) if os.path.isdir(folder) else []


def message(done):
    """The error that a plug-in reports, in one line."""
    try:
        text = json.loads(done.stdout)["msg"]
    except (ValueError, KeyError):
        text = done.stdout + done.stderr
    return " ".join(text.split())[-200:] or f"exit code {done.returncode}"


def holds(shown, wanted):
    """Whether the VF is shown with these settings, of which a list may have more."""
    return all(
        len(value) == len(shown.get(name, ())) and
        all(item.items() <= other.items() for item, other in zip(value, shown[name]))
        if isinstance(value, list) else shown.get(name) == value
        for name, value in wanted.items())


def try_option(vf, words, wanted):
    """ADD and DEL with an option: it is shown, and undone."""
    before = vf.shown()
    vf.begin()
    try:
        vf.call("sriov", "ADD", words)
        try:
            shown = vf.shown()
            if not holds(shown, wanted):
                raise Failed(f"ip link shows {shown}")
            if vf.inside("ip", "link", "show", "net1").returncode:
                raise Failed("no interface net1 in the namespace")
        finally:
            vf.call("sriov", "DEL", words)
    finally:
        vf.end()
    if vf.shown() != before:
        raise Failed(f"{before} became {vf.shown()}")


def options(vf, rounds):
    for name, (words, wanted) in OPTIONS.items():
        try:
            for _ in range(rounds):
                try_option(vf, words, wanted)
            result = "ok"
        except Failed as error:
            result = str(error)
        print(f"{name}\t{result}", flush=True)


def add_and_delete(vf):
    """A container with the VF and its RDMA device begins and ends."""
    words = {"vlan": 100 + vf.number, "spoofchk": "on"}
    vf.begin()
    try:
        result = vf.call("sriov", "ADD", words)
        vf.call("rdma", "ADD", {"prevResult": result})
        counters = vf.inside("sh", "-c",
                             "ls /sys/class/infiniband/*/ports/1/hw_counters")
        if not counters.stdout.strip():
            raise Failed("no hw_counters in the namespace")
        vf.call("rdma", "DEL", {})
        vf.call("sriov", "DEL", words)
    finally:
        vf.end()
    deadline = time.monotonic() + BACK_S
    while not vf.rdma_devices():
        if time.monotonic() > deadline:
            raise Failed("the RDMA device did not come back")
        time.sleep(0.1)


def load(vfs, rounds):
    done, errors = [], []

    def work(vf):
        try:
            for _ in range(rounds):
                add_and_delete(vf)
                done.append(vf)
        except Exception as error:          # it is reported
            errors.append(f"{vf.slot}: {error!r}")
    threads = [threading.Thread(target=work, args=(vf,)) for vf in vfs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(len(done), *errors, sep="\n", flush=True)


def main():
    plugins, netdev, what, rounds = sys.argv[1:]
    vfs = [Vf(plugins, netdev, number) for number in range(LOADED_VFS)]
    if what == "options":
        options(vfs[0], int(rounds))
    else:
        load(vfs, int(rounds))


if __name__ == "__main__":
    main()
