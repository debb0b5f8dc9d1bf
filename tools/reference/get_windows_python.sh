#!/usr/bin/env bash
# get_windows_python.sh DIR: make a CPython for Windows in DIR, so that wine runs DIR/python/python.exe with pip and pytest.
#
# python.org's installers are no package of any index. The interpreter itself, python3xx.dll and the modules that are
# compiled, is in the wheel of panda3d for Windows, which ships it for programs that are made with it. The rest of the
# standard library is text, and taken from the Python that runs here, of the same 3.x; python.exe is two lines of C.
# Beside it: the libraries that fatpack needs, and pytest, as wheels for Windows in DIR/wheels.
# Needs python3 with pip, unzip and x86_64-w64-mingw32-gcc; downloads about 90 MB.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
# A folder of its own: DIR may lie in an environment, and python.exe takes a pyvenv.cfg above it for its own.
mkdir -p "$1/python"
folder=$(cd "$1/python" && pwd)
version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
get() {
    python3 -m pip download -q --disable-pip-version-check --platform win_amd64 --python-version "$version" \
        --only-binary=:all: "$@"
}
wheels=$folder/../wheels
rm -rf "$folder/Lib" "$folder/DLLs" "$wheels"
get --no-deps -d "$folder/panda3d" panda3d
unzip -q -o -j "$folder"/panda3d/panda3d-*.whl 'deploy_libs/*' -d "$folder/DLLs"
rm -rf "$folder/panda3d"
mv "$folder"/DLLs/python3*.dll "$folder"/DLLs/[vV][cC][rR]*.dll "$folder"
# Wine has its own.
rm -f "$folder"/DLLs/api-ms-win-*.dll "$folder"/DLLs/t[ck]*.dll

python3 - "$folder/Lib" <<'end'
import os, shutil, sys
left_out = shutil.ignore_patterns("__pycache__", "site-packages", "lib-dynload", "test", "tests", "idlelib", "tkinter", "config-*")
shutil.copytree(os.path.dirname(os.__file__), sys.argv[1], ignore=left_out)
end
cat > "$folder/python.c" <<'end'
#include <wchar.h>
__declspec(dllimport) int Py_Main(int, wchar_t **);
int wmain(int argc, wchar_t **argv) { return Py_Main(argc, argv); }
end
x86_64-w64-mingw32-gcc -municode -O1 -o "$folder/python.exe" "$folder/python.c" "$folder"/python3??.dll
rm "$folder/python.c"

# What pyproject.toml asks for, pip itself, and what runs the tests. pip reads markers as if for this machine, so what
# click and pytest need on Windows alone (colorama) is named.
root=$(cd "$(dirname "$0")/../.." && pwd)
mapfile -t needed < <(cd "$root" && python3 - <<'end'
import tomllib
for each in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]:
    print(each.partition(";")[0].replace(" ", ""))
end
)
get -d "$wheels" "${needed[@]}" colorama pip hypothesis msgpack pytest pytest-timeout
mkdir -p "$folder/Lib/site-packages"
python3 -m pip install -q --disable-pip-version-check --no-index --no-deps --platform win_amd64 --python-version "$version" \
    --only-binary=:all: --target "$folder/Lib/site-packages" "$wheels"/*.whl
