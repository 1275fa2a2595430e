#include "allocators.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <stdexcept>

#include "symbols/program_code.h"

namespace {

struct Allocator {
  std::string_view name;
  // Tells a probe session which parameters give the size, the old object and the result; for a
  // function that frees, the address (docs/probes.md).
  std::string_view arguments;
  std::string_view inner;  // a function that only calls `inner` is not probed
};

constexpr std::string_view kNewArguments = "size=1", kDeleteArguments = "address=1";

constexpr Allocator kCore[] = {
    {"_malloc_r", "size=2", ""},
    {"_calloc_r", "size=2*3", ""},
    {"_realloc_r", "size=3 old=2", ""},
    {"_memalign_r", "size=3", ""},
    {"_pvalloc_r", "size=2", ""},  // always probed: rounds up the size, then calls _memalign_r
    {"_valloc_r", "size=2", "_memalign_r"},
    {"_free_r", "address=2", ""},
};
constexpr Allocator kPublic[] = {
    {"malloc", "size=1", "_malloc_r"},
    {"calloc", "size=1*2", "_calloc_r"},
    {"realloc", "size=2 old=1", "_realloc_r"},
    {"reallocarray", "size=2*3 old=1", "realloc"},
    {"memalign", "size=2", "_memalign_r"},
    {"aligned_alloc", "size=2", "posix_memalign"},
    {"posix_memalign", "size=3 result=*1", "memalign"},
    {"valloc", "size=1", "_valloc_r"},
    {"pvalloc", "size=1", "_pvalloc_r"},
    {"free", "address=1", "_free_r"},
};
// operator new and delete, by the names of the Itanium C++ ABI.
constexpr std::string_view kNew[] = {"_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t",
                                     "_ZnamRKSt9nothrow_t"};
// Aligned forms are always probed, because they may round up the size before they call an
// allocation function of the C library.
constexpr std::string_view kAlignedNew[] = {"_ZnwmSt11align_val_t", "_ZnamSt11align_val_t",
                                            "_ZnwmSt11align_val_tRKSt9nothrow_t",
                                            "_ZnamSt11align_val_tRKSt9nothrow_t"};
constexpr std::string_view kDelete[] = {"_ZdlPv",
                                        "_ZdaPv",
                                        "_ZdlPvm",
                                        "_ZdaPvm",
                                        "_ZdlPvRKSt9nothrow_t",
                                        "_ZdaPvRKSt9nothrow_t",
                                        "_ZdlPvSt11align_val_t",
                                        "_ZdaPvSt11align_val_t",
                                        "_ZdlPvmSt11align_val_t",
                                        "_ZdaPvmSt11align_val_t",
                                        "_ZdlPvSt11align_val_tRKSt9nothrow_t",
                                        "_ZdaPvSt11align_val_tRKSt9nothrow_t"};
// These functions are not probed. But reports skip their frames, like those of probed functions.
constexpr std::string_view kOthers[] = {"_reallocf_r", "reallocf", "mmap", "munmap"};

class Finder {
 public:
  Finder(const std::string& path, const Program& program, std::string_view prefix)
      : path_(path), program_(program), code_(path), prefix_(prefix) {}

  const ProgramFunction* find(std::string_view name) const {
    const std::string wanted = std::string(prefix_) + std::string(name);
    const auto found = std::find_if(program_.functions.begin(), program_.functions.end(),
                                    [&](const auto& f) { return f.name == wanted; });
    return found == program_.functions.end() ? nullptr : &*found;
  }

  // True if the function `name` exists, calls `inner` and is too short to do anything else.
  bool is_shell(std::string_view name, std::string_view inner) const {
    // In bytes. newlib's wrappers have 24 to 42 bytes, including the call of __getreent.
    constexpr uint64_t kShell = 48;
    const ProgramFunction* const outside = find(name);
    const ProgramFunction* const within = inner.empty() ? nullptr : find(inner);
    return outside != nullptr && within != nullptr && outside->size <= kShell &&
           calls(*outside, within->address);
  }

  void probe(AllocatorProbes& probes, std::string_view name, std::string_view arguments) const {
    const ProgramFunction* const function = find(name);
    if (function == nullptr) return;
    const bool frees = arguments.starts_with("address");
    (frees ? probes.frees : probes.allocates) = true;
    if (!frees && code_.returns(*function).empty()) {
      throw std::runtime_error(path_ + ": it is not known where " + function->name + " returns");
    }
    probes.commands.push_back((frees ? "free " : "alloc ") +
                              probe_name(path_, code_, *function, !frees) + " " +
                              std::string(arguments));
  }

 private:
  // True if the function contains a `call` instruction to `address`.
  bool calls(const ProgramFunction& function, uint64_t address) const {
    constexpr std::size_t kCallSize = 5;
    const std::string_view code = code_.code(function);
    for (std::size_t at = 0; at + kCallSize <= code.size(); at++) {
      int32_t distance;
      std::memcpy(&distance, code.data() + at + 1, sizeof(distance));
      if (code[at] == '\xe8' &&
          function.address + at + kCallSize + static_cast<int64_t>(distance) == address)
        return true;
    }
    return false;
  }

  const std::string& path_;
  const Program& program_;
  const ProgramCode code_;
  std::string_view prefix_;
};

}  // namespace

AllocatorProbes allocator_probes(const std::string& path, const Program& program,
                                 std::string_view prefix) {
  const Finder finder(path, program, prefix);
  AllocatorProbes probes;
  if (!prefix.empty()) {
    for (const Allocator& allocator : kPublic)
      finder.probe(probes, allocator.name, allocator.arguments);
    return probes;
  }
  for (const auto& list :
       {std::span<const Allocator>(kCore), std::span<const Allocator>(kPublic)}) {
    for (const Allocator& allocator : list) {
      if (!finder.is_shell(allocator.name, allocator.inner))
        finder.probe(probes, allocator.name, allocator.arguments);
    }
  }
  for (const std::string_view name : kAlignedNew) finder.probe(probes, name, kNewArguments);
  // If operator delete only calls free, the program uses the operators of the C++ library. There,
  // operator new only calls malloc. So the probes of malloc and free see all calls.
  if (finder.is_shell("_ZdlPv", "free")) return probes;
  for (const std::string_view name : kNew) finder.probe(probes, name, kNewArguments);
  for (const std::string_view name : kDelete) finder.probe(probes, name, kDeleteArguments);
  return probes;
}

bool is_allocator(std::string_view function, std::string_view prefix) {
  const auto has = [&](const auto& list) {
    return std::find(std::begin(list), std::end(list), function) != std::end(list);
  };
  if (!prefix.empty() && function.starts_with(prefix)) {
    const std::string_view name = function.substr(prefix.size());
    if (std::any_of(std::begin(kPublic), std::end(kPublic),
                    [&](const auto& a) { return a.name == name; }))
      return true;
  }
  const auto named = [&](const Allocator& allocator) { return allocator.name == function; };
  return std::any_of(std::begin(kCore), std::end(kCore), named) ||
         std::any_of(std::begin(kPublic), std::end(kPublic), named) || has(kNew) ||
         has(kAlignedNew) || has(kDelete) || has(kOthers);
}
