"""Tests the commands that are written to the files of #mem/kmemtrace, with their effects and error messages. Also tests traces that begin at boot."""
import re

import pytest

from guest import checked, ctl_in, dumps_in, guest, sections_of

pytestmark = [pytest.mark.cpus(1), pytest.mark.shares]


@pytest.fixture(scope="module")
def section():
    """Runs one script in a guest. Returns {section of the script: output}."""
    output = checked("""
t='#mem/kmemtrace/debug_64'
section() { echo "== $1"; }
section off; cat "$t"
section stop_when_off; echo stop > "$t" && echo succeeded
section twice; echo start > "$t"; echo start > "$t" && echo succeeded
section other_options; { echo 'start depth=4' > "$t" || echo refused; } 2>&1
section marks
echo 'leak debug_64 3' > #debug/alloc; echo mark > "$t"
echo 'leak debug_64 4' > #debug/alloc; echo mark > "$t"; echo mark > "$t"
echo 'leak debug_64 5' > #debug/alloc
cat "$t"
section untraced; echo stop > "$t"; echo 'leak debug_64 7' > #debug/alloc; cat "$t"
section goes_on; echo start > "$t"; echo 'leak debug_64 1' > #debug/alloc; cat "$t"
section ctl; cat #mem/kmemtrace/ctl
section reset_while_running; echo reset > "$t"; echo 'leak debug_64 2' > #debug/alloc; cat "$t"
section reset; printf 'stop\\nreset\\n' > "$t"; cat "$t"
section notrace; { echo start > #mem/kmemtrace/kmem_slab || echo refused; } 2>&1; cat #mem/kmemtrace/kmem_slab
section all; echo start > #mem/kmemtrace/ctl; echo 'leak debug_1024 6' > #debug/alloc; echo settle > #mem/kmemtrace/ctl
echo stop > #mem/kmemtrace/ctl; cat #mem/kmemtrace/debug_1024
section none; echo reset > #mem/kmemtrace/ctl; cat #mem/kmemtrace/ctl
section later; echo 'start depth=5 min=50' > #mem/kmemtrace/ctl; cat #mem/kmemtrace/ctl
echo 'cache fresh 100 3' > #debug/alloc; cat #mem/kmemtrace/fresh
section next_of_the_name; echo 'cache fresh 60 1' > #debug/alloc; echo 'destroy fresh' > #debug/alloc
echo 'cache fresh 70 2' > #debug/alloc; cat #mem/kmemtrace/fresh.2 #mem/kmemtrace/fresh
section ended; echo stop > #mem/kmemtrace/ctl; cat #mem/kmemtrace/ctl; echo 'cache fresh 100 1' > #debug/alloc; cat #mem/kmemtrace/fresh.3
section errors
for line in 'cache fresh' 'cache fresh 0 1' 'cache fresh 65537 1' 'cache a/b 1 1' 'cache fresh 1 -1' 'cache fresh 1 1 1' 'destroy chan' 'destroy none' destroy
do echo "$line" > #debug/alloc || echo refused; done 2>&1
""")
    return sections_of(output)


def dump_in(text):
    [dump] = dumps_in(text)
    assert dump.broken_identities() == [], text
    return dump


def test_what_is_not_traced_says_so(section):
    assert "off" in section["off"]
    assert "start" in section["off"]


def test_a_second_start_or_stop_succeeds(section):
    assert section["stop_when_off"] == section["twice"] == "succeeded\n"


def test_start_with_other_options_is_busy(section):
    assert re.search(r"busy: .*depth=32: stop it first\nrefused", section["other_options"])


def test_marks(section):
    dump = dump_in(section["marks"])
    assert dump.header["mark"] == "3"
    objects = {0: 3, 1: 4, 3: 5}
    assert dump.counters["live"] == sum(objects.values())
    for mark, number in objects.items():
        assert section["marks"].count(f" mark {mark} cpu") == number
    assert set().union(*(group.marks for group in dump.groups)) == {0, 1, 3}


def test_what_is_allocated_after_stop_is_untracked(section):
    dump = dump_in(section["untraced"])
    assert (dump.header["state"], dump.counters["seen"], dump.counters["untracked"]) == ("stopped", 12, 7)


def test_start_after_stop_keeps_what_there_is(section):
    dump = dump_in(section["goes_on"])
    assert (dump.counters["live"], dump.counters["untracked"]) == (13, 7)


def test_ctl_shows_what_is_traced(section):
    memory, [trace] = ctl_in(section["ctl"])
    assert (trace.name, trace.header["state"], trace.counters["live"]) == ("debug_64", "running", 13)
    assert memory["used"] > 0
    assert memory["limit"] > memory["used"]


def test_reset_while_running_goes_on(section):
    dump = dump_in(section["reset_while_running"])
    assert (dump.header["state"], dump.counters["live"]) == ("running", 2)


def test_reset_ends_the_trace(section):
    assert "off" in section["reset"]
    assert dumps_in(section["reset"]) == []


def test_a_cache_that_is_not_to_be_traced_says_why(section):
    assert re.search(r"kmem_slab cannot be traced: .*\nrefused", section["notrace"])


def test_all_at_once(section):
    dump = dump_in(section["all"])
    assert dump.counters["live"] == 6
    memory, traces = ctl_in(section["none"])
    assert (memory["used"], traces) == (0, [])


def test_a_start_of_all_holds_for_what_is_made_later(section):
    assert "\nlater all depth 5 min 50\n" in section["later"]
    dump = dump_in(section["later"][section["later"].index("kmemtrace fresh "):])
    assert (dump.header["state"], dump.header["depth"], dump.counters["recorded"], dump.counters["untracked"]) == ("running", "5", 3, 0)


def test_the_next_cache_of_the_name_is_another(section):
    """A cache that is created while another one has the same name is traced as NAME.2. A cache that is created after the first was destroyed is
    traced as NAME. Each has a separate trace."""
    beside, after = dumps_in(section["next_of_the_name"])
    assert (beside.name, beside.counters["live"], beside.counters["bytes"], beside.counters["untracked"]) == ("fresh.2", 1, 60, 0)
    assert (after.name, after.counters["live"], after.counters["bytes"], after.counters["untracked"]) == ("fresh", 2, 140, 0)


def test_until_all_are_stopped(section):
    assert "later" not in section["ended"]
    assert "kmemtrace fresh.3 state off" in section["ended"]


def test_caches_that_cannot_be_made_or_destroyed(section):
    assert section["errors"].count("refused\n") == 9, section["errors"]
    assert "chan is not a cache that was made here" in section["errors"]


# --- Tracing from boot on.


def test_all_from_boot_on():
    """With trace=all, all live objects of chan have records, because no object was allocated before the trace began. The records of the shell's
    objects have stacks."""
    result = guest("cat #mem/kmemtrace/chan #mem/kmemtrace/ctl", "--cmdline", "trace=all")
    assert result.status == 0, result
    shown, _, states = result.stdout.partition("limit ")
    [dump] = dumps_in(shown)
    assert (dump.header["state"], dump.counters["untracked"], dump.broken_identities()) == ("running", 0, []), result
    assert dump.counters["live"] >= 8
    assert re.search(r"\tpath_open\+0x.*\n(\t.*\n)*\tage .*, contexts .*pid \d+ sh\b", result.stdout), result
    memory, traces = ctl_in("limit " + states)
    assert "\nlater all depth 32\n" in states
    assert memory["untraced"] == 0
    # Of the caches that can be traced, only kmem_cache has objects that were allocated before the tracer existed.
    assert {trace.name for trace in traces if trace.counters["untracked"] > 0} == {"kmem_cache"}, result


def test_named_ones_from_boot_on():
    """Each item of trace=… has separate options. A cache that does not exist yet is traced when it is created. The log reports an invalid item, and
    the other items take effect."""
    items = "debug_64,debug_1024:depth=16:sample=512K,fresh:depth=3,nope:dpeth=1,,kmem_slab:,chan"
    result = guest("""
cat #mem/kmemtrace/ctl
echo 'cache fresh 100 2' > #debug/alloc; echo 'cache other 100 2' > #debug/alloc; echo 'cache nope 100 2' > #debug/alloc
cat #mem/kmemtrace/fresh #mem/kmemtrace/other #mem/kmemtrace/nope
printf 'stop\\nreset' > #mem/kmemtrace/ctl; echo 'cache fresh 100 2' > #debug/alloc; cat #mem/kmemtrace/fresh.2 #mem/kmemtrace/ctl
""", "--cmdline", f"trace={items}", log=False)
    assert result.status == 0, result
    _, traces = ctl_in(result.stdout)
    assert {(trace.name, trace.header["depth"], trace.header.get("sample")) for trace in traces} == {
        ("debug_64", "16", "524288"), ("debug_1024", "16", "524288"), ("chan", "32", None)}, result
    assert re.findall(r"^later .*", result.stdout, re.M) == [
        "later debug_64 depth 16 sample 524288", "later debug_1024 depth 16 sample 524288", "later fresh depth 3", "later kmem_slab depth 32",
        "later chan depth 32"]
    [fresh] = dumps_in(result.stdout[result.stdout.index("kmemtrace fresh "):])
    assert (fresh.counters["recorded"], fresh.counters["untracked"]) == (2, 0), result
    for name in ("other", "nope", "fresh.2"):
        assert f"kmemtrace {name} state off" in result.stdout, result
    said = re.findall(r"trace=[^\r\n]*", result.stderr)[1:]  # without the line that shows the command line itself
    assert said == ['trace=nope: "dpeth=1": start takes depth=N, sample=N, min=N, max=N, pid=N and frees',
                    'trace=: no cache or arena can have that name, and it is not "all"',
                    "trace=kmem_slab: it cannot be traced: the allocator or the tracer itself lives on it",
                    "trace=fresh: no cache, arena or class of references has this name so far"], result


@pytest.mark.cpus(4)
def test_all_cpus_trace_from_boot_on():
    """Allocations are also recorded on CPUs that start after tracing has begun."""
    result = guest("for i in 1 2 3 4 5 6 7 8; do ls / | cat > /dev/null & done; wait; cat #mem/kmemtrace/ctl", "--cmdline", "trace=pipe_buffer,kmalloc_16,task")
    _, traces = ctl_in(result.stdout)
    assert len(traces) == 3
    for trace in traces:
        assert (trace.counters["untracked"], trace.counters["unmatched"]) == (0, 0), result


REFERENCES = "ref.chan", "ref.namespace", "ref.address_space", "ref.tmp_node", "ref.pty"


@pytest.mark.parametrize("cpus", ("1", "2", pytest.param("4", marks=pytest.mark.cpus(4)), pytest.param("64", marks=pytest.mark.cpus(4))))
def test_references_are_traced_from_boot_on_with_any_number_of_cpus(cpus):
    """Would find a CPU that starts after the traces and does not get their flags: it records no reference that it takes, and keeps the records of
    those that it puts. A trace by command, for comparison, follows in the same guest."""
    work = "for i in 1 2 3 4 5 6 7 8; do ls / | cat > /dev/null & done; wait; cd /tmp; echo a > file; rm file; cd /"
    result = guest(f"""
{work}; echo settle > #mem/kmemtrace/ctl
cat #mem/kmemtrace/ctl; echo ---; cat #mem/kmemstat; echo ---
printf 'stop\nreset\nrefs\n' > #mem/kmemtrace/ctl
{work}; echo settle > #mem/kmemtrace/ctl
cat #mem/kmemtrace/ctl
""", "--smp", cpus, "--cmdline", f"trace=all,{','.join(REFERENCES)}")
    assert result.status == 0, result
    from_boot, stat, by_command = result.stdout.split("---\n")
    live = {line.split()[0]: int(line.split()[5]) for line in stat.splitlines() if line.startswith("ref.")}
    traces = {trace.name: trace.counters for trace in ctl_in(from_boot)[1]}
    assert {name for name, counters in traces.items() if counters["untracked"] > 0} == {"kmem_cache"}, result
    for name in REFERENCES:
        counters = traces[name]
        assert (counters["unmatched"], counters["dropped"], counters["live"]) == (0, 0, live[name]), (name, result)
    later = {trace.name: trace.counters for trace in ctl_in(by_command)[1]}
    for name in REFERENCES:
        assert later[name]["live"] + later[name]["untracked"] == live[name], (name, result)


def test_a_command_line_that_names_nothing():
    for word in ("trace", "trace="):
        result = guest("cat #mem/kmemtrace/ctl", "--cmdline", word, log=False)
        assert "trace= names nothing: a cache, an arena or all is expected" in result.stderr, result
        assert ctl_in(result.stdout)[1] == [], result
