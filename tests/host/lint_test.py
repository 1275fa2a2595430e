"""scripts/lint: the thread-safety analysis finds an access without the lock, in C and in C++, and lint does not pass without a clang that can find
it. clang is not among the packages of the tests, so some tests need `scripts/setup developer`."""
import json
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FLAGS = f"-ffreestanding -mcmodel=kernel -DCONFIG_MAX_CPUS=4 -I {ROOT}/kern -I {ROOT}/kern/include -I {ROOT}/kern/src"
C = '#include "slab_impl.h"\n'
CXX = '#include "arena_impl.h"\n'


def lint(folder, name, text):
    """Checks a source. Returns the status, standard output, and standard error."""
    (folder / name).write_text(text)
    compiler = "gcc -std=gnu17" if name.endswith(".c") else "g++ -std=c++20"
    command = {"directory": str(folder), "file": name, "command": f"{compiler} {FLAGS} -c {name}"}
    (folder / "compile_commands.json").write_text(json.dumps([command]))
    run = subprocess.run([ROOT / "scripts/lint", folder / "compile_commands.json"], capture_output=True, text=True, check=False)
    if run.returncode == 2 and "scripts/setup developer" in run.stderr:
        pytest.skip(run.stderr)
    return run.returncode, run.stdout, run.stderr


SOUND = {
    "slab.c": C + "uint64_t out(struct kmem_cache* cache) {\n  LOCK_GUARD(&cache->lock);\n  return cache->objects_out;\n}\n",
    "held.c": C + "uint64_t out(struct kmem_cache* cache) REQUIRES(cache->lock) { return cache->objects_out; }\n",
    "arena.cc": CXX + "uint64_t live(const arena& a) {\n  const Guard guard(a.lock());\n  return a.live;\n}\n",
}
# Name, source, and words of the complaint.
UNSOUND = (
    ("without.c", C + "uint64_t out(struct kmem_cache* cache) { return cache->objects_out; }\n", "'objects_out' requires holding spinlock 'cache->lock'"),
    ("after.c", C + "uint64_t out(struct kmem_cache* cache) {\n  { LOCK_GUARD(&cache->lock); }\n  return cache->objects_out;\n}\n", "'objects_out'"),
    ("another.c", C + "uint64_t out(struct kmem_cache* a, struct kmem_cache* b) {\n  LOCK_GUARD(&b->lock);\n  return a->objects_out;\n}\n",
     "near match 'b->lock'"),
    ("depot.c", C + "uint64_t rounds(struct kmem_cache* cache) {\n  LOCK_GUARD(&cache->lock);\n  return cache->depot_rounds;\n}\n",
     "requires holding spinlock 'cache->depot_lock'"),
    ("twice.c", C + "void stats(struct kmem_cache* cache, struct kmem_cache_stats* stats) {\n  LOCK_GUARD(&cache->lock);\n"
     "  slab_layer_stats(cache, stats);\n}\n", "cannot call function 'slab_layer_stats' while spinlock 'cache->lock' is held"),
    ("without.cc", CXX + "uint64_t live(const arena& a) { return a.live; }\n", "'live' requires holding spinlock 'a.lock()'"),
    ("call.cc", CXX + "void* find(const arena& a) { return arena_impl::find_free(a, 1); }\n", "'find_free' requires holding spinlock 'a.lock()'"),
)


@pytest.mark.parametrize("name", SOUND)
def test_a_held_lock(tmp_path, name):
    assert lint(tmp_path, name, SOUND[name]) == (0, "", "")


@pytest.mark.parametrize(("name", "text", "words"), UNSOUND, ids=[name for name, *_ in UNSOUND])
def test_a_lock_that_is_not_held(tmp_path, name, text, words):
    status, output, _ = lint(tmp_path, name, text)
    assert status == 1 and words in output and f"{name}:" in output, output


@pytest.mark.parametrize("programs", ((), ("clang", "clang-tidy"), ("clang-14", "clang-tidy-14", "clang-18", "clang-tidy-18"), ("clang-19",),
                                      ("clang-tidy-19",), ("clang-19", "clang-tidy-20")))
def test_no_clang_that_is_new_enough(tmp_path, programs):
    for program in programs:
        (tmp_path / program).write_text("#!/bin/sh\n")
        (tmp_path / program).chmod(0o755)
    (tmp_path / "compile_commands.json").write_text("[]")
    run = subprocess.run([ROOT / "scripts/lint", tmp_path / "compile_commands.json"], env={"PATH": str(tmp_path)}, capture_output=True, text=True,
                         check=False)
    assert run.returncode == 2 and not run.stdout and run.stderr.count("\n") == 1, run
    assert run.stderr.startswith("lint: ") and "clang-19 and clang-tidy-19" in run.stderr, run
