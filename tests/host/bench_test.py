"""Tests the scripts of bench/: they parse the guest's output and a disassembly, and compare counts with earlier counts."""
import json

import pytest

import bench
import counts
import loads
import scale
import stretches
import where

LISTING = """
ffffffff80100f70 <kmem_cache_free>:
ffffffff80100f70:	test   %rsi,%rsi
ffffffff80100f73:	je     ffffffff80100fd0 <kmem_cache_free+0x60>
ffffffff80100f98:	testb  $0x2,0x181(%rax)
ffffffff80100f9f:	jne    ffffffff80100fd1 <kmem_cache_free+0x61>
ffffffff80100fa1:	mov    0x184(%rax),%edx
ffffffff80100fcb:	ret
ffffffff80100fd1:	testb  $0x2,0x181(%rax)
"""


def test_rows():
    assert counts.parse("untraced 65.00\ndump 3257.32\n") == {"untraced": 65.0, "dump": 3257.32}
    with pytest.raises(ValueError):
        counts.parse("cat: out of memory\n")


def test_flag_tests_are_those_of_the_path():
    path = counts.path_of(LISTING)
    assert len(path) == 6
    assert counts.flag_tests(path) == 2
    with pytest.raises(ValueError):
        counts.flag_tests(path[:2])


def test_what_is_worse():
    baseline = {"untraced": 65.0, "traced": 300.0}
    assert counts.worse(baseline, baseline) == []
    assert counts.worse({"untraced": 60.0, "traced": 305.9}, baseline) == []
    assert counts.worse({"untraced": 70.0, "traced": 300.0}, baseline) == ["untraced: 70, and it was 65"]
    assert counts.worse({"untraced": 65.0}, baseline) == ["traced: not counted any more"]
    assert counts.worse(baseline | {"more": 1.0}, baseline) == ["more: the baseline has no such row"]


def test_a_load_may_get_worse_by_a_few_tenths_of_a_point():
    before = {"short_load_file_on": 20.0, "short_load_file_stopped": 0.5}
    assert counts.worse({"short_load_file_on": 20.2, "short_load_file_stopped": 0.7}, before) == []
    assert counts.worse({"short_load_file_on": 20.4, "short_load_file_stopped": 0.9}, before) == [
        "short_load_file_on: 20.4, and it was 20", "short_load_file_stopped: 0.9, and it was 0.5"]


def load_program(folder, text):
    """Writes a fake scripts/guest below `folder`: a shell script that sets $script to its last argument and then executes `text`. The last argument
    is the guest's script."""
    path = folder / "scripts/guest"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\nfor script; do :; done\n" + text)
    path.chmod(0o755)


POWER_OFF = "echo \"[    0.100000] power off after ${#script} ticks of the time stamp counter\" >&2\n"


def test_a_load_is_what_it_adds_to_a_guest_without_it(tmp_path, monkeypatch):
    load_program(tmp_path, POWER_OFF)
    monkeypatch.setattr(loads, "ROOT", tmp_path)
    counted = loads.instructions(loads.Guest(build=True), ["untraced", "on"], {"pipeline": 300})
    length = len(loads.script("pipeline", "untraced", 300)) - len(loads.script("pipeline", "untraced", 0))
    assert counted == {("pipeline", "untraced"): length, ("pipeline", "on"): length}
    assert loads.added(counted) == {"load_pipeline_on": 0.0}
    assert loads.added({("file", "untraced"): 200, ("file", "on"): 230}) == {"load_file_on": 15.0}


def test_a_load_of_a_program_is_what_its_rounds_add(monkeypatch):
    """Each state is compared with itself, without rounds."""
    def run(guest, script):
        assert guest.ports == ("tests",)
        start, rounds = script.splitlines()[1:]
        return "", 1000 + 700 * bool(start) + int(rounds.split()[-1]) * (12 if "depth=64" in start else 11 if start else 10)

    monkeypatch.setattr(loads.Guest, "run", run)
    counted = loads.measure_programs(build=False)
    assert counted["pipes", "untraced"] == 3000 * 10 and counted["stacks", "on"] == 3000 * 11
    assert counted.keys() <= {(load, state) for load in loads.PROGRAMS for state in loads.STATES}
    values = loads.added(counted)
    assert values["load_pipes_on"] == values["load_ring_on"] == 10 and values["load_pipes_depth_64"] == 20


def test_the_load_of_the_sweeper_is_compared_with_one_without_records(monkeypatch):
    def run(_, script):
        return "", 1000 + (f"-lt {loads.SWEEP_ROUNDS} " in script) * (500 if f"leak debug_64 {loads.SWEEP_RECORDS}" in script else 400)

    monkeypatch.setattr(loads.Guest, "run", run)
    assert loads.measure_sweeps(loads.Guest()) == {"load_sweeps": 1.25}
    assert bench.missed({"load_sweeps": 1.25}) == ["load_sweeps: 1.25, and the target is 1.1"]


@pytest.mark.parametrize("text", ("exit 1\n", "true\n", POWER_OFF + "echo 'cat: out of memory' >&2\n", POWER_OFF + "exit 134\n"))
def test_a_load_that_fails_is_no_count(tmp_path, monkeypatch, text):
    load_program(tmp_path, text)
    monkeypatch.setattr(loads, "ROOT", tmp_path)
    with pytest.raises(RuntimeError):
        loads.Guest().run("true")


def test_every_row_of_the_loads_is_explained():
    assert set(loads.rows()) <= {row[0] for row in bench.ROWS}
    for file in counts.BASELINES.iterdir():
        assert set(loads.short_rows()) <= json.loads(file.read_text()).keys(), file


class FakeKernel:
    """A kernel of two functions. "caller" is at 0xf00, and from 0xf10 on its code is inlined from b.cc. "other" is at 0xf20, in b.cc."""

    def learn(self, addresses):
        pass

    def function(self, address):
        return ("caller" if address < 0xf20 else "other"), address in (0xf00, 0xf20)

    def file(self, address):
        return "kern/src/a.cc" if address < 0xf10 else "kern/src/b.cc"


def test_where_the_instructions_are():
    before = {where.PROGRAMS: 1000, 0xf00: 10, 0xf20: 5}
    after = where.less(where.parse("0 1000\nf00 30\nf10 20\nf20 25\n"), {})
    lines = where.report(FakeKernel(), "file", "on", 7, before, after, {"contexts": 3, "seen": 12}, {"chan": 4, "page": 2})
    text = "\n".join(" ".join(line.split()) for line in lines)
    assert "1,015 instructions untraced, 60 added: +5.9 %" in text
    assert "12 allocations seen, 5 instructions each, 6 records, contexts +3" in text
    assert "of chan 4, page 2" in text
    assert "kern/src/b.cc 40 3.94" in text and "kern/src/a.cc 20 1.97" in text
    assert "caller 40 3.94 20" in text and "other 20 1.97 20" in text


def test_places_of_interrupts():
    """Flags that a function has saved are not those that a trap has saved. Entries of traps have no instruction of their own to find."""
    kernel = stretches.Kernel([(0x1000, "trap_entries_start"), (0x2000, "trap_entry"), (0x2100, "system_call_entry"), (0x2200, "probe_entry"),
                               (0x2300, "reach::world_stopped"), (0x2400, "slab_trace_alloc")])
    text = kernel.places("""
  2008:	popf
  200c:	iretq
  2104:	sti
  2201:	cli
  2280:	popf
  2301:	mov    %rax,(%rdi)
""")
    places = {address: (kind, function) for address, kind, function in map(str.split, text.splitlines())}
    assert len(places) == 256 + 3 + 5 and list(places) == sorted(places, key=lambda address: int(address, 16))
    assert places["2008"][0] == places["200c"][0] == "r" and places["2280"] == ("f", "2200")
    assert [places[address][0] for address in ("2104", "2201", "2100", "2300", "2400", "1000", "1ff0")] == ["i", "o", "c", "s", "b", "t", "t"]


def test_figures_say_what_misses_its_target():
    figures = bench.figures({"untraced": 70.0, "traced": 249.0, "host_share_of_control": 0.8, "dump_binary": 5.0}, {})
    assert [(row["name"], row["target"], row["ok"]) for row in figures] == [("untraced", 62, False), ("traced", 330, True), ("dump_binary", None, True),
                      ("host_share_of_control", 0.9, False)]
    assert all(row.keys() == {"name", "value", "unit", "target", "ok"} for row in figures)
    assert "MISSED" in bench.table({"untraced": 70.0}, {})


def test_a_row_that_was_not_measured_says_why():
    values = {row[0]: 1.0 for row in bench.ROWS}
    assert bench.unmeasured(values, {}, counts_only=False) == {}
    del values["dump"], values["host_untraced"]
    assert bench.unmeasured(values, {"host_untraced": "busy"}, counts_only=False) == {"dump": "nothing measured it", "host_untraced": "busy"}
    assert bench.unmeasured(values, {}, counts_only=True) == {"dump": "nothing measured it"}
    table = bench.table({"untraced": 70.0}, {"dump": "busy"}).splitlines()
    assert len(table) == 3 and "MISSED" in table[1] and "not measured: busy" in table[2]
    assert bench.figures({"untraced": 60.0}, {"dump": "busy"}) == [
        {"name": "untraced", "value": 60.0, "unit": "instructions", "target": 62, "ok": True},
        {"name": "dump", "value": None, "unit": "instructions", "target": 1400, "ok": False, "why": "busy"}]


def rounds(**had_cpu):
    """Returns output like the output of pairs_bench. For each benchmark, `had_cpu` has a list with one number for each round: the fraction of a
    processor that the benchmark had in this round."""
    return json.dumps({"benchmarks": [{"name": f"{name}/iterations:1", "run_type": "iteration", "had_cpu": share, "real_time": 10.0}
                                      for name, shares in had_cpu.items() for share in shares]})


def program(folder, text, status=0):
    path = folder / "pairs_bench"
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\necho 'two processors are needed' >&2\nexit {status}\n")
    path.chmod(0o755)
    return path


def test_a_busy_machine_costs_only_the_rows_that_it_spoils(tmp_path):
    text = rounds(untraced=[1.0] * 9, traced=[1.0] * 9, processes=[0.98] * 9, threads=[0.9] * 9 + [0.94])
    values, reasons = bench.host_figures(program(tmp_path, text))
    assert values == {"host_untraced": 10.0, "host_traced_ratio": 1.0, "host_control_ratio_2": 1.0}
    assert reasons.keys() == {"host_traced_ratio_2", "host_share_of_control"}
    assert "threads" in reasons["host_share_of_control"] and "0.94" in reasons["host_share_of_control"]
    assert bench.table(values, reasons)


def test_a_host_program_that_fails_costs_only_its_rows(tmp_path):
    for bad in (program(tmp_path, "", status=2), tmp_path / "missing", program(tmp_path, "no JSON")):
        values, reasons = bench.host_figures(bad)
        assert values == {} and reasons.keys() == {row[0] for row in bench.ROWS if row[0].startswith("host_")}
    values, reasons = bench.host_figures(program(tmp_path, "", status=2))
    assert all("two processors are needed" in why for why in reasons.values())


def test_rows_are_drawn_as_far_as_there_are_any(tmp_path):
    pytest.importorskip("matplotlib")
    bench.draw({}, tmp_path)
    bench.draw({"traced_depth_2": 100.0, "traced_oldest_of_1000": 200.0}, tmp_path)
    assert (tmp_path / "cost-depth.svg").exists() and (tmp_path / "cost-outstanding.svg").exists()


def ctl(used, lost):
    counters = f"seen 9 recorded 9 dropped 0 filtered 0 freed 9 cleared 0 live 0 bytes 0 stacks_lost 1 contexts_lost {lost}"
    return f"limit 100 used {used} stacks 1 contexts 1\n" + "".join(f"kmemtrace {name} state running {counters}\n" for name in ("chan", "page"))


def test_scale_counts_what_was_lost_and_how_memory_grew(monkeypatch):
    scripts = []

    def run(_, script, timeout):
        scripts.append((script, timeout))
        return ctl(100, 0) + "=\n" + ctl(130, 7) + "=\n", 1

    monkeypatch.setattr(loads.Guest, "run", run)
    assert scale.of_processes(5000) == {"contexts_lost": 14, "stacks_lost": 2, "dropped": 0, "memory_growth": 30.0}
    assert "-lt 500 ]" in scripts[0][0] and "-lt 2000 ]" in scripts[0][0] and scripts[0][1] == scale.SECONDS


def test_scale_compares_with_a_nearly_empty_table(monkeypatch):
    def run(guest, script, _):
        assert guest.cmdline == "objects=1000000" and "limit 52097152" in script
        return "".join(f"{number}_{order} {value}\n" for number, value in (("few", 200.0), ("many", 250.0))
                       for order in ("newest", "oldest", "random")) + "many_bytes 40\n", 1

    monkeypatch.setattr(loads.Guest, "run", run)
    rows = scale.of_objects(1_000_000)
    assert rows.keys() <= {row[0] for row in scale.ROWS}
    assert (rows["pair_oldest"], rows["pair_more_oldest"], rows["bytes_per_object"]) == (250.0, 25.0, 40.0)


def test_scale_compares_with_few_contexts(monkeypatch):
    def run(guest, script, _):
        assert guest.cmdline == "contexts=1000000" and "limit 252097152" in script
        return "".join(f"contexts_{size}_{what} {value}\n" for size, value in (("few", 200.0), ("many", 210.0))
                       for what in ("looked_up", "pair", "bytes")), 1

    monkeypatch.setattr(loads.Guest, "run", run)
    rows = scale.of_contexts(1_000_000)
    assert rows.keys() <= {row[0] for row in scale.ROWS}
    assert (rows["contexts_pair"], rows["contexts_more_pair"], rows["bytes_per_context"]) == (210.0, 5.0, 210.0)


def test_scale_wants_a_shard_for_each_cpu(monkeypatch):
    counted = {"cpus_empty": 200, "cpus_dearest": 230, "cpus_shards": 64, "cpus_records": 64_000, "cpus_strays": 3}

    def run(guest, *_):
        assert guest.cpus == 64
        return "".join(f"{name} {value}\n" for name, value in counted.items()), 1

    monkeypatch.setattr(loads.Guest, "run", run)
    monkeypatch.setattr(stretches, "measure", lambda *_, cpus, **__: [(9000, "off", "on"), (cpus, "off", "on")])
    rows = scale.of_cpus(64)
    assert rows.keys() <= {row[0] for row in scale.ROWS}
    assert rows == {"cpus_pair": 230, "cpus_more": 15, "cpus_strays": 3, "cpus_irq_off": 9000}
    counted["cpus_records"] = 63_999
    with pytest.raises(ValueError):
        scale.of_cpus(64)


def test_scale_shows_the_longest_stretch_with_interrupts_off(monkeypatch):
    def run(guest, script, _):
        assert guest.variant == "irqoff" and "leak debug_64 1000'" in script
        stretches = "".join(f"{ticks} ticks cpu 0 task a\n\toff f+0x1 on g+0x2\n\th+0x3 [kernel]\n" for ticks in (700, 5))
        return f"== dump\n{stretches}== all probed\n{stretches.replace('700', '900')}== nothing\n== end\n", 1

    monkeypatch.setattr(loads.Guest, "run", run)
    assert scale.of_irq_off(1000) == {"irq_off": 700, "irq_off_probed": 900}
    monkeypatch.setattr(loads.Guest, "run", lambda *_: ("== dump\n", 1))
    with pytest.raises(ValueError):
        scale.of_irq_off(1000)


def test_every_row_of_the_baseline_is_explained():
    for file in counts.BASELINES.iterdir():
        assert json.loads(file.read_text()).keys() == bench.counted_rows() | set(loads.short_rows()), file
