"""The part of the leak test's report that says who freed the other objects of an accused stack: whoever frees most of them shows where the free of the
remaining ones is missing. Only a test with --frees knows it.
"""
SHOWN, FRAMES = 3, 4  # stacks that freed; frames of such a stack
LEFT_OUT = ("kern/src/", "kern/include/", "kern/core/ref.h:")  # files of the allocator, and of references


def frames_of(freed):
    """Returns the frames of a stack that freed without those of the allocator, [(function, "file:line"), …], inlined functions too, innermost first."""
    frames = [one for frame in freed.frames for one in frame]
    return [one for one in frames if not one[1].startswith(LEFT_OUT)] or frames


def lines_of(group):
    """Returns the lines of the report about the frees of a group's stack; none if they were not counted."""
    if group.frees is None:
        return []
    freed, left = sum(one.objects for one in group.frees), len(group.records)
    at_least = "at least " if group.frees_missing else ""
    if not freed:
        return ["    some frees were not counted; the counted ones freed none of this stack's objects" if at_least else
                "    none of this stack's objects was freed by anybody"]
    were = "was" if freed == 1 else "were"
    lines = [f"    of {at_least}{freed + left} objects of this stack, {at_least}{freed} {were} freed, by:"]
    for one in group.frees[:SHOWN]:
        frames = frames_of(one)
        chain = " < ".join(f"{function.partition('+0x')[0]}  {place}".rstrip() for function, place in frames[:FRAMES])
        lines.append(f"        {one.objects}  {chain}" + (" …" if len(frames) > FRAMES else ""))
    if more := group.frees[SHOWN:]:
        lines.append(f"        {sum(one.objects for one in more)}  {len(more)} more {'stack' if len(more) == 1 else 'stacks'}")
    lines.append(f"    and the {left} that are left were not" if left != 1 else "    and the one that is left was not")
    return lines


def facts(group):
    """Returns the same as data for the JSON report; {} if the frees were not counted."""
    if group.frees is None:
        return {}
    return {"freed": sum(one.objects for one in group.frees), "frees_missing": group.frees_missing,
            "freed_by": [{"objects": one.objects, "stack": [function.partition("+0x")[0] for function, _ in frames_of(one)],
                          "lines": [place for _, place in frames_of(one)]} for one in group.frees]}
