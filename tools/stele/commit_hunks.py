"""The hunks of a commit, and which of them lie in functions of a finding."""
import pathlib
import re


def hunks_of(tree, name, places):
    """Returns the hunks of a commit that lie in the functions at `places`, each FILE:LINE or "": [(file, hunk)]."""
    split = [place.rpartition(":") for place in places]
    lines = {(file, int(line)) for file, _, line in split if line.isdigit()}
    functions = [(file, first, last) for file, first, last, _ in _hunks(tree, name, "--function-context")
                 if any(of == file and first <= line <= last for of, line in lines)]
    return [(file, text) for file, first, last, text in _hunks(tree, name)
            if any(of == file and begin <= first and last <= end for of, begin, end in functions)]


def _hunks(tree, name, *options):
    """Yields (file, first line, last line, text) of each hunk of a commit. The lines are those of the new file."""
    file = None
    for part in re.split("^(?=diff --git |@@ )", tree.git("show", "--format=", "--first-parent", "-m", *options, name), flags=re.MULTILINE):
        if part.startswith("diff --git "):
            found = re.search(r"^\+\+\+ b/(.*)$", part, re.MULTILINE)
            file = found and pathlib.PurePath(found[1].rstrip("\t")).as_posix()
        elif file and (found := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", part)):
            first, count = int(found[1]), int(found[2] or 1)
            yield file, first, first + max(count, 1) - 1, part
