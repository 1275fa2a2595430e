"""Commands for gdb that read the kernel's memory, of a running guest or of a core. docs/debugging.md is the documentation for users.

commands.py has the commands. Each command makes a Kernel (memory.py), which reads memory and caches it until the command ends. Types and fields
come from the ELF file's debugging information. The files:

    memory     reads memory, and decodes it by type
    symbols    the kernel's own table of symbols
    caches     caches and their slabs, magazines, depots
    arenas     arenas
    tasks      tasks, CPUs, stacks and backtraces
    traces     records, stacks and contexts of traces
    emulator   executes the kernel's own functions on a copy of its memory
    files      files of #mem, which the kernel's functions make
    source     code addresses with files and lines
    whatis     explains an address
    memory_map live objects and roots, for build/tools/stele-reach
    reach      asks stele-reach, which searches all of memory
    typed      names of objects, fields and variables
    unreachable  unreachable objects
    refs       locations of references
    alive      pointers to an object, and the path to it
    ref_classes  classes of references

In these files a word of memory is an int, not a gdb.Value, because every use of a gdb.Value is a slow call into gdb.
"""
