#include "arch/x86_64/machine_check_impl.h"

#include <cstdint>

#include "arch/x86_64/io.h"
#include "core/console_print.h"
#include "core/cpu.h"

namespace {

constexpr uint32_t kMsrCapabilities = 0x179, kMsrStatus = 0x17a, kMsrControl = 0x17b;
constexpr uint64_t kHasControl = 1 << 8;
// Each bank has four registers: control, status, address, and further information.
constexpr uint32_t kMsrBanks = 0x400;
enum BankRegister : uint32_t { kBankControl, kBankStatus, kBankAddress, kBankMisc };
constexpr uint64_t kValid = uint64_t{1} << 63, kAddressValid = uint64_t{1} << 58;

bool has_machine_checks() {
  constexpr uint32_t kException = 1 << 7, kArchitecture = 1 << 14;
  return (cpuid(1).edx & (kException | kArchitecture)) == (kException | kArchitecture);
}

unsigned banks() {
  return read_msr(kMsrCapabilities) & 0xff;
}
uint32_t bank_msr(unsigned bank, BankRegister reg) {
  return kMsrBanks + 4 * bank + reg;
}

// On the P6 and Core families, and on the first Atoms, bank 0 belongs to the firmware (section
// 16.3.2.1).
unsigned first_bank() {
  const uint32_t version = cpuid(1).eax;
  const uint32_t family = version >> 8 & 15, model = (version >> 4 & 15) | (version >> 12 & 0xf0);
  constexpr uint32_t kIntel = 0x756e6547;  // "Genu"
  return cpuid(0).ebx == kIntel && family == 6 && model < 0x1a ? 1 : 0;
}

}  // namespace

void machine_check_setup_cpu() {
  if (!has_machine_checks()) return;
  if (read_msr(kMsrCapabilities) & kHasControl) write_msr(kMsrControl, UINT64_MAX);
  for (unsigned bank = first_bank(); bank < banks(); bank++)
    write_msr(bank_msr(bank, kBankControl), UINT64_MAX);
  for (unsigned bank = 0; bank < banks(); bank++) write_msr(bank_msr(bank, kBankStatus), 0);
  write_cr4(read_cr4() | kCr4Mce);
}

void machine_check_print() {
  if (!has_machine_checks()) return;
  console_print("machine check on CPU %u, status 0x%lx", number_of(this_cpu().id),
                read_msr(kMsrStatus));
  for (unsigned bank = 0; bank < banks(); bank++) {
    const uint64_t status = read_msr(bank_msr(bank, kBankStatus));
    if (!(status & kValid)) continue;
    const uint64_t address =
        status & kAddressValid ? read_msr(bank_msr(bank, kBankAddress)) : uint64_t{0};
    console_print("  bank %u: status 0x%lx, address 0x%lx", bank, status, address);
  }
}
