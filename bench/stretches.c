/* A plugin of QEMU's TCG that measures for how many instructions each CPU has interrupts off.
 *
 * Each CPU's instructions are counted apart. So the lengths are exact with any number of CPUs,
 * while the time stamp counter, with which #mem/irqoff measures, is common to all CPUs under
 * -icount. QEMU then executes all CPUs in one thread, so the plugin needs no locks.
 *
 * The argument `places=FILE` names a file with a line `ADDRESS KIND FUNCTION` for each instruction
 * of the kernel that has to do with interrupts; addresses are hexadecimal, in ascending order. KIND
 * is
 *   o  turns interrupts off
 *   i  turns them on
 *   t  the first instruction of a trap: interrupts are off from here on
 *   c  the first instruction of a system call: interrupts are off, and were on before
 *   r  returns from a trap or to a program: interrupts are as they were before the trap
 *   f  restores the flags that the function at FUNCTION has saved when it began
 *   s  stops all CPUs: the present stretch does not count
 *   b  the measurement begins here
 *
 * The argument `out=FILE` names the output file, which is written when the guest ends. It has a
 * line `INSTRUCTIONS OFF ON` for each pair of addresses, of the instruction that turned interrupts
 * off and of the one that turned them on: the largest number of instructions between the two.
 */
#include "plugin.h"

enum { CPUS = 64, PLACES = 1 << 14, STRETCHES = 1 << 16 };
static struct place {
  uint64_t address, function;
  char kind;
} places[PLACES];
static size_t place_count;

/* A CPU while its interrupts are off. `traps` is the number of traps in which it is and that began
 * with interrupts off. */
static struct cpu {
  bool off, stops;
  unsigned traps;
  uint64_t instructions, begin;
} cpus[CPUS];
static bool begun;

/* A hash table with open addressing. An element is free if it has no instructions. */
static struct stretch { uint64_t instructions, begin, end; } stretches[STRETCHES];
static FILE* output;

static void note(uint64_t instructions, uint64_t begin, uint64_t end) {
  const uint64_t first = (begin * 31 + end) * 0x9e3779b97f4a7c15 >> 48;
  for (uint64_t i = 0; i < STRETCHES; i++) {
    struct stretch* const stretch = &stretches[(first + i) % STRETCHES];
    if (stretch->instructions == 0) *stretch = (struct stretch){0, begin, end};
    if (stretch->begin != begin || stretch->end != end) continue;
    if (stretch->instructions < instructions) stretch->instructions = instructions;
    return;
  }
  fprintf(stderr, "stretches: more than %d\n", STRETCHES);
  abort();
}

static void turn_off(struct cpu* cpu, uint64_t place) {
  *cpu = (struct cpu){.off = true, .instructions = 1, .begin = place};
}
static void turn_on(struct cpu* cpu, uint64_t place) {
  if (cpu->off && begun && !cpu->stops) note(cpu->instructions, cpu->begin, place);
  cpu->off = false;
}

/* Runs before an instruction of no kind. */
static void execute(unsigned number, void* data) {
  (void)data;
  cpus[number].instructions++;
}
static void execute_place(unsigned number, void* data) {
  const struct place* const place = data;
  struct cpu* const cpu = &cpus[number];
  cpu->instructions++;
  switch (place->kind) {
    case 'o':
      if (!cpu->off) turn_off(cpu, place->address);
      break;
    case 't':
      if (cpu->off) {
        cpu->traps++;
      } else {
        turn_off(cpu, place->address);
      }
      break;
    case 'c':
      turn_off(cpu, place->address);
      break;
    case 'i':
      turn_on(cpu, place->address);
      break;
    case 'r':
      if (cpu->off && cpu->traps > 0) {
        cpu->traps--;
      } else {
        turn_on(cpu, place->address);
      }
      break;
    case 'f':
      if (place->function <= cpu->begin && cpu->begin < place->address)
        turn_on(cpu, place->address);
      break;
    case 's':
      cpu->stops = true;
      break;
    case 'b':
      begun = true;
      break;
  }
}

static int compare(const void* a, const void* b) {
  const uint64_t left = ((const struct place*)a)->address,
                 right = ((const struct place*)b)->address;
  return left < right ? -1 : left > right;
}

static void measure_each(const struct qemu_plugin_tb* block) {
  for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++) {
    struct qemu_plugin_insn* const instruction = qemu_plugin_tb_get_insn(block, i);
    const struct place wanted = {.address = qemu_plugin_insn_vaddr(instruction)};
    if (!of_kernel(wanted.address)) continue;
    struct place* const place = bsearch(&wanted, places, place_count, sizeof(*places), compare);
    qemu_plugin_register_vcpu_insn_exec_cb(instruction, place ? execute_place : execute,
                                           QEMU_PLUGIN_CB_NO_REGS, place);
  }
}

static void write_stretches(void) {
  for (size_t i = 0; i < STRETCHES; i++)
    if (stretches[i].instructions)
      fprintf(output, "%" PRIu64 " %" PRIx64 " %" PRIx64 "\n", stretches[i].instructions,
              stretches[i].begin, stretches[i].end);
  if (fclose(output) != 0) perror("stretches: out");
}

static bool read_places(const char* name) {
  FILE* const file = fopen(name, "r");
  if (!file) return false;
  struct place* place = places;
  while (place < places + PLACES && fscanf(file, "%" SCNx64 " %c %" SCNx64, &place->address,
                                           &place->kind, &place->function) == 3)
    place++;
  place_count = (size_t)(place - places);
  const bool all = feof(file);
  fclose(file);
  return all;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info* info, int count,
                               char** words) {
  (void)info;
  const char *const out = value_of("out", count, words), *in = value_of("places", count, words);
  if (!in || !read_places(in)) {
    fprintf(stderr, "stretches: places\n");
    return -1;
  }
  if (!out || !(output = fopen(out, "w"))) {
    perror("stretches: out");
    return -1;
  }
  on_translation(id, measure_each);
  qemu_plugin_register_atexit_cb(id, write_stretches, NULL);
  return 0;
}
