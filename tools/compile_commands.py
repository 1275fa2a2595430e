"""Prints compile_commands.json for groups of sources: compile_commands.py {-- 'C COMMAND' 'C++ COMMAND'
SOURCE…}…

Clang's tools read compile_commands.json. With the flag -mgeneral-regs-only, Clang's tools would
reject headers that mention `long double`, so compile_commands.json does not have this flag.
"""
import itertools
import json
import os
import sys

entries = []
for between, words in itertools.groupby(sys.argv[1:], lambda word: word == "--"):
    if between:
        continue
    c, cxx, *sources = (word.replace("-mgeneral-regs-only ", "") for word in words)
    entries += [{"directory": os.getcwd(), "file": source, "command": f"{c if source.endswith('.c') else cxx} -c {source}"}
                for source in sources if source.endswith((".c", ".cc"))]
json.dump(entries, sys.stdout, indent=1)
