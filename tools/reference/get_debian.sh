#!/usr/bin/env bash
# get_debian.sh SUITE DIR: make a Debian in DIR with what fatpack and its tests need. Needs root, mmdebstrap and the mirror
# this machine uses anyway.
#
# SUITE trixie, Debian 13: packages of fatpack are built, checked and installed in it, with its PoCL and its Python 3.13;
# about 1.3 GB. Debian 12 cannot: its hatchling, zstandard, lz4 and pyelftools are too old.
# SUITE sid, Debian unstable: every Python that it has, about 0.3 GB. It changes daily: testing is the next best.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
# grep fails where one of the two does not exist, whatever it finds in the other.
mirrors=$(grep -rhoE 'https?://[^ ]*/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null || true)
mirror=$(head -n 1 <<< "$mirrors" | tr -d ' ')
[ -n "$mirror" ] || { echo "get_debian.sh: the apt sources of this machine name no Debian mirror" >&2; exit 1; }
packages=bzip2,python3-all,python3-click,python3-construct,python3-hatchling,python3-hypothesis,python3-jsonschema
packages+=,python3-lz4,python3-msgpack,python3-packaging,python3-pyelftools,python3-pytest,python3-pytest-xdist
packages+=,python3-zstandard,xz-utils,zstd
if [ "$1" = trixie ]; then
    packages+=,build-essential,debhelper,dh-python,fakeroot,lintian,man-db,pybuild-plugin-pyproject
    packages+=,ocl-icd-libopencl1,pocl-opencl-icd
fi
rm -rf "$2"
# mmdebstrap makes the last folder of a path, and no other.
mkdir -p "$(dirname "$2")"
# A mirror that is not brought up to date any more has an index past its date; its signature holds.
mmdebstrap --quiet --mode=root --variant=apt --include="$packages" --aptopt='APT::Install-Recommends "false"' \
    --aptopt='Acquire::Check-Valid-Until "false"' "$1" "$2" "$mirror"
