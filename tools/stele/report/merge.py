"""scripts/report merge: adds profiles of many guests, so that a leak is seen of which each guest has only a little.

    scripts/report merge [--any-build] -o OUT FILE…     FILE and OUT are pprof profiles

A stack of one guest is that of another if its functions, files and lines are the same (profile.comparable). What says something within
one guest only is left out: addresses, marks, numbers of processes (their names stay), holders. The age stays.

Guests are of one build, by the kernel's build id; --any-build adds others too, which makes sense if they differ in little. Files are
read one after the other, so memory is in proportion to how many different stacks there are, MOST_STACKS at most, whatever the number
of files. OUT is written when all were read: a file that is damaged, foreign or of another build is status 2, and OUT stays as it was.
"""
import argparse
import re
from collections import Counter

from stele.report import pprof
from stele.report.profile import Amount, Key, Profile, ReportError

MOST_STACKS = 1 << 18
MOST_LOST = 100  # lines of what was lost
PID = re.compile(r"^pid \d+ ")


class Merger:
    def __init__(self, any_build=False):
        self.any_build = any_build
        self.first = None  # (path, build id) of the first file
        self.builds, self.files, self.seconds = Counter(), 0, 0.0
        self.places = {}  # {one of Decoder.places without its address: its number}
        self.stacks = {}  # {(numbers of places, source, process, age): [four values]}
        self.sources, self.lost = {}, Counter()

    def add(self, path):
        """Adds the profile in `path`; ReportError."""
        decoder = pprof.Decoder(path, pprof.load(path))
        self._check_build(path, decoder.build_id)
        numbers = {number: self.places.setdefault((module, build_id, 0 if lines else address, lines), len(self.places))
                   for number, (module, build_id, address, lines) in decoder.places.items()}
        stacks, kept = self.stacks, {}
        for ids, values, labels in decoder.samples():
            facts = kept.get(labels)
            if facts is None:
                name, process, _, age, _, source = decoder.labels(labels)
                if source:
                    self._add_source(name, source)
                    continue
                facts = kept[labels] = (name, PID.sub("", process), age)
            key = (tuple([numbers[number] for number in ids]), facts)
            known = stacks.get(key)
            if known is None:
                stacks[key] = list(values)
            else:
                known[0] += values[0]
                known[1] += values[1]
                known[2] += values[2]
                known[3] += values[3]
        if len(stacks) > MOST_STACKS:
            raise ReportError(f"{path}: with this file there are more than {MOST_STACKS} different stacks")
        about = Profile()
        decoder.comments(about)
        self.lost.update(set(about.lost))
        self.seconds = max(self.seconds, decoder.message.duration_nanos / 1e9)
        self.files += 1

    def _check_build(self, path, build_id):
        if self.first is None:
            self.first = (path, build_id)
        first, expected = self.first
        if build_id != expected and not self.any_build:
            raise ReportError(f"{path}: of build {build_id or 'unknown'}, but {first} is of build {expected or 'unknown'}"
                              " (--any-build merges them)")
        self.builds[build_id] += 1

    def _add_source(self, name, source):
        known = self.sources.setdefault(name, source)
        if known is not source:
            for counter, value in source.counters.items():
                known.counters[counter] = known.counters.get(counter, 0) + value
            if known.state != source.state:
                known.state = ""

    def profile(self):
        """What was added; ReportError if it was nothing."""
        profile = Profile(f"{self.files} profiles", self.first[1] if len(self.builds) == 1 else "", self.seconds, sources=self.sources)
        frames = [pprof.frames_of(place) for place in self.places]
        for (numbers, (source, process, age)), values in self.stacks.items():
            key = Key(source, *pprof.stacks_of([frames[number] for number in numbers]), process, 0, age)
            profile.add(key, Amount(*values))
        if len(self.builds) > 1:
            profile.lost.append(f"profiles of {len(self.builds)} builds: stacks of two builds are the same only if their lines are")
        if self.files > 1:
            profile.lost += [f"in {files} of {self.files} profiles: {line}" for line, files in self.lost.most_common(MOST_LOST)]
            if len(self.lost) > MOST_LOST:
                profile.lost.append(f"and {len(self.lost) - MOST_LOST} more such lines")
        else:
            profile.lost += self.lost
        return profile


def merge(paths, any_build=False):
    """The Profile of the files together; ReportError."""
    merger = Merger(any_build)
    for path in paths:
        merger.add(path)
    return merger.profile()


def main(words):
    parser = argparse.ArgumentParser(prog="report merge", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="where the sum goes")
    parser.add_argument("--any-build", action="store_true", help="profiles of different kernels too")
    parser.add_argument("files", nargs="+", metavar="FILE", help="a pprof profile, as scripts/report --format pprof writes it")
    options = parser.parse_args(words)
    pprof.write(merge(options.files, options.any_build), options.output)
    return 0
