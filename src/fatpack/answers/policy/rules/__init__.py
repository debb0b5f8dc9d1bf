"""The rules of a policy, one module each: what was read goes in, violations come out. This is their order."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.answers.policy.given import Given
    from fatpack.answers.policy.outcome import Violation
    from fatpack.trees.paths import Opener


def broken(given: Given, opener: Opener | None) -> Iterator[Violation]:
    """Yield what breaks the policy, rule by rule; rules that nobody asked for are not even imported."""
    from fatpack.answers.policy.rules import forbidden, labels, readable, required, sizes

    policy = given.policy
    yield from readable.nothing(given)
    yield from labels.violations(given.found)
    if not policy.verify:  # which says itself what nobody can read
        yield from labels.believed(given.found)
    yield from required.violations(given)
    yield from forbidden.violations(given)
    yield from sizes.violations(given)
    if policy.uniform:
        from fatpack.answers.policy.rules import uniform

        yield from uniform.violations(given)
    if policy.metadata:
        from fatpack.answers.policy.metadata import compare

        yield from compare.violations(given.found, given.names, given.budget)
    if policy.registered:
        from fatpack.answers.policy.rules import registered

        yield from registered.violations(given.found, given.budget, deep=policy.deep, strict=policy.strict)
    yield from readable.kernels(given)
    if policy.verify:
        from fatpack.answers.policy.rules import verifying

        yield from verifying.violations(given.names, policy, given.told, opener)
