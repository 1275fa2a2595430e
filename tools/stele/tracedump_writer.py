"""Writes traces in the layout of #mem/tracedump (docs/tracedump.md), like the kernel, for the
debugger, which reads them from a core."""
from stele.tracedump import (CONTEXT, CONTEXT_KINDS, CONTEXTS, COUNTERS, FRAME, FRAMES, HEADER, MAGIC, NO_LIMIT, RECORD, RECORDS, SECTION, SOURCE,
                             SOURCE_KINDS, SOURCES, STACK, STACK_KINDS, STACKS, STATES, STRINGS, VERSION)

_U16, _U32, _U64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1
_BUILD_ID_MAX = 32


def tracedump_bytes(sources, stacks, contexts, time, build_id):
    """The file. `sources`: Sources; `stacks`, `contexts`: Stacks and Contexts by their numbers,
    including those that records name; `time`: nanoseconds since boot; `build_id`: of the kernel,
    bytes."""
    strings = _Strings()
    named = {number for source in sources for record in source.records for number in (record.stack, record.user_stack)}
    stacks = {number: stacks[number] for number in sorted(stacks) if number in named}
    frames, stack_items = [], []
    for number, stack in stacks.items():
        stack_items.append(STACK.pack(number, _number(STACK_KINDS, stack.kind), len(frames), len(stack.frames), 0))
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
    return HEADER.pack(MAGIC, VERSION, HEADER.size, SECTION.size, len(sections), HEADER.size + len(data), time, 0, 0,
                       len(build_id), 0, build_id.ljust(_BUILD_ID_MAX, b"\0"), 0, 0) + data


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
    return SECTION.pack(tag, item_size, len(data) // item_size, size, source, 0) + data.ljust(size, b"\0")


def _number(names, name):
    return next((number for number, known in names.items() if known == name), 1)


def _context(context, strings):
    build_id = bytes.fromhex(context.build_id)[:_BUILD_ID_MAX]
    return CONTEXT.pack(context.id, _number(CONTEXT_KINDS, context.kind), context.pid & _U32, strings.add(context.name), strings.add(context.path),
                        len(build_id), 0, 0, build_id.ljust(_BUILD_ID_MAX, b"\0"))


def _source(source, strings):
    weights = [(source.weight(record), record.size) for record in source.records]
    estimated = {"estimated_bytes": round(sum(weight * size for weight, size in weights)), "estimated_objects": round(sum(w for w, _ in weights))}
    counters = [min(max((estimated | source.counters).get(name, 0), 0), _U64) for name in COUNTERS]
    options = source.options
    return SOURCE.pack(strings.add(source.name), _number(SOURCE_KINDS, source.kind), _number(STATES, source.state), int(source.zombie),
                       source.object_size, options.get("min", 0), options.get("max", 0) or NO_LIMIT, options.get("sample", 0),
                       options.get("depth", 0), options.get("pid", 0), source.mark & _U32, source.stacks & _U32, *counters)


def _record(record, stacks, contexts):
    user = record.user_stack if record.user_stack in stacks and stacks[record.user_stack].kind == "user" else 0
    return RECORD.pack(record.object & _U64, record.size & _U64, min(record.time, _U64), record.stack if record.stack in stacks else 0,
                       record.context if record.context in contexts else 0, user, record.mark & _U16, record.cpu & 0xff, int(record.not_leak))
