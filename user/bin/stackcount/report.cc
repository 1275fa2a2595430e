#include "report.h"

#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

namespace {

constexpr const char* kUnknown = "[unknown]";

std::string clock_time() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof(text), "%H:%M:%S", std::localtime(&now));
  return text;
}

std::string with_offset(std::string name, uint64_t offset, bool wanted) {
  return wanted ? name + "+" + hexadecimal(offset) : name;
}

std::string kernel_name(Symbols& symbols, uint64_t frame, bool offset) {
  const KernelSymbols::Function* const function = symbols.kernel.find(frame);
  return function == nullptr ? kUnknown : with_offset(function->name, frame - function->address, offset);
}

std::string user_name(Symbols& symbols, const Count& count, uint64_t frame, bool offset) {
  const auto place = symbols.programs.find(count.path, count.build_id, frame);
  return !place ? kUnknown : with_offset(demangled(place->function->name), place->offset, offset);
}

void print_frame(std::ostream& out, const Arguments& arguments, uint64_t frame, const std::string& name) {
  out << "  ";
  if (arguments.verbose) {
    char address[24];
    std::snprintf(address, sizeof(address), "%-16llx ", static_cast<unsigned long long>(frame));
    out << address;
  }
  out << name << '\n';
}

void print_stack(std::ostream& out, const Arguments& arguments, Symbols& symbols, const Count& count) {
  for (const uint64_t frame : count.kernel) {
    print_frame(out, arguments, frame, kernel_name(symbols, frame, arguments.offset));
  }
  if (arguments.with_delimiter()) out << "    --\n";
  for (const uint64_t frame : count.user) {
    print_frame(out, arguments, frame, user_name(symbols, count, frame, arguments.offset));
  }
  if (count.pid != 0 && !arguments.pid) out << "    " << count.name << " [" << count.pid << "]\n";
  out << "    " << count.calls << "\n\n";
}

void print_folded(std::ostream& out, const Arguments& arguments, Symbols& symbols, const Count& count) {
  std::vector<std::string> words;
  if (!count.name.empty()) words.push_back(count.name);
  for (auto frame = count.user.rbegin(); frame != count.user.rend(); frame++) {
    words.push_back(user_name(symbols, count, *frame, false));
  }
  if (arguments.with_delimiter()) words.emplace_back("-");
  for (auto frame = count.kernel.rbegin(); frame != count.kernel.rend(); frame++) {
    words.push_back(kernel_name(symbols, *frame, false));
  }
  for (std::size_t i = 0; i < words.size(); i++) out << (i == 0 ? "" : ";") << words[i];
  out << ' ' << count.calls << '\n';
}

}  // namespace

void print_summary(std::ostream& out, const Arguments& arguments, Symbols& symbols, const Summary& summary) {
  if (!arguments.folded) out << '\n';
  if (arguments.timestamp) out << clock_time() << '\n';
  for (const Count& count : summary.counts) {
    (arguments.folded ? print_folded : print_stack)(out, arguments, symbols, count);
  }
}

void print_losses(std::ostream& out, const Losses& losses) {
  std::string text;
  const auto add = [&](uint64_t number, const char* what) {
    if (number != 0) text += (text.empty() ? "Lost: " : ", ") + std::to_string(number) + what;
  };
  add(losses.calls, " calls not counted");
  add(losses.kept_out, " calls by the tracer itself not counted");
  add(losses.stacks, " calls counted without their stack");
  add(losses.processes, " calls counted without their process");
  add(losses.truncated, " calls counted with the innermost frames only");
  if (!text.empty()) out << text << '\n';
}
