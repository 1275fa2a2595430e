"""Two files show the location of each traced reference: the dump of a class of references (#mem/kmemtrace/ref.…), and #mem/references."""
import re

from guest import guest, sections_of
from stele.references import NOWHERE, parse_references

SHELL = """
echo refs > '#mem/kmemtrace/ctl'
sleep 1000 | cat &
rounds=0
until grep -q "on the kernel stack of pid $! cat" '#mem/references' || [ $rounds -ge 100 ]; do rounds=$((rounds + 1)); sleep 0.05; done
echo == pid; echo $!
echo == all; cat '#mem/references'
echo == chan; cat '#mem/kmemtrace/ref.chan'
echo == namespace; cat '#mem/kmemtrace/ref.namespace'
echo == rights; ls -l '#mem' | grep references; proctest walk 65534 '#mem/references'
echo == two; cat '#mem/references' > /tmp/a & cat '#mem/references' > /tmp/b; wait %2; head -n1 /tmp/a; head -n1 /tmp/b
echo == written; echo reset > '#mem/references'
echo stop > '#mem/kmemtrace/ctl'; echo reset > '#mem/kmemtrace/ctl'
echo == off; cat '#mem/references'; cat '#mem/kmemtrace/ref.chan'
"""
LINE = re.compile(r"^\treference to 0x([0-9a-f]{16}) (.+)$", re.M)


def test_references_of_a_shell_lie_where_they_are_kept():
    result = guest(SHELL)
    sections = sections_of(result.stdout)
    reader = sections["pid"].strip()
    everywhere = [place for places in parse_references(sections["all"]).values() for place in places]
    assert NOWHERE not in everywhere, result
    for where in (r"at \+0x20 of vm_region 0x[0-9a-f]{16}", r"at \+0x[0-9a-f]+ of fd_table 0x[0-9a-f]{16}", r"at \+0x10 of process 0x[0-9a-f]{16}",
                  rf"on the kernel stack of pid {reader} cat"):
        assert any(re.fullmatch(where, place) for place in everywhere), (where, result)
    # Each group of the dump of ref.chan lists the locations of the group's references.
    groups = sections["chan"].split("\n\n")[1:]
    shown = [LINE.findall(group) for group in groups]
    assert groups and all(shown), result
    for group, lines in zip(groups, shown):
        more = re.search(r"^\t… (\d+) references more$", group, re.M)
        assert len(lines) + int(more[1] if more else 0) == int(group.split()[0]), result
        assert all(f"\t0x{at} age " in group for at, _ in lines), result
    assert re.search(r"^\treference to 0x\w+ at \+0x10 of process 0x\w+$", sections["namespace"], re.M), result


def test_references_are_root_s_and_only_read():
    result = guest(SHELL)
    sections = sections_of(result.stdout)
    assert sections["rights"].startswith("-r--------"), result
    assert sections["rights"].endswith("references\nwalked 1\n"), result  # another user can neither read nor change the file
    assert "references is read-only" in result.stderr, result
    assert re.fullmatch(r"(references \d+ nowhere \d+\n){2}", sections["two"]), result
    assert sections["off"].startswith("references 0 nowhere 0\nkmemtrace ref.chan state off"), result


def test_a_holder_that_nobody_can_reach_is_said_to_be():
    """A planted bug loses the descriptor table of an ended process. The dump says that nobody can reach the table that holds the reference."""
    result = guest("""
        echo refs > '#mem/kmemtrace/ctl'
        sh -c 'exec true 3< /etc/profile'
        echo settle > '#mem/kmemtrace/ctl'
        cat '#mem/kmemtrace/ref.chan'
    """, "--variant", "debug", "--cmdline", "break=exit_files", lost=["fd_table"])
    assert re.search(r"^\treference to 0x\w+ at \+0x38 of fd_table 0x\w+, which nobody can reach$", result.stdout, re.M), result
