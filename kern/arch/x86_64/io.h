// Instructions without a C++ equivalent: ports, model-specific registers, CPUID, control registers.
#pragma once

#include <cstdint>

inline uint8_t in8(uint16_t port) {
  uint8_t value;
  asm volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
  return value;
}
inline void out8(uint16_t port, uint8_t value) {
  asm volatile("outb %0, %1" ::"a"(value), "Nd"(port));
}
inline void out16(uint16_t port, uint16_t value) {
  asm volatile("outw %0, %1" ::"a"(value), "Nd"(port));
}

inline uint16_t in16(uint16_t port) {
  uint16_t value;
  asm volatile("inw %1, %0" : "=a"(value) : "Nd"(port));
  return value;
}
inline uint32_t in32(uint16_t port) {
  uint32_t value;
  asm volatile("inl %1, %0" : "=a"(value) : "Nd"(port));
  return value;
}
inline void out32(uint16_t port, uint32_t value) {
  asm volatile("outl %0, %1" ::"a"(value), "Nd"(port));
}

inline constexpr uint32_t kMsrApicBase = 0x1b;
inline constexpr uint32_t kMsrPageAttributes = 0x277;
inline constexpr uint32_t kMsrEfer = 0xc0000080;
inline constexpr uint32_t kMsrStar = 0xc0000081;
inline constexpr uint32_t kMsrLstar = 0xc0000082;
inline constexpr uint32_t kMsrSfmask = 0xc0000084;
inline constexpr uint32_t kMsrFsBase = 0xc0000100;
inline constexpr uint32_t kMsrGsBase = 0xc0000101;
inline constexpr uint32_t kMsrKernelGsBase = 0xc0000102;

inline uint64_t read_msr(uint32_t msr) {
  uint32_t low, high;
  asm volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
  return uint64_t{high} << 32 | low;
}
inline void write_msr(uint32_t msr, uint64_t value) {
  asm volatile("wrmsr" ::"c"(msr), "a"(static_cast<uint32_t>(value)),
               "d"(static_cast<uint32_t>(value >> 32))
               : "memory");
}

struct Cpuid {
  uint32_t eax, ebx, ecx, edx;
};
inline Cpuid cpuid(uint32_t leaf, uint32_t subleaf = 0) {
  Cpuid r;
  asm volatile("cpuid"
               : "=a"(r.eax), "=b"(r.ebx), "=c"(r.ecx), "=d"(r.edx)
               : "a"(leaf), "c"(subleaf));
  return r;
}

inline constexpr uint64_t kCr0Mp = 1 << 1, kCr0Em = 1 << 2, kCr0Wp = 1 << 16;
inline constexpr uint64_t kCr4Pge = 1 << 7, kCr4Osfxsr = 1 << 9, kCr4Osxmmexcpt = 1 << 10,
                          kCr4Umip = 1 << 11, kCr4Osxsave = 1 << 18, kCr4Smep = 1 << 20,
                          kCr4Smap = 1 << 21;

inline uint64_t read_cr0() {
  uint64_t v;
  asm volatile("movq %%cr0, %0" : "=r"(v));
  return v;
}
inline void write_cr0(uint64_t v) {
  asm volatile("movq %0, %%cr0" ::"r"(v) : "memory");
}
inline uint64_t read_cr2() {
  uint64_t v;
  asm volatile("movq %%cr2, %0" : "=r"(v));
  return v;
}
inline uint64_t read_cr3() {
  uint64_t v;
  asm volatile("movq %%cr3, %0" : "=r"(v));
  return v;
}
inline void write_cr3(uint64_t v) {
  asm volatile("movq %0, %%cr3" ::"r"(v) : "memory");
}
inline uint64_t read_cr4() {
  uint64_t v;
  asm volatile("movq %%cr4, %0" : "=r"(v));
  return v;
}
inline void write_cr4(uint64_t v) {
  asm volatile("movq %0, %%cr4" ::"r"(v) : "memory");
}
inline void invalidate_page(uint64_t address) {
  asm volatile("invlpg (%0)" ::"r"(address) : "memory");
}
inline void cpu_relax() {
  asm volatile("pause" ::: "memory");
}
[[noreturn]] inline void halt_forever() {
  for (;;) asm volatile("cli; hlt");
}
