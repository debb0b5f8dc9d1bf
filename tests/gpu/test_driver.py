"""Fat binaries that fatpack packs and compresses anew load through the CUDA driver, and their kernels run.

These tests need a device of compute capability 8.0 and a driver of CUDA 13.0; without them they skip, and nothing else
runs them but ``make test-gpu``. With ``FATPACK_REQUIRE_GPU=1`` they fail instead; what needs a newer driver, as groups
of entries do, or another device is skipped even then, with the reason.

docs/testing.md has the runs: ``tests.gpu.last_run`` writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.gpu.driver import Driver, DriverError
from tests.gpu.last_run import named
from tests.gpu.requirements import cuda, needs_capability, needs_driver, no_device

import fatpack
from fatpack import FatbinOptions, ImageFile, Recompression

pytestmark = pytest.mark.gpu

FIXTURES = Path(__file__).parents[1] / "fixtures"
CUBINS = FIXTURES / "cuda" / "cubin"
RECORDED = FIXTURES / "cuda_fatbin"

#: the oldest driver that reads what CUDA 13.0 compiles, and groups of entries
NEEDED, FOR_GROUPS = 13000, 13040


@pytest.fixture(scope="module")
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    try:
        found = Driver()
    except (OSError, DriverError) as error:
        no_device(f"no CUDA device: {error}")
    if found.version < NEEDED or found.sm < 80:
        reason = f"CUDA {cuda(found.version)} and a device of {found.sm / 10}"
        found.close()
        no_device(f"{reason}: too old for what CUDA 13.0 compiles")
    if run := request.config.pluginmanager.get_plugin("last-run"):
        run.device = named(found)
    yield found
    found.close()


@pytest.fixture(params=["module", "library"])
def as_library(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "library")


def packed(folder: Path, files: Mapping[Path, str], options: FatbinOptions) -> bytes:
    """Return a fat binary of the files, for the architectures that are given."""
    images = [ImageFile(path, arch=arch) for path, arch in files.items()]
    fatpack.pack(images, folder / "packed.fatbin", options=options)
    return (folder / "packed.fatbin").read_bytes()


KERNELS = {
    CUBINS / "k1.cuda13.0.sm_80.cubin": "sm_80",
    CUBINS / "k1.cuda13.0.sm_90.cubin": "sm_90",
    FIXTURES / "cuda" / "ptx" / "k1.compute_80.ptx": "sm_80",
}


def check_adds_one(driver: Driver, image: bytes, *, as_library: bool) -> None:
    """Check that the kernel ``add_one`` of an image adds one to all but the last number."""
    outcome = driver.run(image, "add_one", [1, 2, 30, -5], 3, as_library=as_library)
    assert outcome.numbers == [2, 3, 31, -5]


@pytest.mark.parametrize("mode", ["default", "speed", "balance", "size", "none"])
@pytest.mark.parametrize("producer", ["12.8", "13.0", "13.5"])
def test_every_mode_of_compression_loads(
    driver: Driver, tmp_path: Path, producer: str, mode: str, as_library: bool
) -> None:
    options = FatbinOptions(producer=producer, compress_mode=mode, compress_all=True)
    check_adds_one(driver, packed(tmp_path, KERNELS, options), as_library=as_library)


def test_groups_of_entries_load(driver: Driver, tmp_path: Path, as_library: bool) -> None:
    needs_driver(FOR_GROUPS, driver.version, "a group of entries")
    options = FatbinOptions(producer="13.5", concat=True)
    check_adds_one(driver, packed(tmp_path, KERNELS, options), as_library=as_library)


@pytest.mark.parametrize("minify", [False, True], ids=["verbatim", "minified"])
def test_ptx_is_compiled_by_the_driver(driver: Driver, tmp_path: Path, minify: bool, as_library: bool) -> None:
    text = {path: arch for path, arch in KERNELS.items() if path.suffix == ".ptx"}
    image = packed(tmp_path, text, FatbinOptions(minify_ptx=minify))
    outcome = driver.run(image, "add_one", [7, 7], 1, as_library=as_library)
    assert outcome.numbers == [8, 7]
    assert (outcome.ptx_version, outcome.binary_version) == (80, driver.sm)


def test_the_cubin_for_the_device_is_preferred_to_ptx(driver: Driver, tmp_path: Path, as_library: bool) -> None:
    needs_capability(90, driver.sm, "the cubin")
    outcome = driver.run(packed(tmp_path, KERNELS, FatbinOptions()), "add_one", [7, 7], 1, as_library=as_library)
    assert outcome.numbers == [8, 7]
    # The PTX was for 8.0, so that this is the cubin.
    assert (outcome.ptx_version, outcome.binary_version) == (90, 90)


@pytest.mark.parametrize("mode", ["speed", "size", "none"])
@pytest.mark.parametrize("name", ["v130_size", "recorded/v130_speed", "recorded/v130_none", "recorded/v135_concat"])
def test_what_is_compressed_anew_loads(driver: Driver, tmp_path: Path, name: str, mode: str, as_library: bool) -> None:
    path = tmp_path / "converted.fatbin"
    options = FatbinOptions(compress_mode=mode)
    fatpack.convert(RECORDED / f"{name}.fatbin", path, options=options)
    check_adds_one(driver, path.read_bytes(), as_library=as_library)


@pytest.mark.parametrize("name", ["recorded/v112_default", "recorded/v118_default", "recorded/v124_default"])
def test_what_old_toolkits_made_loads_when_it_is_compressed_anew(
    driver: Driver, tmp_path: Path, name: str, as_library: bool
) -> None:
    path = tmp_path / "converted.fatbin"
    options = FatbinOptions(compress_mode="size")
    fatpack.convert(RECORDED / f"{name}.fatbin", path, options=options)
    assert driver.run(path.read_bytes(), "bump", [5, 5], as_library=as_library).numbers == [6, 5]


def test_entries_that_are_copied_and_selected_load(driver: Driver, tmp_path: Path, as_library: bool) -> None:
    path = tmp_path / "selected.fatbin"
    with fatpack.open(RECORDED / "recorded" / "v130_default.fatbin") as file:
        fatpack.convert(file.images(form="ptx"), path, format="fatbin")
    check_adds_one(driver, path.read_bytes(), as_library=as_library)


@pytest.mark.parametrize("recompress", [None, "zstd", "lz4", "none"])
def test_what_was_slimmed_for_the_device_loads(
    driver: Driver, tmp_path: Path, recompress: Recompression | None, as_library: bool
) -> None:
    whole = packed(tmp_path, KERNELS, FatbinOptions(compress_mode="size"))
    path = tmp_path / "slim.fatbin"
    done = fatpack.slim(whole, path, devices=f"sm_{driver.sm}", keep_ptx="none", recompress=recompress)
    assert done.kept
    check_adds_one(driver, path.read_bytes(), as_library=as_library)


def test_an_emptied_container_says_that_there_is_no_image(driver: Driver, tmp_path: Path, as_library: bool) -> None:
    path = tmp_path / "empty.fatbin"
    whole = packed(tmp_path, KERNELS, FatbinOptions())
    assert not fatpack.slim(whole, path, drop="*", allow_empty=True).kept
    with pytest.raises(DriverError):
        check_adds_one(driver, path.read_bytes(), as_library=as_library)
