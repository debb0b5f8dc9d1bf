"""Names of kernels in profiles: each form means every kernel that ran, and the first that finds any counts."""

from __future__ import annotations

import pytest

from fatpack.demangling import demangle
from fatpack.errors import Unsupported
from fatpack.selectors.kernel_names import KernelNameIndex, beginning, family, match_names, normal_form, short_name
from fatpack.selectors.profiles import Profile

#: kernels as libtorch_cuda.so has them
ADD = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_"
ADD2 = ADD.replace("ILi4E", "ILi2E")
FILL = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_"
UNIT = "_ZN59_GLOBAL__N__06c19b41_28_ActivationThresholdKernel_cu_a4d05b284scaEPf"
PLAIN = "add_one"
SCALE = "_Z5scaleIfEvPT_S0_"
NAMES = [ADD, ADD2, FILL, UNIT, PLAIN, SCALE, "_Z9scale_allPf"]


def match(*names: str, kind: str = "text") -> tuple[set[str], list[str]]:
    found = match_names([Profile("p", kind, "0" * 64, names)], KernelNameIndex(NAMES))
    return set(found.kernels), list(found.forms.values())


@pytest.mark.parametrize(
    ("name", "kernels", "forms"),
    [
        (ADD, {ADD}, ["mangled"]),
        (PLAIN, {PLAIN}, ["mangled"]),
        (UNIT.replace("06c19b41", "11111111").replace("a4d05b28", "22222222"), {UNIT}, ["mangled"]),
        (
            "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>, "
            "std::array<char *, (unsigned long)3>>(int, T2, T3)",
            {ADD},
            ["demangled"],
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
            "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)",
            {FILL},
            ["demangled"],
        ),
        ("void scale<float>(float*, float)", {SCALE}, ["demangled"]),
        ("at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_a…", {ADD, FILL}, ["cut"]),
        ("void at::native::vectorized_elementwise_kernel<4, at::nat...", {ADD, FILL}, ["cut"]),
        ("void scale<float>(flo...", {SCALE}, ["cut"]),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::Fill", {ADD, FILL}, ["cut"]),
        ("vectorized_elementwise_kernel", {ADD, ADD2, FILL}, ["short"]),
        ("at::native::vectorized_elementwise_kernel", {ADD, ADD2, FILL}, ["short"]),
        ("void scale<double>(double*, double)", {SCALE}, ["short"]),
        ("*Fill*", {FILL}, ["pattern"]),
        ("void scale<?loat>*", {SCALE}, ["pattern"]),
        ("scale_al", {"_Z9scale_allPf"}, ["cut"]),
        ("triton_poi_fused_add_0", set(), []),
    ],
)
def test_the_first_form_that_finds_any_counts(name: str, kernels: set[str], forms: list[str]) -> None:
    assert match(name) == (kernels, forms)


def test_a_star_of_a_profiler_is_a_pointer() -> None:
    assert match("*Fill*", kind="nsys") == (set(), [])


def test_brackets_of_a_pattern_are_themselves() -> None:
    index = KernelNameIndex(NAMES)
    assert index.by_pattern("*Z5scale*") == [SCALE]
    assert not index.by_pattern("*Z[56]scale*")


def test_names_with_unknown_arguments_are_told() -> None:
    found = match_names([Profile("p", "nsys", "", ("void scale<half>(half*)", "scale"))], KernelNameIndex(NAMES))
    assert found.widened == ("void scale<half>(half*)",)


#: one kernel by GNU's, LLVM's and NVIDIA's demangler
ALIKE = [
    (
        "void k<a::f(T&)::{lambda()#1}::operator()() const::{lambda(float)#2}, 3ul>(int)",
        "void k<a::f(T&)::'lambda'()::operator()() const::'lambda0'(float), 3ul>(int)",
        "void k<a::f(T &)::[lambda() (instance 1)]::operator ()() const::[lambda(float) (instance 2)], "
        "(unsigned long)3>(int)",
    ),
    ("void (anonymous namespace)::k<true>(char const*)", "void <unnamed>::k<(bool)1>(const char *)"),
    ("void k<void g<int>(int)::{lambda(int)#1}>(int)", "void k<g<int>(int)::{lambda(int)#1}>(int)"),
    ("k(float const*, unsigned long)", "k(const float *, unsigned long)", "void k(T1 *, T2)"),
    ("void k<a<b<int> >, -1>() [clone .kd]", "void k<a<b<int>>, (int)-1>()"),
]


@pytest.mark.parametrize("names", ALIKE, ids=lambda names: names[0][:30])
def test_demanglers_agree_in_normal_form(names: tuple[str, ...]) -> None:
    assert len({normal_form(name) for name in names}) == 1


@pytest.mark.parametrize("name", [name for names in ALIKE for name in names])
def test_normal_forms_are_final_and_whole(name: str) -> None:
    normal = normal_form(name)
    assert normal_form(normal) == normal
    assert not beginning(name)
    assert short_name(normal).rpartition("::")[2] == "k"


def test_other_arguments_are_other_kernels() -> None:
    assert normal_form("void k<4, float>(int)") != normal_form("void k<8, float>(int)")
    assert normal_form("void k<unsigned int>(int)") != normal_form("void k<int>(int)")


@pytest.mark.parametrize("name", ["(" * 50_000, "<" * 50_000, "'lambda'(" * 5000, "{lambda(" * 5000, "a<b>::" * 5000])
def test_hostile_names_take_little_time(name: str) -> None:
    assert match(name) == (set(), [])


def test_names_that_stand_for_too_much_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 60 types has the one before it twice: a name of 700 bytes stands for 10**18 characters."""
    monkeypatch.setattr("fatpack.demangling._SECONDS", 2)
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    numbers = [*digits[1:], *(f"1{digit}" for digit in digits)][:60]
    name = "_Z1fI1AIiiE" + "".join(f"S0_IS{number}_S{number}_E" for number in numbers) + "EvT_"
    with pytest.raises(Unsupported, match="repeat their parts too often"):
        demangle([name])
    many = "_Z1f" + "N3aTS3bST1cE" * 40
    assert demangle([many])[many].startswith("f(aTS::bST::c")


@pytest.mark.parametrize(
    ("one", "other", "are_siblings"),
    [
        (
            "void at::f<4, at::Add<float>, at::A<char*, 3ul>>(int)",
            "void at::f<8, at::Add<double>, at::A<char*, 2ul>>(int)",
            True,
        ),
        ("void at::f<4, at::Add<float>>(int)", "void at::f<4, at::Mul<float>>(int)", False),
        ("void at::f<4, at::Add<float>>(int)", "void at::g<4, at::Add<float>>(int)", False),
        ("f<2, i<B<Mul<float>>>(int&)::{lambda(int)#1}>()", "f<2, i<B<Add<float>>>(int&)::{lambda(int)#1}>()", False),
        (
            "f<2, i<B<Mul<float>>>(int&)::{lambda(int)#1}>()",
            "f<4, i<B<Mul<c10::Half>>>(int&)::{lambda(int)#1}>()",
            True,
        ),
        ("void scale<int>(int*)", "void scale<c10::BFloat16>(int*)", True),
        ("plain(int)", "plain(float)", True),
        ("plain(int)", "plainer(int)", False),
    ],
)
def test_instances_of_a_template_with_one_functor_are_siblings(one: str, other: str, are_siblings: bool) -> None:
    assert (family(normal_form(one)) == family(normal_form(other))) is are_siblings
