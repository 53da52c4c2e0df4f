#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Checks the driver inside a Linux tree and prints TAP. overlay.sh puts the driver
# into Debian's source of each kernel named. The script builds a small kernel with
# the driver as a module and one with it built in, and boots both in Debian's
# QEMU. There tests/intree/init shows the device and runs ibv_rc_pingpong.
set -u
. /src/ci/tap.sh
qemu=/cache/build/qemu-plugin/qemu-system-x86_64-fakernic
provider=/cache/build/rdma-core/lib/libfakernic-rdmav34.so
driver=drivers/infiniband/hw/fakernic
BOOT_S=400

# All other options are off, so the kernel compiles in minutes. With EXPERT this
# includes options that are on by default without it. PCI_IOV is off, too: the
# card has VFs, and the driver works without them.
wanted_config() { # y|m
    cat <<EOT
CONFIG_64BIT=y
CONFIG_EXPERT=y
CONFIG_MULTIUSER=y
CONFIG_POSIX_TIMERS=y
CONFIG_FUTEX=y
CONFIG_EPOLL=y
CONFIG_EVENTFD=y
CONFIG_SIGNALFD=y
CONFIG_TIMERFD=y
CONFIG_SHMEM=y
CONFIG_ADVISE_SYSCALLS=y
CONFIG_MEMBARRIER=y
CONFIG_FILE_LOCKING=y
CONFIG_BUG=y
CONFIG_KALLSYMS=y
CONFIG_MODULES=y
CONFIG_PCI=y
CONFIG_PCI_MSI=y
CONFIG_ACPI=y
CONFIG_UNWINDER_FRAME_POINTER=y
CONFIG_PRINTK=y
CONFIG_BINFMT_ELF=y
CONFIG_BINFMT_SCRIPT=y
CONFIG_BLK_DEV_INITRD=y
CONFIG_DEVTMPFS=y
CONFIG_PROC_FS=y
CONFIG_SYSFS=y
CONFIG_MAGIC_SYSRQ=y
CONFIG_TTY=y
CONFIG_SERIAL_8250=y
CONFIG_SERIAL_8250_CONSOLE=y
CONFIG_NET=y
CONFIG_UNIX=y
CONFIG_INET=y
CONFIG_IPV6=y
CONFIG_NETDEVICES=y
CONFIG_INFINIBAND=y
CONFIG_INFINIBAND_USER_ACCESS=y
CONFIG_INFINIBAND_ADDR_TRANS=y
CONFIG_INFINIBAND_ON_DEMAND_PAGING=y
CONFIG_INFINIBAND_FAKERNIC=$1
EOT
}

make_linux() { # target...
    make -C "$linux" O="$built" -j"$(nproc)" "$@"
}

overlaid() { # twice, and there is one line of it in each file
    /src/kernel-driver/overlay.sh "$linux" &&
        /src/kernel-driver/overlay.sh "$linux" &&
        [ "$(grep -c fakernic "$linux/drivers/infiniband/Kconfig")" = 1 ] &&
        [ "$(grep -c fakernic "$linux/drivers/infiniband/hw/Makefile")" = 1 ]
}

configured() { # y|m
    mkdir -p "$built" && wanted_config "$1" >"$built/wanted" &&
        make_linux KCONFIG_ALLCONFIG="$built/wanted" allnoconfig || return 1
    for line in $(cat "$built/wanted"); do
        grep -x "$line" "$built/.config" || echo "not set: $line"
    done
    ! grep -q '^CONFIG_PCI_IOV=' "$built/.config" &&
        grep -qx "CONFIG_INFINIBAND_FAKERNIC=$1" "$built/.config"
}

kernel() { # y|m
    configured "$1" && make_linux bzImage || return 1
    [ "$1" = y ] || make_linux modules || return 1
    ! grep -F "$driver" "$log" | grep -qF warning:
}

# ---- the machine -----------------------------------------------------------

# Programs of the root, and the libraries they are linked with.
take() { # folder program...
    folder=$1
    shift
    for program; do
        program=$(command -v "$program") || return 1
        cp -L "$program" "$folder/bin"
        for library in $(ldd "$program" | grep -o '/[^ ]*'); do
            mkdir -p "$folder${library%/*}"
            cp -L "$library" "$folder$library"
        done
    done
}

initrd() { # file y|m
    root=$tap_folder/initrd
    libraries=usr/lib/x86_64-linux-gnu/libibverbs
    rm -rf "$root"
    mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" \
        "$root/$libraries" "$root/etc/libibverbs.d" || return 1
    take "$root" dash sleep mount insmod ip ibv_devinfo ibv_rc_pingpong &&
        mv "$root/bin/dash" "$root/bin/sh" &&
        cp "$provider" "$root/$libraries" &&
        cp /src/tests/intree/init "$root/init" || return 1
    echo "driver fakernic" >"$root/etc/libibverbs.d/fakernic.driver"
    [ "$2" = y ] || cp "$built/$driver/fakernic.ko" "$root" || return 1
    (cd "$root" && find . | cpio --quiet -R 0:0 -H newc -o) >"$1"
}

boots() { # y|m
    initrd "$tap_folder/initrd.cpio" "$1" || return 1
    timeout $BOOT_S "$qemu" -M q35,accel="${FAKERNIC_ACCEL:-tcg}" -cpu max \
        -m 512 -nodefaults -display none -serial stdio -no-reboot \
        -kernel "$built/arch/x86/boot/bzImage" \
        -initrd "$tap_folder/initrd.cpio" \
        -append "console=ttyS0 panic=-1 no_timer_check" \
        -netdev hubport,id=n0,hubid=0 \
        -device pcie-root-port,id=slot1,chassis=1 \
        -device fakernic,bus=slot1,netdev=n0,vfs=2 </dev/null || return 1
    for line in PORT_ACTIVE 'bytes in .* seconds' 'intree: all done'; do
        grep -q "$line" "$log" || return 1
    done
    ! grep -qE 'WARNING: |BUG: |Oops|Call Trace' "$log"
}

# ---- the tests -------------------------------------------------------------

for series in "$@"; do
    linux=/cache/src/linux-$series
    built=/cache/build/intree-$series
    /src/ci/fetch-linux.sh "$series" >"$log" 2>&1
    report $? "Debian's source of Linux $series is there"
    overlaid >"$log" 2>&1
    report $? "overlay.sh puts the driver into $series, and once only"
    for form in m y; do
        kernel $form >"$log" 2>&1
        report $? "a kernel $series with =$form is made, the driver without a warning"
        boots $form >"$log" 2>&1
        report $? "it boots, shows the device, and RDMA passes"
        cp "$log" "/cache/log/intree-$series-$form.log"
    done
done

/src/kernel-driver/overlay.sh /tmp >"$log" 2>&1
[ $? = 1 ] && grep -q 'not a Linux source tree' "$log"
report $? "overlay.sh refuses what is no Linux tree"

finish
