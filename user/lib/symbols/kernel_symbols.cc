#include "symbols/kernel_symbols.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "tool/files.h"

// #mem/ksyms has lines "ffffffff80104ac0 T name", addresses ascending.
KernelSymbols::KernelSymbols() {
  constexpr std::size_t kDigits = 16, kName = kDigits + 3;
  const std::string text = read_file("#mem/ksyms");
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    uint64_t address = 0;
    if (line.size() <= kName ||
        std::from_chars(line.data(), line.data() + kDigits, address, 16).ec != std::errc())
      continue;
    functions_.push_back({address, std::string(line.substr(kName))});
  }
}

// Looks up `return_address - 1`: the call ends just before the return address, which may already
// belong to the next function.
const KernelSymbols::Function* KernelSymbols::find(uint64_t return_address) const {
  const auto after =
      std::upper_bound(functions_.begin(), functions_.end(), return_address - 1,
                       [](uint64_t at, const Function& function) { return at < function.address; });
  return after == functions_.begin() ? nullptr : &after[-1];
}

std::string KernelSymbols::frame(uint64_t return_address) const {
  const Function* const function = find(return_address);
  if (function == nullptr) return hexadecimal(return_address);
  return function->name + "+" + hexadecimal(return_address - function->address) + " [kernel]";
}

std::string KernelSymbols::name(uint64_t return_address) const {
  const Function* const function = find(return_address);
  return function != nullptr ? function->name : hexadecimal(return_address);
}

std::string hexadecimal(uint64_t number) {
  char text[16];
  return "0x" + std::string(text, std::to_chars(text, text + sizeof(text), number, 16).ptr);
}
