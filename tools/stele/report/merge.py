"""scripts/report merge: adds up profiles of many guests, to show leaks that are small in each guest.

    scripts/report merge [--any-build] -o OUT FILE…     FILE and OUT are pprof profiles

Stacks of two guests are equal if they have the same functions, files, lines and build ids. OUT leaves out data
that has a meaning in one guest only: addresses, marks, PIDs and the holders of references. OUT has ages
and names of processes.

All guests must have the same kernel: the build ids are compared. --any-build allows different kernels,
which makes sense if they differ little. Each CPU has a process that reads some of the files, one after
the other. So memory is proportional to the number of different stacks, and independent of the number of
files. At most MOST_STACKS different stacks are allowed. OUT is written when all files have been read. If a
file is damaged, is not a profile of Stele, or comes from another kernel, the status is 2, and OUT stays
unchanged.
"""
import argparse
import concurrent.futures
import gc
import os
import re
from collections import Counter

from stele.report import pprof
from stele.report.profile import Amount, Key, Profile, ReportError

MOST_STACKS = 1 << 17
MOST_REASONS = 20  # largest number of different lines about losses; OTHER represents further lines
FILES_OF_ONE = 50  # fewer files are not worth the start of a process for each CPU
PID = re.compile(r"^pid \d+ (?:thread \d+ )?")
OTHER = "there is more"
NUMBER = re.compile(r"(?<![\w.-])\d+(?![\w.-])")


class Merger:
    def __init__(self, any_build=False):
        self.any_build = any_build
        self.first = None  # (path, build id) of the first file
        self.builds, self.files, self.seconds = set(), 0, 0.0
        # {location, a value of Decoder.places: its number in this Merger}. If the location's functions are known, its address is set to 0.
        self.places = {}
        self.stacks = {}  # {(numbers of locations, (source, process, age, value of the label kernel_locations)): [values of a sample]}
        self.sources, self.incomplete, self.more_incomplete = {}, Counter(), False

    def add(self, path):
        """Adds the profile in the file `path`. Raises ReportError."""
        decoder = pprof.Decoder(path, pprof.load(path))
        self._check_build(path, decoder.build_id)
        numbers = {number: self.places.setdefault((module, build_id, 0 if lines else address, lines), len(self.places))
                   for number, (module, build_id, address, lines) in decoder.places.items()}
        kept = {}
        for ids, values, labels in decoder.samples():
            facts = kept.get(labels)
            if facts is None:
                name, process, _, age, _, source, kernel = decoder.labels(labels)
                if source:
                    self._add_source(name, source)
                    continue
                facts = kept[labels] = (name, PID.sub("", process), age, kernel)
            self._add_stack((tuple([numbers[number] for number in ids]), facts), values)
        self._check_size()
        about = Profile()
        decoder.comments(about)
        self._add_incomplete({NUMBER.sub("N", line): 1 for line in about.incomplete})
        self.seconds = max(self.seconds, decoder.message.duration_nanos / 1e9)
        self.files += 1

    def join(self, other):
        """Adds the contents of another Merger."""
        numbers = [self.places.setdefault(place, len(self.places)) for place in other.places]
        for (ids, facts), values in other.stacks.items():
            self._add_stack((tuple([numbers[number] for number in ids]), facts), values)
        self._check_size()
        for name, source in other.sources.items():
            self._add_source(name, source)
        self._add_incomplete(other.incomplete)
        self.more_incomplete |= other.more_incomplete
        self.builds |= other.builds
        self.seconds, self.files = max(self.seconds, other.seconds), self.files + other.files

    def _add_stack(self, stack, values):
        known = self.stacks.get(stack)
        if known is None:
            self.stacks[stack] = list(values)
        else:
            known[0] += values[0]
            known[1] += values[1]
            known[2] += values[2]
            known[3] += values[3]

    def _add_incomplete(self, lines):
        for line, files in lines.items():
            if line in self.incomplete or len(self.incomplete) < MOST_REASONS:
                self.incomplete[line] += files
            else:
                self.more_incomplete = True

    def _check_size(self):
        if len(self.stacks) > MOST_STACKS:
            raise ReportError(f"more than {MOST_STACKS} different stacks are too many to merge")

    def _check_build(self, path, build_id):
        if self.first is None:
            self.first = (path, build_id)
        first, expected = self.first
        if build_id != expected and not self.any_build:
            raise ReportError(f"{path}: of build {build_id or 'unknown'}, but {first} is of build {expected or 'unknown'}"
                              " (--any-build merges them)")
        self.builds.add(build_id)

    def _add_source(self, name, source):
        known = self.sources.setdefault(name, source)
        if known is not source:
            for counter, value in source.counters.items():
                known.counters[counter] = known.counters.get(counter, 0) + value
            if known.state != source.state:
                known.state = ""

    def profile(self):
        """Returns the sum as a Profile."""
        profile = Profile(f"{self.files} profiles", self.first[1] if len(self.builds) == 1 else "", self.seconds, sources=self.sources)
        frames = [pprof.frames_of(place) for place in self.places]
        for (numbers, (source, process, age, kernel)), values in self.stacks.items():
            key = Key(source, *pprof.stacks_of([frames[number] for number in numbers], kernel), process, 0, age)
            profile.add(key, Amount(*values))
        if len(self.builds) > 1:
            profile.incomplete.append(f"profiles of {len(self.builds)} builds: stacks of different builds are not added up")
        profile.incomplete += [f"in {files} of {self.files} profiles: {line}" for line, files in self.incomplete.most_common()]
        if self.more_incomplete:
            profile.incomplete.append(OTHER)
        return profile


def merge(paths, any_build=False):
    """Returns the sum of the files' profiles as a Profile. Raises ReportError."""
    merger = Merger(any_build)
    merger.add(paths[0])  # the other files must have the build id of this file
    rest, workers = paths[1:], len(os.sched_getaffinity(0))
    if workers == 1 or len(rest) < FILES_OF_ONE:
        for path in rest:
            merger.add(path)
        return merger.profile()
    with concurrent.futures.ProcessPoolExecutor(workers) as pool:
        for part in pool.map(added, [merger.first] * workers, [any_build] * workers, [rest[start::workers] for start in range(workers)]):
            merger.join(part)
    return merger.profile()


def added(first, any_build, paths):
    """Returns a Merger with the files in `paths`. `first`: (path, build id) of the first of all files; the other files must have
    this build id."""
    gc.disable()  # there are no reference cycles, and very many tuples
    merger = Merger(any_build)
    merger.first = first
    for path in paths:
        merger.add(path)
    return merger


def main(words):
    parser = argparse.ArgumentParser(prog="report merge", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="the merged profile")
    parser.add_argument("--any-build", action="store_true", help="also merge profiles of different kernels")
    parser.add_argument("files", nargs="+", metavar="FILE", help="a pprof profile, as scripts/report --format pprof writes it")
    options = parser.parse_args(words)
    try:
        merged = merge(options.files, options.any_build)
    except (MemoryError, concurrent.futures.BrokenExecutor) as error:
        raise ReportError("merge: there was not enough memory, or a process of it was killed") from error
    pprof.write(merged, options.output)
    return 0
