# SPDX-License-Identifier: GPL-2.0-or-later
#
# Shared by root-setup.sh and root-test.sh: a kernel of the suites that apt knows,
# into /opt/kernels. Sourced inside the root; POSIX sh.

# The concrete kernel behind a suite's linux-image metapackage.
image_of() { # version-prefix
    apt-cache show "linux-image-$(dpkg --print-architecture)" | awk -v prefix="$1" '
        /^Version:/ { wanted = index($2, prefix) == 1 }
        /^Depends:/ && wanted { print $2; exit }'
}

# Its headers installed, its image unpacked; a link to the root itself where they
# brought the image along.
kernel() { # version-prefix
    image=$(image_of "$1.")
    version=${image#linux-image-}
    apt-get install -y --no-install-recommends "linux-headers-$version"
    mkdir -p /opt/kernels
    rm -rf "/opt/kernels/$1"
    if [ -e "/boot/vmlinuz-$version" ]; then
        ln -s / "/opt/kernels/$1"
    else
        tmp=$(mktemp -d)
        chmod 755 "$tmp"
        (cd "$tmp" && apt-get download "$image")
        mkdir "/opt/kernels/$1"
        dpkg-deb -x "$tmp"/*.deb "/opt/kernels/$1"
        rm -rf "$tmp"
    fi
    ln -sfn "/usr/src/linux-headers-$version" "/opt/kernels/$1.headers"
    echo "$version" >"/opt/kernels/$1.version"
}
