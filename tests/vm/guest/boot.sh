# SPDX-License-Identifier: GPL-2.0-or-later
#
# Brings a test guest up, run by init.c with the console as its terminal:
# file systems, host name (fakernic_host= on the command line: with a dot it would
# be a parameter of the driver's), loopback, and
# the agent of fakernic-lab on its virtio ports. Loads no driver: tests decide
# that.
mount -t sysfs sys /sys
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=1777 tmp /tmp
mkdir -p /dev/pts /dev/shm /run/sshd
mount -t devpts -o ptmxmode=666,mode=620 pts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
ln -sfn /proc/self/fd /dev/fd
ln -sfn /proc/self/fd/0 /dev/stdin
ln -sfn /proc/self/fd/1 /dev/stdout
ln -sfn /proc/self/fd/2 /dev/stderr
ln -sfn pts/ptmx /dev/ptmx
# As systemd does it for containers: one hierarchy, with all controllers.
mount -t cgroup2 cgroup /sys/fs/cgroup &&
    for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
        echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control
    done
mount -t debugfs debug /sys/kernel/debug 2>/dev/null
mount -t tracefs trace /sys/kernel/tracing 2>/dev/null
# On the debug kernel: report all DMA errors, not only the first.
[ ! -e /sys/kernel/debug/dma-api ] || echo 1 >/sys/kernel/debug/dma-api/all_errors
# On the kernel that looks for data races: start only now, so that it boots faster.
[ ! -e /sys/kernel/debug/kcsan ] || echo on >/sys/kernel/debug/kcsan
ulimit -l unlimited

host=guest
for word in $(cat /proc/cmdline); do
    case $word in
    fakernic_host=*) host=${word#*=} ;;
    esac
done
echo "$host" >/proc/sys/kernel/hostname
echo "127.0.0.1 localhost $host" >/etc/hosts
ip link set lo up
ip -6 addr add ::1/128 dev lo 2>/dev/null

# The agent takes this process's place: a session leader that ends would take
# its children with it.
exec fakernic-lab-agent
