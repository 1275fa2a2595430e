"""`make help`: targets in groups."""
import re
import subprocess

from guest import ROOT


def test_every_target_is_in_one_group():
    """Each target that a makefile describes is listed once, with its description, and each name of a group is such a target."""
    help_text = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert max(map(len, help_text.splitlines())) <= 100
    help_text = re.sub(r"\n {20,}", " ", help_text)
    groups = {block.splitlines()[0]: dict(re.findall(r"^  make (\S+) +(.+)$", block, re.MULTILINE)) for block in help_text.split("\n\n")}
    assert list(groups) == ["start", "find leaks", "test", "develop"]
    listed = [item for group in groups.values() for item in group.items()]
    makefiles = [ROOT / "Makefile", *(path for folder in (".", "kern", "user", "user/ports", "tools", "tools/*", "tests", "bench")
                                      for path in ROOT.glob(f"{folder}/*.mk"))]
    described = [found for path in makefiles for found in re.findall(r"^([a-z-]+):[^#\n]*## (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)]
    assert sorted(listed) == sorted(described)
    named = re.findall(r"^HELP_\w+ := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert [list(group) for group in list(groups.values())[:3]] == [names.split() for names in named]
    assert "leaktest" in groups["find leaks"] and "run" in groups["start"] and "gdb" in groups["develop"]
