"""Prints compile_commands.json for groups of sources: compile_commands.py 'C COMMAND' 'C++ COMMAND'
SOURCE… [-- 'C COMMAND' 'C++ COMMAND' SOURCE…]…

Clang's tools read compile_commands.json. With the flag -mgeneral-regs-only, Clang's tools would
reject headers that mention `long double`, so compile_commands.json does not have this flag.
"""
import json
import os
import sys


def group(arguments):
    c, cxx, *sources = (argument.replace("-mgeneral-regs-only ", "") for argument in arguments)
    return [{"directory": os.getcwd(), "file": source, "command": f"{c if source.endswith('.c') else cxx} -c {source}"}
            for source in sources if source.endswith((".c", ".cc"))]


words, entries = sys.argv[1:], []
while words:
    end = words.index("--") if "--" in words else len(words)
    entries += group(words[:end])
    words = words[end + 1:]
json.dump(entries, sys.stdout, indent=1)
