#!/usr/bin/env bash
# get_vendor_tools.sh DIR: unpack NVIDIA's nvprune and AMD's roc-obj, roc-obj-ls and roc-obj-extract into DIR/bin.
#
# No package index of Python has them. They are in packages of Debian 13, nvprune in one of non-free, which are taken
# from the mirror this machine uses anyway; nothing is installed. AMD's are scripts that need perl, libfile-which-perl
# and liburi-encode-perl. Needs apt-get and dpkg-deb; downloads about 90 MB.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
state=$folder/apt
mkdir -p "$state/lists/partial" "$state/archives/partial" "$folder/bin"

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# grep fails where one of the two does not exist, whatever it finds in the other.
mirrors=$(grep -rhoE 'https?://[^ ]*/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null || true)
mirror=$(head -n 1 <<< "$mirrors" | tr -d ' ')
[ -n "$mirror" ] || { echo "get_vendor_tools.sh: the apt sources of this machine name no Debian mirror" >&2; exit 1; }
echo "deb [arch=amd64 signed-by=$keyring] $mirror trixie main non-free" > "$state/trixie.list"
# Lists, archives and sources of its own: the machine's apt knows nothing of them afterwards.
apt=(apt-get -q -q -o Dir::Etc::sourcelist="$state/trixie.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::lists="$state/lists" -o Dir::Cache="$state" -o Dir::Cache::archives="$state/archives")
"${apt[@]}" update
(cd "$state/archives" && "${apt[@]}" download nvidia-cuda-toolkit hipcc)
for name in nvidia-cuda-toolkit hipcc; do
    dpkg-deb --fsys-tarfile "$state"/archives/"$name"_*.deb | tar -x -C "$folder" --strip-components=2 \
        --wildcards './usr/bin/nvprune' './usr/bin/roc-obj*' 2>/dev/null || true
done
rm -rf "$state"
for tool in nvprune roc-obj roc-obj-ls roc-obj-extract; do
    [ -x "$folder/bin/$tool" ] || { echo "get_vendor_tools.sh: the packages have no $tool" >&2; exit 1; }
done
"$folder/bin/nvprune" --version
