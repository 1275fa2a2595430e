"""Other tools read the files that scripts/report writes: `go tool pprof`, and speedscope's importer."""
import json
import os
import pathlib
import re
import subprocess

import pytest

import profiles
from stele.report import folded, merge, pprof
from stele.report.profile import Amount

pytestmark = pytest.mark.long  # Go is a large dependency
HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("STELE_BUILD", HERE.parents[1] / "build"))


@pytest.fixture
def profile():
    """A profile without negative amounts, which speedscope cannot show."""
    made = profiles.profile()
    made.amounts = {key: amount for key, amount in made.amounts.items() if amount.bytes >= 0}
    return made


def go_pprof(file, *options):
    """Returns pprof's report with numbers of bytes (not kB or MB) or objects."""
    return subprocess.run(["go", "tool", "pprof", "-top", "-unit=B", "-nodefraction=0", *options, file], check=True, capture_output=True, text=True,
                          env={**os.environ, "HOME": str(file.parent)}).stdout


def flat(report):
    """Returns {function: bytes or objects that the function itself has allocated}. Leaves out
    functions that have allocated nothing themselves."""
    return {name.removesuffix(" (inline)"): int(value) for value, name in
            re.findall(r"^ *(\d+)B? +[\d.]+% +[\d.]+% +\d+B? +[\d.]+% +(.+)$", report, re.MULTILINE) if value != "0"}


def test_go_tool_pprof(profile, tmp_path):
    file = tmp_path / "profile.pb.gz"
    pprof.write(profile, file)
    report, total = go_pprof(file), profile.total()
    assert f"Build ID: {profiles.BUILD}" in report and "incomplete: kmalloc_32: 10 allocations were not recorded" in report
    assert "Type: inuse_space" in report  # the default sample type
    assert flat(report) == {"Name::copy": 352, "sys_open": 4096, pprof.NO_STACK: 8192}
    for kind, value in (("inuse_space", total.bytes), ("inuse_objects", total.objects), ("alloc_space", total.all_bytes),
                        ("alloc_objects", total.all_objects)):
        assert re.search(rf" of {value}B? total", go_pprof(file, f"-sample_index={kind}")), kind
    assert flat(go_pprof(file, "-tagfocus=process=pid 12 leakdemo")) == {"Name::copy": 320}
    assert flat(go_pprof(file, "-tagfocus=mark=1")) == {"Name::copy": 32}
    assert flat(go_pprof(file, "-tagfocus=cache=^name$")) == {"sys_open": 4096}


def test_go_tool_pprof_of_what_was_merged(tmp_path):
    for number in range(5):
        pprof.write(profiles.guest(number, 3, Amount(20, 640)), tmp_path / f"{number}")
    pprof.write(merge.merge([tmp_path / f"{number}" for number in range(5)]), tmp_path / "sum.pb.gz")
    assert flat(go_pprof(tmp_path / "sum.pb.gz"))["Name::copy"] == 5 * 640


def test_what_go_has_merged_is_read(profile, tmp_path):
    """Servers that collect profiles merge them with pprof's own code. pprof.py must read the merged
    files."""
    pprof.write(profile, tmp_path / "one.pb.gz")
    subprocess.run(["go", "tool", "pprof", "-proto", f"-output={tmp_path / 'sum.pb.gz'}", tmp_path / "one.pb.gz", tmp_path / "one.pb.gz"],
                   check=True, capture_output=True, env={**os.environ, "HOME": str(tmp_path)})
    back, total = pprof.read(tmp_path / "sum.pb.gz"), profile.total()
    assert back.build_id == profiles.BUILD
    total.add(total)
    assert back.total() == total
    assert back.amounts[profiles.LEAK] == Amount(20, 640, 1000, 32000)


def test_speedscope(profile, tmp_path):
    pprof.write(profile, tmp_path / "profile.pb.gz")
    folded.write(profile, tmp_path / "profile.folded")
    bundle, = (BUILD / "speedscope/node_modules/speedscope/dist/release").glob("speedscope-*.js")
    run = subprocess.run(["node", HERE / "speedscope/totals.mjs", bundle, tmp_path / "profile.pb.gz", tmp_path / "profile.folded"],
                         check=True, capture_output=True, text=True)
    of_pprof, of_folded = map(json.loads, run.stdout.splitlines())
    assert (of_pprof["total"], of_pprof["unit"]) == (profile.total().bytes, "bytes")
    assert {"Tmp::create", "sys_open", "main"} <= set(of_pprof["frames"])
    assert of_folded["total"] == profile.total().bytes
    assert any("sys_open" in name for name in of_folded["frames"])
