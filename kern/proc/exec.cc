// Loading programs: static ELF64 files, and scripts that name their interpreter (#!).
//
// A program is loaded into a new address space, and the old space is released only when nothing can
// fail any more. Only headers and the build id are read here. Text and data are read page by page
// on first use (AddressSpace::fault), so the file stays open as long as the program runs. The stack
// gets, from the top: random bytes, the program's path, the strings, the auxiliary vector, the
// pointers to the environment's and the arguments' strings, and the number of arguments, as the
// System V ABI requires (abi/start.h).
#include <algorithm>

#include "abi/start.h"
#include "arch/x86_64/time.h"
#include "core/errstr.h"
#include "core/planted.h"
#include "core/random.h"
#include "kmalloc.h"
#include "lib/string.h"
#include "proc/elf_impl.h"
#include "proc/process_impl.h"

namespace {

constexpr unsigned kMaxInterpreters = 4;  // maximum number of scripts in a chain of interpreters
constexpr size_t kHeadSize = 512;  // bytes read from the start of a file: an ELF header or #! line

Result<Ref<Chan>> open_program(const PathContext& context, std::string_view path) {
  Ref<Chan> file = TRY(path_open(context, path, ABI_O_RDONLY | kOpenToExecute, 0));
  abi_stat stat;
  TRY(file->device->stat(*file, stat));
  if ((stat.mode & ABI_S_IFMT) != ABI_S_IFREG) return Errno::EACCES;
  if ((stat.mode & 0111) == 0 || !permitted(stat.mode, stat.uid, stat.gid, context.who, 1))
    return Errno::EACCES;
  return file;
}

// Sets `program.who` to the credentials of `starter`, with the changes that the file's set-user-id
// and set-group-id bits require. Sets `program.secure`, too.
Result<void> take_credentials(Chan& file, const Credentials& starter, LoadedProgram& program) {
  abi_stat stat;
  TRY(file.device->stat(file, stat));
  Credentials& who = program.who;
  who = starter;
  if (file.device->grants_rights()) {
    if (stat.mode & ABI_S_ISUID) who.uid = stat.uid;
    // Without the group's execute permission, ABI_S_ISGID marks a file for mandatory locking.
    if ((stat.mode & ABI_S_ISGID) && (stat.mode & 0010)) who.gid = stat.gid;
  }
  who.saved_uid = who.uid;
  who.saved_gid = who.gid;
  program.secure = who.uid != who.real_uid || who.gid != who.real_gid;
  return {};
}

Result<void> add_segment(AddressSpace& space, const Ref<Chan>& file, const ElfSegment& segment) {
  if (segment.memory_size == 0) return {};
  if (segment.file_size > segment.memory_size || segment.address >= kStackTop ||
      segment.memory_size > kStackTop - segment.address) {
    return not_executable("a segment's size is wrong");
  }
  if (segment.offset % kPageSize != segment.address % kPageSize ||
      segment.offset > INT64_MAX - segment.file_size) {
    return not_executable("a segment is not aligned");
  }
  const uint64_t start = align_down(segment.address, kPageSize);
  const uint64_t before = segment.address - start;
  uint32_t protection = 0;
  if (segment.flags & kElfReadable) protection |= ABI_PROT_READ;
  if (segment.flags & kElfWritable) protection |= ABI_PROT_WRITE;
  if (segment.flags & kElfExecutable) protection |= ABI_PROT_EXEC;
  // If a segment needs no zeros after its bytes from the file, its region also maps the file's next
  // bytes, up to the end of the last page. Then the last page, like all pages before, can be the
  // file's cached page.
  const uint64_t file_bytes = segment.file_size == segment.memory_size
                                  ? align_up(before + segment.file_size, kPageSize)
                                  : before + segment.file_size;
  const Result<void> result =
      space.add_region(start, align_up(segment.address + segment.memory_size, kPageSize),
                       protection, segment.file_size ? file : Ref<Chan>(), segment.offset - before,
                       segment.file_size ? file_bytes : 0);
  if (result) return {};
  return result.error() == Errno::EINVAL
             ? not_executable("a segment is outside of user space, or two segments share a page")
             : result.error();
}

struct NoteHeader {
  uint32_t name_size, content_size, type;
};
constexpr uint32_t kNoteBuildId = 3;
constexpr char kNoteName[] = "GNU";
constexpr size_t kMaxNotes = 256;  // maximum number of bytes that are searched in a segment

// Searches the notes of `segment` for the build id. A program whose build id is missing or
// malformed runs too.
Result<void> find_build_id(Chan& file, const ElfSegment& segment, ProgramDescription& program) {
  char notes[kMaxNotes];
  const size_t wanted = std::min<uint64_t>(segment.file_size, sizeof(notes));
  if (segment.offset > INT64_MAX - wanted) return {};
  const size_t size = TRY(read_at(file, segment.offset, notes, wanted));
  size_t at = 0;
  while (size - at >= sizeof(NoteHeader)) {
    NoteHeader note;
    memcpy(&note, notes + at, sizeof(note));
    at += sizeof(note);
    const uint64_t name_size = align_up(uint64_t{note.name_size}, 4),
                   content_size = align_up(uint64_t{note.content_size}, 4);
    if (name_size > size - at || content_size > size - at - name_size) return {};
    const bool is_build_id = note.type == kNoteBuildId && note.name_size == sizeof(kNoteName) &&
                             memcmp(notes + at, kNoteName, sizeof(kNoteName)) == 0;
    if (is_build_id && note.content_size <= sizeof(program.build_id)) {
      memcpy(program.build_id, notes + at + name_size, note.content_size);
      program.build_id_size = static_cast<uint8_t>(note.content_size);
      return {};
    }
    at += name_size + content_size;
  }
  return {};
}

// Facts about a loaded program that its auxiliary vector contains.
struct LoadedElf {
  uint64_t entry;
  uint64_t headers = 0;  // address of its program headers; 0 if no segment contains them
  uint64_t header_count;
};

[[gnu::noinline]] Result<LoadedElf> load_elf(AddressSpace& space, const Ref<Chan>& file,
                                             const ElfSegments& elf, ProgramDescription& program) {
  const uint64_t headers_size = elf.count * sizeof(ElfSegment);
  LoadedElf result{.entry = elf.entry, .header_count = elf.count};
  bool loads = false;
  for (unsigned i = 0; i < elf.count; i++) {
    const ElfSegment& segment = elf.segments[i];
    if (segment.type == kElfInterpreter) return not_executable("not statically linked");
    if (segment.type == kElfNote && program.build_id_size == 0)
      TRY(find_build_id(*file, segment, program));
    if (segment.type != kElfLoad) continue;
    TRY(add_segment(space, file, segment));
    loads = true;
    if (elf.headers >= segment.offset && segment.file_size >= headers_size &&
        elf.headers - segment.offset <= segment.file_size - headers_size)
      result.headers = segment.address + (elf.headers - segment.offset);
  }
  if (!loads) return not_executable("nothing to load");
  if (elf.entry >= kUserEnd) return not_executable("entry point outside");
  return result;
}

// Writes 64-bit words to ascending addresses, kWords words at a time.
class WordWriter {
 public:
  WordWriter(AddressSpace& space, uint64_t address) : space_(space), address_(address) {}
  Result<void> put(uint64_t word) {
    words_[count_++] = word;
    return count_ == kWords ? flush() : Result<void>();
  }
  Result<void> flush() {
    TRY(space_.write(address_, words_, count_ * sizeof(uint64_t)));
    address_ += count_ * sizeof(uint64_t);
    count_ = 0;
    return {};
  }

 private:
  static constexpr unsigned kWords = 12;
  AddressSpace& space_;
  uint64_t address_;
  uint64_t words_[kWords];
  unsigned count_ = 0;
};

// Builds the program's initial stack (see the top of this file). Returns the stack pointer. `path`
// is the path that exec was called with. For a script, `path` is the path of the script, not of the
// interpreter.
[[gnu::noinline]] Result<uint64_t> build_stack(AddressSpace& space, const Arguments& arguments,
                                               const LoadedElf& elf, std::string_view path,
                                               const Credentials& who, bool secure) {
  uint8_t random_bytes[16];
  random_fill(random_bytes, sizeof(random_bytes));
  const uint64_t random = kStackTop - sizeof(random_bytes);
  TRY(space.write(random, random_bytes, sizeof(random_bytes)));
  const uint64_t executed = random - path.size() - 1;
  TRY(space.write(executed, path.data(), path.size()));  // the page's zeros supply the path's NUL
  const uint64_t strings = align_down(executed - arguments.size(), 16);
  TRY(space.write(strings, arguments.data(), arguments.size()));
  const uint64_t auxiliary[][2] = {
      {ABI_AT_PHDR, elf.headers},
      {ABI_AT_PHENT, sizeof(ElfSegment)},
      {ABI_AT_PHNUM, elf.header_count},
      {ABI_AT_PAGESZ, kPageSize},
      {ABI_AT_ENTRY, elf.entry},
      {ABI_AT_UID, who.real_uid},
      {ABI_AT_EUID, who.uid},
      {ABI_AT_GID, who.real_gid},
      {ABI_AT_EGID, who.gid},
      {ABI_AT_SECURE, secure},
      {ABI_AT_HWCAP, user_capabilities()},
      {ABI_AT_CLKTCK, kTickHz},
      {ABI_AT_MINSIGSTKSZ, signal_frame_size()},
      {ABI_AT_RANDOM, random},
      {ABI_AT_EXECFN, executed},
      {ABI_AT_NULL, 0},
  };
  const uint64_t count = arguments.arguments + arguments.environment;
  // Words below the auxiliary vector: argc, argument pointers, NULL, environment pointers, NULL.
  const uint64_t stack =
      align_down(strings - sizeof(auxiliary) - (1 + count + 2) * sizeof(uint64_t), 16);
  WordWriter words(space, stack);
  TRY(words.put(arguments.arguments));
  const char* text = arguments.data();
  for (uint64_t i = 0; i < count; i++) {
    if (i == arguments.arguments) TRY(words.put(0));
    TRY(words.put(strings + static_cast<uint64_t>(text - arguments.data())));
    text += strlen(text) + 1;
    if (i + 1 == arguments.arguments)
      space.arguments_size = static_cast<uint64_t>(text - arguments.data());
  }
  if (arguments.environment == 0) TRY(words.put(0));
  TRY(words.put(0));
  for (const auto& [type, value] : auxiliary) {
    TRY(words.put(type));
    TRY(words.put(value));
  }
  TRY(words.flush());
  space.arguments_start = strings;
  return stack;
}

// Finds the interpreter and its one argument in a script's first line. Both results lie in `line`.
Result<void> parse_script(char* line, size_t size, std::string_view& interpreter,
                          std::string_view& argument) {
  std::string_view text(line + 2, size - 2);
  const size_t end = text.find('\n');
  if (end == std::string_view::npos && size == kHeadSize)
    return not_executable("the interpreter's line is too long");
  text = text.substr(0, end);
  const auto trim = [](std::string_view& part) {
    while (!part.empty() && (part.front() == ' ' || part.front() == '\t')) part.remove_prefix(1);
    while (!part.empty() && (part.back() == ' ' || part.back() == '\t' || part.back() == '\r'))
      part.remove_suffix(1);
  };
  trim(text);
  const size_t blank = std::min(text.find_first_of(" \t"), text.size());
  interpreter = text.substr(0, blank);
  argument = text.substr(blank);
  trim(argument);
  if (interpreter.empty()) return not_executable("no interpreter after #!");
  return {};
}

// Memory of program_load().
struct Loading {
  char head[kHeadSize];
  char name[kMaxPath];  // the path of the interpreter
  ElfSegments elf;
};

// Opens the program at `path`. As long as the opened file is a script, puts the script's path and
// the interpreter into the arguments, and opens the interpreter instead. Sets `file` to the last
// file, and `size` to the number of bytes in loading.head.
Result<void> open_interpreted(const PathContext& context, std::string_view path,
                              Arguments& arguments, Loading& loading, LoadedProgram& program,
                              Ref<Chan>& file, size_t& size) {
  char* const head = loading.head;
  file = TRY(open_program(context, path));
  program.file = file;
  for (unsigned depth = 0;; depth++) {
    size = TRY(read_at(*file, 0, head, kHeadSize));
    if (size < 2 || head[0] != '#' || head[1] != '!') return {};
    if (depth == kMaxInterpreters) return Errno::ELOOP;
    std::string_view interpreter, argument;
    TRY(parse_script(head, size, interpreter, argument));
    const std::string_view with_argument[] = {interpreter, argument, path},
                           without[] = {interpreter, path};
    TRY(argument.empty() ? arguments.replace_first(without, 2)
                         : arguments.replace_first(with_argument, 3));
    memcpy(loading.name, interpreter.data(), interpreter.size());
    path = std::string_view(loading.name, interpreter.size());
    file = TRY(open_program(context, path));
  }
}

}  // namespace

Result<void> program_load(const PathContext& context, std::string_view path, Arguments& arguments,
                          LoadedProgram& program) {
  const auto loading = TRY(Scratch<Loading>::make());
  Ref<Chan> file;
  size_t size = 0;
  TRY(open_interpreted(context, path, arguments, *loading, program, file, size));
  TRY(take_credentials(*file, context.who, program));
  program.space = TRY(AddressSpace::create());
  Result<LoadedElf> loaded = Errno::ENOEXEC;
  if (const Result<void> read = elf_segments(*file, loading->head, size, loading->elf)) {
    loaded = load_elf(*program.space, file, loading->elf, program.description);
  } else {
    loaded = read.error();
  }
  if (!loaded && loaded.error() == Errno::ENOMEM && planted(Planted::kLoadError))
    static_cast<void>(program.space.release());
  if (!loaded && planted(Planted::kExecFormat)) static_cast<void>(Ref<Chan>(file).release());
  if (!loaded) return loaded.error();
  const LoadedElf& elf = *loaded;
  program.space->program = {file->device, file->qid.path};
  program.space->announce();
  uint64_t named_at;
  const size_t length = std::min(chan_copy_path(*file, loading->name, named_at),
                                 sizeof(program.description.path) - 1);
  memcpy(program.description.path, loading->name, length);
  TRY(program.space->add_stack_and_heap());
  program.frame = user_frame(elf.entry, TRY(build_stack(*program.space, arguments, elf, path,
                                                        program.who, program.secure)));
  program.frame.rax = ABI_START_RAX;
  return {};
}
