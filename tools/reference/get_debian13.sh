#!/usr/bin/env bash
# get_debian13.sh DIR: make a Debian 13 in DIR, in which packages of fatpack are built, checked and installed.
#
# What to build with, python3 (3.13), what fatpack and its tests need, PoCL, lintian and man; about 1.3 GB. Debian 12 cannot: its
# hatchling, zstandard, lz4 and pyelftools are too old. Needs root, mmdebstrap and the mirror this machine uses anyway.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
# grep fails where one of the two does not exist, whatever it finds in the other.
mirrors=$(grep -rhoE 'https?://[^ ]*/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null || true)
mirror=$(head -n 1 <<< "$mirrors" | tr -d ' ')
[ -n "$mirror" ] || { echo "get_debian13.sh: the apt sources of this machine name no Debian mirror" >&2; exit 1; }
packages=build-essential,debhelper,dh-python,fakeroot,lintian,man-db,pybuild-plugin-pyproject,python3-all
packages+=,python3-hypothesis,python3-jsonschema,python3-msgpack,python3-pytest,python3-pytest-xdist,zstd
packages+=,ocl-icd-libopencl1,pocl-opencl-icd
packages+=,python3-click,python3-construct,python3-hatchling,python3-lz4,python3-packaging,python3-pyelftools,python3-zstandard
rm -rf "$1"
# mmdebstrap makes the last folder of a path, and no other.
mkdir -p "$(dirname "$1")"
mmdebstrap --quiet --mode=root --variant=apt --include="$packages" --aptopt='APT::Install-Recommends "false"' \
    trixie "$1" "$mirror"
