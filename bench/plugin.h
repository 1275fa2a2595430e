/* The interface of QEMU's TCG plugins (docs/devel/tcg-plugins.rst in QEMU's source), for which
 * Debian packages no header; and what our plugins share. A plugin includes this file once.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };

/* A callback, whose arguments depend on the version. Version 7 has added `data`. */
typedef void callback(void);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, callback* translated, void* data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, callback* ended, void* data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
struct qemu_plugin_insn* qemu_plugin_tb_get_insn(const struct qemu_plugin_tb* block, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn* instruction);
/* Only in version 1; NULL otherwise. */
__attribute__((weak)) void qemu_plugin_register_vcpu_insn_exec_inline(
    struct qemu_plugin_insn* instruction, enum qemu_plugin_op op, void* counter, uint64_t addend);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn* instruction,
                                            void (*executed)(unsigned cpu, void* data),
                                            enum qemu_plugin_cb_flags flags, void* data);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

/* Only from version 7 on, which QEMU 11 has; NULL otherwise. QEMU refuses older versions then. */
__attribute__((weak)) void qemu_plugin_register_vcpu_syscall_filter_cb(void);

/* Runs when QEMU loads the plugin, before QEMU reads the version. */
__attribute__((constructor)) static void choose_version(void) {
  if (!qemu_plugin_register_vcpu_insn_exec_inline) qemu_plugin_version = 2;
  if (qemu_plugin_register_vcpu_syscall_filter_cb) qemu_plugin_version = 7;
}

static void (*plugin_translated)(const struct qemu_plugin_tb* block);
static void translated(qemu_plugin_id_t id, const struct qemu_plugin_tb* block) {
  (void)id;
  plugin_translated(block);
}
static void translated_7(const struct qemu_plugin_tb* block, void* data) {
  (void)data;
  plugin_translated(block);
}

/* Makes QEMU call `function` for each block of instructions that it translates. */
static void on_translation(qemu_plugin_id_t id,
                           void (*function)(const struct qemu_plugin_tb* block)) {
  plugin_translated = function;
  qemu_plugin_register_vcpu_tb_trans_cb(
      id, qemu_plugin_version < 7 ? (callback*)translated : (callback*)translated_7, NULL);
}

/* Returns the value of the argument NAME=VALUE; NULL if there is none. */
static const char* value_of(const char* name, int count, char** words) {
  const size_t length = strlen(name);
  for (int i = 0; i < count; i++)
    if (strncmp(words[i], name, length) == 0 && words[i][length] == '=')
      return words[i] + length + 1;
  return NULL;
}

/* True for an address in the upper half of the address space, where the kernel is. */
static bool of_kernel(uint64_t address) {
  return address >> 63;
}
