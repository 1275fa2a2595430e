"""The difference of two Profiles.

The same allocations may have different user stacks in two dumps, for example when the shell runs a
command in another function. So a kernel stack whose total is equal in both Profiles is left out, even
if the user stacks differ; the number of such kernel stacks is reported. If the totals differ, each pair
of a kernel stack and a user stack is compared separately. User stacks without a kernel stack are
compared separately, too.
"""
from collections import defaultdict

from stele.report.profile import Amount, comparable


def difference(profile, base):
    """Returns `profile` minus `base` as a Profile, which has the losses of both."""
    result = profile.minus(base)
    sums = defaultdict(Amount)
    for key, amount in result.amounts.items():
        sums[key.source, key.frames].add(amount)
    moved = {(source, frames) for (source, frames), amount in sums.items() if frames and not amount}
    result.amounts = defaultdict(Amount, {key: amount for key, amount in result.amounts.items() if (key.source, key.frames) not in moved})
    result.holders = defaultdict(list)
    for key, lines in profile.holders.items():
        if comparable(key) in result.amounts:
            result.holders[comparable(key)] += lines
    result.incomplete = profile.incomplete + [f"of the base: {line}" for line in base.incomplete]
    if moved:
        result.incomplete.append(f"{len(moved)} stacks of the kernel have as many bytes as in the base, but from other callers in programs: not shown")
    if profile.build_id and base.build_id and profile.build_id != base.build_id:
        result.incomplete.append(f"the base is of another kernel, {base.build_id}, not {profile.build_id}: the same code counts as other stacks")
    return result
