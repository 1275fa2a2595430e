"""The leak test names what keeps objects to which pointers still lead. The leaks are planted: kern/proc/kept_planted.cc and ref_planted.cc."""
import json
import re

import pytest

from guest import ROOT, Result, guest, leaktest
from lost_at_test import tool

pytestmark = pytest.mark.cpus(1)
PLANTED = "kern/proc/kept_planted.cc"


def line_of(text, file=PLANTED):
    """Returns the number of the only line of a file with this text."""
    [number] = [number for number, line in enumerate((ROOT / file).read_text().splitlines(), 1) if text in line]
    return number


# For each planted bug: the keeper with the line that declares it (or None), its kind and entry, the
# function and the line that store an entry (None: not known), and the path.
KEPT = {
    "kept_list": ("visits", "constinit List<Visit,", "a List", "of Visit (24 bytes)", ("visits_add", "visits.push_back"),
                  r"visits\.head_\.(next|prev) → Visit"),
    "kept_hash": ("cookies[]", "constinit Cookie* cookies", "an array of chains", "of Cookie (16 bytes)", ("cookies_add", "bucket = cookie;"),
                  r"cookies\[\d\] → Cookie"),
    "kept_slots": ("Mailbox .letters[]", None, "an array", "of Letter (40 bytes)", ("letters_add", "mailbox->letters[mailbox->count++]"),
                   r"mailbox → Mailbox \.letters\[\d+\] → Letter"),
    "kept_tree": ("leaves", "constinit Leaf* leaves", "a tree", "of Leaf (24 bytes)", None, r"leaves → Leaf \.(left|right) → .*Leaf"),
    "kept_chain": ("Journal .last", None, "a chain", "of Undo (48 bytes)", ("undos_add", "journal->last = undo"), r"journal → Journal \.last → Undo"),
    "kept_field": ("Guest .badge", None, r"a field of \d+ objects", "of Badge (24 bytes)", ("badges_add", "guest.badge = make"),
                   r"guests\.head_\.next → (Guest \.link\.next → )+Guest \.badge → Badge"),
    "kept_words": ("shelf → kmalloc_1792", "constinit void* shelf", "an array", "of kmalloc_48 (40 bytes)", None,
                   r"shelf → kmalloc_1792 \+0x[0-9a-f]+ → kmalloc_48"),
}
IN_SHORT = ("kept_list", "kept_slots")


def kept_pattern(name, declared, kind, growth, stored, path, file=PLANTED):
    where = re.escape(f" ({file}:{line_of(declared, file)})") if declared else ""
    at = rf" +appended at {stored[0]}\+0x[0-9a-f]+  {re.escape(file)}:{line_of(stored[1], file)}\n" if stored else ""
    return rf"^    kept by   {re.escape(name)}{where}, {kind}: {re.escape(growth)}\n( +its entries are .*\n)?{at} +shortest path: {path}\n"


@pytest.mark.parametrize("bug", [bug if bug in IN_SHORT else pytest.param(bug, marks=pytest.mark.long) for bug in KEPT])
def test_the_field_that_keeps_objects_is_named(bug, tmp_path):
    """A wrong type, count or field would be seen here, and also a keeper that is one of the leaked entries."""
    name, declared, kind, entry, stored, path = KEPT[bug]
    result = leaktest("cd /tmp", "--quick", "--variant", "debug", "--cmdline", f"break={bug}", "--report", tmp_path / "report.txt", kept_by=True)
    assert result.status == 1, result
    assert re.search(kept_pattern(name, declared, kind, f"+1 entry a run, {entry}", stored, path), result.stdout, re.M), result
    assert result.stdout.count("kept by ") == 1, result
    [leak] = json.loads((tmp_path / "report.json").read_text())["commands"][0]["leaks"]
    [kept] = leak["kept_by"]
    assert (kept["field"], kept["counts"][1] - kept["counts"][0], kept["runs"]) == (name, 5, 5), kept
    page = tmp_path / "report.html"  # made where npm is
    if bug == "kept_list" and page.exists():
        assert f"{kept['text']}; shortest path: {name.partition(' ')[0][:4]}" in page.read_text()


def test_what_swings_is_not_called_growth():
    """The last three entries are alive at any time. So the trace accuses the stack, but no field gains entries."""
    result = leaktest("cd /tmp", "--quick", "--variant", "debug", "--cmdline", "break=kept_ring", kept_by=True)
    assert re.search(rf"^    kept by   recent\[\] \({PLANTED}:\d+\), an array: entries come and go: 3 after 5 runs, 3 after 10\n", result.stdout, re.M), result
    assert "a run, of" not in result.stdout, result


@pytest.mark.long
@pytest.mark.parametrize("bug, command, name, file", [("kept_vector", "cd /tmp", "numbers", PLANTED),
                                                      ("reallocation", "ls / | cat", "table", "kern/drivers/dev/pipe_planted.cc")])
def test_an_object_that_is_reallocated(bug, command, name, file):
    """kept_vector doubles, so that after many runs only a run in hundreds reallocates it."""
    result = leaktest(command, "--variant", "debug", "--cmdline", f"break={bug}", kept_by=True)
    assert result.status == 1, result
    sizes = re.search(rf"^    kept by   {name} \({file}:\d+\), a pointer: the object is reallocated, (\d+) bytes after \d+ runs, (\d+) after \d+\n",
                      result.stdout, re.M)
    assert sizes and int(sizes[1]) < int(sizes[2]), result


REF_PLANTED = "kern/proc/ref_planted.cc"


@pytest.mark.long
def test_a_channel_that_a_list_holds():
    """The leaked object is not an entry itself. The entries have a stack of their own."""
    result = leaktest("cd /tmp", "--quick", "--variant", "debug", "--cmdline", "break=ref_list", kept_by=True)
    chan = result.stdout[result.stdout.index(" of chan from stack"):]
    chan = chan[:chan.index("\n\n")] + "\n"
    assert re.search(kept_pattern("visited", "constinit List<Visited,", "a List", "+1 entry a run, of Visited (32 bytes)",
                                  ("planted_directory_changed", "visited.push_back"), r"visited\.head_\.\w+ → Visited \.directory → Chan", REF_PLANTED), chan, re.M), result
    assert f"its entries are allocated at planted_directory_changed+0x" in chan, result


@pytest.mark.long
def test_what_a_table_of_references_holds():
    """Address spaces, their regions, and their pages, to which only page tables lead."""
    result = leaktest("cat /proc/self/cmdline", "--quick", "--variant", "debug", "--cmdline", "break=ref_static", kept_by=True)
    for path in (r"AddressSpace", r"AddressSpace \.regions_\.head_\.\w+ → VmRegion", r"AddressSpace, by its walker → pages"):
        assert re.search(rf"^    kept by   spaces_read\[\]\.object \({REF_PLANTED}:\d+\), an array: \+1 entry a run, of AddressSpace \(216 bytes\)\n"
                         rf"(.*\n)? +shortest path: spaces_read\[\d+\]\.object → {path}\n", result.stdout, re.M), result


@pytest.mark.long
def test_what_a_task_holds_on_its_stack():
    result = leaktest("cd /tmp", "--quick", "--variant", "debug", "--cmdline", "break=ref_task", kept_by=True)
    assert re.search(r"^    kept by   the kernel stack of task directory, in keep_directory, a pointer: \+1 entry a run, of Chan \(264 bytes\)\n", result.stdout, re.M), result
    assert re.search(r"^    kept by   never\.waiters_ \(.*\), a List: \+1 entry a run, of Task ", result.stdout, re.M), result


@pytest.mark.long
def test_what_a_tree_of_timers_holds():
    """Nodes of the tree may be on stacks of tasks that sleep, so that the path to an object leads over a stack."""
    result = leaktest("cd /tmp", "--quick", "--variant", "debug", "--cmdline", "break=ref_timer", kept_by=True)
    assert re.search(r"^    kept by   queues\[\]\.timers\.root_ \(kern/sched/timer\.cc:\d+\), an array\b.*: \+1 entry a run, of \w+ \(88 bytes\)\n(.*\n)?"
                     r" +shortest path: queues\[\d+\]\.timers\.root_ → (the kernel stack .* → )?(Timer|kmalloc_96).* → Chan\n", result.stdout, re.M), result


def test_a_file_that_each_run_leaves():
    """No planted bug: the list is a field of an object that is no variable."""
    result = leaktest(": > /tmp/file.$$", "--quick", kept_by=True)
    assert re.search(r"^    kept by   tmp::Node \.children, a List: \+1 entry a run, of tmp::Entry \(\d+ bytes\)\n +its entries are allocated at .*Entry::make.*\n"
                     r" +shortest path: device\.root_\.object → tmp::Node \.children\.head_\.prev → tmp::Entry \.node → tmp::Node\n", result.stdout, re.M), result


def test_what_nobody_can_reach_is_kept_by_nothing():
    result = leaktest("leakdemo leak 2", "--quick", kept_by=True)
    assert (result.status, "kept by" in result.stdout) == (1, False), result


def test_the_memory_of_several_moments(tmp_path):
    """scripts/guest --cores writes a core whenever the script asks for one, and the script goes on."""
    result = tool("guest", "--mem", "64M", "--smp", "1", "--cores", str(tmp_path / "core"), "-c",
                  "for i in 1 2 3; do echo pause > '#debug/ctl'; echo $i; done; exit 7")
    assert (result.status, result.stdout) == (7, "1\n2\n3\n"), result
    assert sorted(path.name for path in tmp_path.iterdir()) == ["core.0", "core.1", "core.2"]


def test_a_machine_without_the_device_does_not_pause():
    assert guest("echo pause > '#debug/ctl'; echo on").stdout == "on\n"


@pytest.mark.parametrize("options", [["--core", "x"], ["--replay", "x"]])
def test_options_that_do_not_fit(options):
    result = tool("guest", "--cores", "y", *options, "-c", "true")
    assert (result.status, result.stderr) == (125, "guest: --cores excludes --core and --replay (scripts/guest --help)\n")
    assert isinstance(result, Result)
