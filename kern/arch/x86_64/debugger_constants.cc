// Constants for debuggers (tools/stele/debugger/). A compiler omits a constant from the debugging
// information unless a variable holds the constant. So this file has a variable that no code uses.
#include "arch/x86_64/context.h"
#include "arch/x86_64/cpu_setup.h"
#include "arch/x86_64/paging.h"
#include "core/ref_kind.h"

namespace {

struct DebuggerConstants {
  uint64_t page_size;
  uint64_t direct_map_base, image_base;
  uint64_t kernel_stack_size, ist_stack_size;  // bytes
  uint64_t ref_traced;
};
[[gnu::used]] constexpr DebuggerConstants debugger_constants = {
    .page_size = kPageSize,
    .direct_map_base = kDirectMapBase,
    .image_base = kKernelImageBase,
    .kernel_stack_size = kKernelStackSize,
    .ist_stack_size = kIstStackSize,
    .ref_traced = kRefTraced};

}  // namespace
