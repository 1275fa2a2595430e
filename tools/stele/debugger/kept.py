"""Says what keeps the objects that certain stacks have allocated, as data for the leak test (tools/stele/leak_kept.py).

An object is kept by the pointers that lead to it. Some of these pointers lie in objects that leak as well, such as the other entries of a list. So the
search goes on from each holder towards the roots, along a shortest path, as long as the holder grows in number (its stack has objects of several runs), or
is of the same kind as the object to which it leads (an older entry). The first pointer that is in no such object is the keeper.
"""
import json
import pathlib
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from stele.debugger.pointer_tree import STACK, PointerTree
from stele.debugger.ref_classes import RefClass
from stele.debugger.refs import traced_references
from stele.debugger.source import code_line
from stele.debugger.stores import store_into_member, store_into_variable
from stele.debugger.traces import Traces
from stele.debugger.typed import plain
from stele.leak_counts import KMALLOC, KMALLOC_FAMILY, family
from stele.source_lines import shorten

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
_CALLERS = 3  # functions of a stack that are searched for the store into the keeper
_SHOWN_FIRST, _SHOWN_LAST = 3, 3  # texts of a path that are shown at its ends


@dataclass
class _Keeper:
    """A keeper of objects of one group. Pointers with the same name are one keeper."""

    name: str
    place: str = ""  # where the variable is declared
    in_list: bool = False
    variable: range = None  # the addresses of the variable, if it is one
    member: tuple = None  # for a member of an object: its name, and the offsets from and to which it extends
    words: set = field(default_factory=set)  # the addresses of the pointers
    holders: set = field(default_factory=set)  # the objects that have the pointers; empty for a variable
    objects: set = field(default_factory=set)  # the kept objects of the group
    entries: set = field(default_factory=set)  # the objects to which the pointers lead, and those of the same stack to which these lead
    links: set = field(default_factory=set)  # offsets in an entry of pointers to another entry
    shortest: tuple = None  # (number of steps, Location of the last pointer, object, Location of the keeper's pointer)


@dataclass
class _Way:
    """The way from an object to its keeper. `steps`: pointers on it. `at`: Location of the keeper's pointer. `entry`: the class of the entries, which is
    that of the first object behind the keeper that grows in number; None if there is none."""

    keeper: _Keeper
    steps: int
    at: object
    entry: tuple


def keepers(kernel, request):
    """Returns a list with a list of dictionaries for each group of `request`, the name of a file in JSON: [{"name": name of a cache, an arena or a class
    of references, without numbers (family()); "frames": return addresses}]. Each dictionary is about one keeper. Raises Unreadable."""
    return _Search(kernel, json.loads(pathlib.Path(request).read_text(encoding="utf-8"))).answer()


def _group_name(name):
    """Returns the name of a group's cache; the same name for all of kmalloc's, since memory that is reallocated goes through several."""
    return KMALLOC_FAMILY if KMALLOC.fullmatch(name) else family(name)


class _Search:
    def __init__(self, kernel, groups):
        self.kernel, self.traces = kernel, kernel.once(Traces)
        self.wanted = {(_group_name(group["name"]), tuple(group["frames"])): number for number, group in enumerate(groups)}
        self.count = len(groups)
        self.records, self.classes = {}, {}  # of each traced object: its Record; its class, which is (name of the cache, number of the stack)
        self.marks = defaultdict(set)  # of each class: the runs whose objects are alive
        self._read_traces()

    def _read_traces(self):
        for owner in self.traces.sources():
            for record in () if isinstance(owner, RefClass) else self.traces.records_of(owner):
                self.records[record.object] = record
                self.classes[record.object] = owner.name, record.stack
                self.marks[owner.name, record.stack].add(record.mark)

    def answer(self):
        targets, references = defaultdict(set), defaultdict(list)
        for address, (name, stack) in self.classes.items():
            targets[self.wanted.get((_group_name(name), self._frames(stack)))].add(address)
        for number, reference in self._references():
            references[number].append(reference)
        everything = set().union(*(targets[number] for number in range(self.count)))
        self.tree = PointerTree(self.kernel, everything, {address: record.size for address, record in self.records.items()})
        return [self._of_group(targets[number], references[number]) for number in range(self.count)]

    def _frames(self, stack):
        return self.traces.stacks[stack].frames if stack else ()

    def _references(self):
        """Yields (number of the group, Reference) for the references that the groups ask about."""
        names = {name for name, _ in self.wanted}
        for of in self.traces.sources():
            if not isinstance(of, RefClass) or not of.structure.trace or of.name not in names:
                continue
            for reference in traced_references(self.kernel, self.kernel.at("TraceTable", of.structure.trace)):
                number = self.wanted.get((of.name, self._frames(reference.record.stack)))
                if number is not None and reference.place:
                    yield number, reference

    # --- From an object to its keepers.

    def _of_group(self, targets, references):
        found, self.ways = {}, {}
        for target in targets:
            for place in self._pointers(target):
                self._add(found, target, place)
        for reference in references:
            self._add(found, reference.record.object, reference.place, (reference.record.object, reference.number))
        return [self._as_data(keeper) for keeper in found.values()]

    def _pointers(self, target):
        """Returns the Locations of the pointers to an object, that of the shortest path first. Those on stacks count only if there are no others."""
        pointers = [(where, place) for where, place in self.tree.pointers[target] if place.item != target]
        places = [place for where, place in pointers if where != STACK] or [place for _, place in pointers]
        kind, first = self.tree.links.get(target, ("", None))
        if kind == "walker" and not places:
            return [first]
        return sorted(places, key=lambda place: place != first)

    def _grows(self, item):
        return len(self.marks.get(self.classes.get(item), ())) > 1

    def _alike(self, holder, item):
        """True if two objects are of the same kind."""
        owners = [self.tree.owner(holder), self.tree.owner(item)]
        if None in owners or owners[0].address != owners[1].address:
            return False
        shapes = [self.tree.shape(holder), self.tree.shape(item)]
        if all(shapes):
            return shapes[0].name == shapes[1].name and not shapes[0].is_array
        return not any(shapes) and (holder not in self.classes or self.classes[holder] == self.classes.get(item))

    def _add(self, found, target, place, counted=None):
        """Adds the keeper of `target` by way of the pointer at `place` to `found`, {name: _Keeper}. `counted`: counts instead of the object."""
        if place.owner and place.item not in self.tree.links:
            return  # in an object that cannot be reached
        walked, way = self._climb([(place, target)], set())
        if not way:
            at = walked[-1][0]
            keeper = self._keeper(at)
            keeper = found.setdefault(keeper.name, keeper)
            keeper.words.add(at.address)
            keeper.holders.update([at.item] if at.owner else [])
            way = _Way(keeper, 0, at, next((self.classes[item] for _, item in reversed(walked) if self._grows(item)), None))
        self._note_ways(walked, way)
        keeper, counted = way.keeper, counted or target
        if counted in keeper.objects:
            return  # its shortest path was first
        keeper.objects.add(counted)
        self._note_entries(way, walked[::-1], counted)
        if keeper.shortest is None or way.steps + len(walked) < keeper.shortest[0]:
            keeper.shortest = way.steps + len(walked), place, target, way.at

    def _climb(self, walked, seen):
        """Goes on from the last pointer of `walked` to the keeper's, or to an object whose way is known. `walked`: [(Location of a pointer, the object to
        which it leads)]; `seen`: the addresses of pointers to structures on stacks. Returns (`walked` with the pointers that were added; the _Way from the
        holder of the last pointer, or None if this pointer is the keeper's). A structure on a stack is the object 0."""
        at, child = walked[-1]
        while at.owner and (self._grows(at.item) or self._alike(at.item, child)):
            if at.item in self.ways:
                return walked, self.ways[at.item]
            child = at.item
            at = self.tree.links[child][1]
            walked.append((at, child))
        for outer in self.tree.to_structure_on_stack(at):
            if outer.address not in seen:
                seen.add(outer.address)
                further, way = self._climb([*walked, (outer, 0)], seen)
                if way or not self.tree.is_on_stack(further[-1][0]):
                    return further, way
        return walked, None

    def _note_ways(self, walked, way):
        """Notes the _Way of each object on a path, so that it is walked only once. That of the first one only if the path begins with its own link."""
        for steps, (place, item) in enumerate(reversed(walked), 1):
            if item and self.tree.links.get(item, ("", None))[1] == place:
                self.ways.setdefault(item, _Way(way.keeper, way.steps + steps, way.at, way.entry))

    def _note_entries(self, way, walked, counted):
        """Adds the entries on a path to the keeper. `walked`: (Location of a pointer, the object to which it leads), from the keeper on, or from an object
        whose entries have been added already."""
        keeper, first = way.keeper, walked[0][0].item
        before = first if way.entry and self.classes.get(first) == way.entry else None
        for place, item in walked:
            if way.entry and self.classes.get(item) == way.entry:
                keeper.entries.add(item)
                if before and before == place.item:
                    keeper.links.add(place.address - before)
                before = item
        if not way.entry or isinstance(counted, tuple) and way.steps + len(walked) == 1:
            keeper.entries.add(counted)

    # --- The keeper.

    def _keeper(self, place):
        """Returns a new _Keeper for the pointer at a Location."""
        if not place.owner:
            return self._in_variable(place)
        tree, (shape, word) = self.tree, self.tree.word(place)
        if word and word.list:
            return _Keeper(f"{shape.name} {word.list_name}", in_list=True)
        parent = tree.links[place.item]
        if shape and not shape.is_array:
            return _Keeper(_without_numbers(tree.word_name("word", place)), member=_member(shape, place.address - place.item))
        of = _without_numbers(tree.word_name(*parent))
        symbol = None if parent[1].owner or not tree.names.is_static(parent[1].address) else tree.names.static(parent[1].address)[0]
        if not shape:
            return _Keeper(f"{of} → {tree.object_name(place.item)}", _declared(symbol))
        return _Keeper(of + _without_numbers(shape.field(place.address - place.item) or ""), _declared(symbol))

    def _in_variable(self, place):
        names = self.tree.names
        if place.register or not names.is_static(place.address):
            return _Keeper(self.tree.word_name("root", place))
        symbol, name, offset = names.static(place.address)
        _, word = self.tree.word(place)
        in_list = bool(word and word.list)
        full = plain(name) + word.list_name if in_list else names.root(place)
        start = place.address - offset
        return _Keeper(_without_numbers(full), _declared(symbol), in_list, range(start, start + max(symbol.type.sizeof, 8)) if symbol else None)

    def _as_data(self, keeper):
        records = [self.records[item] for item in keeper.objects if item in self.records]
        entries = Counter(self.classes.get(item) for item in keeper.entries)
        one = entries.most_common(1)[0][0]
        stack = list(self._frames(one[1])) if one else []
        entry = next((item for item in keeper.entries if self.classes.get(item) == one and item in self.tree.links), None)
        return {"name": keeper.name, "place": keeper.place, "kind": self._kind(keeper), "holders": len(keeper.holders), "objects": len(keeper.objects),
                "entries": len(keeper.entries), "entry": self.tree.object_name(entry) if entry else "reference",
                "entry_size": self.records[entry].size if entry in self.records else 0, "bytes": sum(record.size for record in records),
                "largest": max((record.size for record in records), default=0), "stack": stack, "stored": self._stored_at(keeper, stack),
                "path": self._path_text(*keeper.shortest[1:])}

    @staticmethod
    def _kind(keeper):
        if keeper.in_list:
            return "List"
        if "[]" in keeper.name or not keeper.member and keeper.holders and len(keeper.words) > 1:
            return "array of trees" if len(keeper.links) > 1 else "array of chains" if keeper.links else "array"
        return "tree" if len(keeper.links) > 1 else "chain" if keeper.links else "pointer"

    def _stored_at(self, keeper, stack):
        """Returns the address of the instruction that stores into the keeper, in a function that calls the allocation of its entries; 0 if none is seen."""
        if keeper.variable:
            found = (store_into_variable(frame, keeper.variable) for frame in stack[:_CALLERS])
        elif keeper.member:
            found = (store_into_member(frame, *keeper.member, lambda address: _source_line(self.kernel, address)) for frame in stack[:_CALLERS])
        else:
            return 0
        return next(filter(None, found), 0)

    def _path_text(self, place, target, keeper):
        items = [*(self.tree.path(place.item) if place.owner else []), target]
        links = [*(self.tree.links[item] for item in items[:-1]),
                 ("root" if not place.owner else "walker" if self.tree.links.get(target, ("",))[0] == "walker" else "word", place)]
        is_over_stack = self.tree.is_on_stack(links[0][1]) and not self.tree.is_on_stack(keeper)
        texts = [*([self.tree.word_name("root", keeper)] if is_over_stack else []), *(self.tree.word_name(*link) for link in links), self.tree.object_name(target)]
        if len(texts) > _SHOWN_FIRST + _SHOWN_LAST + 1:
            texts[_SHOWN_FIRST:-_SHOWN_LAST] = [f"… {len(texts) - _SHOWN_FIRST - _SHOWN_LAST} more"]
        return texts


def _without_numbers(name):
    """Returns a name of a word with [] in place of [3]."""
    return re.sub(r"\[\d+\]", "[]", name)


def _declared(symbol):
    return f"{shorten(symbol.symtab.filename, ROOT)}:{symbol.line}" if symbol and symbol.symtab else ""


def _member(shape, offset):
    """Returns (name, first offset, offset behind it) of the member at an offset of a Shape; None if it has no name."""
    for member in shape.type.fields():
        if hasattr(member, "bitpos") and member.name and not member.is_base_class:
            start = member.bitpos // 8
            end = start + member.type.strip_typedefs().sizeof
            if start <= offset < end:
                return member.name, start, end
    return None


def _source_line(kernel, address):
    """Returns the source line of an instruction, in the function that is not inlined; "" if it is not there."""
    file, _, line = code_line(kernel, address).rpartition(" ")[2].rpartition(":")
    try:
        return (ROOT / file).read_text(encoding="utf-8").splitlines()[int(line) - 1]
    except (OSError, ValueError, IndexError, UnicodeDecodeError):
        return ""
