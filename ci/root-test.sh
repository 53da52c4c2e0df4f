#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# root-test.sh, inside the root: its second stage, the packages that only tests
# need, and libfabric's source. What the first stage had installed is kept in
# /opt/first-stage.status: the build steps are keyed by it, so that none is made
# again for this. Does nothing when the root has them.
set -eu

exec 9>/.fakernic-test.lock
flock 9
# One line for both kinds: a package may be of both.
wanted=$(sed -n 's/^\(guest-\)\?test //p' /src/ci/packages.txt | tr '\n' ' ')
if [ "$(cat /.fakernic-test 2>/dev/null)" = "$wanted" ]; then
    exit 0
fi

if [ ! -e /opt/first-stage.status ]; then
    cp /var/lib/dpkg/status /opt/first-stage.status.new
    mv /opt/first-stage.status.new /opt/first-stage.status
fi

# No package starts its daemon here.
trap 'rm -f /usr/sbin/policy-rc.d' EXIT
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d

export DEBIAN_FRONTEND=noninteractive
apt-get update --error-on=any
apt-get install -y --no-install-recommends $wanted
apt-get clean

# libfabric's tests are in its source only.
mkdir -p /opt/sources/libfabric
(cd /opt/sources/libfabric && apt-get source --download-only --tar-only libfabric)
echo "$wanted" >/.fakernic-test
