"""Writes the files that a leak test leaves in addition to its report: folded stacks, a pprof profile, an HTML page, and the dump of the traced runs.

The first three files have only accused objects, because in a flame graph of all objects the leak may be the smallest of many boxes. The dump has all
objects; scripts/report reads it.
"""
from stele.references import with_names
from stele.report import folded, from_dump
from stele.report.profile import Profile, Source

DUMP = ".tracedump"


def profile_of(command, verdict, dump, lookup, places):
    """Returns a Profile of the objects that the Verdict accuses. `dump`: the TraceDump of the traced runs, which has the objects; `places`: a result
    of references.parse_references()."""
    accused = {record for group in verdict.accused for record in group.records}
    kernel = lookup.kernel(dump.build_id)
    profile = from_dump.profile_of(dump, lookup, title_of(command), accused, with_names(places, kernel.elf) if places and kernel else places)
    add_keepers(profile, verdict, dump, lookup)
    shown = {key.source for key in profile.amounts}
    profile.sources = {name: source for name, source in profile.sources.items() if name in shown}
    profile.incomplete = verdict.doubts + [f"{one.growth}: no stack is known" for one in verdict.by_counts if not one.groups]
    profile.incomplete += [f"{one.growth()} that nobody can reach: no stack is known" for one in verdict.unreachable
                     if not one.group and one.name not in shown]
    return profile


def add_keepers(profile, verdict, dump, lookup):
    """Adds to profile.holders, once for each accused stack, what keeps its objects."""
    groups = {(group.name, dump.stacks[group.stack].frames): group for group in verdict.accused if group.kept}
    frames = lookup.kernel_frames(dump.build_id, {stack for _, stack in groups})
    by_key = {(name, tuple(frames[stack])): group for (name, stack), group in groups.items()}
    for key in profile.amounts:
        if group := by_key.pop((key.source, tuple(key.frames)), None):
            profile.holders[key][:0] = [f"{kept}; shortest path: {' → '.join(kept.path)}" for kept in group.kept]


def title_of(command):
    return f"make leaktest CMD='{command}'"


def together(results):
    """Returns the sum of the results' Profiles; None if no result has one."""
    profiles = [result.profile for result in results if result.profile]
    if len(profiles) < 2:
        return profiles[0] if profiles else None
    whole = Profile(f"make leaktest of {len(results)} commands", profiles[0].build_id)
    for profile in profiles:
        for key, amount in profile.amounts.items():
            whole.add(key, amount)
        for key, lines in profile.holders.items():
            whole.holders[key] += lines
        for name, source in profile.sources.items():
            whole.sources.setdefault(name, Source(name, source.kind, source.state, source.object_size))
        whole.incomplete += [f"{profile.title}: {line}" for line in profile.incomplete]
    return whole


def write(report, results):
    """Writes the files to the folder of `report`, and removes such files of an earlier run. Returns a line for each file: its path, or the reason why
    the file is missing."""
    profile = together(results)
    lines = []
    for suffix, put in ((".folded", put_folded), (".pb.gz", put_pprof), (".html", put_page)):
        path = report.with_suffix(suffix)
        path.unlink(missing_ok=True)
        if not profile:
            continue
        try:
            put(profile, path)
            lines.append(str(path))
        except Exception as error:  # an error here does not change the verdict
            path.unlink(missing_ok=True)
            lines.append(f"{path}: cannot be made: {' '.join(str(error).split()) or type(error).__name__}")
    dump = report.with_suffix(DUMP)
    dump.unlink(missing_ok=True)
    if len(results) == 1 and results[0].dump:
        dump.write_bytes(results[0].dump)
        lines.append(str(dump))
    return lines


def put_folded(profile, path):
    folded.write(profile, path)


def put_pprof(profile, path):
    from stele.report import pprof
    pprof.write(profile, path)


def put_page(profile, path):
    from stele.report import page
    page.write(profile, path)
