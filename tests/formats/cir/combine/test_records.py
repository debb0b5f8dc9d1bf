"""Named records of modules combined into one file: equal records, renamed records, and their new names."""

from __future__ import annotations

import pytest
from tests.builders.cir import HOST, SM_80, SM_90, combined, container_of, image_of, splits

from fatpack.errors import UsageError
from fatpack.formats import cir

D1, D2 = "device_cuda_nvptx64_nvidia_cuda__sm_80", "device_cuda_nvptx64_nvidia_cuda__sm_90"


def module(*definitions: str, body: str = "", attrs: str = "") -> str:
    """Return a file with type aliases, all of them used."""
    names = [line.split()[0] for line in definitions]
    uses = "".join(f'  "cir.x"() {{t = {name}}} : () -> ()\n' for name in names)
    words = f" attributes {{{attrs}}}" if attrs else ""
    return "".join(f"{line}\n" for line in definitions) + f"module{words} {{\n{uses}{body}}}\n"


def renames(*files: str) -> list[dict[str, str]]:
    images = [image_of(text, spelling) for text, spelling in zip(files, (HOST, SM_80, SM_90), strict=False)]
    return [
        {f"{item.kind} {item.old}": item.new for item in part.records}
        for part in cir.combine_container(container_of(*images)).report
    ]


def test_records_that_are_the_same_under_other_aliases_and_other_spacing_are_shared() -> None:
    host = module("!a = i32", '!r = !cir.struct<"S" {data !a, data i8}>')
    device = module("!b = i32", '!q = !cir.struct<"S"   {data !b,data i8}>')
    assert renames(host, device) == [{}, {}]


@pytest.mark.parametrize(
    ("aliases", "inline"),
    [
        (("!a = !cir.ptr<i8>", "!b = !cir.func<(!a, !a)>", "!m = !b"), "!cir.func<(!cir.ptr<i8>,!cir.ptr<i8>)>"),
        (("!v = vector<4xi32>", "!m = !cir.array<!v x 2>"), "!cir.array<vector<4xi32> x 2>"),
        (("!f = (i32) -> i8", "!m = !cir.x<!f>"), "!cir.x<(i32) -> i8>"),
        (("#k = 4 : i64", "!m = !cir.x<[#k]>"), "!cir.x<[4 : i64]>"),
        (('!i = !cir.struct<"I" {data i8}>', "!m = !cir.ptr<!i>"), '!cir.ptr<!cir.struct<"I" {data i8}>>'),
        (("!m = !cir.x<(d0) : (d0 <= 5)>",), "!cir.x<(d0) : (d0<=5)>"),
    ],
)
def test_a_member_spelled_through_an_alias_is_the_one_spelled_out(aliases: tuple[str, ...], inline: str) -> None:
    host = module(*aliases, '!r = !cir.struct<"S" {data !m, data i8}>')
    device = module(f'!q = !cir.struct<"S" {{data {inline}, data i8}}>')
    assert renames(host, device) == [{}, {}]
    assert renames(device, host) == [{}, {}]
    assert renames(host, device.replace(", data i8}>\n", ", data i16}>\n")) == [{}, {"struct S": f"S.{D1}"}]


def test_a_name_is_the_same_however_it_is_escaped() -> None:
    first, second = (module(f'!r = !cir.struct<"a{quote}b" {{data i8}}>') for quote in (r"\22", r"\""))
    assert renames(first, second) == [{}, {}]
    assert renames(first, second.replace("i8", "i16")) == [{}, {'struct a"b': f'a"b.{D1}'}]


def test_a_string_in_a_record_is_the_same_however_it_is_escaped() -> None:
    first, second = (module(f'!r = !cir.struct<"S" {{data !cir.x<"{text}">}}>') for text in (r"\09", r"\t"))
    assert renames(first, second) == [{}, {}]


def test_a_record_that_is_mentioned_before_it_is_spelled_out_is_compared_all_the_same() -> None:
    body = '  cir.x : !cir.ptr<!cir.struct<"S">>\n  cir.y : !cir.struct<"S" {{data {}}}>\n'
    host, same, other = (module(body=body.format(member)) for member in ("i8", "i8", "i16"))
    assert renames(host, same) == [{}, {}]
    assert renames(host, other) == [{}, {"struct S": f"S.{D1}"}]


def test_aliases_of_aliases_are_compared_without_being_spelled_out() -> None:
    chain = ["!t0 = tuple<i8, i8>", *(f"!t{n + 1} = tuple<!t{n}, !t{n}>" for n in range(200))]
    chain += ["!f0 = () -> i8", *(f"!f{n + 1} = (!f{n}) -> !f{n}" for n in range(200))]
    end = '!r = !cir.struct<"S" {{data !t200, data !f200, {}}}>'
    host, device = (module(*chain, end.format(last)) for last in ("i8", "i16"))
    assert renames(host, host) == [{}, {}]
    assert renames(host, device) == [{}, {"struct S": f"S.{D1}"}]


def test_records_that_differ_after_an_alias_of_one_name_are_renamed() -> None:
    host = module("!a = i32", '!r = !cir.struct<"S" {data !a}>')
    device = module("!a = i64", '!r = !cir.struct<"S" {data !a}>')
    assert renames(host, device) == [{}, {"struct S": f"S.{D1}"}]


def test_struct_and_union_of_one_name_are_different_records() -> None:
    host = module('!r = !cir.struct<"S" {data i32}>')
    assert renames(host, module('!r = !cir.union<"S" {data i64}>')) == [{}, {}]
    assert renames(host, module('!r = !cir.record<struct "S" {data i64}>')) == [{}, {"struct S": f"S.{D1}"}]
    assert renames(host, module('!r = !cir.record<union "S" {data i64}>')) == [{}, {}]


def test_whatever_refers_to_a_renamed_record_is_renamed_too() -> None:
    host = module('!s = !cir.struct<"S" {data i32}>', '!t = !cir.struct<"T" {data !s}>')
    device = module(
        '!s = !cir.struct<"S" {data i64}>',
        '!t = !cir.struct<"T" {data !s}>',
        "!p = !cir.ptr<!t>",
        '!only = !cir.struct<"Only" {data !cir.struct<{data !p}>}>',
        '!free = !cir.struct<"Free" {data i32}>',
    )
    assert renames(host, device) == [{}, {"struct Only": f"Only.{D1}", "struct S": f"S.{D1}", "struct T": f"T.{D1}"}]


def test_a_record_that_refers_to_itself_is_renamed_inside_as_well() -> None:
    text = '!n = !cir.struct<"Node" {{data !cir.ptr<!cir.struct<"Node">>, data {}}}>'
    made = combined((module(text.format("i32")), HOST), (module(text.format("i64")), SM_80))
    assert f'!d1_n = !cir.struct<"Node.{D1}" {{data !cir.ptr<!cir.struct<"Node.{D1}">>, data i64}}>'.encode() in made
    assert renames(module(text.format("i32")), module(text.format("i32"))) == [{}, {}]


def test_records_in_a_circle_are_the_same_or_are_renamed_together() -> None:
    circle = '!a = !cir.struct<"A" {{data !cir.ptr<!cir.struct<"B" {{data !cir.ptr<!cir.struct<"A">>, data {}}}>>}}>'
    assert renames(module(circle.format("i1")), module(circle.format("i1"))) == [{}, {}]
    assert renames(module(circle.format("i1")), module(circle.format("i2"))) == [
        {},
        {"struct A": f"A.{D1}", "struct B": f"B.{D1}"},
    ]


def test_a_second_device_is_compared_with_the_first_too() -> None:
    files = [module('!s = !cir.struct<"S" {data i32}>')]
    files += [
        module(f'!x = !cir.struct<"X" {{data {kind}}}>', f'!s = !cir.struct<"S" {{data {kind}}}>')
        for kind in ("i64", "i8")
    ]
    assert renames(*files) == [
        {},
        {"struct S": f"S.{D1}"},
        {"struct S": f"S.{D2}", "struct X": f"X.{D2}"},
    ]


def test_a_new_name_that_is_taken_gets_a_number() -> None:
    host = module('!s = !cir.struct<"S" {data i32}>', f'!t = !cir.struct<"S.{D1}" {{data i1}}>')
    device = module('!s = !cir.struct<"S" {data i64}>', f'!u = !cir.struct<"S.{D1}.1" {{data i2}}>')
    assert renames(host, device) == [{}, {"struct S": f"S.{D1}.2"}]


def test_records_without_an_alias_are_compared_where_they_are_spelled_out() -> None:
    line = '  "cir.y"() {{t = !cir.struct<"S" {{data {}}}>, u = !cir.struct<"S">}} : () -> ()\n'
    host, device = module(body=line.format("i32")), module(body=line.format("i64"))
    assert renames(host, host) == [{}, {}]
    assert renames(host, device) == [{}, {"struct S": f"S.{D1}"}]
    made = combined((host, HOST), (device, SM_80)).decode()
    assert f't = !cir.struct<"S.{D1}" {{data i64}}>, u = !cir.struct<"S.{D1}">}}' in made
    assert renames(module('!s = !cir.struct<"S" {data i32}>'), device) == [{}, {"struct S": f"S.{D1}"}]
    assert renames(module('!s = !cir.struct<"S" {data i64}>'), device) == [{}, {}]


def test_an_incomplete_record_is_not_the_complete_one() -> None:
    host = module('!s = !cir.struct<"S" {data i32}>')
    assert renames(host, module('!s = !cir.struct<"S" incomplete>')) == [{}, {"struct S": f"S.{D1}"}]
    assert renames(module('!s = !cir.struct<"S" incomplete>'), module('!s = !cir.struct<"S" incomplete>')) == [{}, {}]


def test_only_names_of_records_are_renamed_and_the_keys_of_layouts() -> None:
    record = '!s = !cir.struct<"std::x<char>" {{data {}}}>'
    layouts = 'cir.record_layouts = {"std::x<char>" = #cir.record_layout<a = "std::x<char>">, T = 1 : i32}'
    body = '  "cir.z"() {s = "std::x<char>", t = !s} : () -> ()\n'
    made = combined(
        (module(record.format("i1"), body=body, attrs=layouts), HOST),
        (module(record.format("i2"), body=body, attrs=layouts), SM_80),
    ).decode()
    assert f'{{"std::x<char>.{D1}" = #cir.record_layout<a = "std::x<char>">, T = 1 : i32}}' in made
    assert '{s = "std::x<char>", t = !d1_s}' in made
    assert f'!d1_s = !cir.struct<"std::x<char>.{D1}" {{data i2}}>' in made


def test_renaming_can_be_refused_and_names_the_records() -> None:
    images = [
        image_of(module(f'!s = !cir.struct<"S" {{data {kind}}}>'), spelling)
        for kind, spelling in (("i1", HOST), ("i2", SM_80))
    ]
    with pytest.raises(UsageError, match=r"records that .*sm_80 defines differently: struct 'S'"):
        cir.combine_container(container_of(*images), rename_records=False)
    cir.combine_container(
        container_of(images[0], image_of(module('!s = !cir.struct<"S" {data i1}>'), SM_80)), rename_records=False
    )


def test_renamed_records_stay_as_they_are_from_then_on() -> None:
    files = [module(f'!s = !cir.struct<"S" {{data {kind}}}>') for kind in ("i1", "i2", "i3")]
    made = combined(*zip(files, (HOST, SM_80, SM_90), strict=True))
    assert combined(*zip(splits(made), (HOST, SM_80, SM_90), strict=True)) == made


def test_aliases_that_double_at_every_step_cost_no_more_than_they_hold() -> None:
    """Expanded, the last of these types would have 2 to the 60 parts."""
    chain = ["!t0 = i1", *(f"!t{i + 1} = tuple<!t{i}, !t{i}>" for i in range(60)), '!s = !cir.struct<"S" {data !t60}>']
    other = ["!t0 = i2", *chain[1:]]
    assert renames(module(*chain), module(*chain)) == [{}, {}]
    assert renames(module(*chain), module(*other)) == [{}, {"struct S": f"S.{D1}"}]
