"""What is asked of a runtime's rules, and what they answer."""

from __future__ import annotations

from fatpack.record import Record


class Candidate(Record):
    """An image as a runtime sees it: what its container states, in stored order.

    ``form`` is a form of images (cubin, ptx, ltoir, code-object, …) or the kind of an entry that no driver takes
    (relocatable-ptx), ``arch`` the stored one, ``triple`` where the runtime looks at it. ``ptx_version`` is that of a
    PTX text, ``compression`` the method, None for none.
    """

    form: str
    arch: str
    triple: str = ""
    ptx_version: tuple[int, int] | None = None
    compression: str | None = None


class Answer(Record):
    """What a runtime does with a container.

    ``outcome`` is ``runs``, ``compiles`` (PTX or SPIR-V, when it is loaded) or ``fails``. ``image`` is the position of
    the image that was taken, also where it then fails; None if none fits. ``rule`` is the name of the rule that
    decided, ``reason`` says it in words; ``error`` is the message of the runtime. ``is_certain`` is False where the
    rule is neither documented nor observed.
    """

    outcome: str
    image: int | None
    rule: str
    reason: str
    error: str = ""
    is_certain: bool = True


class Judgement(Record):
    """Whether one image fits a device, whatever lies beside it: ``rule`` is the name of the rule that says so.

    ``reason`` says it in words. ``is_certain`` is False where nobody has documented or observed it.
    """

    fits: bool
    rule: str
    reason: str
    is_certain: bool = True
