/* The file #mem/tracedump: the tracer's data in binary. C and C++; shared with programs and host
 * tools. Python tools read the layout from the text of this header (tools/stele/abi.py).
 *
 * docs/tracedump.md explains the layout. All numbers are little-endian, all fields lie at multiples
 * of their size, and there is no padding. The file is a header, followed by sections. A section is
 * a section header, `count` items of `item_size` bytes each, and zeros up to the next multiple of
 * 8.
 *
 * Later kernels may add sections with other tags under the same version number, and may add fields
 * at the end of the header, of a section header or of an item. So a reader goes from header to
 * section by `header_size`, from section to section by `size`, from item to item by `item_size`,
 * and skips tags that it does not know. */
#pragma once

#ifdef __cplusplus
#include <cstdint>
#define ABI_TRACEDUMP_SIZE(type, size) static_assert(sizeof(struct type) == (size), #type)
#else
#include <stdint.h>
#define ABI_TRACEDUMP_SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type)
#endif

#define ABI_TRACEDUMP_MAGIC "\x89STELE\r\n" /* eight bytes, without the NUL */
#define ABI_TRACEDUMP_VERSION 3
#define ABI_BUILD_ID_MAX 32

struct abi_tracedump_header {
  uint8_t magic[8];
  uint32_t version;
  uint32_t header_size;         /* bytes of this structure; the first section follows */
  uint32_t section_header_size; /* bytes of every struct abi_tracedump_section */
  uint32_t sections;            /* number of sections */
  uint64_t size;                /* bytes of the whole file */
  uint64_t time;                /* when the dump was taken: nanoseconds since boot */
  uint64_t memory_limit;        /* bytes that the tracer may use */
  uint64_t memory_used;
  uint32_t build_id_size; /* bytes of the kernel's build id; 0 if it has none */
  uint32_t commands; /* number of commands start, refs, stop, reset and mark since boot; wraps */
  uint8_t build_id[ABI_BUILD_ID_MAX];
  /* Number of records whose kernel or user stack is not in STACKS, because there was no memory for
   * it. These records have the id 0 for this stack, as if it had not been recorded. */
  uint64_t stacks_unnamed;
  /* Number of records whose context is not in CONTEXTS, because there was no memory for it. These
   * records have the context id 0, as if no context had been recorded. */
  uint64_t contexts_unnamed;
  /* Number of frees that are not in FREES, although their source counts frees: because a stack was
   * not recorded, or because there was no memory for the count. */
  uint64_t frees_uncounted;
};
ABI_TRACEDUMP_SIZE(abi_tracedump_header, 120);

enum abi_tracedump_tag {
  ABI_TRACEDUMP_SOURCES = 1,  /* struct abi_tracedump_source: one for each trace */
  ABI_TRACEDUMP_CONTEXTS = 2, /* struct abi_tracedump_context, ids ascending */
  ABI_TRACEDUMP_STACKS = 3,   /* struct abi_tracedump_stack, ids ascending */
  ABI_TRACEDUMP_FRAMES = 4,   /* uint64_t: the return addresses of all stacks */
  ABI_TRACEDUMP_STRINGS = 5,  /* bytes; strings end with NUL */
  ABI_TRACEDUMP_RECORDS = 6,  /* struct abi_tracedump_record: one section for each source */
  ABI_TRACEDUMP_FREES = 7,    /* struct abi_tracedump_frees, by source and stack */
};

struct abi_tracedump_section {
  uint32_t tag;
  uint32_t item_size;
  uint64_t count;  /* number of items */
  uint64_t size;   /* bytes from the end of this header to the next section */
  uint32_t source; /* RECORDS: the index in SOURCES of the records' source */
  uint32_t reserved;
};
ABI_TRACEDUMP_SIZE(abi_tracedump_section, 32);

/* A record of a reference has size 0 and the address of the referenced object. */
enum abi_tracedump_source_kind {
  ABI_TRACEDUMP_CACHE = 1,
  ABI_TRACEDUMP_ARENA = 2,
  ABI_TRACEDUMP_PROBE = 3,
  ABI_TRACEDUMP_REFERENCES = 4,
};
enum abi_tracedump_state { ABI_TRACEDUMP_RUNNING = 1, ABI_TRACEDUMP_STOPPED = 2 };
enum abi_tracedump_source_flag {
  ABI_TRACEDUMP_ZOMBIE = 1,      /* destroyed, with live objects */
  ABI_TRACEDUMP_COUNTS_FREES = 2 /* FREES has the source's counts of frees */
};

/* The counters of a trace, in the order and under the names of a text dump. Every structure with
 * counters is generated from this list, and so is every text with counters, in the kernel and in
 * the programs that read the dump.
 *
 * HOT(name): the tracer's hooks count it for each record. COLD(name): counted less often.
 * DERIVED(name): computed from other counters when the trace is read. */
#define ABI_TRACEDUMP_COUNTERS(HOT, COLD, DERIVED)                             \
  DERIVED(seen) /* recorded + dropped + filtered */                            \
  HOT(recorded)                                                                \
  COLD(dropped)                                                                \
  COLD(filtered)                                                               \
  HOT(freed)                                                                   \
  COLD(cleared)                                                                \
  DERIVED(live)      /* the number of records: recorded - freed - cleared */   \
  HOT(bytes)         /* sum of the bytes requested, over the live records */   \
  DERIVED(untracked) /* live objects without a record */                       \
  COLD(unmatched)    /* frees without a record */                              \
  COLD(stacks_lost)                                                            \
  COLD(contexts_lost)                                                          \
  COLD(truncated)                                                              \
  /* Bytes and number of the objects that the live records represent: equal to \
     `bytes` and `live` unless the trace is sampled. */                        \
  DERIVED(estimated_bytes)                                                     \
  DERIVED(estimated_objects)
#define ABI_TRACEDUMP_COUNTER(name) uint64_t name;
#define ABI_TRACEDUMP_NO_COUNTER(name)

/* A trace. */
struct abi_tracedump_source {
  uint32_t name; /* offset in STRINGS */
  uint32_t kind;
  uint32_t state;
  uint32_t flags;
  uint64_t object_size; /* bytes; an arena's quantum */
  /* Options of the trace's start command. */
  uint64_t min_size; /* bytes */
  uint64_t max_size; /* bytes; UINT64_MAX: no limit */
  uint64_t sample;   /* bytes between sampling points, on the average; 0: everything is recorded */
  uint32_t depth;
  uint32_t pid; /* only allocations of this process are recorded; 0: of all processes */
  uint32_t mark;
  uint32_t stacks; /* number of distinct stacks in its records */
  ABI_TRACEDUMP_COUNTERS(ABI_TRACEDUMP_COUNTER, ABI_TRACEDUMP_COUNTER, ABI_TRACEDUMP_COUNTER)
};
ABI_TRACEDUMP_SIZE(abi_tracedump_source, 184);

enum abi_tracedump_context_kind {
  ABI_TRACEDUMP_TASK = 1,
  ABI_TRACEDUMP_PROCESS = 2,
  ABI_TRACEDUMP_IRQ = 3,
};

/* The task, process or interrupt that allocated. */
struct abi_tracedump_context {
  uint32_t id; /* not 0 */
  uint32_t kind;
  uint32_t pid;  /* PID of the process, otherwise 0 */
  uint32_t name; /* offset in STRINGS: of the program, kernel task or interrupt */
  uint32_t path; /* offset in STRINGS: of the program's file; "" if it is not known */
  uint32_t build_id_size;
  uint32_t thread; /* thread id; 0 for the first thread of a process, and without a process */
  uint32_t reserved;
  uint8_t build_id[ABI_BUILD_ID_MAX]; /* build id of the program */
};
ABI_TRACEDUMP_SIZE(abi_tracedump_context, 64);

enum abi_tracedump_stack_kind { ABI_TRACEDUMP_KERNEL = 1, ABI_TRACEDUMP_USER = 2 };

struct abi_tracedump_stack {
  uint32_t id; /* not 0 */
  uint32_t kind;
  uint64_t first_frame; /* index in FRAMES; the innermost caller is first */
  uint32_t frames;      /* number of frames */
  uint32_t reserved;
};
ABI_TRACEDUMP_SIZE(abi_tracedump_stack, 24);

enum abi_tracedump_record_flag {
  ABI_TRACEDUMP_NOT_LEAK = 1 /* the kernel keeps the object intentionally (kmem_not_leak) */
};

/* A live object. Records come in no order. */
struct abi_tracedump_record {
  uint64_t object;     /* address */
  uint64_t size;       /* bytes requested */
  uint64_t time;       /* of the allocation: nanoseconds since boot, exact to some milliseconds */
  uint32_t stack;      /* id in STACKS; 0: not recorded, or no memory */
  uint32_t context;    /* id in CONTEXTS; 0: not recorded, or no memory */
  uint32_t user_stack; /* id in STACKS: the program's stack at the system call or fault; 0: none */
  uint16_t mark;
  uint8_t cpu;
  uint8_t flags;
};
ABI_TRACEDUMP_SIZE(abi_tracedump_record, 40);

/* How many objects of a source that one stack had allocated another stack has freed. There are
 * counts only for stacks that have live records in the dump. */
struct abi_tracedump_frees {
  uint32_t source;   /* index in SOURCES */
  uint32_t stack;    /* id in STACKS of the stack that allocated; not 0 */
  uint32_t freed_by; /* id in STACKS of the stack that freed; not 0 */
  uint32_t reserved;
  uint64_t count; /* of frees since the trace's start; not 0 */
};
ABI_TRACEDUMP_SIZE(abi_tracedump_frees, 24);
