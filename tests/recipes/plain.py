# SPDX-License-Identifier: GPL-2.0-or-later
"""A plain Debian 13, like the image debian:trixie, in which tests run the recipes."""

import shutil
import subprocess
from pathlib import Path

APT = Path("/etc/apt")
BASE = Path("/cache/build/recipes/base")
# Downloaded packages, which later tests use again.
DEBS = BASE.with_name("debs")
STEP_S = 800
# Binds what the runtime of a container binds, and runs a command in the container.
INSIDE = """set -e
root=$1 folder=$2 user=$3 debs=$4
shift 4
for part in proc sys dev; do
    mkdir -p "$root/$part"
    mount --rbind /$part "$root/$part"
done
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mkdir -p "$root$folder" "$root/var/cache/apt/archives"
mount --bind "$debs" "$root/var/cache/apt/archives"
if [ -e "$root/context" ]; then
    mkdir -p "$root/packages"
    mount --bind "$root/context" "$root/packages"
fi
exec env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \\
    DEBIAN_FRONTEND=noninteractive CI=true \\
    chroot --userspec="$user" "$root" sh -c 'cd "$1" && shift && exec "$@"' in \\
    "$folder" "$@"
"""


def base():
    """Makes the system once, of which all others are copies. Returns its folder."""
    (DEBS / "partial").mkdir(parents=True, exist_ok=True)
    if not (BASE / "etc/debian_version").exists():
        shutil.rmtree(BASE, ignore_errors=True)
        partial = BASE.with_name("partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["mmdebstrap", "--mode=root", "--variant=minbase",
             f"--aptopt={APT}/apt.conf.d/99host", "--include=ca-certificates",
             "trixie", partial, APT / "sources.list.d/debian.sources"],
            check=True, timeout=STEP_S, stdin=subprocess.DEVNULL)
        partial.rename(BASE)
    return BASE


def run_inside(root, *words, folder="/", user="0:0"):
    """Runs a command in the system below ROOT, as in a container. Returns its
    CompletedProcess. Its background processes end with it."""
    DEBS.mkdir(parents=True, exist_ok=True)
    return subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
         INSIDE, "inside", root, folder, user, DEBS, *words], check=False,
        capture_output=True, text=True, timeout=STEP_S, stdin=subprocess.DEVNULL)


class Plain:
    """A copy of the system, in which commands run as in a container."""

    def __init__(self, root):
        self.root = Path(root)
        subprocess.run(["cp", "-a", base(), root], check=True, timeout=STEP_S)

    def put(self, source, target):
        """Copies a file or folder into the system."""
        place = self.root / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if Path(source).is_dir():
            shutil.copytree(source, place)
        else:
            shutil.copy(source, place)

    def run(self, *words, **where):
        """Runs a command, as run_inside() does."""
        return run_inside(self.root, *words, **where)

    def step(self, script, **where):
        """Runs a step of a CI service: a shell script that must succeed."""
        done = self.run("sh", "-e", "-c", script, **where)
        assert done.returncode == 0, f"{script}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)
