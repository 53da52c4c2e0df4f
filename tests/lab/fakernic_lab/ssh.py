# SPDX-License-Identifier: GPL-2.0-or-later
"""ssh between the machines, without set-up: 'ssh node2', 'mpirun -host node1,node2'.

One key, made for this run, is the key of all hosts and of their root. sshd is the
image's own, at port 22, with a configuration for this run; the agent starts it for
each connection, so it costs a boot nothing. If the image runs an sshd there, that one
stays, with its keys, and takes the new key. With --root the sessions run in the tree,
of which only the program ssh is used. An image without sshd has no ssh between its
machines.
"""

import base64
import hashlib
import secrets

from . import rdma, tree

FOLDER = "/run/fakernic-ssh"
KEY = f"{FOLDER}/key"
SSHD = "/usr/sbin/sshd"         # of the project's own guest
# Without these mpirun refuses to run as root, as which all commands run.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

CONFIG = f"""\
HostKey {KEY}
AuthorizedKeysFile {KEY}.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UseDNS no
PrintMotd no
MaxSessions 1000
PidFile none
Subsystem sftp internal-sftp
"""

# The agent, which runs "timeout" with this script, serves the port. An image may have
# its own sshd there: then this prints the keys of that one.
START = f"""
umask 077
[ -d {FOLDER} ] && [ -d /run/sshd ] || mkdir -p {FOLDER} /run/sshd
IFS= read -r -d '' text <<'EOF'
{{private}}EOF
printf %s "$text" >{KEY}
IFS= read -r -d '' text <<'EOF'
{{public}}EOF
printf %s "$text" >{KEY}.pub
IFS= read -r -d '' text <<'EOF'
{{config}}EOF
printf %s "$text" >{FOLDER}/sshd_config
{{stop}}
sshd=$(command -v sshd) || exit 0
read -r _ _ _ agent _ </proc/$PPID/stat
/proc/$agent/exe serve 22 $sshd -i -f {FOLDER}/sshd_config 2>/dev/null || {{{{
    mkdir -p /root/.ssh
    cat {KEY}.pub >>/root/.ssh/authorized_keys
    cat /etc/ssh/ssh_host_*_key.pub
}}}}
"""
# An image's own sshd would not lead into the tree.
STOP = "systemctl stop ssh.socket ssh.service sshd.service 2>/dev/null || true"

# The client's options for the machines.
CLIENT = """\
Host {names}
    User root
    IdentityFile ~/.ssh/fakernic-lab
    UserKnownHostsFile ~/.ssh/fakernic-lab.known ~/.ssh/known_hosts
"""
# What ssh finds in the home of root, in the machine or its view. Options that the
# file has had are for all hosts, as before.
KNOW = f"""
set -e
umask 077
[ -d {{home}}/.ssh ] || mkdir -p {{home}}/.ssh
cd {{home}}/.ssh
echo "$(<{KEY})" >fakernic-lab
while read -r line; do echo "$line"; done >fakernic-lab.known <<'EOF'
{{known}}EOF
before=
[ ! -e config ] || before=$(<config)
[[ $before == *fakernic-lab* ]] || echo "{CLIENT}Match all
$before" >config
"""

# ---- the key: Ed25519, RFC 8032 ------------------------------------------------------

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
BASE_Y = 4 * pow(5, -1, P) % P
BASE_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202


def add(one, other):
    """The sum of two points, (X, Y, Z) with x = X/Z and y = Y/Z."""
    a, b = one[2] * other[2] % P, one[0] * other[0] % P
    c, d = one[1] * other[1] % P, one[0] * other[1] + one[1] * other[0]
    e, f = a * a % P, D * b * c % P
    return a * (e - f) * d % P, a * (e + f) * (c + b) % P, (e - f) * (e + f) % P


def public_key(seed):
    """The 32 bytes of the public key of a private key, which has 32 bytes, too."""
    number = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little")
    number = number & ((1 << 254) - 8) | 1 << 254
    point, power = (0, 1, 1), (BASE_X, BASE_Y, 1)
    while number:
        if number & 1:
            point = add(point, power)
        power = add(power, power)
        number >>= 1
    inverse = pow(point[2], -1, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def text(*parts):
    """Strings as SSH writes them: each behind its length."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def make_key(seed=None):
    """A private key as OpenSSH's file, and the line of its public key."""
    seed = seed or secrets.token_bytes(32)
    public = public_key(seed)
    shown = text(b"ssh-ed25519", public)
    check = secrets.token_bytes(4)
    secret = check + check + shown + text(seed + public, b"fakernic-lab")
    secret += bytes(range(1, 1 + -len(secret) % 8))
    whole = b"openssh-key-v1\0" + text(b"none", b"none", b"") + (
        1).to_bytes(4, "big") + text(shown, secret)
    return ("-----BEGIN OPENSSH PRIVATE KEY-----\n" +
            base64.encodebytes(whole).decode() + "-----END OPENSSH PRIVATE KEY-----\n",
            f"ssh-ed25519 {base64.b64encode(shown).decode()} fakernic-lab\n")


# ---- the machines --------------------------------------------------------------------

def quoted(value):
    """VALUE as SetEnv takes it."""
    return '"{}"'.format(value.replace("\\", "\\\\").replace('"', '\\"'))


def configuration(node, view):
    """sshd's, with the variables of the machine's commands."""
    variables = {name: value for name, value in node.environment().items()
                 if value.isprintable()}
    chroot = f"ChrootDirectory {tree.VIEW}\n" if view else ""
    return CONFIG + chroot + "SetEnv {}\n".format(" ".join(
        f"{name}={quoted(value)}" for name, value in variables.items()))


def names(number):
    """All names and addresses of the machine NUMBER."""
    return [f"node{number}", f"node{number}-v6", rdma.ip4(number), rdma.ip6(number)]


def known(keys):
    """The file of known hosts. KEYS: number of a machine -> lines of public keys."""
    return "".join(f"{','.join(names(number))} {' '.join(line.split()[:2])}\n"
                   for number, lines in keys.items() for line in lines.splitlines())


def know(keys, view):
    """The script that makes these hosts known."""
    hosts = " ".join(name for number in keys for name in names(number))
    homes = ["/root", *([f"{tree.VIEW}/root"] if view else [])]
    return "".join(f"({KNOW.format(home=home, known=known(keys), names=hosts)})\n"
                   for home in homes)


def steps(node, keys, private, public):
    """What START and KNOW do, as steps of the agent in a machine from a snapshot."""
    home = "/root/.ssh"
    return [("write", 600, KEY, private),
            ("write", 644, f"{KEY}.pub", public),
            ("write", 644, f"{FOLDER}/sshd_config", configuration(node, None)),
            ("write", 600, f"{home}/fakernic-lab", private),
            ("write", 600, f"{home}/fakernic-lab.known", known(keys)),
            ("write", 600, f"{home}/config", CLIENT.format(
                names=" ".join(name for number in keys for name in names(number)))),
            ("ssh", SSHD, f"{FOLDER}/sshd_config")]


def connect(nodes, view, side_by_side, has_steps=False):
    """Lets NODES reach each other, with a VIEW of a tree in it. HAS_STEPS: see
    Lab.has_steps()."""
    private, public = make_key()
    keys = {node.port.number: public for node in nodes}
    other = {}
    if has_steps:
        side_by_side(lambda node: node.guest.set_up(*steps(node, keys, private, public)),
                     nodes)
        return

    def start(node):
        said = node.guest.check(START.format(
            private=private, public=public, config=configuration(node, view),
            stop=STOP if view else "") + know(keys, view))
        if said:
            other[node.port.number] = said
    side_by_side(start, nodes)
    if other:
        script = know({**keys, **other}, view)
        side_by_side(lambda node: node.guest.check(script), nodes)
