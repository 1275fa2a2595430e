"""Judges the dumps of a leak test and writes the report.

A stack that has an object alive in at least REPEAT - 1 of the REPEAT generations is a leak: each run of the command left one behind,
give or take one. Stacks alive in fewer are shown as "not repeated" and do not count. Nothing lost may look like nothing leaked.
"""
from dataclasses import dataclass

CLEAN, LEAKED, UNKNOWN = 0, 1, 2


@dataclass
class Verdict:
    status: int  # CLEAN, LEAKED, UNKNOWN
    leaks: list  # [(dump, group)], most bytes first
    others: list  # the same, of stacks that are not repeated
    doubts: list  # why nothing can be said, as text


def judge(dumps, repeat, settled=True):
    threshold = max(1, repeat - 1)
    found = sorted(((dump, group) for dump in dumps for group in dump.groups), key=lambda pair: -pair[1].bytes)
    leaks = [pair for pair in found if len(pair[1].marks) >= threshold]
    others = [pair for pair in found if len(pair[1].marks) < threshold]
    doubts = [] if settled else ["caches and arenas did not come to rest"]
    for dump in dumps:
        doubts += [f"{dump.name}: {key} {number}" for key, number in dump.lost().items()]
        doubts += [f"{dump.name}: does not hold: {identity}" for identity in dump.broken_identities()]
    if not dumps:
        doubts.append("nothing was traced")
    status = LEAKED if leaks else UNKNOWN if doubts else CLEAN
    return Verdict(status, leaks, others, doubts)


def describe(pair, places, user_places):
    dump, group = pair
    lines = [f"{group.bytes} bytes in {group.objects} allocations of {dump.name} from stack"]
    if group.estimated:
        lines[0] += ", estimated {} bytes in {} allocations".format(*group.estimated)
    for frame in group.frames:
        at = places.get(frame)
        if not at:
            lines.append(f"    {frame}")
            continue
        *inlined, (_, place) = at
        lines += [f"    {function} (inlined)  {where}" for function, where in inlined]
        lines.append(f"    {frame.removesuffix(' [kernel]')}  {place}")
    if group.summary:
        lines.append(f"    {group.summary}")
    for stack in group.user_stacks:
        lines.append(f"    user stack of {stack.owner}, {stack.bytes} bytes in {stack.objects} allocations")
        for frame in stack.frames:
            *inlined, (function, place) = user_places.get((stack.build_id, frame)) or [(frame, "")]
            lines += [f"        {name} (inlined)  {where}" for name, where in inlined]
            lines.append(f"        {function}  {place}".rstrip())
    return lines


def report(verdict, dumps, command, command_status, repeat, source_lines, program_lines):
    """The report as text. `source_lines`: a SourceLines; `program_lines`: a ProgramLines."""
    groups = [group for _, group in verdict.leaks + verdict.others]
    places = source_lines.look_up([frame for group in groups for frame in group.frames])
    user_places = program_lines.look_up([stack for group in groups for stack in group.user_stacks])
    lines = [f"leak test of: {command}", f"runs: 1 to warm up, {repeat} traced; the last one's exit status: {command_status}",
             f"traced: {len(dumps)} caches and arenas, {sum(d.counters['seen'] for d in dumps)} allocations", ""]
    if verdict.leaks:
        total = sum(group.bytes for _, group in verdict.leaks)
        lines += [f"LEAKED: {total} bytes from {len(verdict.leaks)} stacks, each alive in at least {max(1, repeat - 1)} of {repeat} runs", ""]
        for pair in verdict.leaks:
            lines += describe(pair, places, user_places) + [""]
    if verdict.others:
        lines += [f"not repeated (not counted): {len(verdict.others)} stacks", ""]
        for pair in verdict.others:
            lines += describe(pair, places, user_places) + [""]
    if verdict.doubts:
        lines += ["what is not known:"] + [f"    {doubt}" for doubt in verdict.doubts] + [""]
    lines.append({CLEAN: "no leak", LEAKED: "leak", UNKNOWN: "no leak found, but not all is known"}[verdict.status])
    return "\n".join(lines) + "\n"
