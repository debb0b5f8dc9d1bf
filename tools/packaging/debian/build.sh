#!/usr/bin/env bash
# build.sh SDIST DIR: build fatpack and python3-fatpack as packages of Debian 13, in DIR.
#
# SDIST is what `python -m build --sdist` made. Debian 13 has all that is needed but lief, and Debian 12 has zstandard,
# lz4, pyelftools and hatchling too old. Who builds is the maintainer: DEBFULLNAME and DEBEMAIL, as for debchange.
# Needs root-less dpkg-buildpackage with what control names; tools/reference/get_debian.sh makes a Debian 13 that has
# it. SOURCE_DATE_EPOCH is the time of the build.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
: "${DEBFULLNAME:?say who builds: DEBFULLNAME and DEBEMAIL}" "${DEBEMAIL:?say who builds: DEBFULLNAME and DEBEMAIL}"
sdist=$(readlink -f "$1")
version=$(basename "$sdist" .tar.gz)
version=${version#fatpack-}
mkdir -p "$2"
cd "$2"

cp "$sdist" "fatpack_$version.orig.tar.gz"
rm -rf "fatpack-$version"
tar -xzf "$sdist"
cp -r "fatpack-$version/tools/packaging/debian" "fatpack-$version/debian"
rm "fatpack-$version/debian/build.sh"
date=$(date -R -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}")
sed -i -e "s/@VERSION@/$version/; s/@DATE@/$date/; s/@MAINTAINER@/$DEBFULLNAME <$DEBEMAIL>/" \
    "fatpack-$version/debian/changelog" "fatpack-$version/debian/control"
(cd "fatpack-$version" && dpkg-buildpackage --no-sign)
