"""Writes and reads pprof's profile.proto.gz, for `go tool pprof`, speedscope and collectors of
profiles.

The parts of a Profile become:

    Amount          the four values of a sample, named as in Go's heap profiles
    source, process, mark, age of a Key
                    labels `cache`, `process`, `mark` (numeric) and `age`; an empty or zero value has no label
    holders         a label `holder` of the sample for each holder
    frames          the kernel's locations, innermost first, then the program's. A return address is one location. Functions
                    that are inlined at the address are lines of the location
    module          a mapping for each module and build id; the first mapping is the kernel's. If the modules do not show which
                    locations of a sample are the kernel's (folded stacks have no modules), the sample has the numeric label
                    `kernel_locations`: the number of the kernel's locations
    seconds         duration_nanos
    title, incomplete
                    comments "title: …", "incomplete: …", which `go tool pprof` prints first
    sources         a sample for each source, without locations, with four zeros, and with the labels `cache` and `trace` (JSON)

So reading a written file gives the same Profile, with three exceptions: estimates are rounded, time is
rounded to nanoseconds, and bytes of a name that are not UTF-8 are escaped.

Files are untrusted. A file is decompressed to at most LARGEST bytes, because protobuf takes up to 50
times as much memory as the bytes that it parses (900 MB for the worst file of this size). About 100,000
stacks fit in LARGEST bytes. Every index is checked; only a location may have an unknown mapping,
and then has no module. The file profile.proto comes from Debian's package of pprof; `make` compiles it
with Google's protobuf to build/report/profile_pb2.py.
"""
import functools
import importlib.util
import json
import os
import pathlib
import stat
import sys
import tempfile
import warnings
import zlib
from dataclasses import asdict, fields

from stele.report.profile import AGES, Amount, Frame, Key, Profile, ReportError, Source

LARGEST = 16 << 20  # bytes of a profile, not compressed
MOST_MEMBERS = 64  # members of a gzip file
MOST = 1 << 20  # largest number of samples, of strings, of functions, of locations and of mappings in one file
MOST_FRAMES = 4096  # frames of one stack
MOST_FRAMES_IN_ALL = 1 << 24
KERNEL = "kernel"
NO_STACK = "(no stack was recorded)"
SAMPLE_TYPES = (("inuse_objects", "count"), ("inuse_space", "bytes"), ("alloc_objects", "count"), ("alloc_space", "bytes"))
DEFAULT = "inuse_space"
# The fields that all Frames of one location have in common.
PLACE_FIELDS = ("module", "build_id", "address")


def write(profile, path):
    """Writes `profile` to `path`. After a ReportError the file is unchanged."""
    try:
        data = encode(profile)
    except ReportError as error:
        raise ReportError(f"{path}: {error}") from error
    if len(data) > LARGEST:
        raise ReportError(f"{path}: the profile has {len(data) >> 20} MB; more than {LARGEST >> 20} MB could not be read again")
    compressor = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    replace_file(path, compressor.compress(data) + compressor.flush())


def read(path):
    """Returns the Profile in the file `path`. Raises ReportError."""
    return Decoder(path, load(path)).profile()


@functools.cache
def messages():
    """Returns the Python module profile_pb2. Raises ReportError. The caller puts the name of the profile before its message."""
    if not importlib.util.find_spec("google") or not importlib.util.find_spec("google.protobuf"):
        raise ReportError(f"{sys.executable} has no protobuf, which is in Debian's package python3-protobuf")
    path = pathlib.Path(os.environ.get("STELE_BUILD", pathlib.Path(__file__).resolve().parents[3] / "build")) / "report/profile_pb2.py"
    try:
        spec = importlib.util.spec_from_file_location("profile_pb2", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except (OSError, ImportError, TypeError) as error:
        raise ReportError(f"pprof needs {path}, which `make tools` makes: {getattr(error, 'strerror', None) or error}") from error
    return module


def replace_file(path, data):
    """Replaces the contents of a regular file atomically, also if two processes write: a reader sees all old bytes or all new bytes. Raises
    ReportError."""
    path = pathlib.Path(path)
    try:
        if path.exists() and not path.is_file():  # for example /dev/stdout
            path.write_bytes(data)
            return
        file, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
        try:
            with os.fdopen(file, "wb") as out:
                out.write(data)
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(name, 0o666 & ~umask)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror or error}") from error


class Encoder:
    """Builds a message. Gives strings, mappings, functions and locations numbers, so that the message has each of them once."""

    def __init__(self, build_id):
        self.build_id = build_id  # build id of the kernel
        self.message = messages().Profile()
        self.strings = {}
        self.mappings, self.functions, self.locations = {}, {}, {}
        self.string("")

    def string(self, text):
        if text not in self.strings:
            self.strings[text] = len(self.strings)
            self.message.string_table.append(text.encode("utf-8", "backslashreplace").decode())
        return self.strings[text]

    def mapping(self, module, build_id):
        if (module, build_id) not in self.mappings:
            self.mappings[module, build_id] = number = len(self.mappings) + 1
            self.message.mapping.add(id=number, filename=self.string(module), build_id=self.string(build_id), has_functions=True,
                                     has_filenames=True, has_line_numbers=True, has_inline_frames=True)
        return self.mappings[module, build_id]

    def function(self, name, file):
        if (name, file) not in self.functions:
            self.functions[name, file] = number = len(self.functions) + 1
            self.message.function.add(id=number, name=self.string(name), system_name=self.string(name), filename=self.string(file))
        return self.functions[name, file]

    def location(self, frames):
        """Returns the number of the location for `frames`, the Frames of one return address."""
        if frames not in self.locations:
            self.locations[frames] = number = len(self.locations) + 1
            outermost = frames[-1]
            location = self.message.location.add(id=number, mapping_id=self.mapping(outermost.module, outermost.build_id),
                                                 address=outermost.address)
            for frame in frames:
                location.line.add(function_id=self.function(frame.function, frame.file), line=frame.line)
        return self.locations[frames]

    def sample(self, key, amount, more_labels, stack=True):
        """Adds a sample. With `stack`, a sample without frames gets a location with the function NO_STACK,
        since pprof shows no samples without locations."""
        values = [round(value) for value in (amount.objects, amount.bytes, amount.all_objects, amount.all_bytes)]
        kernel, user = ([*by_return_address(stack)] for stack in (key.frames, key.user_frames))
        locations = [self.location(frames) for frames in kernel + user]
        if stack and not locations:
            locations = [self.location((Frame(NO_STACK, build_id=self.build_id),))]
        sample = self.message.sample.add(location_id=locations, value=values)
        labels = [("cache", key.source), ("process", key.process), ("age", key.age), *more_labels]
        for name, text in labels:
            if text:
                sample.label.add(key=self.string(name), str=self.string(text))
        if key.mark:
            sample.label.add(key=self.string("mark"), num=key.mark)
        if stacks_of(kernel + user) != (key.frames, key.user_frames):
            sample.label.add(key=self.string("kernel_locations"), num=len(kernel))


def encode(profile):
    """Returns the bytes of the message, not compressed. Raises ReportError. The caller puts the name of the file before its message."""
    encoder = Encoder(profile.build_id)
    message = encoder.message
    try:
        for name, unit in SAMPLE_TYPES:
            message.sample_type.add(type=encoder.string(name), unit=encoder.string(unit))
        message.default_sample_type = encoder.string(DEFAULT)
        message.period_type.type, message.period_type.unit, message.period = encoder.string("space"), encoder.string("bytes"), 1
        message.duration_nanos = round(profile.seconds * 1e9)
        encoder.mapping(KERNEL, profile.build_id)
        for key in profile.amounts | {key: None for key in profile.holders if key not in profile.amounts}:
            encoder.sample(key, profile.amounts.get(key, Amount()), [("holder", line) for line in profile.holders.get(key, ())])
        for name, source in profile.sources.items():
            encoder.sample(Key(name), Amount(), [("trace", json.dumps(asdict(source)))], stack=False)
        comments = [f"title: {profile.title}"] if profile.title else []
        comments += [f"incomplete: {line}" for line in profile.incomplete]
        message.comment.extend(encoder.string(comment) for comment in comments)
        return message.SerializeToString()
    except (ValueError, OverflowError) as error:
        raise ReportError(f"a number is too large for pprof: {error}") from error


def by_return_address(frames):
    """Yields tuples of `frames`, one for each return address."""
    begin = 0
    for end, frame in enumerate(frames, 1):
        if end == len(frames) or not frame.inlined or any(getattr(frame, name) != getattr(frames[end], name) for name in PLACE_FIELDS):
            yield frames[begin:end]
            begin = end


def load(path):
    """Returns the message in the file `path`. Raises ReportError if the file is not a pprof profile."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ReportError(f"{path}: not a regular file")
            data = contents(file)
    except (OSError, ValueError, zlib.error) as error:
        raise ReportError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    try:
        parse = messages().Profile.FromString
    except ReportError as error:
        raise ReportError(f"{path}: {error}") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # protobuf warns of data that it could not parse to the end
            return parse(data)
    except Exception as error:  # DecodeError, which can be imported only if protobuf is installed
        raise ReportError(f"{path}: not a pprof profile, or damaged") from error


def contents(file):
    """Returns the file's contents, decompressed if it is a gzip file. Raises ValueError and zlib.error."""
    data = file.read(LARGEST + 1)
    if data[:2] == b"\x1f\x8b":
        data = decompressed(data)
    if not data:
        raise ValueError("not a pprof profile: it is empty")
    if len(data) > LARGEST:
        raise ValueError(f"not a pprof profile: more than {LARGEST >> 20} MB")
    return data


def decompressed(data):
    """Returns the contents of all members of the gzip file, at most LARGEST + 1 bytes. Raises ValueError and zlib.error."""
    parts, size, members = [], 0, 0
    while data and size <= LARGEST:
        members += 1
        if members > MOST_MEMBERS:  # each member takes time in proportion to the rest of the data
            raise ValueError(f"a gzip file of more than {MOST_MEMBERS} members")
        member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        parts.append(member.decompress(data, LARGEST + 1 - size))
        size += len(parts[-1])
        if not member.eof and size <= LARGEST:
            raise ValueError("the gzip file is cut off")
        data = member.unused_data
    return b"".join(parts)


class Decoder:
    """Resolves the indices in a message. Messages are untrusted, so an index that is not in its table raises ReportError. Only an
    unknown mapping counts as no mapping."""

    def __init__(self, path, message):
        self.path, self.message = path, message
        for name in ("sample", "string_table", "mapping", "function", "location"):
            if len(getattr(message, name)) > MOST:
                raise self.damaged(f"more than {MOST} entries in the table of {name}")
        self.strings = list(message.string_table)
        types = [(self.string(one.type), self.string(one.unit)) for one in message.sample_type]
        if types != list(SAMPLE_TYPES):
            raise self.damaged(f"not a heap profile with {', '.join(name for name, _ in SAMPLE_TYPES)}")
        self.mappings = {one.id: (self.string(one.filename), self.string(one.build_id)) for one in message.mapping}
        kernel = [build_id for module, build_id in self.mappings.values() if module == KERNEL]
        if not kernel:
            raise self.damaged("not a profile of Stele: it has no mapping of the kernel")
        self.build_id = kernel[0]
        self.functions = {one.id: (self.string(one.name), self.string(one.filename)) for one in message.function}
        self.places = self._places()

    def damaged(self, why):
        return ReportError(f"{self.path}: {why}")

    def string(self, number):
        if not 0 <= number < len(self.strings):
            raise self.damaged("damaged: a string is not in its table")
        return self.strings[number]

    def _places(self):
        """Returns {number of a location: (module, build id, address, (((function, file), line), …))}, the innermost function first."""
        functions, mappings, places = self.functions, self.mappings, {}
        try:
            for location in self.message.location:
                places[location.id] = (*mappings.get(location.mapping_id, ("", "")), location.address,
                                       tuple([(functions[line.function_id], line.line) for line in location.line]))
        except KeyError:
            raise self.damaged("damaged: a function is not in its table") from None
        return places

    def samples(self):
        """Yields (numbers of locations, four values, labels) of each sample. `labels` is a tuple of (name, text or number)."""
        string, known, frames = self.string, {}, 0
        frames_of = {number: max(len(place[3]), 1) for number, place in self.places.items()}
        for sample in self.message.sample:
            ids, values = tuple(sample.location_id), tuple(sample.value)
            if len(values) != len(SAMPLE_TYPES):
                raise self.damaged(f"damaged: a sample has {len(values)} values")
            try:
                depth = sum([frames_of[number] for number in ids])
            except KeyError:
                raise self.damaged("damaged: a location is not in its table") from None
            frames += depth
            if depth > MOST_FRAMES or frames > MOST_FRAMES_IN_ALL:
                raise self.damaged("damaged: stacks that are too deep")
            labels = []
            for label in sample.label:
                numbers = label.key, label.str, label.num
                if numbers not in known:
                    known[numbers] = string(numbers[0]), string(numbers[1]) if numbers[1] else numbers[2]
                labels.append(known[numbers])
            yield ids, values, tuple(labels)

    def labels(self, pairs):
        """Returns (source, process, mark, age, holders, Source, value of the label kernel_locations) from a sample's labels. The Source is
        None if there is no label `trace`, and the last value is 0 if there is no label kernel_locations."""
        facts, holders, source = {}, [], None
        for name, value in pairs:
            if name == "holder":
                holders.append(str(value))
            elif name == "trace":
                source = self._source(value)
            else:
                facts[name] = value
        age, mark, kernel = facts.get("age", ""), facts.get("mark", 0), facts.get("kernel_locations", 0)
        if (age and age not in AGES) or not isinstance(mark, int) or not isinstance(kernel, int):
            raise self.damaged("damaged: a label of a sample has no such value")
        return str(facts.get("cache", "")), str(facts.get("process", "")), mark, age, holders, source, kernel

    def profile(self):
        """Returns the message as a Profile. Raises ReportError."""
        profile = Profile(build_id=self.build_id, seconds=self.message.duration_nanos / 1e9)
        self.comments(profile)
        frames = {number: frames_of(place) for number, place in self.places.items()}
        for ids, values, labels in self.samples():
            name, process, mark, age, holders, source, kernel = self.labels(labels)
            if source:
                profile.sources[name] = source
                continue
            key = Key(name, *stacks_of([frames[number] for number in ids], kernel), process, mark, age)
            profile.add(key, Amount(*values))
            if holders:
                profile.holders[key] += holders
        return profile

    def comments(self, profile):
        """Sets title and losses of `profile` from the message's comments. Ignores comments of other programs."""
        for number in self.message.comment:
            name, _, text = self.string(number).partition(": ")
            if name == "title":
                profile.title = text
            elif name == "incomplete":
                profile.incomplete.append(text)

    def _source(self, text):
        try:
            facts = json.loads(text)
            source = Source(**{field.name: facts[field.name] for field in fields(Source)})
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise self.damaged("damaged: what it tells of a cache cannot be read") from error
        numbers = [source.object_size, *numbers_of(source.options), *numbers_of(source.counters)]
        texts = [source.name, source.kind, source.state]
        if not all(type(text) is str for text in texts) or not all(type(number) in (int, float) for number in numbers):
            raise self.damaged("damaged: what it tells of a cache cannot be read")
        return source


def frames_of(place):
    """Returns the Frames of `place`, a value of Decoder.places. A location without lines was not symbolized: its
    Frame has the address as its name."""
    module, build_id, address, lines = place
    if lines == (((NO_STACK, ""), 0),):
        return ()
    if not lines:
        return (Frame(f"{address:#x}", module=module, address=address, build_id=build_id),)
    return tuple(Frame(function, file, line, number < len(lines), module, address, build_id)
                 for number, ((function, file), line) in enumerate(lines, 1))


def stacks_of(locations, kernel=0):
    """Returns (Frames of the kernel, Frames of the program) for a sample's locations, a list of tuples of Frames. The first `kernel` locations, and
    all locations in the kernel's module, belong to the kernel."""
    stacks = [], []
    for number, frames in enumerate(locations):
        stacks[number >= kernel and frames[:1] != () and frames[0].module != KERNEL].extend(frames)
    return tuple(stacks[0]), tuple(stacks[1])


def numbers_of(facts):
    return facts.values() if isinstance(facts, dict) else [None]
