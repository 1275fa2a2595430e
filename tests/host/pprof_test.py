"""Profiles in pprof's format: pprof.py reads back the files that it writes, and refuses other files
with an error of one line."""
import gzip
import os
import zlib

import pytest

import profiles
from stele.report import merge, pprof
from stele.report.profile import AGES, Amount, Frame, Key, Profile, ReportError


@pytest.fixture
def file(tmp_path):
    return tmp_path / "profile.pb.gz"


def through(profile, file):
    pprof.write(profile, file)
    return pprof.read(file)


def refused(file, data):
    file.write_bytes(data)
    with pytest.raises(ReportError) as error:
        pprof.read(file)
    why = str(error.value)
    assert why.startswith(f"{file}: ") and "\n" not in why
    return why


def test_profile_comes_back(file):
    profile = profiles.profile()
    assert through(profile, file) == profile
    assert through(Profile(), file) == Profile()


def test_modules_that_do_not_tell_what_is_the_kernels(file):
    """Folded stacks, for example, do not tell the kernel's frames from a program's."""
    profile, frame = Profile(), Frame("f", module="")
    profile.add(Key("a", (frame, frame)), Amount(1, 8))
    profile.add(Key("b", (frame,), (frame,)), Amount(1, 8))
    profile.add(Key("c", (), (frame,)), Amount(1, 8))
    assert through(profile, file) == profile
    assert merge.merge([file]).amounts == profile.amounts


def test_what_cannot_be_written_exactly(file):
    profile = Profile("make leaktest CMD='\udcff'")
    profile.add(Key("sampled"), Amount(1.6, 99.5))
    back = through(profile, file)
    assert back.title == r"make leaktest CMD='\udcff'"
    assert back.amounts == {Key("sampled"): Amount(2, 100)}


def test_return_address_is_one_location_with_inlined_lines(file):
    pprof.write(profiles.profile(), file)
    message = pprof.load(file)
    strings = message.string_table
    functions = {function.id: strings[function.name] for function in message.function}
    mappings = {mapping.id: (strings[mapping.filename], strings[mapping.build_id]) for mapping in message.mapping}
    assert [strings[one.type] for one in message.sample_type] == ["inuse_objects", "inuse_space", "alloc_objects", "alloc_space"]
    assert strings[message.default_sample_type] == "inuse_space"
    assert mappings == {1: ("kernel", profiles.BUILD), 2: ("/bin/leakdemo", profiles.PROGRAM)}
    places = {location.id: (mappings[location.mapping_id][0], location.address, [(functions[line.function_id], line.line) for line in location.line])
              for location in message.location}
    assert [places[number] for number in message.sample[0].location_id] == [
        ("kernel", 0xFFFF800000100010, [("Name::copy", 12), ("Tmp::create", 40)]),
        ("kernel", 0xFFFF800000100020, [("sys_open", 7)]),
        ("/bin/leakdemo", 0x401005, [("main", 30)])]
    labels = {strings[label.key]: strings[label.str] or label.num for label in message.sample[0].label if strings[label.key] != "holder"}
    assert labels == {"cache": "kmalloc_32", "process": "pid 12 leakdemo", "mark": 3, "age": AGES[2]}


def test_shared_frames_are_written_once(file):
    profile = Profile()
    for number in range(100):
        profile.add(Key(f"cache {number}", profiles.ALLOC + profiles.SYSCALL), Amount(1, 1))
    pprof.write(profile, file)
    assert len(pprof.load(file).location) == 2


def test_number_too_large_leaves_the_file_as_it_was(file):
    pprof.write(profiles.profile(), file)
    profile = Profile()
    profile.add(Key("cache"), Amount(1, 1 << 63))
    with pytest.raises(ReportError, match="too large"):
        pprof.write(profile, file)
    assert pprof.read(file) == profiles.profile()
    assert os.listdir(file.parent) == [file.name]


def test_folder_that_is_not_there(tmp_path):
    with pytest.raises(ReportError, match="No such file"):
        pprof.write(profiles.profile(), tmp_path / "none" / "file")


def test_foreign_files(file, tmp_path):
    message = pprof.messages().Profile.FromString(pprof.encode(profiles.profile()))
    refused(file, b"")
    refused(file, b"\x7fELF" + bytes(100))
    refused(file, b"main;f 12\n")
    refused(file, gzip.compress(b""))
    refused(file, bytes(range(256)) * 4)
    message.mapping[0].filename = list(message.string_table).index("/bin/leakdemo")
    assert "not a profile of Stele" in refused(file, message.SerializeToString())
    del message.sample_type[2:]
    assert "not a heap profile" in refused(file, message.SerializeToString())
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path, tmp_path / "none", tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(ReportError, match=str(other)):
            pprof.read(other)


def test_numbers_that_point_nowhere(file):
    def with_change(change):
        message = pprof.messages().Profile.FromString(pprof.encode(profiles.profile()))
        change(message)
        return refused(file, message.SerializeToString())

    assert "string" in with_change(lambda message: setattr(message.function[0], "name", 1 << 40))
    assert "string" in with_change(lambda message: setattr(message.sample[0].label[0], "str", -1))
    assert "function" in with_change(lambda message: setattr(message.location[0].line[0], "function_id", 99))
    assert "location" in with_change(lambda message: message.sample[0].location_id.append(99))
    assert "values" in with_change(lambda message: message.sample[0].value.pop())
    assert "too deep" in with_change(lambda message: message.sample[0].location_id.extend([1] * 5000))


def test_every_byte_changed_and_every_length_cut(file):
    small = Profile("t", profiles.BUILD)
    small.add(profiles.LEAK, Amount(1, 32))
    small.sources = {"kmalloc_32": profiles.profile().sources["kmalloc_32"]}
    data = pprof.encode(small)
    packed = zlib.compressobj(wbits=31)
    packed = packed.compress(data) + packed.flush()
    read = 0
    for whole in (data, packed):
        damaged = [whole[:length] for length in range(len(whole))]
        damaged += [whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1:] for at in range(len(whole)) for flip in (1, 0x80, 0xFF)]
        for bad in damaged:
            file.write_bytes(bad)
            try:
                pprof.write(pprof.read(file), os.devnull)  # a file that can be read gives a valid Profile
                read += 1
            except ReportError as error:
                assert "\n" not in str(error)
    assert 0 < read < 3 * len(data)
    for length in range(len(packed)):
        refused(file, packed[:length])


def test_bombs(file):
    refused(file, gzip.compress(bytes(pprof.LARGEST + 1), 1))
    zeros = gzip.compress(bytes(1 << 20))
    assert "more than 16 MB" in refused(file, zeros * 40)
    assert "more than 64 members" in refused(file, gzip.compress(b"") * 200_000)
    pprof.write(profiles.profile(), file)
    file.write_bytes(file.read_bytes() + gzip.compress(b""))  # any reader of gzip files must ignore this empty member
    assert pprof.read(file) == profiles.profile()
    # A few locations can make very many frames.
    message = pprof.messages().Profile.FromString(pprof.encode(profiles.profile()))
    for _ in range(4000):
        message.location[0].line.add(function_id=1)
    for _ in range(8000):
        message.sample.add(location_id=[1], value=[1] * 4)
    assert "too deep" in refused(file, message.SerializeToString())


def test_location_that_was_not_symbolized(file):
    message = pprof.messages().Profile.FromString(pprof.encode(profiles.profile()))
    del message.location[0].line[:]
    file.write_bytes(message.SerializeToString())
    frame = next(iter(pprof.read(file).amounts)).frames[0]
    assert frame == Frame("0xffff800000100010", address=0xFFFF800000100010, build_id=profiles.BUILD)
