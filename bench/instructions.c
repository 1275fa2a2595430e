/* A plugin of QEMU's TCG that counts the executions of each instruction of the kernel.
 *
 * The argument `out=FILE` names the output file, which is written when the guest ends. It has a
 * line `ADDRESS COUNT` for each executed address in the upper half of the address space, where the
 * kernel is; the address is hexadecimal, the count decimal. The line with address 0 has the sum for
 * all addresses in the lower half, where programs are.
 *
 * Each instruction of a translated block increments a counter when it is executed. So instructions
 * that are skipped by an exception inside a block are not counted. Under -icount the sum of all
 * counts equals the time stamp counter. The counters are not atomic: where.py runs its guests under
 * -icount, and QEMU then executes all CPUs in one thread.
 *
 * Version 1 of the interface increments a counter without a call. Later versions have only counters
 * for each CPU there, so the plugin calls a function for each instruction with them, which is
 * slower.
 */
#include "plugin.h"

/* A hash table with open addressing, whose key is the address of an instruction. Translated code
 * has pointers to the counters, so the table cannot grow. It has far more entries than a kernel has
 * instructions. */
enum { COUNTERS = 1 << 22 };
static struct counter { uint64_t address, count; } * counters;
static uint64_t of_programs;
static FILE* output;

static uint64_t* counter_of(uint64_t address) {
  if (!of_kernel(address)) return &of_programs;
  const uint64_t first = address * 0x9e3779b97f4a7c15 >> 42;
  for (uint64_t i = 0; i < COUNTERS; i++) {
    struct counter* const counter = &counters[(first + i) % COUNTERS];
    if (counter->address == 0) counter->address = address;
    if (counter->address == address) return &counter->count;
  }
  fprintf(stderr, "instructions: more than %d addresses\n", COUNTERS);
  abort();
}

static void count_one(unsigned cpu, void* counter) {
  (void)cpu;
  ++*(uint64_t*)counter;
}

static void count_each(const struct qemu_plugin_tb* block) {
  for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++) {
    struct qemu_plugin_insn* const instruction = qemu_plugin_tb_get_insn(block, i);
    uint64_t* const counter = counter_of(qemu_plugin_insn_vaddr(instruction));
    if (qemu_plugin_register_vcpu_insn_exec_inline) {
      qemu_plugin_register_vcpu_insn_exec_inline(instruction, QEMU_PLUGIN_INLINE_ADD_U64, counter,
                                                 1);
    } else {
      qemu_plugin_register_vcpu_insn_exec_cb(instruction, count_one, QEMU_PLUGIN_CB_NO_REGS,
                                             counter);
    }
  }
}

static void write_counts(void) {
  fprintf(output, "0 %" PRIu64 "\n", of_programs);
  for (size_t i = 0; i < COUNTERS; i++)
    if (counters[i].count)
      fprintf(output, "%" PRIx64 " %" PRIu64 "\n", counters[i].address, counters[i].count);
  if (fclose(output) != 0) perror("instructions: out");
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info* info, int count,
                               char** words) {
  (void)info;
  const char* const file = value_of("out", count, words);
  if (file) output = fopen(file, "w");
  counters = calloc(COUNTERS, sizeof(*counters));
  if (!output || !counters) {
    perror("instructions: out");
    return -1;
  }
  on_translation(id, count_each);
  qemu_plugin_register_atexit_cb(id, write_counts, NULL);
  return 0;
}
