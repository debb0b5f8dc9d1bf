"""The rules of a policy, one module each: what was read goes in, violations come out. This is their order."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.answers.policy.given import RuleContext
    from fatpack.answers.policy.outcome import Violation
    from fatpack.trees.paths import Opener


def evaluate_rules(given: RuleContext, opener: Opener | None) -> Iterator[Violation]:
    """Yield what breaks the policy, rule by rule; rules that nobody asked for are not even imported."""
    from fatpack.answers.policy.rules import forbidden, labels, readable, required, sizes

    policy = given.policy
    yield from readable.no_device_code(given)
    yield from labels.mismatch_violations(given.found)
    if not policy.verify:  # which says itself what nobody can read
        yield from labels.unverified_images(given.found)
    yield from required.requirement_violations(given)
    yield from forbidden.forbidden_violations(given)
    yield from sizes.size_violations(given)
    if policy.uniform:
        from fatpack.answers.policy.rules import uniform

        yield from uniform.uniform_violations(given)
    if policy.metadata:
        from fatpack.answers.policy.metadata import compare

        yield from compare.metadata_violations(given.found, given.names, given.budget)
    if policy.registered:
        from fatpack.answers.policy.rules import registered

        yield from registered.registration_violations(given.found, given.budget, deep=policy.deep, strict=policy.strict)
    yield from readable.unread_kernel_violations(given)
    if policy.verify:
        from fatpack.answers.policy.rules import verifying

        yield from verifying.checksum_violations(given.names, policy, given.told, opener)
