"""The rules of a policy, one module each: what was read goes in, violations come out. This is their order."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.commands.check.given import RuleContext
    from fatpack.commands.check.model import Violation
    from fatpack.inputs.map_files import Opener


def evaluate_rules(given: RuleContext, opener: Opener | None) -> Iterator[Violation]:
    """Yield what breaks the policy, rule by rule; rules that nobody asked for are not even imported."""
    from fatpack.commands.check import forbidden, labels, readable, rules, sizes

    policy = given.policy
    yield from readable.no_device_code(given)
    yield from labels.mismatch_violations(given.found)
    if not policy.verify:  # which says itself what nobody can read
        yield from labels.unverified_images(given.found)
    yield from rules.requirement_violations(given)
    yield from forbidden.forbidden_violations(given)
    yield from sizes.size_violations(given)
    if policy.uniform:
        from fatpack.commands.check import uniform

        yield from uniform.uniform_violations(given)
    if policy.metadata:
        from fatpack.commands.check import metadata

        yield from metadata.metadata_violations(given.found, given.names, given.budget)
    if policy.registered:
        from fatpack.commands.check import registered

        yield from registered.registration_violations(given.found, given.budget, deep=policy.deep, strict=policy.strict)
    yield from readable.unread_kernel_violations(given)
    if policy.verify:
        from fatpack.commands.check import verifying

        yield from verifying.checksum_violations(given.names, policy, given.told, opener)
