# SPDX-License-Identifier: GPL-2.0-or-later
#
# Shared by the checks here that build a QEMU with no more than the qtests need.
# Sourced inside the root, with $source and $built set; POSIX sh.

# Unpacks an upstream tar, except firmware and files that only QEMU's tests need.
unpack_few() { # tar
    rm -rf "$source" "$built"
    mkdir -p "$source"
    tar -xf "$1" -C "$source" --strip-components=1 --no-same-owner \
        --exclude='*/roms/*/*' --exclude='*/tests/data/*/*'
}

# Few devices: it boots nothing.
configure_few() { # overlay.sh
    "$1" "$source" || return 1
    # Q35 links with CXL only: its stub lacks a function in 10.2.
    printf 'CONFIG_%s=y\n' Q35 I440FX PCIE_PORT PCI_BRIDGE PXB CXL \
        CXL_MEM_DEVICE FAKERNIC \
        >"$source/configs/devices/x86_64-softmmu/fakernic-few.mak"
    # Debian's tar lacks some of the blobs that meson requires.
    for blob in $(grep -o 'edk2-[a-z0-9_-]*\.fd' "$source/pc-bios/meson.build"); do
        : >"$source/pc-bios/$blob.bz2"
    done
    mkdir -p "$source/pc-bios/dtb"
    for blob in bamboo canyonlands pegasos1 pegasos2 petalogix-ml605 \
        petalogix-s3adsp1800; do
        : >"$source/pc-bios/dtb/$blob.dtb"
    done
    # QEMU 11 has new tools, which need packages that Debian 13 does not have.
    sed -i '/^\[tooling\]/,/^\[/{/^\[/!d}' "$source/pythondeps.toml"
    mkdir -p "$built"
    (cd "$built" && "$source/configure" --target-list=x86_64-softmmu \
        --with-devices-x86_64=fakernic-few --without-default-devices \
        --without-default-features --disable-install-blobs --disable-docs \
        --disable-user --disable-guest-agent --disable-download \
        --disable-tools --enable-tcg --enable-kvm --enable-fdt=system \
        --enable-trace-backends=log -Doptimization=1)
}

# Links the firmware into the folder where a QEMU that is not installed looks.
firmware_few() {
    for folder in /usr/share/seabios /usr/share/qemu; do
        ln -sf "$folder"/*.bin "$built/pc-bios/"
    done
}
