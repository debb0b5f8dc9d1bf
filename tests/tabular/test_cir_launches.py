"""The table of stubs and device modules, and GPU binaries that lie in host modules as strings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests import reference

from fatpack.main import main

CONTAINER = """module attributes {cir.offload.container} {
  module @host attributes {cir.offload.bundle_id = "host-x86_64-unknown-linux-gnu", cir.offload.kind = #cir.offload<host>} {
    cir.func @_Z19__device_stub__onev() attributes {cu.kernel_name = #cir.cu.kernel_name<"_Z3onev">} {
    }
    cir.func @_Z19__device_stub__twov() attributes {cu.kernel_name = #cir.cu.kernel_name<"_Z3twov">} {
    }
  }
  module @device_80 attributes {cir.offload.bundle_id = "cuda-nvptx64-nvidia-cuda--sm_80", cir.offload.kind = #cir.offload<device>} {
    cir.func @_Z3onev() cc(ptx_kernel) {
    }
    cir.func @_Z3twov() cc(ptx_kernel) {
    }
  }
  module @device_90 attributes {cir.offload.bundle_id = "cuda-nvptx64-nvidia-cuda--sm_90", cir.offload.kind = #cir.offload<device>} {
    cir.func @_Z3onev() cc(ptx_kernel) {
    }
  }
}
"""  # noqa: E501  # as clang prints it


def test_a_kernel_that_a_module_lacks_is_shown_and_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "k.cir"
    path.write_text(CONTAINER)
    assert main(["inspect", str(path)]) == 1
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["launched", "sm_80", "sm_90"] in lines
    assert ["_Z3onev", "yes", "yes"] in lines
    assert ["_Z3twov", "yes", "missing"] in lines
    main(["inspect", "--json", str(path)])
    (record,) = json.loads(capsys.readouterr().out)["files"]
    assert [(item["offset"], item["message"]) for item in record["findings"] if item["code"] == "FP1512"] == [
        (CONTAINER.index("module @device_90"), "the host launches _Z3twov, which the module for sm_90 does not have")
    ]


def test_in_bytecode_kernels_of_registered_operations_cannot_be_decoded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Since version 5 symbols of registered operations lie in properties; what is launched is an attribute."""
    text = CONTAINER.replace("cir.func @", "func.func @").replace("() cc(ptx_kernel) {", "() {\n      return")
    text = text.replace(">} {\n    }\n    func", ">} {\n      return\n    }\n    func")
    text = text.replace(">} {\n    }\n  }", ">} {\n      return\n    }\n  }")
    (tmp_path / "k.mlir").write_text(text)
    write = ["--allow-unregistered-dialect", "--emit-bytecode"]
    for version, row in (("4", ["_Z3twov", "yes", "missing"]), ("6", ["_Z3twov", *["not", "decodable"] * 2])):
        path = tmp_path / f"k{version}.mlirbc"
        reference.run("mlir-opt", "k.mlir", *write, f"--emit-bytecode-version={version}", "-o", path, cwd=tmp_path)
        main(["inspect", str(path)])
        out = capsys.readouterr().out
        assert row in [line.split() for line in out.splitlines()]
        assert ("FP1512" in out) == (version == "4")


def test_all_kernels_present_is_no_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.cir"
    path.write_text(
        CONTAINER.replace("@_Z19__device_stub__twov() attributes {cu.kernel_name", "@other() attributes {x.y")
    )
    assert main(["inspect", str(path)]) == 0
    assert "missing" not in capsys.readouterr().out


BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__" + (1).to_bytes(8, "little") + b"".join(
    number.to_bytes(8, "little") for number in (32 + 24 + 30, 5, 30)
) + b"hip-amdgcn-amd-amdhsa--gfx1030" + b"image"  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        'module attributes {{cir.cu.device_binary = "{0}" : !cir.array<!u8i x {1}>}} {{\n}}\n',
        'module attributes {{cir.cu.device_binary = "{0}" : !cir.array<!cir.int<u, 8> x {1}>}} {{\n}}\n',
        "module {{\n  cir.global constant cir_private @__hip_fatbin_str = "
        '#cir.const_array<"{0}" : !cir.array<!u8i x {1}>> {{alignment = 16 : i64}}\n'
        "  cir.func internal private @__hip_module_ctor() {{\n    cir.return\n  }}\n}}\n",
    ],
    ids=["attribute", "spelled type", "global"],
)
def test_a_gpu_binary_in_a_host_module_is_listed_and_extracted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    escaped = "".join(f"\\{byte:02X}" for byte in BUNDLE)
    path = tmp_path / "host.cir"
    path.write_text("!u8i = !cir.int<u, 8>\n" + text.format(escaped, len(BUNDLE)))
    assert main(["inspect", str(path)]) == 0
    assert "clang-offload-bundle, 1 image" in capsys.readouterr().out
    assert main(["extract", str(path), "-o", str(tmp_path / "image"), "-q"]) == 0
    assert (tmp_path / "image").read_bytes() == b"image"
    assert main(["extract", str(path), "--containers", "-o", str(tmp_path / "bundle"), "-q"]) == 0
    assert (tmp_path / "bundle").read_bytes() == BUNDLE
