"""Tests the program stress, which uses all parts of the kernel at random, and scripts/stress, which runs this program. They find no error in the
debug builds, and they find a planted bug."""
import pytest

from guest import guest, tool


@pytest.mark.cpus(4)
@pytest.mark.parametrize("variant, cpus, megabytes", (("debug", "8", "64"), pytest.param("sanitize", "4", "128", marks=pytest.mark.long)))
def test_a_short_run(variant, cpus, megabytes):
    result = tool("stress", "--once", "--variant", variant, "--seconds", "5", "--smp", cpus, "--mem", megabytes, "--seed", "1")
    assert result.status == 0, result


@pytest.mark.cpus(4)
@pytest.mark.long
@pytest.mark.parametrize("variant", ("debug", "sanitize"))
def test_ten_minutes(variant):
    result = tool("stress", "--minutes", "10", "--variant", variant)
    assert result.status == 0, result


@pytest.mark.cpus(4)
def test_what_is_lost_is_found():
    result = guest("stress 2 1 4 tree", "--variant", "debug", "--cmdline", "break=exit_files", lost=["fd_table"])
    assert result.status == 1, result
    assert "stress: fd_table had " in result.stderr, result


def test_what_it_cannot_do():
    result = guest("stress; echo $?; stress 1 1 1 nothing; echo $?")
    assert result.stdout.split() == ["2", "2"], result
    assert "usage: stress SECONDS" in result.stderr, result


@pytest.mark.cpus(4)
@pytest.mark.parametrize("variant", ("", "debug", pytest.param("sanitize", marks=pytest.mark.long)))
def test_many_cpus_and_little_memory(variant):
    result = guest("ls / | cat | wc -l", "--variant", variant, "--smp", "64", "--mem", "32M")
    assert result.status == 0, result
