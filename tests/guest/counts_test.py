"""The instruction counts of bench/ exceed the baseline by no more than the tolerance, and the files of #bench report errors. The baseline is that
of the compiler; with a compiler that has none, the counts must meet the targets of `make bench`."""
import pytest

import bench
import counts
import loads
from guest import guest


def assert_no_worse(measured, rows):
    assert measured.keys() == rows
    baseline = counts.baseline(counts.compiler())
    if not baseline:
        assert not bench.missed(measured)
        return
    worse = counts.worse(measured, {name: value for name, value in baseline.items() if name in rows})
    assert not worse, "\n".join(["where that is meant, `make bench-baseline` says so:", *worse])


@pytest.mark.icount
def test_no_count_is_worse_than_the_baseline():
    assert_no_worse(counts.measure(build=False), bench.counted_rows())


@pytest.mark.icount
def test_traces_add_no_more_to_whole_loads_than_the_baseline():
    assert_no_worse(loads.measure_short(build=False), set(loads.short_rows()))


@pytest.mark.long
@pytest.mark.icount
def test_sweeps_take_a_small_part_of_the_time_however_many_records_they_visit():
    """Would find sweeps whose cost is not bounded: when memory is short, they follow each other, and each visits all records."""
    assert not bench.missed(loads.measure_sweeps(loads.Guest(build=False)))


@pytest.mark.cpus(1)
def test_the_program_has_every_load():
    """A load that the program does not have, or whose calls fail, would be a cheap one."""
    result = guest("\n".join([*(f"loads {load} 20 && echo {load}" for load in loads.PROGRAMS), "loads none 1"]))
    assert (result.status, result.stdout.split()) == (2, list(loads.PROGRAMS)), result


@pytest.mark.cpus(4)
def test_one_reader_at_a_time_has_the_benches_run():
    """While a reader of #bench/rows runs the benches, a second reader gets an error, even if the two readers share an open file. So no reader
    gets an incomplete result."""
    result = guest("""
reader() { until cat <&3 > /tmp/$1; do sleep 0.1; done; }
exec 3< '#bench/rows'; reader a & reader b; wait; cat /tmp/a; echo ==; cat /tmp/b""")
    shorter, longer = sorted(result.stdout.split("==\n"), key=len)
    assert set(result.stderr.splitlines()) == {"cat: read error: Device or resource busy: somebody else reads #bench"}, result
    assert "\ntraced " in longer and shorter in ("", longer), result


@pytest.mark.cpus(1)
@pytest.mark.parametrize("cmdline, script, says", (
    ("", "true", "Out of memory: 1000000 objects need `limit"),
    ("objects=8000000", "echo limit 1G > '#mem/kmemtrace/ctl'", "Out of memory: 8000000 objects need 625048576 bytes of free memory"),
    ("objects=many", "true", "Invalid argument: objects= on the kernel command line takes a number")))
def test_counts_at_scale_say_what_they_need(cmdline, script, says):
    result = guest(f"{script}; cat '#bench/scale'", "--cmdline", cmdline)
    assert (result.status, result.stdout) == (1, "") and says in result.stderr, result


@pytest.mark.icount
def test_counts_at_scale_are_of_as_many_objects_as_wanted():
    result = guest("echo limit 4M > '#mem/kmemtrace/ctl'; cat '#bench/scale'", "--icount", "--smp", "1", "--cmdline", "objects=20000")
    rows = counts.parse(result.stdout)
    assert rows.keys() == {f"{number}_{order}" for number in ("few", "many") for order in ("newest", "oldest", "random")} | {"many_bytes"}
    assert all(200 < value < 400 for name, value in rows.items() if name != "many_bytes") and 32 <= rows["many_bytes"] < 50, rows


@pytest.mark.icount
def test_counts_of_contexts_and_of_each_cpu():
    """#bench/contexts looks up stored contexts; the kernel panics if a look-up does not find its entry. In #bench/cpus each record is in
    the shard of the CPU that made it."""
    result = guest("cat '#bench/contexts' '#bench/cpus'", "--icount", "--smp", "4", "--cmdline", "contexts=5000")
    rows = counts.parse(result.stdout)
    assert (rows["cpus_shards"], rows["cpus_records"], rows["cpus_strays"]) == (4, 4000, 0), rows
    assert all(200 < rows[name] < 400 for name in ("contexts_few_pair", "contexts_many_pair", "cpus_empty", "cpus_dearest")), rows
    assert rows["contexts_many_looked_up"] > 1000 and rows["contexts_many_bytes"] < 300, rows
