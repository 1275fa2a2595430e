// Prints the task and the stack that allocated an object, from the object's trace record.
#include "arch/x86_64/time.h"
#include "intern/shared_tables.h"
#include "reach/describe_impl.h"
#include "trace/control/control.h"

namespace reach {
namespace {

void print_record(Writer& to, const TraceRecord& record) {
  const ContextTable::Context* const context = trace_contexts.get(record.context);
  char who[64];
  ContextTable::format(who, sizeof(who), context);
  to.print("  allocated by %s %lu ms ago on CPU %u, %lu bytes, mark %u%s\n", who,
           (coarse_milliseconds() - record.time()).value, number_of(record.cpu()), record.size(),
           record.mark(), record.not_leak() ? ", not a leak" : "");
  if (const StackTable::View stack = trace_stacks.view(record.stack)) {
    for (size_t i = 0; i < stack.size(); i++) describe_frame(to, stack[i]);
  }
  if (const StackTable::View stack = trace_stacks.view(record.user_stack)) {
    for (size_t i = 0; i < stack.size(); i++)
      to.print("    %016lx [%s]\n", stack[i], context ? context->program->path : "?");
  }
}

}  // namespace

void describe_origin(Writer& to, TraceSource source, uint64_t object) {
  TraceTable* const table = source.flags() & KMC_EVER_TRACED ? trace_table_of(source) : nullptr;
  TraceRecord record;
  if (table && table->find(object, record)) {
    print_record(to, record);
  } else if (table) {
    to.print("  it has no record: %sallocated before its trace began, filtered or dropped\n",
             source.cache() ? "" : "a span of another arena or a cache, ");
  } else if (source.can_be_traced()) {
    to.print("  its allocation was not traced: echo start > #mem/kmemtrace/%s\n", source.name());
  }
}

}  // namespace reach
