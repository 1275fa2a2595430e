"""Reads traces from the memory of a stopped kernel: records (kern/trace/record/table.h), stacks and
contexts (kern/intern/). Returns them in the classes of stele.tracedump, which also represent a dump.

The kernel may have been stopped in the middle of a tracer's hook. In this case, the record that the
hook was writing may be missing, or may still have the stack, size and context of its previous use. If
the table of stacks has no entry for the number in a record, the stack counts as "not recorded".
Contexts are treated in the same way.
"""
from stele.debugger.arenas import all_arenas
from stele.debugger.caches import all_caches
from stele.debugger.memory import Layout, Unreadable, constant, enumerators
from stele.debugger.ref_classes import ref_classes
from stele.tracedump import NOT_LEAK, Context, Record, Stack


def _signed(word):
    return word - (1 << 64) if word >> 63 else word


def _object_and_mark(word):
    """Returns the (address, mark) from which TraceRecord::word_of() has made this word."""
    bits, mask = constant("TraceRecord::kMarkBits"), (1 << 64) - 1
    address = _signed(word << bits & mask) >> bits & mask
    return address, (word ^ address) >> constant("TraceRecord::kMarkShift")


class InternTable:
    """Reads the entries of a table of stacks or contexts by their numbers."""

    def __init__(self, kernel, variable):
        self.kernel = kernel
        self.root = kernel.variable(variable).pages_.root_
        self.fanout = constant("PageDirectory::kFanout")
        self.places, self.granule = constant("InternTable::kPlacesPerPage"), constant("InternTable::kGranule")
        self.entry = Layout.of("InternTable::Entry")
        self.kinds = enumerators("InternTable::Kind")
        self.kind_mask = (1 << constant("InternTable::kKindBits")) - 1
        self.shape_mask = (1 << constant("InternTable::kShapeBits")) - 1
        self.kind_bits = constant("InternTable::kKindBits")

    def get(self, number):
        """Returns (kind such as "kPair", data as 32-bit words, address of the data) of the entry `number`. Raises Unreadable."""
        page, place = divmod(number, self.places)
        leaf = self.root[page // self.fanout]
        memory = leaf and self.kernel.word(leaf + page % self.fanout * 8)
        if not memory:
            raise Unreadable(f"number {number} is no entry")
        entry = self.kernel.at("InternTable::Entry", memory + place * self.granule)
        if entry.id != number:
            raise Unreadable(f"number {number} is another entry's")
        key = entry.key
        count = (key & self.shape_mask) >> self.kind_bits
        data = memory + place * self.granule + self.entry.size
        words = memoryview(self.kernel.read(data, 4 * count)).cast("I").tolist() if count else []
        return self.kinds.get(key & self.kind_mask, "?"), words, data


class Traces:
    """The traces of a kernel. `stacks` and `contexts` map numbers to the Stacks and Contexts of all records that were read so far."""

    def __init__(self, kernel):
        self.kernel = kernel
        self._stacks, self._contexts = InternTable(kernel, "trace_stacks"), InternTable(kernel, "trace_contexts")
        self.stacks, self.contexts, self._records_of = {}, {}, {}
        self.now = kernel.variable("coarse_time")  # milliseconds

    def sources(self):
        """Returns all caches, arenas and classes of references, traced or not."""
        return [*self.kernel.once(all_caches), *self.kernel.once(all_arenas), *self.kernel.once(ref_classes)]

    def find(self, name):
        """Returns the cache, arena or class of references of this name. Raises Unreadable."""
        for source in self.sources():
            if source.name == name:
                return source
        raise Unreadable(f"no cache is called {name}, no arena, and no class of references: kmem-caches names them")

    def records_of(self, owner):
        """Returns the Records of the trace of `owner` (a cache or an arena); [] if it has no trace."""
        return self.records(self.kernel.at("TraceTable", owner.structure.trace)) if owner.structure.trace else []

    def records(self, table):
        """Returns all Records of a TraceTable. In a record of a reference, `object` is the reference's number, and `size` is the location of the
        referenced object (TraceTable::place_of() in the kernel)."""
        return [record for shard in self._shards(table) for record in self._records(shard)]

    def record_of(self, owner, address):
        """Returns the Record of the object at `address` in the trace of `owner`; None if there is none."""
        if owner.address not in self._records_of:
            self._records_of[owner.address] = {record.object: record for record in self.records_of(owner)}
        return self._records_of[owner.address].get(address)

    def _shards(self, table):
        layout = Layout.of("TraceTable")
        return self.kernel.array("TraceTable::Shard", table.address + layout.size, table.shard_count_)

    def _records(self, shard):
        large_size = constant("TableStore::kLarge")
        cpu_mask, not_leak = constant("TraceRecord::kCpu"), constant("TableStore::Record::kNotLeak")
        held = constant("TableStore::Record::kHeld")
        layout, page_layout = Layout.of("TableStore::Record"), Layout.of("TableStore::RecordPage")
        unpacker = layout.columns("stack_time", "size", "names_time", "object_mark", "next_stamp")
        number = constant("TableStore::Record::kNumber")
        for page in self.kernel.list_from("TableStore::RecordPage", shard.store.pages):
            start = page.address + page_layout.offset("records")
            data = self.kernel.read(start, page.used * layout.size) if page.used else b""
            for stack_time, size, names_time, object_mark, next_stamp in unpacker.iter_unpack(data):
                if object_mark == 0 or next_stamp & held:
                    continue
                time, names = stack_time >> 24 << 16 | names_time >> 48, names_time
                if size == large_size:
                    large = self.kernel.at("TableStore::Large", _signed(names_time << 16 & (1 << 64) - 1) >> 16 & (1 << 64) - 1)
                    size, names = large.size, large.names
                epoch = (next_stamp & not_leak - 1) >> cpu_mask.bit_length()
                seen = epoch + (epoch & 1 ^ time >> 23)  # Record::time_of()
                address, mark = _object_and_mark(object_mark)
                yield Record(object=address, size=size, time=(seen >> 1 << 24 | time) * 1_000_000, stack=self._stack(stack_time & number),
                             context=self._context(names & number), user_stack=self._stack(names >> 24 & number), mark=mark,
                             cpu=next_stamp & cpu_mask, flags=NOT_LEAK if next_stamp & not_leak else 0)

    def _stack(self, number):
        """Adds the stack `number` to `stacks`. Returns the number; 0 if there is no such stack."""
        if number and number not in self.stacks:
            try:
                kind, words, data = self._stacks.get(number)
            except Unreadable:
                return 0
            if kind == "kKernelStack":
                frames = tuple(frame | ~0xffffffff & (1 << 64) - 1 if frame >> 31 else frame for frame in words[:-1])
            else:
                frames = tuple(memoryview(self.kernel.read(data, 4 * len(words))).cast("Q"))[:-1]
            self.stacks[number] = Stack(number, "kernel" if kind == "kKernelStack" else "user", frames)
        return number

    def _context(self, number):
        """Adds the context `number` to `contexts`. Returns the number; 0 if there is no such context."""
        if number and number not in self.contexts:
            try:
                self.contexts[number] = self._read_context(number)
            except Unreadable:
                return 0
        return number

    def _read_context(self, number):
        context = self.kernel.at("ContextTable::Context", self._contexts.get(number)[2])
        layout = Layout.of("ContextTable::Program")
        program = self.kernel.at("ContextTable::Program", context.program)
        kind = {"kProcess": "process", "kInterrupt": "irq"}.get(enumerators("ContextKind").get(context.kind), "task")
        build_id = self.kernel.read(context.program + layout.offset("build_id"), program.build_id_size).hex()
        return Context(number, kind, context.pid, program.name.decode("utf-8", "replace"), program.path.decode("utf-8", "replace"), build_id,
                       context.thread)

    def context_name(self, number):
        return str(self.contexts[number]) if number else "unknown"
