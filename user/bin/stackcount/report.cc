#include "report.h"

#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

namespace {

const std::string kUnknown = "[unknown]";

std::string clock_time() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof(text), "%H:%M:%S", std::localtime(&now));
  return text;
}

void print_frame(std::ostream& out, const Arguments& arguments, uint64_t frame,
                 const std::string& name) {
  out << "  ";
  if (arguments.verbose) {
    char address[24];
    std::snprintf(address, sizeof(address), "%-16llx ", static_cast<unsigned long long>(frame));
    out << address;
  }
  out << name << '\n';
}

void print_stack(std::ostream& out, const Arguments& arguments, FrameNames& names,
                 const Count& count) {
  for (const uint64_t frame : count.kernel) {
    print_frame(out, arguments, frame, names.kernel(frame));
  }
  if (arguments.with_delimiter()) out << "    --\n";
  for (const uint64_t frame : count.user) {
    print_frame(out, arguments, frame, names.user(count, frame));
  }
  if (count.pid != 0 && !arguments.pid) out << "    " << count.name << " [" << count.pid << "]\n";
  out << "    " << count.calls << "\n\n";
}

void print_folded(std::ostream& out, const Arguments& arguments, FrameNames& names,
                  const Count& count) {
  std::vector<std::string> words;
  if (!count.name.empty()) words.push_back(count.name);
  for (auto frame = count.user.rbegin(); frame != count.user.rend(); frame++) {
    words.push_back(names.user(count, *frame));
  }
  if (arguments.with_delimiter()) words.emplace_back("-");
  for (auto frame = count.kernel.rbegin(); frame != count.kernel.rend(); frame++) {
    words.push_back(names.kernel(*frame));
  }
  for (std::size_t i = 0; i < words.size(); i++) out << (i == 0 ? "" : ";") << words[i];
  out << ' ' << count.calls << '\n';
}

}  // namespace

const std::string& FrameNames::remember(Names& names, uint64_t frame, const std::string& function,
                                        uint64_t offset) {
  return names.emplace(frame, with_offset_ ? function + "+" + hexadecimal(offset) : function)
      .first->second;
}

const std::string& FrameNames::kernel(uint64_t frame) {
  if (const auto known = kernel_.find(frame); known != kernel_.end()) return known->second;
  const KernelSymbols::Function* const function = kernel_symbols_.find(frame);
  if (function == nullptr) return kUnknown;
  return remember(kernel_, frame, function->name, frame - function->address);
}

const std::string& FrameNames::user(const Count& count, uint64_t frame) {
  Names& names = programs_[count.build_id + count.path];
  if (const auto known = names.find(frame); known != names.end()) return known->second;
  const auto place = program_symbols_.find(count.path, count.build_id, frame);
  if (!place) return kUnknown;
  return remember(names, frame, demangled(place->function->name), place->offset);
}

void print_heading(std::ostream& out, const Arguments& arguments) {
  if (!arguments.folded) out << '\n';
  if (arguments.timestamp) out << clock_time() << '\n';
}

void print_count(std::ostream& out, const Arguments& arguments, FrameNames& names,
                 const Count& count) {
  (arguments.folded ? print_folded : print_stack)(out, arguments, names, count);
}

void print_losses(std::ostream& out, const Losses& losses) {
  std::string text;
  const auto add = [&](uint64_t number, const char* what) {
    if (number != 0) text += (text.empty() ? "Lost: " : ", ") + std::to_string(number) + what;
  };
  add(losses.calls, " calls not counted");
  add(losses.stacks, " calls counted without their stack");
  add(losses.processes, " calls counted without their process");
  add(losses.truncated, " calls counted with their innermost frames only");
  if (!text.empty()) out << text << '\n';
  if (losses.kept_out != 0)
    out << "Left out: " << losses.kept_out << " calls made by the tracer itself\n";
}
