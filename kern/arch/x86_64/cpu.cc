// Processors: the per-CPU structures, segment descriptors, and CPU features. The architecture
// requires segments. SYSCALL requires that the descriptor of kernel data follows that of kernel
// code (Intel SDM volume 3, section 5.8.8).
#include "core/cpu.h"

#include "arch/x86_64/context.h"
#include "arch/x86_64/cpu_setup.h"
#include "arch/x86_64/io.h"
#include "arch/x86_64/machine_check_impl.h"
#include "arch/x86_64/user_registers.h"
#include "lib/string.h"

static_assert(offsetof(Cpu, self) == 0 && offsetof(Cpu, kernel_stack) == 8 &&
              offsetof(Cpu, user_stack) == 16);
static_assert(offsetof(Cpu, current) == 24 && offsetof(Cpu, id) == 32 &&
              offsetof(Cpu, probes_off) == 36);
static_assert(offsetof(Cpu, in_nmi) == 54);

extern "C" void system_call_entry();
// Pairs: the address of a nop in the code, and the last byte of the instruction (stac or clac) that
// replaces the nop.
extern "C" const uint64_t smap_sites_start[], smap_sites_end[];
extern "C" char boot_stack_top[];

namespace {

constinit CpuTables tables[kMaxCpus] = {};
constinit unsigned count = 1;
constinit bool has_smep = false, has_smap = false, has_umip = false;

// The memory types that the bits of a page-table entry select (Intel SDM volume 3, section 11.12):
// the values after reset, but write-combining in place of write-through. Only the screen is mapped
// with this type (paging.cc); Access::kDevice relies on the others.
constexpr uint64_t kPageAttributes = 0x0007040600070106;
constexpr uint32_t kHasPageAttributes = 1 << 16;

constexpr uint64_t kRflagsCleared = 0x47700;  // AC NT IOPL DF IF TF: cleared at system call entry

}  // namespace

CpuTables& cpu_tables(CpuId id) {
  return tables[number_of(id)];
}
Cpu& cpu(CpuId id) {
  return tables[number_of(id)].cpu;
}
unsigned cpu_count() {
  return count;
}
void cpu_set_count(unsigned n) {
  count = n;
}

void cpu_early_setup() {
  tables[0].cpu.self = &tables[0].cpu;
  tables[0].cpu.kernel_stack = reinterpret_cast<uint64_t>(boot_stack_top);
  tables[0].first_stack = reinterpret_cast<uint64_t>(boot_stack_top);
  write_msr(kMsrGsBase, reinterpret_cast<uint64_t>(&tables[0].cpu));
}

void cpu_find_features() {
  fpu_find_features();
  if (cpuid(0).eax < 7) return;
  const Cpuid features = cpuid(7);
  has_smep = features.ebx & (1 << 7);
  has_smap = features.ebx & (1 << 20);
  has_umip = features.ecx & (1 << 2);
  if (!has_smap) return;
  // Each site is a three-byte nop; the loop replaces it with stac or clac.
  for (const uint64_t* site = smap_sites_start; site < smap_sites_end; site += 2) {
    auto* code = reinterpret_cast<uint8_t*>(site[0]);
    code[0] = 0x0f;
    code[1] = 0x01;
    code[2] = static_cast<uint8_t>(site[1]);
  }
}

uint32_t initial_apic_id() {
  constexpr uint32_t kTopology = 0xb;
  if (cpuid(0).eax >= kTopology) {
    const Cpuid topology = cpuid(kTopology);
    if (topology.ebx != 0) return topology.edx;
  }
  return cpuid(1).ebx >> 24;
}

void cpu_setup(CpuId id, uint32_t apic_id, uint64_t stack_top, const uint64_t* ist_tops) {
  CpuTables& t = cpu_tables(id);
  t.cpu.self = &t.cpu;
  t.cpu.id = id;
  t.cpu.stamp = cpu_stamp(id, {0});
  t.cpu.last_ref = number_of(id);
  t.cpu.apic_id = apic_id;
  t.cpu.kernel_stack = stack_top;
  t.first_stack = stack_top;

  t.tss.rsp[0] = stack_top;
  for (unsigned i = 0; i < kIstCount; i++) t.tss.ist[i] = ist_tops[i];
  t.tss.io_map = sizeof(TaskStateSegment);

  const uint64_t tss = reinterpret_cast<uint64_t>(&t.tss);
  t.gdt[1] = 0x00af9b000000ffff;  // kernel code
  t.gdt[2] = 0x00cf93000000ffff;  // kernel data
  t.gdt[3] = 0x00cff3000000ffff;  // user data
  t.gdt[4] = 0x00affb000000ffff;  // user code
  t.gdt[5] = (sizeof(TaskStateSegment) - 1) | (tss & 0xffffff) << 16 | uint64_t{0x89} << 40 |
             (tss >> 24 & 0xff) << 56;
  t.gdt[6] = tss >> 32;
  const struct [[gnu::packed]] {
    uint16_t limit;
    uint64_t base;
  } pointer = {sizeof(t.gdt) - 1, reinterpret_cast<uint64_t>(t.gdt)};
  asm volatile(
      "lgdt %0\n"
      "pushq %1\n"
      "leaq 1f(%%rip), %%rax\n"
      "pushq %%rax\n"
      "lretq\n"
      "1: movl %2, %%ss\n"
      "movl %3, %%ds\n"
      "movl %3, %%es\n"
      "movl %3, %%fs\n"
      "movl %3, %%gs\n" ::"m"(pointer),
      "i"(uint64_t{kKernelCode}), "r"(uint32_t{kKernelData}), "r"(0)
      : "rax", "memory");
  asm volatile("ltr %w0" ::"r"(kTssSelector));
  // After a reset the table of local descriptors is 64 KiB at address 0 (Intel SDM volume 3, table
  // 10-1). Programs cannot map memory there (kLowestUserAddress), but need no such table.
  asm volatile("lldt %w0" ::"r"(0));
  write_msr(kMsrGsBase, reinterpret_cast<uint64_t>(&t.cpu));
  write_msr(kMsrKernelGsBase, 0);
  write_msr(kMsrFsBase, 0);
  trap_load_table();

  write_msr(kMsrStar, uint64_t{kKernelCode} << 32);
  write_msr(kMsrLstar, reinterpret_cast<uint64_t>(system_call_entry));
  write_msr(kMsrSfmask, kRflagsCleared);
  write_msr(kMsrSysenterCs, 0);  // sysenter faults

  constexpr uint64_t kCr0Ne = 1 << 5;
  write_cr0((read_cr0() & ~kCr0Em) | kCr0Mp | kCr0Ne | kCr0Wp);
  write_cr4(read_cr4() | kCr4Osfxsr | kCr4Osxmmexcpt | kCr4Pge | (has_smep ? kCr4Smep : 0) |
            (has_smap ? kCr4Smap : 0) | (has_umip ? kCr4Umip : 0));
  if (cpuid(1).edx & kHasPageAttributes) write_msr(kMsrPat, kPageAttributes);
  fpu_setup_cpu();
  machine_check_setup_cpu();
  constexpr uint64_t kNoBreakpoints = 0x400;  // the bit that is always 1
  write_dr7(kNoBreakpoints);
}

void set_kernel_stack(uint64_t stack_top) {
  static_assert(offsetof(CpuTables, cpu) == 0);
  auto& t = reinterpret_cast<CpuTables&>(this_cpu());
  t.cpu.kernel_stack = stack_top;
  t.tss.rsp[0] = stack_top;
}
