"""Prints compile_commands.json for the kernel: compile_commands.py 'C COMMAND' 'C++ COMMAND' SOURCE…"""
import json
import os
import sys

c, cxx, *sources = sys.argv[1:]
json.dump([{"directory": os.getcwd(), "file": source, "command": f"{c if source.endswith('.c') else cxx} -c {source}"}
           for source in sources if source.endswith((".c", ".cc"))], sys.stdout, indent=1)
