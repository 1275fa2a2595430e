#include "arch/x86_64/user_registers.h"

#include "arch/x86_64/interrupts.h"
#include "lib/string.h"

// Written by fxsave64 and xsave64 (Intel SDM volume 1, 10.5.1 and 13.4).
struct FpuState {
  uint16_t control_word;
  uint8_t x87[22];
  uint32_t mxcsr, mxcsr_mask;
  uint8_t registers[480];
  // The following fields exist in XSAVE's format only.
  uint64_t present;  // XSTATE_BV: bit for each component that is not in its initial state
  uint64_t compacted;
  uint64_t reserved[6];
};
static_assert(offsetof(FpuState, mxcsr) == 24 && offsetof(FpuState, present) == 512 &&
              sizeof(FpuState) == 576);

namespace {

constexpr size_t kFxsaveSize = offsetof(FpuState, present);
constexpr uint16_t kControlWord = 0x37f;  // all exceptions masked, extended precision
constexpr uint32_t kMxcsr = 0x1f80;       // all exceptions masked
constexpr uint32_t kMxcsrBits = 0xffbf;   // bits that every SSE unit has

constexpr uint64_t kX87 = 1 << 0, kSse = 1 << 1, kAvx = 1 << 2, kAvx512 = 7 << 5;
constexpr uint32_t kLeafState = 0xd;

constinit uint64_t components = 0;  // XCR0; 0 without XSAVE
constinit size_t size = kFxsaveSize;
constinit uint32_t mxcsr_bits = kMxcsrBits;

// Returns the value for XCR0. The processor accepts AVX-512 only together with AVX, and only with
// all three components of AVX-512.
uint64_t wanted_components(uint64_t supported) {
  uint64_t wanted = kX87 | kSse;
  if (supported & kAvx) wanted |= kAvx;
  if ((supported & (kAvx | kAvx512)) == (kAvx | kAvx512)) wanted |= kAvx512;
  return wanted;
}

bool keeps_pointers() {
  constexpr uint32_t kAmd = 0x68747541, kHygon = 0x6f677948;  // "Auth", "Hygo"
  constexpr uint32_t kSizes = 0x80000008, kLoadsPointers = 1 << 2;
  const uint32_t vendor = cpuid(0).ebx;
  if (vendor != kAmd && vendor != kHygon) return false;
  return cpuid(0x80000000).eax < kSizes || !(cpuid(kSizes).ebx & kLoadsPointers);
}

}  // namespace

constinit FpuSaver fpu_saver = FpuSaver::kFxsave;
constinit bool fpu_keeps_pointers = false;

size_t fpu_state_size() {
  return size;
}

void fpu_find_features() {
  fpu_keeps_pointers = keeps_pointers();
  static FpuState state;  // too large for a stack
  asm volatile("fxsave64 %0" : "=m"(state));
  if (state.mxcsr_mask != 0) mxcsr_bits = state.mxcsr_mask;
  constexpr uint32_t kHasXsave = 1 << 26;
  if (!(cpuid(1).ecx & kHasXsave) || cpuid(0).eax < kLeafState) return;
  components = wanted_components(cpuid(kLeafState).eax);
  size = sizeof(FpuState);
  for (uint32_t i = 2; i < 32; i++) {
    if (!(components & uint64_t{1} << i)) continue;
    const Cpuid component = cpuid(kLeafState, i);
    if (component.ebx + component.eax > size) size = component.ebx + component.eax;
  }
  if (size > kMaxFpuSize) {
    components = 0;
    size = kFxsaveSize;
    return;
  }
  fpu_saver = cpuid(kLeafState, 1).eax & 1 ? FpuSaver::kXsaveopt : FpuSaver::kXsave;
}

uint64_t user_capabilities() {
  return cpuid(1).edx;
}

void fpu_setup_cpu() {
  if (fpu_saver == FpuSaver::kFxsave) return;
  write_cr4(read_cr4() | kCr4Osxsave);
  asm volatile("xsetbv" ::"c"(0), "a"(static_cast<uint32_t>(components)), "d"(0));
}

void fpu_init(FpuState& state) {
  memset(&state, 0, size);
  state.control_word = kControlWord;
  state.mxcsr = kMxcsr;
}

void fpu_make_valid(FpuState& state) {
  state.mxcsr &= mxcsr_bits;
  if (fpu_saver == FpuSaver::kFxsave) return;
  state.present &= components;
  state.compacted = 0;
  memset(state.reserved, 0, sizeof(state.reserved));
}

void user_registers_set_fs_base(UserRegisters& registers, uint64_t address) {
  const InterruptsOff off;
  registers.fs_base = address;
  write_msr(kMsrFsBase, address);
}
