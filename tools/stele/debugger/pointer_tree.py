"""The tree of shortest paths to all objects that can be reached (the question `keepers` of tools/reach/main.cc), with the types of the objects.

The parent of an object is the object that has the last pointer of the path. An object without a type of its own has the type of this pointer.
"""
from collections import defaultdict

from stele.debugger.caches import slab_of
from stele.debugger.pointees import Shape, pointee, word_at
from stele.debugger.reach import ask
from stele.debugger.symbols import Symbols
from stele.debugger.typed import Names

STACK = 2  # RangeOwner::Kind (kern/reach/ranges.h)
_MOST_STEPS = 1 << 16  # of a path
_STRUCTURE = 64  # most bytes from the place in a structure to which pointers lead to its last pointer


class PointerTree:
    """`links`: {object: (kind, Location)}: the last pointer of its path, with the kinds of Link::Kind. `pointers`: {target: [(kind of range, Location)]}:
    all pointers to the objects `targets`. `sizes`: {object: bytes that were asked for}, as far as this is known."""

    def __init__(self, kernel, targets, sizes):
        self.kernel, self.names, self.sizes = kernel, kernel.once(Names), sizes
        answer = ask(kernel, "keepers", more="".join(f"target {address:x}\n" for address in targets))
        self.links, self.pointers, self._shapes, self._onto = {}, defaultdict(list), {}, []
        for word, item, *numbers in answer.lines:
            if word == "to":
                self.pointers[item].append((numbers[0], answer.place(*numbers[1:])))
            elif word == "onto":
                self._onto.append((item, answer.place(*numbers[1:])))
            else:
                self.links[item] = word, answer.place(*numbers)

    def parent(self, item):
        """Returns the object that has the last pointer of the path to an object; 0 for a root."""
        kind, place = self.links[item]
        return place.item if kind in ("word", "walker") and place.owner else 0

    def path(self, item):
        """Returns the objects of the path to an object, which is the last one; [] if it cannot be reached."""
        items = []
        while item and item in self.links and len(items) < _MOST_STEPS:
            items.append(item)
            item = self.parent(item)
        return items[::-1]

    def to_structure_on_stack(self, place):
        """Returns the Locations of the pointers to the structure, such as a timer, that has the word at `place`, if it is on a stack: those in variables
        first. Pointers from a stack are not among them."""
        if not self.is_on_stack(place):
            return []
        found = [at for value, at in self._onto if 0 <= place.address - value < _STRUCTURE]
        return sorted(found, key=lambda at: at.owner is not None)

    def is_on_stack(self, place):
        return not place.owner and not place.register and not self.names.is_static(place.address)

    # --- Types.

    def owner(self, item):
        """Returns the Cache of an object, or the Arena; None if it is not known."""
        slab = slab_of(self.kernel, item)
        return slab.cache if slab else None

    def shape(self, item):
        """Returns the Shape of an object; None if its type is not known."""
        unknown = []
        while item and item not in self._shapes and item in self.links:
            owner = self.owner(item)
            known = self.names.type_of(owner, item) if owner else None
            if known:
                self._shapes[item] = Shape(known)
            else:
                unknown.append(item)
                item = self.parent(item)
        for each in reversed(unknown):
            self._shapes[each] = self.shape_by(self.links[each], each)
        return self._shapes.get(unknown[0] if unknown else item)

    def shape_by(self, link, item):
        """Returns the Shape that the object `item` has by the type of the pointer `link` to it."""
        kind, place = link
        if kind not in ("root", "word") or place.register:
            return None
        holder, word = self.word(place)
        return pointee(word, holder, place.address - place.item, self.kernel.word(place.address) - item, self.sizes.get(item))

    def word(self, place):
        """Returns (Shape of the object in which the Location is, or None; Word or None)."""
        if not place.owner:
            symbol, _, offset = self.names.static(place.address) if self.names.is_static(place.address) else (None, "", 0)
            return None, word_at(symbol.type, offset) if symbol else None
        holder, offset = self.shape(place.item), place.address - place.item
        if not holder:
            return None, None
        return holder, word_at(holder.type, offset % holder.type.sizeof if holder.is_array else offset)

    # --- Names, without addresses.

    def object_name(self, item):
        shape, owner = self.shape(item), self.owner(item)
        return shape.name if shape else owner.name if owner else "pages"

    def word_name(self, kind, place):
        """Returns the name of a pointer: "visits.head_.next", "Mailbox .letters[3]", "kmalloc_64 +0x18"."""
        if kind == "owner":
            return "a root that its owner reports"
        if not place.owner:
            return self._stack_name(place) if self.is_on_stack(place) else self.names.root(place)
        shape, name, offset = self.shape(place.item), self.object_name(place.item), place.address - place.item
        if kind == "walker":
            return f"{name}, by its walker"
        field = shape.field(offset) if shape else None
        if not field:
            return f"{name} +{offset:#x}"
        return f"{name.removesuffix('[]')}{field}" if shape.is_array else f"{name} {field}"

    def _stack_name(self, place):
        task = self.names.task_of(place)
        if not task:
            return "the stack of a CPU"
        frame = task.frame_at(place.address)
        found = self.kernel.once(Symbols).look_up(frame.address - 1) if frame else None
        return f"the kernel stack of task {task.name}{f', in {found[0]}' if found else ''}"
