"""Writes traces in the layout of #mem/tracedump (docs/tracedump.md). gdb's command kmem-tracedump uses this for traces that it has read from
memory."""
from stele.abi import ABI
from stele.tracedump import (CONTEXT, CONTEXT_KINDS, CONTEXTS, COUNTERS, FRAME, FRAMES, HEADER, MAGIC, NO_LIMIT, RECORD, RECORDS, SECTION, SOURCE,
                             SOURCE_KINDS, SOURCES, STACK, STACK_KINDS, STACKS, STATES, STRINGS, VERSION, ZOMBIE)

_U32, _U64 = (1 << 32) - 1, (1 << 64) - 1
_BUILD_ID_MAX = ABI.constants["ABI_BUILD_ID_MAX"]


def tracedump_bytes(sources, stacks, contexts, time, build_id):
    """Returns the bytes of a dump. `sources`: a list of Sources; `stacks`: {number: Stack}; `contexts`: {number: Context}; `time`: nanoseconds since
    boot; `build_id`: the kernel's build id as bytes."""
    strings = _Strings()
    named = {number for source in sources for record in source.records for number in (record.stack, record.user_stack)}
    stacks = {number: stacks[number] for number in sorted(stacks) if number in named}
    frames, stack_items = [], []
    for number, stack in stacks.items():
        stack_items.append(STACK.pack(id=number, kind=_number(STACK_KINDS, stack.kind), first_frame=len(frames), frames=len(stack.frames)))
        frames += [frame & _U64 for frame in stack.frames]
    context_items = [_context(contexts[number], strings) for number in sorted(contexts)]
    source_items = [_source(source, strings) for source in sources]
    sections = [_section(SOURCES, SOURCE.size, source_items), _section(CONTEXTS, CONTEXT.size, context_items),
                _section(STACKS, STACK.size, stack_items), _section(FRAMES, FRAME.size, [FRAME.pack(frame) for frame in frames]),
                _section(STRINGS, 1, [strings.data])]
    for index, source in enumerate(sources):
        sections.append(_section(RECORDS, RECORD.size, [_record(record, stacks, contexts) for record in source.records], index))
    data = b"".join(sections)
    build_id = build_id[:_BUILD_ID_MAX]
    return HEADER.pack(magic=MAGIC, version=VERSION, header_size=HEADER.size, section_header_size=SECTION.size, sections=len(sections),
                       size=HEADER.size + len(data), time=time, build_id_size=len(build_id), build_id=build_id) + data


class _Strings:
    def __init__(self):
        self.data, self.known = bytearray(b"\0"), {"": 0}

    def add(self, text):
        if text not in self.known:
            self.known[text] = len(self.data)
            self.data += text.encode("utf-8", "replace").replace(b"\0", b"?") + b"\0"
        return self.known[text]


def _section(tag, item_size, items, source=0):
    data = b"".join(items)
    size = -(-len(data) // 8) * 8
    return SECTION.pack(tag=tag, item_size=item_size, count=len(data) // item_size, size=size, source=source) + data.ljust(size, b"\0")


def _number(names, name):
    return next((number for number, known in names.items() if known == name), 1)


def _context(context, strings):
    build_id = bytes.fromhex(context.build_id)[:_BUILD_ID_MAX]
    return CONTEXT.pack(id=context.id, kind=_number(CONTEXT_KINDS, context.kind), pid=context.pid & _U32, name=strings.add(context.name),
                        path=strings.add(context.path), build_id_size=len(build_id), thread=context.thread & _U32, build_id=build_id)


def _source(source, strings):
    weights = [(source.weight(record), record.size) for record in source.records]
    estimated = {"estimated_bytes": round(sum(weight * size for weight, size in weights)), "estimated_objects": round(sum(w for w, _ in weights))}
    counters = {name: min(max((estimated | source.counters).get(name, 0), 0), _U64) for name in COUNTERS}
    options = source.options
    return SOURCE.pack(name=strings.add(source.name), kind=_number(SOURCE_KINDS, source.kind), state=_number(STATES, source.state),
                       flags=ZOMBIE if source.zombie else 0, object_size=source.object_size, min_size=options.get("min", 0),
                       max_size=options.get("max", 0) or NO_LIMIT, sample=options.get("sample", 0), depth=options.get("depth", 0),
                       pid=options.get("pid", 0), mark=source.mark & _U32, stacks=source.stacks & _U32, **counters)


def _record(record, stacks, contexts):
    user = record.user_stack if record.user_stack in stacks and stacks[record.user_stack].kind == "user" else 0
    known = record._replace(stack=record.stack if record.stack in stacks else 0, context=record.context if record.context in contexts else 0,
                            user_stack=user)
    return RECORD.pack(*map(min, known, RECORD.limits))
