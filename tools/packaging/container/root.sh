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
# What nothing of fatpack reaches: documents, tools of Debian's, and what Python has for other work. Without OpenSSL, a
# seventh of it all, Python computes digests itself.
rm -rf etc/* var usr/share usr/sbin usr/libexec usr/games usr/include usr/lib/{apt,dpkg,init,systemd,udev,valgrind}
find usr/bin -mindepth 1 ! -name 'python3*' -delete
find usr/lib/*-linux-gnu -mindepth 1 -regextype posix-extended \
    ! -regex '.*/(ld-linux|lib(c|m|dl|pthread|rt|gcc_s|bz2|expat|ffi|lz4|lzma|sqlite3|uuid|z|zstd)\.).*' -delete
rm -f usr/lib/python3/dist-packages/{zstandard/{_cffi,backend_cffi},_cffi_backend}*
(
    cd usr/lib/python3.*
    rm -rf {asyncio,curses,dbm,ensurepip,idlelib,pydoc_data,test,tkinter,turtledemo,unittest,venv,wsgiref,xml,xmlrpc}
    rm -rf {_pydecimal,_pyio,doctest,ftplib,imaplib,mailbox,optparse,pdb,pickletools,poplib,pydoc,smtplib,turtle}.py _pyrepl
    rm -f lib-dynload/{_codecs,_ctypes_test,_curses,_dbm,_hashlib,_interp,_multibytecodec,_ssl,_test,_xxtest,readline,xx}*
    rm -f encodings/{big5,euc,gb,hp,hz,iso,joh,koi,kz,mac,pal,ptcp,shift,tis}*
    find encodings -name 'cp*' ! -name 'cp437.py' -delete
)
# Who links them is not unpacked.
for name in bin lib lib64 sbin; do [ -e "$name" ] || ln -s "usr/$name" "$name"; done
cd - > /dev/null
unzip -q -o "$1" 'fatpack/*' 'fatpack-*/*' -x '*.data/*' -d "$2/usr/lib/python3/dist-packages"
find "$2" -name __pycache__ -prune -exec rm -rf {} +
mkdir -p "$2/work"
