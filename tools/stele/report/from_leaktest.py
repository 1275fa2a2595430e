"""Makes a Profile of the objects that `make leaktest` accuses, from its report.json. The Profile has kernel stacks, but no user stacks, processes
or ages."""
import json

from stele.report.lookup import frame_of
from stele.report.profile import Amount, Key, Profile, ReportError, Source


def is_report(text):
    return text.lstrip()[:1] == "{" and '"commands"' in text


def read(path, text):
    """Parses the text of report.json to a Profile. Raises ReportError."""
    try:
        results = json.loads(text)["commands"]
        profile = Profile(str(path))
        for result in results:
            add(profile, result)
        return profile
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ReportError(f"{path}: not a whole report of the leak test in JSON") from error


def add(profile, result):
    command = str(result["command"])
    if "why" in result:
        profile.incomplete.append(f"{command}: {result['why']}")
    profile.incomplete += [f"{command}: {doubt}" for doubt in result.get("doubts", ())]
    shown, keys = set(), set()
    for leak in (*result.get("leaks", ()), *(group for growth in result.get("growths", ()) for group in growth["alive"])):
        shown.add(str(leak["name"]))
        add_leak(profile, leak, keys)
    for lost in result.get("unreachable", ()):
        if not lost["stack"] and lost["name"] not in shown:
            profile.incomplete.append(f"{command}: nobody can reach {number(lost['objects'])} objects of {lost['name']}: no stack is known")
        elif lost["stack"]:
            add_leak(profile, lost, keys)
    profile.incomplete += [f"{command}: {growth['name']} grew by {number(growth['objects'])} objects: no stack is known"
                     for growth in result.get("growths", ()) if not growth["alive"]]


def number(value):
    """Returns `value`. Raises TypeError if it is not an integer, because JSON may have any value."""
    if type(value) is not int:
        raise TypeError(f"{value!r} is no number of objects or bytes")
    return value


def add_leak(profile, leak, keys):
    """Adds the objects of an accused stack. If several judges of the leak test accuse the same stack, the objects are added once per command. `keys`:
    the Keys that were already added for this command."""
    name, functions, lines = str(leak["name"]), leak["stack"], leak["lines"]
    if len(functions) != len(lines):
        raise ValueError("a stack without its lines")
    key = Key(name, tuple(frame_of(str(function), str(line)) for function, line in zip(functions, lines)))
    amount = Amount(number(leak["objects"]), number(leak["bytes"]))
    if key in keys:
        return
    keys.add(key)
    profile.add(key, amount)
    profile.sources.setdefault(name, Source(name, "references" if name.startswith("ref.") else ""))
    held = [str(kept["text"]) for kept in leak.get("kept_by", ()) if "field" in kept]
    held += [f"{number(taken['references'])} references taken by {', '.join(map(str, taken['stack'][:1]))}"
             for taken in leak.get("kept_by", ()) if "references" in taken]
    if held:
        profile.holders[key] += held
