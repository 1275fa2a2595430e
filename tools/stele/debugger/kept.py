"""Says what keeps the objects that certain stacks have allocated, as data for the leak test (tools/stele/leak_kept.py).

An object is kept by the pointers that lead to it. Some of these pointers lie in objects that leak as well, such as the other entries of a list. So the
search goes on from each holder towards the roots, along a shortest path, as long as the holder is one of the growing ones: an object whose stack has
objects of several runs. The first pointer whose holder is not such an object is the keeper.
"""
import json
import pathlib
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from stele.debugger.caches import slab_of
from stele.debugger.pointees import Shape, pointee, word_at
from stele.debugger.reach import ask
from stele.debugger.ref_classes import RefClass
from stele.debugger.refs import traced_references
from stele.debugger.source import code_line
from stele.debugger.stores import store_into_member, store_into_variable
from stele.debugger.traces import Traces
from stele.debugger.typed import Names, plain
from stele.leak_counts import KMALLOC, KMALLOC_FAMILY, family
from stele.source_lines import shorten

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
_OBJECT, _STATIC, _STACK = 0, 1, 2  # RangeOwner::Kind (kern/src/reach/ranges.h)
_MOST_STEPS = 1 << 14  # of a path
_CALLERS = 3  # functions of a stack that are searched for the store into a variable
_SHOWN_FIRST, _SHOWN_LAST = 3, 3  # steps of a path that are shown at its ends


@dataclass
class _Keeper:
    """A keeper of objects of one group, in the words of the report."""

    name: str
    place: str = ""  # where the variable is declared
    in_list: bool = False
    variable: tuple = None  # the addresses from and to which it extends, if it is a variable
    member: tuple = None  # for a member of an object: its name, and the offsets from and to which it extends
    holders: set = field(default_factory=set)  # addresses of the objects that have the pointers; empty for variables
    objects: set = field(default_factory=set)  # the kept objects of the group
    entries: set = field(default_factory=set)  # objects to which the keeper's pointers and those of other entries lead
    links: dict = field(default_factory=dict)  # for each kept object, by which pointers of other entries it is reached: their offsets in an entry
    direct: set = field(default_factory=set)  # objects to which no other entry is needed
    path: list = None  # the shortest one to an object
    entry_shape: str = ""


def keepers(kernel, request):
    """Returns a list with a list of dictionaries for each group of `request`, the name of a file in JSON: [{"name": name of a cache, an arena or a class
    of references, without numbers (family()); "frames": return addresses}]. Each dictionary is about one keeper. Raises Unreadable."""
    groups = json.loads(pathlib.Path(request).read_text(encoding="utf-8"))
    return _Search(kernel, groups).answer()


def _group_name(name):
    """Returns the name of a group's cache; the same name for all of kmalloc's, since memory that is reallocated goes through several."""
    return KMALLOC_FAMILY if KMALLOC.fullmatch(name) else family(name)


def _member(shape, offset):
    """Returns (name, first offset, offset behind it) of the member at an offset of a Shape; None if it has no name."""
    if shape.is_array:
        return None
    for member in shape.type.fields():
        if hasattr(member, "bitpos") and member.name and not member.is_base_class:
            start = member.bitpos // 8
            if start <= offset < start + member.type.strip_typedefs().sizeof:
                return member.name, start, start + member.type.strip_typedefs().sizeof
    return None


def _source_line(kernel, address):
    """Returns the source line of an instruction, in the function that is not inlined; "" if it is not there."""
    file, _, line = code_line(kernel, address).rpartition(" ")[2].rpartition(":")
    try:
        return (ROOT / file).read_text(encoding="utf-8").splitlines()[int(line) - 1]
    except (OSError, ValueError, IndexError, UnicodeDecodeError):
        return ""


class _Search:
    def __init__(self, kernel, groups):
        self.kernel, self.groups = kernel, groups
        self.names, self.traces = kernel.once(Names), kernel.once(Traces)
        self.records, self.classes = {}, {}  # of each traced object, by its address: its Record; its class, which is (name, number of the stack)
        self.marks = defaultdict(set)  # of each class: the runs whose objects are alive
        self.shapes, self.paths = {}, {}

    def answer(self):
        self._read_traces()
        wanted = {(_group_name(group["name"]), tuple(group["frames"])): number for number, group in enumerate(self.groups)}
        targets, words = defaultdict(set), []
        for address, (name, stack) in self.classes.items():
            number = wanted.get((_group_name(name), self._frames(stack)))
            if number is not None:
                targets[number].add(address)
        for number, reference in self._references(wanted):
            words.append((number, reference))
        everything = set().union(*targets.values())
        answer = ask(self.kernel, "keepers", more="".join(f"target {address:x}\n" for address in everything))
        self.map = answer.map
        self.links, holders = self._links(answer)
        return [self._of_group(targets[number], [reference for of, reference in words if of == number], holders) for number in range(len(self.groups))]

    def _read_traces(self):
        for owner in self.traces.sources():
            if isinstance(owner, RefClass) or not owner.structure.trace:
                continue
            for record in self.traces.source_of(owner).records:
                self.records[record.object] = record
                one = self.classes[record.object] = owner.name, record.stack
                self.marks[one].add(record.mark)

    def _frames(self, stack):
        return self.traces.stacks[stack].frames if stack else ()

    def _references(self, wanted):
        """Yields (number of the group, Reference) for the references that the groups ask about."""
        for of in self.traces.sources():
            if not isinstance(of, RefClass) or not of.structure.trace or not any(name == of.name for name, _ in wanted):
                continue
            for reference in traced_references(self.kernel, self.kernel.at("TraceTable", of.structure.trace)):
                number = wanted.get((of.name, self._frames(reference.record.stack)))
                if number is not None and reference.place:
                    yield number, reference

    @staticmethod
    def _links(answer):
        """Returns ({object: (kind, Location)}: the last pointer of a shortest path; {target: [(kind of range, Location)]}: all pointers)."""
        links, holders = {}, defaultdict(list)
        for word, item, *numbers in answer.lines:
            if word == "to":
                where, *place = numbers
                holders[item].append((where, answer.place(*place)))
            else:
                links[item] = word, answer.place(*numbers)
        return links, holders

    # --- Paths.

    def _path_to(self, item):
        """Returns the pointers that lead to an object, from a root on: [(kind, Location)]; None if it cannot be reached."""
        if item not in self.paths:
            steps, at = [], item
            while True:
                link = self.links.get(at)
                if not link or len(steps) > _MOST_STEPS:
                    steps = None
                    break
                steps.append(link)
                if link[0] in ("root", "owner") or not link[1].owner:
                    break
                at = link[1].item
            self.paths[item] = steps[::-1] if steps else None
        return self.paths[item]

    def _is_growing(self, item):
        one = self.classes.get(item)
        return one is not None and len(self.marks[one]) > 1

    def _shape(self, steps, number):
        """Returns the Shape of the object in which the step `number` of a path has its pointer; None if it is unknown."""
        if number == 0:
            return None
        kind, place = steps[number]
        item = place.item
        if item not in self.shapes:
            self.shapes[item] = self._find_shape(steps, number, item)
        return self.shapes[item]

    def _find_shape(self, steps, number, item):
        owner = steps[number][1].owner
        known = self.names.type_of(owner, item) if owner else None
        return Shape(known) if known else self._pointee(steps, number - 1, item)

    def _pointee(self, steps, number, item):
        """Returns the Shape of the object `item` to which the step `number` leads, by the type of the pointer."""
        kind, place = steps[number]
        if kind not in ("root", "word") or place.register:
            return None
        holder, word = self._word(steps, number)
        value = self.kernel.word(place.address)
        record = self.records.get(item)
        return pointee(word, holder, place.address - place.item, value - item, record.size if record else None)

    def _word(self, steps, number):
        """Returns (Shape of the holder or None, Word) of a step."""
        kind, place = steps[number]
        if not place.owner:
            symbol, _, offset = self.names._variable_at(place.address) if self.names.is_static(place.address) else (None, "", 0)
            return None, word_at(symbol.type, offset) if symbol else None
        holder = self._shape(steps, number)
        if not holder:
            return None, None
        offset = place.address - place.item
        return holder, word_at(holder.type, offset % holder.type.sizeof if holder.is_array else offset)

    def _step_name(self, steps, number):
        kind, place = steps[number]
        if kind == "owner":
            return "a root that its owner reports"
        if not place.owner:
            return self._stack_name(place) if not place.register and not self.names.is_static(place.address) else self.names.root(place)
        shape = self._shape(steps, number)
        name = shape.name if shape else place.owner.name
        if kind == "walker":
            return f"{name}, by its walker"
        field_name = shape.field(place.address - place.item) if shape else None
        return f"{name.removesuffix('[]')}{field_name}" if shape and shape.is_array and field_name else \
            f"{name} {field_name}" if field_name else f"{name} +{place.address - place.item:#x}"

    def _stack_name(self, place):
        task = self.names.task_of(place)
        if not task:
            return "the stack of a CPU"
        return f"the kernel stack of task {task.name}" + (f", in {found}" if (found := self._function_at(task, place.address)) else "")

    def _function_at(self, task, address):
        from stele.debugger.symbols import Symbols
        frame = task.frame_at(address)
        found = self.kernel.once(Symbols).look_up(frame.address - 1) if frame else None
        return found[0] if found else ""

    # --- Keepers.

    def _of_group(self, targets, references, holders):
        found = {}
        for target in targets:
            known = [(where, place) for where, place in holders[target] if where != _STACK and (not place.owner or place.item != target)]
            for place in [place for _, place in known or holders[target]] or self._by_walker(target):
                self._add(found, target, place)
        for reference in references:
            self._add(found, reference.record.object, reference.place, (reference.record.object, reference.number))
        return [self._as_data(keeper) for keeper in found.values()]

    def _by_walker(self, target):
        """Returns the Location of the walker that leads to an object without a pointer, such as a page that is only in a page table."""
        kind, place = self.links.get(target, ("", None))
        return [place] if kind == "walker" else []

    def _add(self, found, target, place, counted=None):
        """Adds what keeps `target` by way of the pointer at `place` to `found`. `counted`: counts instead of the object."""
        before = self._path_to(place.item) if place.owner else []
        if before is None:
            return
        kind = "root" if not place.owner else "walker" if self.links.get(target) == ("walker", place) else "word"
        steps = [*before, (kind, place)]
        items = [*(step[1].item for step in steps[1:]), target]  # items[i]: to what step i leads
        number = len(steps) - 1
        while number > 0 and (self._is_growing(items[number - 1]) or self._is_alike(steps, items, number)):
            number -= 1
        key, keeper = self._keeper(steps, number)
        keeper = found.setdefault(key, keeper)
        if steps[number][1].owner:
            keeper.holders.add(steps[number][1].item)
        keeper.objects.add(counted or target)
        of = next((self.classes[item] for item in items[number:] if self._is_growing(item)), None)
        entries = [item for item in items[number:] if self.classes.get(item) == of] if of else [target]
        keeper.entries.update([counted] if counted and entries == [target] else entries)
        i, links = number + 1, set()
        while i < len(steps) and self._is_alike(steps, items, i):
            links.add(steps[i][1].address - items[i - 1])
            i += 1
        if not links:
            keeper.direct.add(target)
        keeper.links.setdefault(target, set()).update(links)
        if keeper.path is None or len(steps) < len(keeper.path[0]):
            keeper.path = steps, target
            keeper.entry_shape = self._name_of(steps, items, number)

    def _is_alike(self, steps, items, number):
        """True if the step `number` leads from an object to one of the same kind."""
        holder, target = items[number - 1], items[number]
        owners = [steps[number][1].owner, self._owner_of(steps, items, number)]
        if not owners[0] or not owners[1] or owners[0].address != owners[1].address:
            return False
        shapes = [self._shape(steps, number), self._shape_of(steps, items, number)]
        if shapes[0] and shapes[1]:
            return shapes[0].name == shapes[1].name and not shapes[0].is_array
        return not any(shapes) and (self.classes.get(holder) == self.classes.get(target) or holder not in self.classes)

    def _owner_of(self, steps, items, number):
        """Returns the Cache or Arena of the object to which the step `number` leads; None if it is unknown."""
        return steps[number + 1][1].owner if number + 1 < len(steps) else self._owner(items[number])

    def _shape_of(self, steps, items, number):
        """Returns the Shape of the object to which the step `number` leads; None if it is unknown."""
        if number + 1 < len(steps):
            return self._shape(steps, number + 1)
        owner = self._owner(items[number])
        known = self.names.type_of(owner, items[number]) if owner else None
        return Shape(known) if known else self._pointee(steps, number, items[number])

    def _name_of(self, steps, items, number):
        shape, owner = self._shape_of(steps, items, number), self._owner_of(steps, items, number)
        return shape.name if shape else owner.name if owner else f"{items[number]:#x}"

    def _owner(self, item):
        one, slab = self.classes.get(item), slab_of(self.kernel, item)
        return slab.cache if slab else self.traces.find(one[0]) if one else None

    def _keeper(self, steps, number):
        """Returns (key, _Keeper) of a step. Keepers with the same key are one."""
        _, place = steps[number]
        _, word = self._word(steps, number)
        in_list = bool(word and word.list)
        if not place.owner:
            if place.register or not self.names.is_static(place.address):
                name = self._step_name(steps, number)
                return name, _Keeper(name)
            symbol, name, offset = self.names._variable_at(place.address)
            full = plain(name) + word.list_name if in_list else self._step_name(steps, number)
            full = re.sub(r"\[\d+\]", "[]", full)
            return full, _Keeper(full, self._declared(symbol), in_list, (place.address - offset, place.address - offset + max(symbol.type.sizeof, 8)) if symbol else None)
        shape = self._shape(steps, number)
        full = f"{shape.name} {word.list_name}" if in_list else self._step_name(steps, number)
        if shape and shape.is_array and number > 0 and not steps[number - 1][1].owner and not in_list:
            # An array that a variable points to has the variable's name.
            variable = self._step_name(steps, number - 1)
            symbol = self.names._variable_at(steps[number - 1][1].address)[0] if self.names.is_static(steps[number - 1][1].address) else None
            full = variable + (shape.field(place.address - place.item) or "")
            full = re.sub(r"\[\d+\]", "[]", full)
            return full, _Keeper(full, self._declared(symbol) if symbol else "")
        full = re.sub(r"\[\d+\]", "[]", full)
        return (full, None if shape else place.item), _Keeper(full, in_list=in_list, member=_member(shape, place.address - place.item) if shape else None)

    @staticmethod
    def _declared(symbol):
        return f"{shorten(symbol.symtab.filename, ROOT)}:{symbol.line}" if symbol and symbol.symtab else ""

    def _stored_at(self, keeper, stack):
        """Returns the address of the instruction that stores into the keeper, in a function that calls the allocation of its entries; 0 if none is seen."""
        if not keeper.variable and not keeper.member:
            return 0
        store = (lambda frame: store_into_variable(frame, range(*keeper.variable))) if keeper.variable else \
            (lambda frame: store_into_member(frame, *keeper.member, lambda address: _source_line(self.kernel, address)))
        return next((found for frame in stack[:_CALLERS] if (found := store(frame))), 0)

    def _as_data(self, keeper):
        records = [self.records[item] for item in keeper.objects if item in self.records]
        entry = self.classes.get(next(iter(keeper.entries)), None) if keeper.entries else None
        sizes = Counter(self.records[item].size for item in keeper.entries if item in self.records)
        stack = list(self._frames(entry[1])) if entry else []
        return {"name": keeper.name, "place": keeper.place, "kind": self._kind(keeper), "holders": len(keeper.holders), "objects": len(keeper.objects),
                "entries": len(keeper.entries), "entry": keeper.entry_shape, "entry_size": max(sizes) if sizes else 0,
                "bytes": sum(record.size for record in records), "largest": max((record.size for record in records), default=0),
                "stack": stack, "stored": self._stored_at(keeper, stack),
                "path": self._path_text(*keeper.path)}

    @staticmethod
    def _kind(keeper):
        if keeper.in_list:
            return "List"
        links = set().union(*(offsets for target, offsets in keeper.links.items() if target not in keeper.direct))
        if "[]" in keeper.name:
            return "array of trees" if len(links) > 1 else "array of chains" if links else "array"
        return "tree" if len(links) > 1 else "chain" if links else "pointer"

    def _path_text(self, steps, target):
        items = [*(step[1].item for step in steps[1:]), target]
        texts = [*(self._step_name(steps, number) for number in range(len(steps))), self._name_of(steps, items, len(steps) - 1)]
        if len(texts) > _SHOWN_FIRST + _SHOWN_LAST + 1:
            texts[_SHOWN_FIRST:-_SHOWN_LAST] = [f"… {len(texts) - _SHOWN_FIRST - _SHOWN_LAST} more"]
        return texts
