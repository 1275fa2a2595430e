#include "functions.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "symbols/kernel_symbols.h"
#include "symbols/program_symbols.h"
#include "tool/files.h"
#include "tool/processes.h"

namespace {

using Matcher = std::function<bool(std::string_view)>;

// Returns NAME of a line "ADDRESS NAME" or "ADDRESS NAME probed N" of #probe/functions. C++ names
// may contain blanks.
std::string_view name_in(std::string_view line) {
  std::string_view name = line.substr(std::min(line.find(' ') + 1, line.size()));
  constexpr std::string_view kProbed = " probed ";
  const std::size_t probed = name.rfind(kProbed);
  if (probed != name.npos &&
      name.find_first_not_of("0123456789", probed + kProbed.size()) == name.npos) {
    name = name.substr(0, probed);
  }
  return name;
}

// Turns a name into one word of a session's command. Blanks would end the word, so they become '?',
// which matches any character.
std::string as_word(std::string_view name) {
  std::string word(name);
  std::replace(word.begin(), word.end(), ' ', '?');
  return word;
}

Functions kernel_functions(const Matcher& matches) {
  Functions functions;
  std::set<std::string> words;
  const std::string text = read_file("#probe/functions");
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::string_view name = name_in(line);
    if (name.empty() || !matches(name)) continue;
    functions.count++;
    words.insert(as_word(name));
  }
  functions.words.assign(words.begin(), words.end());
  const KernelSymbols symbols;
  const auto& all = symbols.functions();
  const auto matching =
      std::count_if(all.begin(), all.end(), [&](const auto& f) { return matches(f.name); });
  functions.unprobeable =
      static_cast<std::size_t>(matching) - std::min<std::size_t>(matching, functions.count);
  return functions;
}

// The programs to search, each file once: most names in /bin are links to the same file.
class Programs {
 public:
  void add(const std::string& path) {
    struct stat file;
    if (stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) return;
    if (seen_.insert({file.st_dev, file.st_ino}).second) paths_.push_back(path);
  }
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  std::set<std::pair<dev_t, ino_t>> seen_;
  std::vector<std::string> paths_;
};

std::vector<std::string> every_program() {
  Programs programs;
  const std::string folder = "/bin";
  if (const std::unique_ptr<DIR, int (*)(DIR*)> files(opendir(folder.c_str()), closedir); files) {
    while (const dirent* entry = readdir(files.get())) programs.add(folder + "/" + entry->d_name);
  }
  for (const uint32_t pid : process_ids()) {
    if (const auto path = program_of_process(pid)) programs.add(*path);
  }
  return programs.paths();
}

std::string find_program(const std::string& name) {
  struct stat file;
  const auto is_file = [&](const std::string& path) {
    return stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode);
  };
  if (name.find('/') != name.npos) {
    if (is_file(name)) return name;
  } else {
    const char* const variable = std::getenv("PATH");
    for (std::string_view rest = variable != nullptr ? variable : "/bin"; !rest.empty();) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
      std::string path = std::string(folder) + "/" + name;
      if (is_file(path)) return path;
    }
  }
  throw std::runtime_error("unable to find library or program " + name);
}

std::vector<std::string> programs_of(const Pattern& pattern, std::optional<uint64_t> pid) {
  if (pattern.program != "c") return {find_program(pattern.program)};
  if (!pid) return every_program();
  if (const auto path = program_of_process(static_cast<uint32_t>(*pid))) return {*path};
  throw std::runtime_error("there is no process " + std::to_string(*pid));
}

// `name` is the linker's name of a function. True if the pattern matches this name, its demangled
// form, or its demangled form without the parameters.
bool is_meant(const Matcher& matches, const std::string& name) {
  if (matches(name)) return true;
  if (!name.starts_with("_Z")) return false;
  const std::string readable = demangled(name);
  return matches(readable) || matches(std::string_view(readable).substr(0, readable.find('(')));
}

void add_functions(Functions& functions, const Matcher& matches, const std::string& path,
                   bool c_library) {
  const Program program = read_program(path);
  uint64_t last = 0;  // address of the last match, to skip other names of that function
  for (const ProgramFunction& function : program.functions) {
    if (function.address == last) continue;
    if (!(c_library ? matches(function.name) : is_meant(matches, function.name))) continue;
    last = function.address;
    if (!function.probeable) {
      functions.unprobeable++;
      continue;
    }
    if (path.find_first_of(": \t") != path.npos) {
      throw std::runtime_error(path + ": the file's name has a blank or ':' in it");
    }
    functions.count++;
    functions.words.push_back(path + ":" + hexadecimal(function.address).substr(2) + ":" +
                              function.name);
  }
}

}  // namespace

Functions find_functions(const Pattern& pattern, bool regular_expression,
                         std::optional<uint64_t> pid) {
  const Matcher matches = name_matcher(pattern.function, regular_expression);
  if (pattern.program.empty()) return kernel_functions(matches);
  Functions functions;
  for (const std::string& path : programs_of(pattern, pid)) {
    add_functions(functions, matches, path, pattern.program == "c");
  }
  return functions;
}
