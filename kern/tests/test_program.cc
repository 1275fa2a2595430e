#include "tests/test_program.h"

#include "core/ktest.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/string.h"
#include "ns/namespace.h"
#include "proc/elf_impl.h"
#include "proc/process_impl.h"

namespace {

struct ElfSymbol {
  uint32_t name;
  uint8_t info, other;
  uint16_t section;
  uint64_t value, size;
};
struct SectionHeader {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
  uint64_t align, entry_size;
};
constexpr size_t kReturnsHeader = 16;

constinit HeldRef<Namespace> names;
constinit Process* parent = nullptr;

PathContext root() {
  if (!names) names = namespace_create().take().release();
  return {.ns = names.object, .cwd = {}, .who = {}};
}

// Makes a process 1 that is never started: the parent of all programs that tests start.
void make_parent() {
  if (parent) return;
  parent = process_create().take();
  {
    const Guard guard(process_lock);
    process_set_path(*parent, "/parent");
  }
  EXPECT(thread_create(*parent, {}));
  EXPECT(process_insert(*parent, nullptr));
  EXPECT(parent->pid == kInitPid);
}

template <typename T>
T read_at_or_fail(Chan& file, uint64_t offset) {
  T value{};
  const Result<size_t> got = read_at(file, offset, &value, sizeof(value));
  EXPECT(got);
  return value;
}

}  // namespace

TestProgram::TestProgram(const char* path)
    : file_(path_open(root(), path, ABI_O_RDONLY, 0).take()) {
  symbols_ = load(".symtab", &symbols_size_);
  names_ = load(".strtab", &names_size_);
  returns_ = load(".stele.returns", &returns_size_);
}

TestProgram::~TestProgram() {
  kfree(symbols_);
  kfree(names_);
  kfree(returns_);
}

TestProgram::Section TestProgram::section(std::string_view name) {
  constexpr uint64_t kSectionTable = 40, kSectionCount = 60, kNamesIndex = 62;
  const auto table = read_at_or_fail<uint64_t>(*file_, kSectionTable);
  const auto count = read_at_or_fail<uint16_t>(*file_, kSectionCount);
  const auto names_index = read_at_or_fail<uint16_t>(*file_, kNamesIndex);
  const auto names_header =
      read_at_or_fail<SectionHeader>(*file_, table + names_index * sizeof(SectionHeader));
  for (unsigned i = 0; i < count; i++) {
    const auto header = read_at_or_fail<SectionHeader>(*file_, table + i * sizeof(SectionHeader));
    char text[32] = {};
    EXPECT(read_at(*file_, names_header.offset + header.name, text, sizeof(text) - 1));
    if (name == text) return {header.offset, header.size};
  }
  EXPECT(!"section found");
  return {0, 0};
}

char* TestProgram::load(std::string_view name, size_t* size) {
  const Section found = section(name);
  auto* const bytes = static_cast<char*>(kmalloc(found.size + 1, KM_SLEEP));
  EXPECT(bytes);
  const Result<size_t> got = read_at(*file_, found.offset, bytes, found.size);
  EXPECT(got);
  *size = found.size;
  return bytes;
}

TestProgram::Function TestProgram::function(std::string_view name) {
  Function found;
  const auto* symbols = reinterpret_cast<const ElfSymbol*>(symbols_);
  for (size_t i = 0; i < symbols_size_ / sizeof(ElfSymbol); i++) {
    if (symbols[i].name < names_size_ && name == names_ + symbols[i].name) {
      found.address = symbols[i].value;
      found.size = symbols[i].size;
    }
  }
  EXPECT(found.address != 0);
  const auto* returns = reinterpret_cast<const uint64_t*>(returns_ + kReturnsHeader);
  for (size_t i = 0; i < (returns_size_ - kReturnsHeader) / sizeof(uint64_t); i++) {
    if (returns[i] < found.address || returns[i] >= found.address + found.size) continue;
    EXPECT(found.return_count < kMaxReturns);
    found.returns[found.return_count++] = returns[i];
  }
  return found;
}

Process& test_process_1() {
  make_parent();
  return *parent;
}

uint32_t start_program(std::initializer_list<const char*> words) {
  make_parent();
  const char* const path = *words.begin();
  Arguments arguments;
  for (const char* word : words) EXPECT(arguments.add(word));
  arguments.arguments = static_cast<uint32_t>(words.size());
  Process* const process = process_create().take();
  LoadedProgram program;
  EXPECT(program_load(root(), path, arguments, program));
  process->ns = Ref<Namespace>(names.object);
  process->fds = fd_table_create().take();
  process->space = std::move(program.space);
  process->program = program.description;
  Thread& thread = *thread_create(*process, program.frame).take();
  {
    const Guard guard(process_lock);
    process_set_path(*process, path);
  }
  EXPECT(process_insert(*process, parent));
  const uint32_t pid = process->pid;
  thread_start(thread);
  return pid;
}

uint32_t start_probetest(const char* what, unsigned n) {
  char count[16];
  format(count, sizeof(count), "%u", n);
  return start_program({"/bin/probetest", what, count});
}

int wait_for_program(uint32_t pid) {
  Process* ended = nullptr;
  int status = 0;
  {
    const Guard guard(process_lock);
    parent->child_wait.wait_uninterruptible(process_lock, [&]() REQUIRES(process_lock) {
      Process* const process = process_find(pid);
      if (!process || process->state != ProcessState::kZombie) return false;
      ended = process;
      return true;
    });
    status = ended->exit_status;
    process_remove(*ended);
  }
  process_free(ended);
  return status;
}
