"""Writes the findings of the leak test: as text, in JSON, and in the format of JUnit.

The first line of every text is a word of VERDICTS."""
import json
from collections import Counter
from dataclasses import dataclass, field
from xml.etree import ElementTree

from stele.leak_command import statuses_of
from stele import leak_frees
from stele.leak_counts import FEWEST_LOOKS, REFERENCES, grown
from stele.leak_hide import functions_of
from stele.leak_kept import facts as kept_facts, lines_of as kept_lines
from stele.leak_unreachable import accusations, facts as unreachable_facts, lost_lines
from stele.leaks import CLEAN, LEAKED, UNKNOWN, frame_lines, source_lines_of
from stele.references import NOWHERE

CONTEXTS_SHOWN, USER_STACKS_SHOWN, GROWTH_SHOWN, REFERENCES_SHOWN, PLACES_SHOWN = 4, 8, 10, 4, 4
STATUS_NAMES = {CLEAN: "clean", LEAKED: "leak", UNKNOWN: "unknown"}
VERDICTS = {CLEAN: "CLEAN", LEAKED: "LEAK", UNKNOWN: "UNKNOWN"}
NOT_KNOWN = "what is not known:"


@dataclass
class Untraced:
    """Facts about the untraced pass of a command."""

    wanted: int = 0  # wanted number of runs; 0: no untraced pass
    runs: int = 0
    looks: int = 0  # number of looks at the counts (leak_counts.Look)
    seconds: float = 0
    low: bool = False  # the pass ended because half of memory was used up
    lost: list = field(default_factory=list)  # leak_unreachable.Lost
    ends: list = field(default_factory=list)  # leak_command.Run of each run, the warm-up run first


@dataclass
class Result:
    """The result for one command."""

    command: str
    status: int
    text: str  # the report
    why: str = ""  # reason of a failure, one line
    facts: dict = field(default_factory=dict)  # facts for the JSON report
    seconds: float = 0
    profile: object = None  # a report.profile.Profile of the accusations; None: nothing could be traced
    dump: bytes = b""  # dump of the traced runs, as #mem/tracedump has it


def frames_of(group):
    return frame_lines(group.frames) or ["    the stack was not recorded"]


def amount_of(size, objects, group):
    return f"{objects} references" if group.kind == "references" else f"{size} bytes in {objects} allocations"


def amount(group):
    of = f"to objects of {group.name.removeprefix(REFERENCES)}" if group.kind == "references" else f"of {group.name}"
    return f"{amount_of(group.bytes, len(group.records), group)} {of}"


def total(groups):
    """Returns the bytes of the groups as text; the number of references if nothing has a size."""
    size = sum(group.bytes for group in groups)
    return f"{size} bytes" if size else f"{sum(len(group.records) for group in groups)} references"


def places_of(group):
    """Returns lines with the locations of a group's references, in the same words as a dump of the trace."""
    found = [(at, place) for at, place in group.places if place != NOWHERE]
    lines = [f"    reference to {at:#x} {place}" for at, place in found[:PLACES_SHOWN]]
    if len(found) > PLACES_SHOWN:
        lines.append(f"    … {len(found) - PLACES_SHOWN} references more")
    if lost := len(group.places) - len(found):
        lines.append(f"    {lost} references {NOWHERE}")
    return lines


def describe(group, program_places):
    lines = [f"{amount(group)} from stack"]
    lines += frames_of(group) + leak_frees.lines_of(group) + places_of(group)
    lines += lost_lines(group) + kept_lines(group)
    for taken in group.references[:REFERENCES_SHOWN]:
        lines.append(f"    kept by {len(taken.records)} references that were not put, taken from stack")
        lines += ["    " + line for line in frames_of(taken) + places_of(taken)]
    lines.append(f"    marks {ranges(group.marks)}, contexts {some(group.contexts, CONTEXTS_SHOWN)}")
    for stack in group.user_stacks[:USER_STACKS_SHOWN]:
        lines.append(f"    user stack of {some(stack.owners, 1)}, {amount_of(stack.bytes, stack.objects, group)}")
        lines += frame_lines((program_places.get((stack.build_id, frame)) or [(f"{frame:#x} [{stack.path}]", "")] for frame in stack.frames), 8)
    return lines


def ranges(numbers):
    """Returns {1, 2, 5} as "1-2,5"."""
    result = []
    for number in sorted(numbers):
        if result and result[-1][1] == number - 1:
            result[-1][1] = number
        else:
            result.append([number, number])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in result)


def some(names, most):
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def untraced_runs(untraced):
    if not untraced.wanted:
        return "none untraced (quick: judged by the trace alone, not by counts)"
    why = ("half of memory was used up then" if untraced.low else
           f"the time was up: {untraced.wanted} were wanted" if untraced.runs < untraced.wanted else "")
    if untraced.looks < FEWEST_LOOKS:
        why += ("; " if why else "") + "too few to judge by counts"
    return f"{untraced.runs} untraced in {untraced.seconds:.1f} s" + (f" ({why})" if why else "")


def describe_accusation(one, shown, places, traced=True):
    lines = [f"LEAKED (by counts): {one.growth}"]
    if not one.growth.can_be_traced:
        return [*lines, "    it can never be traced, so no stack is known"]
    if not traced:
        return [*lines, "    the traced runs failed, so no stack is known"]
    if not one.groups:
        return [*lines, "    the traced runs left none of it: it may leak only while nothing is traced"]
    if all(any(group is other for other in shown) for group in one.groups):
        return [*lines, "    from stacks above"]
    if not one.named:
        lines.append("    the traced runs left one object of it, which is perhaps not part of the leak")
    for group in one.groups:
        if not any(group is other for other in shown):
            lines += ["", *describe(group, places)]
    return lines


def heading(status, command, not_known=(), test="leak test"):
    """Returns the first lines of a report: the verdict, the command, and the reasons of an unknown verdict."""
    doubts = [NOT_KNOWN, *(f"    {doubt}" for doubt in not_known), ""] if status == UNKNOWN else []
    return [VERDICTS[status], f"{test} of: {command}", *doubts]


def failure_report(command, why, test="leak test"):
    """Returns the report for a test that could not be made, or not be judged, for the reason `why`."""
    return "\n".join(heading(UNKNOWN, command, [why], test)[:-1]) + "\n"


def report(verdict, dump, command, ends, repeat, left, programs, untraced):
    """Returns the report as text. `dump`: the TraceDump of the traced runs, None if they failed; `ends`: a leak_command.Run for each run of the
    traced pass; `repeat`: the number of traced runs; `left`: names of the processes that the command left running; `programs`: a ProgramLines."""
    named = verdict.by_stack + [group for together in verdict.by_function for group in together]
    lost = [one.group for one in verdict.unreachable if one.group]
    places = programs.look_up([stack for group in verdict.all_groups + lost for stack in group.user_stacks])
    lines = heading(verdict.status, command, verdict.doubts)
    statuses = statuses_of([*untraced.ends, *ends])
    if dump:
        memory = [source for source in dump.sources if source.kind != "references"]
        lines += [f"runs: 1 to warm up, {untraced_runs(untraced)}, {repeat} traced; {statuses}",
                  f"traced: {len(memory)} caches and arenas, {sum(source.counters['seen'] for source in memory)} allocations"]
    else:
        lines.append(f"runs: 1 to warm up, {untraced_runs(untraced)}; the traced ones failed; {statuses}")
    if left:
        lines.append("left running, and killed: " + ", ".join(f"{name} ({count} times)" for name, count in Counter(left).items()))
    lines.append("")
    if verdict.by_stack:
        lines += [f"LEAKED: {total(verdict.by_stack)} from {len(verdict.by_stack)} stacks, each alive in at least "
                  f"{min(2, repeat)} of {repeat} runs", ""]
        for group in verdict.by_stack:
            lines += describe(group, places) + [""]
    for together in verdict.by_function:
        marks = set().union(*(group.marks for group in together))
        lines += [f"LEAKED: {total(together)} of {together[0].name} by {together[0].function}, from "
                  f"{len(together)} stacks, alive in {len(marks)} of {repeat} runs", ""]
        for group in together:
            lines += describe(group, places) + [""]
    lines += accusations(verdict, named, lambda group: describe(group, places))
    for one in verdict.by_counts:
        lines += describe_accusation(one, named + lost, places, traced=bool(dump)) + [""]
    if verdict.others:
        lines += [f"not repeated (not counted): {len(verdict.others)} stacks", ""]
        for group in verdict.others:
            lines += describe(group, places) + [""]
    if verdict.hidden:
        lines.append("hidden (not counted):")
        for one in verdict.hidden:
            growths = "".join(f"; {growth}" for growth in one.growths)
            lines.append(f"    {one.objects} objects, {one.bytes} bytes from {len(one.groups)} stacks{growths}: {one.why}")
        lines.append("")
    if verdict.doubts and verdict.status != UNKNOWN:
        lines += [NOT_KNOWN, *(f"    {doubt}" for doubt in verdict.doubts), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def memory_report(command, before, after):
    """Returns the report for a test in which memory ran out before a judgement. `before` and `after`: counts from the first and the last kmemstat."""
    lines = [*heading(UNKNOWN, command, ["memory ran out, so nothing can be judged"]), "what grew most until memory ran out:"]
    most = [f"    {size} bytes in {objects} allocations of {name}" for size, objects, name in grown(before, after)[:GROWTH_SHOWN]]
    lines += most or ["    it is not known: nothing could be counted any more"]
    return "\n".join(lines) + "\n"


def facts(verdict, repeat, untraced):
    """Returns the verdict as data for the JSON report. Stacks have names of functions without addresses, because the report may be the baseline of a
    later run with another kernel."""
    def leak(judge, group):
        return {"by": judge, "name": group.name, "bytes": group.bytes, "objects": len(group.records), "stack": list(functions_of(group)),
                "kept_by": [{"references": len(taken.records), "stack": list(functions_of(taken)), "lines": source_lines_of(taken.frames),
                             "places": [place for _, place in taken.places]}
                            for taken in group.references] + kept_facts(group),
                **({"places": [place for _, place in group.places]} if group.kind == "references" else {}), **leak_frees.facts(group),
                "lines": source_lines_of(group.frames), "marks": sorted(group.marks)}

    return {"traced_runs": repeat, "untraced_runs": untraced.runs,
            "leaks": [leak("stack", group) for group in verdict.by_stack]
            + [leak("function", group) for together in verdict.by_function for group in together],
            "growths": [{"name": one.growth.name, "objects": one.growth.objects, "bytes": one.growth.bytes, "runs": one.growth.runs,
                         "looks": one.growth.looks, "by_time": one.growth.by_time, "alive": [leak("counts", group) for group in one.groups]}
                        for one in verdict.by_counts],
            "unreachable": unreachable_facts(verdict),
            "not_repeated": [leak("nobody", group) for group in verdict.others],
            "hidden": [{"why": one.why, "objects": one.objects, "bytes": one.bytes, "growths": [growth.name for growth in one.growths]}
                       for one in verdict.hidden],
            "doubts": verdict.doubts}


def printable(text):
    """Replaces characters that are not UTF-8, or not allowed in XML, by question marks."""
    cleaned = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(c if c in "\t\n" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff" else "?" for c in cleaned)


def as_json(results):
    commands = [{"command": printable(result.command), "status": STATUS_NAMES[result.status], "seconds": round(result.seconds, 1),
                 **({"why": printable(result.why)} if result.why else {}), **result.facts} for result in results]
    return json.dumps({"commands": commands}, indent=1) + "\n"


def reason(result):
    """Returns the line of the report that gives the reason of the verdict: the first finding, or what is not known."""
    lines = result.text.splitlines()
    findings = [line for line in lines if line.startswith("LEAKED")]
    not_known = lines[lines.index(NOT_KNOWN) + 1:] if NOT_KNOWN in lines else []
    return result.why or next(iter([*findings, *not_known]), "").strip()


def as_junit(results):
    """Returns the results in JUnit's format: a leak is a failure, an unknown verdict is an error."""
    counts = Counter(result.status for result in results)
    suite = ElementTree.Element("testsuite", name="leaktest", tests=str(len(results)), failures=str(counts[LEAKED]), errors=str(counts[UNKNOWN]))
    for result in results:
        case = ElementTree.SubElement(suite, "testcase", classname="leaktest", name=printable(result.command), time=f"{result.seconds:.1f}")
        if result.status != CLEAN:
            kind = "failure" if result.status == LEAKED else "error"
            ElementTree.SubElement(case, kind, message=printable(reason(result))).text = printable(result.text or result.why)
    return ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True).decode() + "\n"


def list_report(status, results):
    """Returns the report of several commands: the verdict on all of them, a line for each command, then the full reports of commands that are not
    clean."""
    counts = Counter(result.status for result in results)
    lines = [VERDICTS[status], f"{counts[CLEAN]} clean, {counts[LEAKED]} leak, {counts[UNKNOWN]} unknown", ""]
    lines += [f"{VERDICTS[result.status]:8} {result.command}" for result in results]
    for result in results:
        if result.status != CLEAN:
            lines += ["", "-" * 80, "", result.text.rstrip("\n")]
    return "\n".join(lines) + "\n"
