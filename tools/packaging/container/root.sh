#!/usr/bin/env bash
# root.sh WHEEL DIR: make in DIR the files of a container image that has the command fatpack and what it needs, no more.
#
# Python and the libraries are unpacked from packages of Debian 13, without a shell and a package manager, and without
# lief, which Debian does not have. Needs mmdebstrap, unzip and root. MIRROR names another mirror of Debian.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
packages=python3,python3-click,python3-construct,python3-lz4,python3-packaging,python3-pyelftools,python3-zstandard
mmdebstrap --quiet --mode=root --variant=extract --include="$packages" --aptopt='APT::Install-Recommends "false"' \
    trixie "$2" "${MIRROR:-http://deb.debian.org/debian}"
cd "$2"
# What no import of fatpack reaches: documents, conversions of characters, TLS, data bases, and tools of Debian's.
rm -rf etc/* var usr/share usr/sbin usr/libexec usr/games usr/include usr/lib/*/gconv usr/lib/*/perl-base
rm -rf usr/lib/{apt,dpkg,init,systemd,udev,valgrind} usr/lib/*/{audit,security,engines-3,ossl-modules}
rm -rf usr/lib/python3*/{ensurepip,idlelib,lib2to3,pydoc_data,test,tkinter,turtledemo,venv,sqlite3,_pyrepl}
rm -f usr/lib/*/{libssl,libsqlite3,libdb,libreadline,libncursesw,libapt,libperl,libgnutls}*
find usr/bin -mindepth 1 ! -name 'python3*' -delete
rm -f usr/lib/python3/dist-packages/zstandard/_cffi*
# Who links them is not unpacked.
for name in bin lib lib64 sbin; do [ -e "$name" ] || ln -s "usr/$name" "$name"; done
cd - > /dev/null
unzip -q -o "$1" 'fatpack/*' 'fatpack-*/*' -x '*.data/*' -d "$2/usr/lib/python3/dist-packages"
find "$2" -name __pycache__ -prune -exec rm -rf {} +
mkdir -p "$2/work"
