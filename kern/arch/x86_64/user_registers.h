// Registers of user mode that the kernel itself does not use: x87, SSE and XSAVE's other
// components, and FS base, the thread pointer of programs. A thread's registers are saved while
// other tasks run.
//
// XSAVE saves x87 and SSE, and AVX and AVX-512 if CPUID reports them. On a processor without XSAVE,
// the kernel uses FXSAVE, and programs have only x87 and SSE. The size of a thread's saved state is
// known only at boot (fpu_state_size), so the state lies in memory after the thread's structure.
//
// A task that leaves its CPU always saves its registers, so that another CPU may run the task. The
// task need not load its registers again if no other thread has run on the CPU since (for example,
// only the idle task). For this, Cpu::user_registers has the registers that the CPU loaded last,
// and UserRegisters::cpu has the CPU that last loaded the thread's registers.
//
// A program sets FS base by a system call. The instruction wrfsbase would avoid the call, but the
// bit of CR4 that enables it (FSGSBASE) also lets programs write GS base. The entry code of NMIs
// and machine checks (entry.S) relies on GS base. The kernel would also have to read FS base at
// each switch. The cost of the call does not matter, because a thread makes it only once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arch/x86_64/io.h"
#include "core/cpu.h"

// fpu_state_size() bytes, aligned to kFpuAlign, in the format of fxsave64 or xsave64.
struct FpuState;
inline constexpr size_t kFpuAlign = 64;
inline constexpr size_t kMaxFpuSize = 2752;  // bytes; enough for AVX-512
size_t fpu_state_size();

// Sets the initial state of a program.
void fpu_init(FpuState& state);
// Saves or loads the state of the program that runs on this CPU; interrupts off. The instructions
// handle all components that XCR0 enables. xsaveopt skips components in their initial state, and
// components that have not changed since they were loaded from the same address.
enum class FpuSaver : uint8_t { kFxsave, kXsave, kXsaveopt };
extern FpuSaver fpu_saver;  // set at boot
inline void fpu_save(FpuState& state) {
  if (fpu_saver == FpuSaver::kXsaveopt) {
    asm volatile("xsaveopt64 (%0)" ::"r"(&state), "a"(-1), "d"(-1) : "memory");
  } else if (fpu_saver == FpuSaver::kXsave) {
    asm volatile("xsave64 (%0)" ::"r"(&state), "a"(-1), "d"(-1) : "memory");
  } else {
    asm volatile("fxsave64 (%0)" ::"r"(&state) : "memory");
  }
}
// Does what fpu_save does, but saves all components. For a state whose memory has been written
// since it was loaded.
inline void fpu_save_all(FpuState& state) {
  if (fpu_saver != FpuSaver::kFxsave) {
    asm volatile("xsave64 (%0)" ::"r"(&state), "a"(-1), "d"(-1) : "memory");
  } else {
    asm volatile("fxsave64 (%0)" ::"r"(&state) : "memory");
  }
}
// True if the processor neither saves nor loads the x87 unit's last instruction and operand while
// no exception is pending (AMD APM volume 2, section 11.4.4.3, and CPUID 8000_0008 EBX bit 2). A
// program would find those of the program before.
extern bool fpu_keeps_pointers;  // set at boot
inline void fpu_restore(const FpuState& state) {
  if (fpu_keeps_pointers) [[unlikely]] {
    static constinit const uint32_t zero = 0;
    asm volatile("fnclex; emms; fildl %0" ::"m"(zero));  // the last operand is now `zero`
  }
  if (fpu_saver != FpuSaver::kFxsave) {
    asm volatile("xrstor64 (%0)" ::"r"(&state), "a"(-1), "d"(-1) : "memory");
  } else {
    asm volatile("fxrstor64 (%0)" ::"r"(&state) : "memory");
  }
}
// Clears values that would make fpu_restore fault; for a state that a program has written.
void fpu_make_valid(FpuState& state);

struct UserRegisters {
  FpuState* fpu = nullptr;
  uint64_t fs_base = 0;  // below kUserEnd
  CpuId cpu{kMaxCpus};   // the CPU that last loaded these registers; kMaxCpus: none
};

// Called in the task switch, with interrupts off: user_registers_save for the task that leaves the
// CPU, user_registers_load for the task that runs next. `cpu` is this CPU.
inline void user_registers_save(UserRegisters& registers) {
  fpu_save(*registers.fpu);
}
inline void user_registers_load(UserRegisters& registers, Cpu& cpu) {
  if (cpu.user_registers == &registers && registers.cpu == cpu.id) return;
  cpu.user_registers = &registers;
  registers.cpu = cpu.id;
  fpu_restore(*registers.fpu);
  write_msr(kMsrFsBase, registers.fs_base);
}
// Sets FS base of the current task.
void user_registers_set_fs_base(UserRegisters& registers, uint64_t address);

// The features of the processor, as programs get them in ABI_AT_HWCAP.
uint64_t user_capabilities();

// fpu_find_features is called once at boot, before any program runs. Then fpu_setup_cpu is called
// once on each CPU.
void fpu_find_features();
void fpu_setup_cpu();
