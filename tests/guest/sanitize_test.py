"""In the kernel variant `sanitize`, a sanitizer that finds an error reports the error and panics. kern/tests/sanitizer_test.cc tests inside the
kernel which errors the sanitizers find."""
import re

import pytest

from guest import guest

pytestmark = [pytest.mark.cpus(1), pytest.mark.long]


def crime(what):
    result = guest(f"echo '{what}' > #debug/crime", "--variant", "sanitize", log=False)
    assert result.status == 134, result
    return result.stderr


def test_address_sanitizer_names_object_cache_and_stack():
    log = crime("overrun debug_64")
    assert re.search(r"0x[0-9a-f]+ is 64 bytes into the object 0x[0-9a-f]+ of debug_64, which has 64 bytes", log), log
    assert re.search(r"kernel panic: KernelAddressSanitizer: write of 1 bytes at 0x[0-9a-f]+: .*; by crime_overrun\+", log), log
    assert re.search(r"backtrace:(?s:.*) debug_crime_write\+0x[0-9a-f]+ \[kernel\]", log), log


def test_address_sanitizer_says_who_freed_what_is_checked():
    result = guest("echo 'usefree debug_64' > #debug/crime", "--variant", "sanitize", "--cmdline", "check=debug_64", log=False)
    assert result.status == 134, result
    assert re.search(r"freed by pid \d+ sh (?s:.*)crime_free\+(?s:.*)KernelAddressSanitizer: write of 1 bytes at 0x[0-9a-f]+: the object is free", result.stderr), result


def test_undefined_behaviour_sanitizer_names_the_place():
    log = crime("overflow")
    assert re.search(r"kernel panic: UndefinedBehaviorSanitizer: kern/drivers/dev/debug_crime\.cc:\d+:\d+: overflow: 2147483647 \+ 1 in 'int'", log), log


def test_other_kernels_refuse():
    result = guest("echo overflow > #debug/crime; echo 'overrun debug_64' > #debug/crime")
    assert "this kernel has no UndefinedBehaviorSanitizer" in result.stderr and "debug_64 is not checked" in result.stderr, result


def test_sessions_without_functions_and_with_all():
    """The sanitizers find no error during sessions of #probe: one session without functions (`watch memory`), and two sessions on all functions."""
    result = guest("""
        for word in 'watch memory' 'count *' 'event+return *'; do
          exec 3<>#probe/clone; echo "$word" >&3 && echo start >&3 && ls / | cat > /dev/null; echo $?; exec 3>&-
        done""", "--variant", "sanitize", log=False)
    assert (result.status, result.stdout.split()) == (0, ["0"] * 3), result
