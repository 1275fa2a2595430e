"""The part of the leak test that says which instructions have lost the objects that nobody can reach (lost.py)."""
import shlex

from stele import entry
from stele.lost import LostRun, reports

BEGIN = "\nwhere it was lost, in a recorded run of the command on one CPU:\n"


def where_lost(result, guest, cmdline, kernel, keep, shown):
    """Yields texts that continue the report of a leak_report.Result, which accuses unreachable objects. Adds `lost_at` to its facts. `guest` and
    `cmdline`: options of scripts/guest, and the kernel's command line. `kernel`: its ELF file. `keep`: the folder that gets the recording.
    `shown`: a Progress."""
    yield BEGIN
    try:
        shown.phase("a run is recorded, to see where it loses objects")
        with LostRun(result.command, guest, cmdline, kernel) as run:
            shown.phase("search for lost objects")
            accused = {one["name"] for one in result.facts["unreachable"]}
            groups = [group for group in run.lost() if group.name in accused]
            if not groups:
                yield "    it is not known: this run has lost nothing of it\n"
            result.facts["lost_at"] = found = []
            for text, facts in reports(run, groups, shown, keep):
                found.append(facts)
                yield "\n" + text
    except Exception as error:  # the verdict stays
        yield f"    it is not known: {entry.one_line(error)}\n"


def hint(command, guest, cmdline):
    """Returns the line that names the command for this. Arguments as above."""
    return f"{shlex.join(['scripts/lost-at', *guest, *(['--cmdline', cmdline] if cmdline else []), command])} finds the instruction that lost it"
