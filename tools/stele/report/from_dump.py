"""Makes a Profile from a dump: a copy of #mem/tracedump or of #probe/N/outstanding (a probe session), or a dump that was made from a core.

A record of a sampled trace represents several objects (Source.weight), not always a whole number. So the sum for each Key is rounded. The rounding
errors do not add up: the sum over all Keys of a source is wrong by at most half an object. The sum for a single Key may be wrong by one.
"""
from collections import defaultdict

from stele.leak_counts import REFERENCES, family
from stele.leaks import FILTERS
from stele.report.profile import AGES, Amount, Key, Profile, ReportError, Source
from stele.tracedump import TraceDump, TraceDumpError

LOSSES = {"dropped": "allocations were not recorded for lack of memory", "stacks_lost": "stacks were not recorded for lack of memory",
          "contexts_lost": "contexts were not recorded for lack of memory", "truncated": "stacks are cut off at the depth of the trace",
          "filtered": "allocations were filtered out", "cleared": "records were cleared by a reset"}
AGE_LIMITS = (1_000, 10_000, 100_000, 1_000_000)  # milliseconds: the lower bounds of all AGES but the first
HOLDERS_SHOWN = 100  # after this many references that were not put, no more are listed for a Key


def read(path, lookup):
    """Returns the Profile of the file `path`. Raises ReportError."""
    try:
        dump = TraceDump.load(path)
    except TraceDumpError as error:
        raise ReportError(f"{path}: {error}") from error
    for source in dump.sources:
        broken = [identity for identity in source.broken_identities() if not (dump.stacks_unnamed and identity.startswith("stacks"))]
        if broken:
            raise ReportError(f"{path}: {source.name}: does not hold: {broken[0]}")
    return profile_of(dump, lookup, str(path))


def profile_of(dump, lookup, title, only=None, lying=None):
    """Returns the Profile of a TraceDump. `only`: the set of Records to use, None for all; `lying`: locations of references, from
    references.with_names()."""
    profile = Profile(title, dump.build_id, dump.time / 1e9, incomplete=losses_of(dump))
    records = {id(source): source.records if only is None else [record for record in source.records if record in only] for source in dump.sources}
    kernel, user = frames_of(dump, lookup, records)
    if kernel and dump.build_id and not lookup.kernel(dump.build_id):
        profile.incomplete.append(f"no kernel with the build id {dump.build_id} is here: its functions have no names (--kernel)")
    keys_of_objects = {}
    for source in dump.sources:
        name = family(source.name)
        known = profile.sources.setdefault(name, Source(name, source.kind, source.state, source.object_size, dict(source.options)))
        for counter, value in source.counters.items():
            known.counters[counter] = known.counters.get(counter, 0) + value
        sums = defaultdict(lambda: [0.0, 0.0])
        for record in records[id(source)]:
            # A record of a probe session on a program has only a user stack, in record.stack.
            callers = user.get((record.context, record.user_stack)) or user.get((record.context, record.stack), ())
            process = dump.context_name(record.context) if record.context else ""
            key = Key(name, kernel.get(record.stack, ()), callers, process, record.mark, age_of(dump.age(record)))
            weight = source.weight(record)
            sums[key][0] += weight
            sums[key][1] += weight * record.size
            if source.kind != "references":
                keys_of_objects[name, record.object] = key
        for key, amount in rounded(sums):
            profile.add(key, amount)
    add_holders(profile, dump, kernel, keys_of_objects, lying or {})
    return profile


def losses_of(dump):
    incomplete = []
    for source in dump.sources:
        filters = " ".join(f"{key}={source.options[key]}" for key in FILTERS if key in source.options and key != "sample")
        for counter, what in LOSSES.items():
            if source.counters.get(counter):
                by = f" ({filters})" if counter == "filtered" and filters else ""
                incomplete.append(f"{source.name}: {source.counters[counter]} {what}{by}")
    incomplete += [f"the {what} of {count} records could not be named for lack of memory"
             for what, count in (("stacks", dump.stacks_unnamed), ("contexts", dump.contexts_unnamed)) if count]
    return incomplete


def frames_of(dump, lookup, records):
    """Returns ({number of a kernel stack: Frames}, {(number of a context, number of a user stack): Frames}) for the stacks of `records` and of all
    records of references."""
    kernel, user = {}, {}
    for source in dump.sources:
        for record in source.records if source.kind == "references" else records[id(source)]:
            for number in {record.stack, record.user_stack} - {0}:
                if dump.stacks[number].kind == "kernel":
                    kernel[number] = dump.stacks[number].frames
                else:
                    context = dump.contexts.get(record.context)
                    user[record.context, number] = (context.build_id if context else "", context.path if context else "", dump.stacks[number].frames)
    of_kernel, of_programs = lookup.kernel_frames(dump.build_id, set(kernel.values())), lookup.program_frames(set(user.values()))
    return {number: of_kernel[stack] for number, stack in kernel.items()}, {key: of_programs[stack] for key, stack in user.items()}


def age_of(milliseconds):
    return AGES[sum(milliseconds >= limit for limit in AGE_LIMITS)]


def rounded(sums):
    """Yields (Key, Amount) for {Key: [objects, bytes]}, rounded such that the errors do not add up over the Keys."""
    ends, before = [0.0, 0.0], [0, 0]
    for key, parts in sums.items():
        ends = [end + part for end, part in zip(ends, parts)]
        now = [round(end) for end in ends]
        yield key, Amount(now[0] - before[0], now[1] - before[1])
        before = now


def add_holders(profile, dump, kernel, keys_of_objects, lying):
    """Adds to profile.holders a line for each reference to an object of the profile: the function that took the reference, and the reference's
    location if it is known."""
    for source in dump.sources:
        if source.kind != "references":
            continue
        for record in dict.fromkeys(source.records):
            key = keys_of_objects.get((family(source.name).removeprefix(REFERENCES), record.object))
            if not key or len(profile.holders[key]) >= HOLDERS_SHOWN:
                continue
            frames = kernel.get(record.stack, ())
            taker = f"{frames[0].function} {place_of(frames[0])}".rstrip() if frames else "a stack that was not recorded"
            places = lying.get((source.name, record.stack, record.object)) or [""]
            profile.holders[key] += [f"reference to {record.object:#x} taken by {taker}" + (f": {place}" if place else "") for place in places]
    profile.holders = defaultdict(list, {key: lines for key, lines in profile.holders.items() if lines})


def place_of(frame):
    return f"{frame.file}:{frame.line}" if frame.line else frame.file
