"""Packages of distributions, slimmed in the ways that the refusals name: rpm and apt take them, and verify their files.

``slim`` writes no .deb and no .rpm with device code: their digests of files are elsewhere, mostly signed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import reference
from tests.builders.debian import Debian
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

pytestmark = pytest.mark.reference

LIBRARY = FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so"

SPEC = """\
Name: demo
Version: 1
Release: 1
Summary: A library with device code
License: MIT
%define debug_package %{{nil}}
%define __os_install_post %{{nil}}
%define _build_id_links none
AutoReqProv: no
%description
It has two kernels.
%install
mkdir -p %{{buildroot}}/usr/lib/demo
cp {library} %{{buildroot}}/usr/lib/demo/libtwo.so
{slim}
%files
/usr/lib/demo/libtwo.so
"""

SLIM = f"{sys.executable} -m fatpack slim --in-place -q --for sm_90 %{{buildroot}}/usr/lib/demo/libtwo.so"

CONTROL = """\
Package: demo-device-code
Version: 1
Architecture: all
Maintainer: Somebody <somebody@debian.org>
Description: library with device code
 It has two kernels.
"""


def built_rpm(folder: Path, slim: str) -> Path:
    """Return a package of rpmbuild's, with a command in its %install."""
    folder.mkdir()
    spec = folder / "demo.spec"
    spec.write_text(SPEC.format(library=LIBRARY, slim=slim))
    reference.run("rpmbuild", "-bb", "--quiet", "--define", f"_topdir {folder}", spec)
    (package,) = folder.glob("RPMS/*/*.rpm")
    return package


def packed_deb(tree: Path, package: Path, *, with_sums: bool = True) -> None:
    """Pack a folder as dpkg-deb -R unpacks it, after DEBIAN/md5sums was made anew."""
    if with_sums:
        command = "find . -path ./DEBIAN -prune -o -type f -printf '%P\\0' | xargs -0 md5sum > DEBIAN/md5sums"
        subprocess.run(command, shell=True, cwd=tree, check=True)
    reference.run("dpkg-deb", "--root-owner-group", "-b", tree, package)


def test_an_rpm_with_device_code_is_refused_with_the_way(tmp_path: Path, fatpack: Callable[..., Ran]) -> None:
    package = built_rpm(tmp_path / "plain", "")
    ran = fatpack("slim", package, "--for", "sm_90", "-o", tmp_path / "slim.rpm")
    assert ran.code != 0
    assert "slim the libraries in %install" in ran.err
    assert not (tmp_path / "slim.rpm").exists()


def test_an_rpm_whose_libraries_are_slimmed_in_install_is_sound(tmp_path: Path) -> None:
    plain, package = built_rpm(tmp_path / "plain", ""), built_rpm(tmp_path / "slim", SLIM)
    assert package.stat().st_size < plain.stat().st_size
    assert b"digests OK" in reference.run("rpm", "-K", "--nosignature", package).stdout
    damaged = tmp_path / "damaged.rpm"
    content = bytearray(package.read_bytes())
    content[-100] ^= 1
    damaged.write_bytes(content)
    assert reference.run("rpm", "-K", "--nosignature", damaged, check=False).returncode


def test_rpm_installs_and_verifies_a_slimmed_library(tmp_path: Path) -> None:
    package, root = built_rpm(tmp_path / "slim", SLIM), tmp_path / "root"
    root.mkdir()
    of_root = ("--root", str(root), "--dbpath", "/var/lib/rpm")
    reference.run("rpm", *of_root, "--initdb")
    reference.run("rpm", *of_root, "-i", "--nodeps", "--noscripts", package)
    library = root / "usr/lib/demo/libtwo.so"
    assert 0 < library.stat().st_size < LIBRARY.stat().st_size
    reference.run("rpm", *of_root, "-V", "--nodeps", "demo")
    shutil.copy(LIBRARY, library)
    assert b"libtwo.so" in reference.run("rpm", *of_root, "-V", "--nodeps", "demo", check=False).stdout


@pytest.fixture
def unpacked(tmp_path: Path, fatpack: Callable[..., Ran]) -> Path:
    """Return the folder of a Debian package that ``slim`` refuses, unpacked and slimmed as it says."""
    tree, package, whole = tmp_path / "whole", tmp_path / "whole.deb", tmp_path / "unpacked"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(CONTROL)
    (tree / "usr/lib/demo").mkdir(parents=True)
    shutil.copy(LIBRARY, tree / "usr/lib/demo/libtwo.so")
    packed_deb(tree, package)
    ran = fatpack("slim", package, "--for", "sm_90", "-o", tmp_path / "slim.deb")
    assert ran.code != 0
    assert "unpack it with dpkg-deb -R, slim the folder, make DEBIAN/md5sums anew" in ran.err
    assert not (tmp_path / "slim.deb").exists()
    reference.run("dpkg-deb", "-R", package, whole)
    assert fatpack("slim", whole, "--for", "sm_90", "--in-place", "-q").code == 0
    assert (whole / "usr/lib/demo/libtwo.so").stat().st_size < LIBRARY.stat().st_size
    return whole


@pytest.fixture
def debian13(tmp_path: Path) -> Iterator[Debian]:
    debian = Debian(tmp_path)
    yield debian
    debian("dpkg --purge demo-device-code 2>/dev/null")


@pytest.mark.slow
def test_apt_installs_and_dpkg_verifies_a_slimmed_package(unpacked: Path, debian13: Debian, tmp_path: Path) -> None:
    packed_deb(unpacked, tmp_path / "demo.deb")
    debian13("apt-get install -y --no-install-recommends /mnt/demo.deb")
    assert debian13("dpkg --verify demo-device-code") == ""
    library = "/usr/lib/demo/libtwo.so"
    assert int(debian13(f"stat -c %s {library}")) == (unpacked / library[1:]).stat().st_size
    debian13("dpkg --purge demo-device-code")


@pytest.mark.slow
def test_dpkg_names_a_slimmed_library_whose_sum_stayed(unpacked: Path, debian13: Debian, tmp_path: Path) -> None:
    packed_deb(unpacked, tmp_path / "demo.deb", with_sums=False)
    debian13("apt-get install -y --no-install-recommends /mnt/demo.deb")
    assert "libtwo.so" in debian13("dpkg --verify demo-device-code || true")
