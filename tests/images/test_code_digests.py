"""Digests of kernels differ exactly between builds with different behaviour of a kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.reference import run, tool

from fatpack import images
from fatpack.errors import FormatError
from fatpack.images import ptx_kernels
from fatpack.images.kernel import KernelNeeds, digest_parts, digest_with_calls, digest_with_needs, strip_unit_suffix
from fatpack.io.source import BytesSource

FIXTURES = Path(__file__).parents[1] / "fixtures"

CUDA = """
__constant__ float table[16];
__device__ __noinline__ float helper(float x) { return x * 3.0f + table[3]; }
extern "C" __global__ void scale(float *a, int n, float f) {
  __shared__ float s[64];
  s[threadIdx.x & 63] = f;
  __syncthreads();
  if (threadIdx.x < n) a[threadIdx.x] = helper(a[threadIdx.x]) * s[(threadIdx.x + 1) & 63];
}
namespace { __global__ void hidden(float *a) { *a += 1.0f; } }
void *keep = (void *)hidden;
extern "C" __global__ void add(float *a, int n) { a[threadIdx.x] += n; }
"""

PTX = """
.version 8.0
.target sm_75
.address_size 64
.func (.param .b32 back) triple(.param .b32 given)
{
  .reg .f32 %f<3>;
  ld.param.f32 %f1, [given];
  mul.f32 %f2, %f1, 0f40400000;
  st.param.f32 [back], %f2;
  ret;
}
.visible .entry calls(.param .u64 at)
{
  .reg .f32 %f<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [at];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.f32 %f1, [%rd2];
  {
  .param .b32 p;
  st.param.f32 [p], %f1;
  .param .b32 r;
  call.uni (r),
  triple,
  (
  p
  );
  ld.param.f32 %f2, [r];
  }
  st.global.f32 [%rd2], %f2;
  ret;
}
.visible .entry alone(.param .u64 at) .maxntid 128, 1, 1
{
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [at];
  cvta.to.global.u64 %rd2, %rd1;
  st.global.u32 [%rd2], 7;
  ret;
}
"""


def digests(data: bytes, form: str) -> dict[str, str]:
    view = BytesSource(data).view()
    return images.code_digests(view, form, images.kernel_facts(view, form))[0]


def variables(data: bytes, form: str) -> str | None:
    return images.code_digests(BytesSource(data).view(), form, ())[1]


def ptx(text: str) -> dict[str, str]:
    return digests(text.encode(), "ptx")


def changed(old: dict[str, str], new: dict[str, str]) -> set[str]:
    assert old.keys() == new.keys()
    assert all(len(value) == 64 for value in (*old.values(), *new.values()))
    return {name for name in old if old[name] != new[name]}


@pytest.mark.parametrize("path", sorted((FIXTURES / "kernels").glob("needs.*")), ids=lambda path: path.name)
def test_every_kernel_has_a_digest(path: Path) -> None:
    form = "cubin" if path.suffix == ".cubin" else "code-object"
    assert list(digests(path.read_bytes(), form)) == list(images.kernels(BytesSource(path.read_bytes()).view(), form))


@pytest.mark.parametrize("path", sorted((FIXTURES / "kernels").glob("needs.*")), ids=lambda path: path.name)
def test_damage_is_an_error_with_a_place(path: Path) -> None:
    form = "cubin" if path.suffix == ".cubin" else "code-object"
    data = bytearray(path.read_bytes())
    whole = images.kernel_facts(BytesSource(bytes(data)).view(), form)
    tables = (*range(64), *range(64, len(data), 61), *range(max(len(data) - 3000, 64), len(data), 7))
    answers = set()
    for at in tables:
        data[at] ^= 0xFF
        view = BytesSource(bytes(data)).view()
        data[at] ^= 0xFF
        try:
            codes, data_digest = images.code_digests(view, form, whole)
            answers.add((data_digest, *codes.items()))
        except FormatError as error:
            assert error.offset is not None
            assert error.field
            answers.add(())
    assert len(answers) > 3


def test_forms_without_digests() -> None:
    assert digests((FIXTURES / "kernels" / "add_one.llvm22.spv").read_bytes(), "spirv") == {}


def test_comments_lines_and_blanks_of_ptx_do_not_count() -> None:
    lined = PTX.replace(
        "  ret;", "$L__tmp3:\n\t.loc 1 7 2, function_name $L__info_string0, inlined_at 1 3 3\n  ret; // end"
    )
    assert lined != PTX
    assert not changed(ptx(PTX), ptx(lined + '\n.file 1 "/a/b.cu"\n.section .debug_str\n{\n.b8 95,90\n}\n'))
    assert not changed(ptx(PTX), ptx(PTX.replace("\n", "\r\n").replace("  ", "\t")))
    labels = PTX.replace("  ret;", "$L__BB{}_1:\n  ret;")
    assert not changed(ptx(labels.replace("{}", "3")), ptx(labels.replace("{}", "12")))


def test_what_ptx_does_counts() -> None:
    assert changed(ptx(PTX), ptx(PTX.replace("], 7", "], 8"))) == {"alone"}
    assert changed(ptx(PTX), ptx(PTX.replace("0f40400000", "0f40800000"))) == {"calls"}
    assert changed(ptx(PTX), ptx(PTX.replace("128, 1", "64, 1"))) == {"alone"}
    assert changed(ptx(PTX), ptx(PTX.replace("$", "$").replace("calls(.param .u64 at)", "calls(.param .u32 at)"))) == {
        "calls"
    }


def test_ptx_is_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ptx(PTX)
    monkeypatch.setattr("fatpack.limits.CHUNK", 7)
    assert ptx(PTX) == whole


def cubin(folder: Path, text: str, *options: str) -> dict[str, str]:
    (folder / "k.ptx").write_text(text)
    run("ptxas", "-arch=sm_75", *options, "-o", folder / "k.cubin", folder / "k.ptx")
    return digests((folder / "k.cubin").read_bytes(), "cubin")


def test_cubins_by_ptxas(tmp_path: Path) -> None:
    tool("ptxas")
    source = PTX.replace(".address_size 64", '.address_size 64\n.file 1 "k.cu", 1700000000, 100').replace(
        "  ret;", "  .loc 1 7 2\n  ret;"
    )
    for options in ((), ("-c",)):
        old = cubin(tmp_path, source, *options)
        other = source.replace("k.cu", "other/k.cu").replace("1700000000", "1800000000")
        assert not changed(old, cubin(tmp_path, other, "-lineinfo", *options)), options
        assert changed(old, cubin(tmp_path, source.replace("], 7", "], 8"), *options)) == {"alone"}
        assert changed(old, cubin(tmp_path, source.replace("0f40400000", "0f40800000"), *options)) == {"calls"}
        assert changed(old, cubin(tmp_path, source.replace("128, 1", "64, 1"), *options)) == {"alone"}


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
def test_cubins_by_nvcc(tmp_path: Path, arch: str) -> None:
    def build(name: str, text: str, *options: str) -> dict[str, str]:
        path = tmp_path / name / "k.cu"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        os.utime(path, (1e9, 1e9 + len(name)))
        run("nvcc", "-cubin", f"-arch={arch}", *options, "-o", path.with_suffix(".cubin"), path)
        found = digests(path.with_suffix(".cubin").read_bytes(), "cubin")
        return {strip_unit_suffix(name): value for name, value in found.items()}

    old = build("old", CUDA)
    assert len(old) == 3
    assert not changed(old, build("elsewhere", f"// moved\n\n{CUDA}", "-lineinfo"))
    assert not changed(build("linked", CUDA, "-dc"), build("linked again", f"// moved\n{CUDA}", "-dc", "-lineinfo"))
    assert changed(old, build("constant", CUDA.replace("3.0f", "4.0f"))) == {"scale"}
    assert changed(old, build("shared", CUDA.replace("s[64]", "s[96]"))) == {"scale"}


def code_object(folder: Path, text: str, *options: str) -> dict[str, str]:
    (folder / "k.c").write_text(text)
    command = ("clang", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-nogpulib", "-O2")
    run(*command, *options, "-o", folder / "k.hsaco", folder / "k.c")
    return digests((folder / "k.hsaco").read_bytes(), "code-object")


AMD = """
__attribute__((noinline)) static float helper(float x) { return x * 3.0f; }
__attribute__((amdgpu_kernel)) void calls(float *a) { a[0] = helper(a[0]); }
__attribute__((amdgpu_kernel)) void alone(float *a) { a[0] += 7.0f; }
"""


@pytest.mark.parametrize("linked", [(), ("-c",)], ids=["linked", "relocatable"])
def test_code_objects_by_clang(tmp_path: Path, linked: tuple[str, ...]) -> None:
    old = code_object(tmp_path, AMD, *linked)
    assert set(old) == {"calls", "alone"}
    assert not changed(old, code_object(tmp_path, f"// moved\n{AMD}", "-gline-tables-only", *linked))
    assert changed(old, code_object(tmp_path, AMD.replace("7.0f", "8.0f"), *linked)) == {"alone"}
    assert "calls" in changed(old, code_object(tmp_path, AMD.replace("3.0f", "5.0f"), *linked))


def test_where_parameters_lie_counts(tmp_path: Path) -> None:
    """Two launches of the same code with other parameters: as many bytes of them, and none is read."""
    found = []
    for params in (".param .u64 at, .param .u64 x", ".param .u64 at, .param .u32 x, .param .u32 y"):
        text = PTX.replace("alone(.param .u64 at)", f"alone({params})")
        found.append(cubin(tmp_path, text))
    assert changed(*found) == {"alone"}
    objects = []
    for params in ("float *a, long x", "float *a, int x, int y", "float *other, int named, int otherwise"):
        text = AMD.replace("alone(float *a) { a[0]", f"alone({params}) {{ {params.split('*')[1].split(',')[0]}[0]")
        objects.append(code_object(tmp_path, text))
    assert changed(objects[0], objects[1]) == {"alone"}
    assert not changed(objects[1], objects[2])


def test_version_and_sizes_of_ptx_count_for_the_image() -> None:
    other = PTX.replace(".version 8.0", ".version 8.1")
    room = "{}.global .align 4 .b8 room[{}];\n.visible .entry alone"
    roomy, larger = (PTX.replace(".visible .entry alone", room.format("", size)) for size in (64, 128))
    hidden = larger.replace("room", "_ZN33_GLOBAL__N__22fe00ac_4_a_cu_table4roomE")
    again = hidden.replace("22fe00ac", "9be0aaab")
    made = [variables(text.encode(), "ptx") for text in (PTX, other, roomy, larger, hidden, again)]
    assert len(set(made)) == 5
    assert made[4] == made[5]
    assert not changed(ptx(PTX), ptx(other))


def test_variables_count_for_the_image(tmp_path: Path) -> None:
    with_table = PTX.replace(
        ".address_size 64", ".address_size 64\n.visible .const .align 4 .b8 table[4] = {1, 2, 3, 4};"
    )
    with_other = with_table.replace("3, 4}", "3, 5}")
    assert len({variables(text.encode(), "ptx") for text in (PTX, with_table, with_other)}) == 3
    assert not changed(ptx(with_table), ptx(with_other))
    found = []
    for text in (with_table, with_other):
        cubin(tmp_path, text)
        found.append(variables((tmp_path / "k.cubin").read_bytes(), "cubin"))
    assert found[0] != found[1]
    linked = []
    for value in (3, 4):
        code_object(tmp_path, f"__attribute__((address_space(4), used)) extern const int t[2] = {{7, {value}}};\n{AMD}")
        linked.append(variables((tmp_path / "k.hsaco").read_bytes(), "code-object"))
    assert linked[0] != linked[1]


def test_names_of_units() -> None:
    for old, new in (
        ("_ZN34_GLOBAL__N__b37fe2fa_4_k_cu_2f1254c86hiddenEPf", "_ZN34_GLOBAL__N__00000000_4_k_cu_123456786hiddenEPf"),
        (
            "_ZN40_GLOBAL__N__b37fe2fa_4_k_cu_2f1254c8_1234_4nameEv",
            "_ZN41_GLOBAL__N__a37fe2fa_4_k_cu_2f1254c8_92345_4nameEv",
        ),
        ("_ZN33_GLOBAL__N__22fe00ac_4_a_cu_table4anonEPi", "_ZN33_GLOBAL__N__9be0aaab_4_a_cu_table4anonEPi"),
        (
            "__nv_static_22__22fe00ac_4_a_cu_table__ZN33_GLOBAL__N__22fe00ac_4_a_cu_table4anonEPi",
            "__nv_static_22__9be0aaab_4_a_cu_table__ZN33_GLOBAL__N__9be0aaab_4_a_cu_table4anonEPi",
        ),
        (
            "__nv_static_43__0a1b2c3d_17_gemm_4bit_simt_cu_9e0c38a6_641_FP4_LUT_F32",
            "__nv_static_44__0a1b2c3e_17_gemm_4bit_simt_cu_cc7a13a0_1593_FP4_LUT_F32",
        ),
        ("$___ZZ3onePfi1PE1s__62", "$___ZZ3onePfi1PE1s__65"),
        ("_Z3onePfi1P$229", "_Z3onePfi1P$230"),
        ("__hip_cuid_2d380fb3c866c39c", "__hip_cuid_0123456789abcdef"),
        ("k.static.b04fd23c98500190", "k.static.0123456789abcdef"),
        ("_Z1kv__intern__b04fd23c98500190", "_Z1kv__intern__0000000000000000"),
    ):
        assert strip_unit_suffix(old) == strip_unit_suffix(new)
    assert strip_unit_suffix("_Z5helloPf") == "_Z5helloPf"
    assert strip_unit_suffix("_ZN9_INTERNAL3fooEv") == "_ZN9_INTERNAL3fooEv"


def test_calls_go_all_the_way_and_round() -> None:
    own = {name: digest_parts((name.encode(),)) for name in "kabcz"}
    calls = {"k": ["a"], "a": ["b", "a"], "b": ["a", "c"], "z": []}
    old = digest_with_calls(own, calls, ["k", "z"])
    new = digest_with_calls({**own, "c": b"other"}, calls, ["k", "z"])
    assert old["k"] != new["k"]
    assert old["z"] == new["z"] == own["z"]


def test_calls_without_end_count_all_functions() -> None:
    names = [f"f{number}" for number in range(400)]
    own = {name: digest_parts((name.encode(),)) for name in names}
    calls = dict.fromkeys(names, names)
    made = digest_with_calls(own, calls, names)
    assert len(made) == len(names)
    assert digest_with_calls({**own, "f7": b"other"}, calls, names)["f300"] != made["f300"]


def test_needs_count() -> None:
    made = {digest_with_needs(b"code", KernelNeeds("k", registers=count)) for count in (None, 1, 2)}
    assert len(made) == 3
    assert digest_with_needs(b"code", KernelNeeds("k", size=1)) == digest_with_needs(
        b"code", KernelNeeds("other", size=2)
    )


@pytest.mark.parametrize(
    "text",
    [
        b".version 8.0\n" + b".global " * 40_000 + b"{ 1 }\n",
        b".version 8.0\n" + b".func (" * 40_000 + b"{ ret; }\n",
        b".version 8.0\n.entry k() {\n" + b"call " + b" " * 300_000 + b"; }\n",
        b".version 8.0\n.entry k() {\n" + b"call (" * 40_000 + b"; }\n",
        b".version 8.0\n.entry k() {\n// _GLOBAL__N_\nmov " + b"1" * 200_000 + b"_GLOBAL__N_; }\n",
        b".version 8.0\n.entry k() {\nmov " + b"_GLOBAL__N__01234567_4_k" * 10_000 + b"; }\n",
    ],
    ids=["variables", "functions", "blanks", "calls", "digits", "units"],
)
def test_hostile_texts_are_read_in_one_pass(text: bytes) -> None:
    """A second for 300 kB would be a thousand times the time of a pass: the alarm ends a parser that is not linear."""
    import signal

    def late(*_: object) -> None:
        raise AssertionError("the text is not read in one pass")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, 3)
    try:
        ptx_kernels.codes(BytesSource(text, "x.ptx").view())
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
