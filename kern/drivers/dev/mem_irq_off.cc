#include "drivers/dev/mem_irq_off.h"

#ifdef CONFIG_IRQ_OFF_TRACE
#include <algorithm>

#include "core/cpu.h"
#include "core/errstr.h"
#include "core/irq_off.h"
#include "core/symbols.h"
#include "kmalloc.h"
#include "lib/format.h"

namespace {

// Prints the function that contains `address`. symbol_format() is not suitable: it expects a return
// address, and looks up the address before it. `address` may be the first address of a function,
// and the address before it would then belong to another function.
void print_place(Text& text, const char* before, uint64_t address) {
  const Symbol symbol = symbol_lookup(address);
  if (symbol.name) {
    text.print("%s%s+0x%lx", before, symbol.name, symbol.offset);
  } else {
    text.print("%s0x%lx", before, address);
  }
}

void print_stretch(Text& text, const IrqOffStretch& stretch) {
  text.print("%lu ticks cpu %u", stretch.ticks, number_of(stretch.cpu));
  if (stretch.pid != 0) {
    text.print(" pid %u %s", stretch.pid, stretch.task);
  } else {
    text.print(" task %s", stretch.task);
  }
  print_place(text, "\n\toff ", stretch.off);
  print_place(text, " on ", stretch.on);
  text.print("\n");
  for (uint32_t i = 0; i < stretch.depth; i++) {
    char line[256];
    symbol_format(line, sizeof(line), stretch.frames[i]);
    text.print("\t%s\n", line);
  }
}

}  // namespace

Result<void> mem_print_irq_off(Text& text) {
  const size_t count = cpu_count() * kIrqOffPlaces;
  auto* const stretches =
      static_cast<IrqOffStretch*>(kmalloc(count * sizeof(IrqOffStretch), KM_SLEEP | KM_ZERO));
  if (!stretches) return Errno::ENOMEM;
  irq_off_read(stretches);
  std::sort(stretches, stretches + count, [](const IrqOffStretch& a, const IrqOffStretch& b) {
    if (a.ticks != b.ticks) return a.ticks > b.ticks;
    return a.cpu < b.cpu;
  });
  for (size_t i = 0; i < count && stretches[i].ticks != 0; i++) print_stretch(text, stretches[i]);
  kfree(stretches);
  return {};
}

Result<void> mem_irq_off_command(void*, std::string_view text) {
  TRY(check_command_text(text, "reset"));
  CommandLine line;
  if (!next_command(text, line) || line.word != "reset" || !line.rest.empty())
    return fail(Errno::EINVAL, "expected reset");
  irq_off_reset();
  return {};
}
#endif
