"""Prints compile_commands.json for the kernel: compile_commands.py 'C COMMAND' 'C++ COMMAND'
SOURCE…

Clang's tools read compile_commands.json. With the flag -mgeneral-regs-only, Clang's tools would
reject headers that mention `long double`, so compile_commands.json does not have this flag.
"""
import json
import os
import sys

c, cxx, *sources = (argument.replace("-mgeneral-regs-only ", "") for argument in sys.argv[1:])
json.dump([{"directory": os.getcwd(), "file": source, "command": f"{c if source.endswith('.c') else cxx} -c {source}"}
           for source in sources if source.endswith((".c", ".cc"))], sys.stdout, indent=1)
