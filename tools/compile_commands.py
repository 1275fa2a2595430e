"""Prints compile_commands.json for groups of sources: compile_commands.py {-- 'C COMMAND' 'C++ COMMAND'
SOURCE…}…

Clang's tools read compile_commands.json. With the flag -mgeneral-regs-only, Clang's tools would
reject headers that mention `long double`, so compile_commands.json does not have this flag.
"""
import itertools
import json
import os
import sys

from stele import entry


def main():
    commands = []
    for between, words in itertools.groupby(sys.argv[1:], lambda word: word == "--"):
        if between:
            continue
        c, cxx, *sources = (word.replace("-mgeneral-regs-only ", "") for word in words)
        commands += [{"directory": os.getcwd(), "file": source, "command": f"{c if source.endswith('.c') else cxx} -c {source}"}
                     for source in sources if source.endswith((".c", ".cc"))]
    json.dump(commands, sys.stdout, indent=1)


if __name__ == "__main__":
    entry.run(main, "compile_commands", failed=1)
