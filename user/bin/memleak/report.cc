#include "report.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iostream>
#include <span>
#include <stdexcept>

#include "allocators.h"

namespace {

double rank(const Arguments& arguments, const Sum& sum) {
  return std::abs(arguments.sort == Sort::kSize ? sum.bytes : sum.objects);
}

std::string clock_time() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof(text), "%H:%M:%S", std::localtime(&now));
  return text;
}

std::string number(double value, bool with_sign) {
  const long long whole = std::llround(value);
  return (with_sign && whole >= 0 ? "+" : "") + std::to_string(whole);
}

// The user frames to print. If the process, not the kernel, made the allocation, the allocator's
// frames are skipped, so that the first frame is the allocator's caller.
std::span<const uint64_t> user_frames(const Arguments& arguments, Symbols& symbols,
                                      const StackKey& key) {
  std::span<const uint64_t> frames = key.user;
  while (key.kernel.empty() && frames.size() > 1) {
    const auto place = symbols.programs.find(key.program, key.build_id, frames.front());
    if (!place || !is_allocator(place->function->name, arguments.prefix)) break;
    frames = frames.subspan(1);
  }
  return frames;
}

void print_stack(std::ostream& out, const Arguments& arguments, Symbols& symbols,
                 const StackKey& key, const Sum& sum) {
  const bool with_sign = arguments.diff;
  out << '\t' << number(sum.bytes, with_sign) << " bytes in " << number(sum.objects, with_sign)
      << " allocations from stack\n";
  if (key.kernel.empty() && (key.user.empty() || !arguments.of_process()))
    out << "\t\tstack information lost\n";
  for (const uint64_t frame : key.kernel) out << "\t\t" << symbols.kernel().frame(frame) << '\n';
  for (const uint64_t frame : user_frames(arguments, symbols, key)) {
    out << "\t\t" << symbols.programs.frame(key.program, key.build_id, frame) << '\n';
  }
}

}  // namespace

void print_report(std::ostream& out, const Arguments& arguments, Symbols& symbols,
                  const Snapshot& snapshot, const std::map<StackKey, Sum>& stacks) {
  std::vector<const std::pair<const StackKey, Sum>*> order;
  for (const auto& item : stacks) order.push_back(&item);
  std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
    return rank(arguments, a->second) > rank(arguments, b->second);
  });
  std::vector<Sum> hidden;
  for (std::size_t i = arguments.top; i < order.size(); i++) hidden.push_back(order[i]->second);
  order.resize(order.size() - hidden.size());
  std::reverse(order.begin(), order.end());

  out << '[' << clock_time() << "] Top " << order.size() << " stacks with "
      << (arguments.diff ? "changed outstanding allocations:\n" : "outstanding allocations:\n");
  std::vector<Allocation> allocations = snapshot.allocations;
  std::stable_sort(allocations.begin(), allocations.end(),
                   [](const Allocation& a, const Allocation& b) { return a.size < b.size; });
  for (const Allocation& allocation : allocations) {
    out << "\taddr = " << hexadecimal(allocation.address).substr(2) << " size = " << allocation.size
        << '\n';
  }
  for (const auto* item : order) print_stack(out, arguments, symbols, item->first, item->second);
  print_left_out(out, snapshot, hidden);
}

void print_folded(std::ostream& out, const Arguments& arguments, Symbols& symbols,
                  const Snapshot& snapshot) {
  // Folded lines have no offsets, so different stacks can give the same line.
  std::map<std::string, Sum> lines;
  for (const auto& [key, sum] : snapshot.stacks) {
    std::string line;
    const auto user = user_frames(arguments, symbols, key);
    for (auto frame = user.rbegin(); frame != user.rend(); frame++) {
      line += symbols.programs.name(key.program, key.build_id, *frame) + ";";
    }
    for (auto frame = key.kernel.rbegin(); frame != key.kernel.rend(); frame++)
      line += symbols.kernel().name(*frame) + ";";
    if (line.empty()) line = "[stack information lost];";
    line.pop_back();
    lines[line].bytes += sum.bytes;
    lines[line].objects += sum.objects;
  }
  for (const auto& [line, sum] : lines) {
    out << line << ' ' << number(arguments.sort == Sort::kSize ? sum.bytes : sum.objects, false)
        << '\n';
  }
}

void print_left_out(std::ostream& out, const Snapshot& snapshot, const std::vector<Sum>& hidden) {
  const LeftOut& left = snapshot.left_out;
  const bool of_process = !left.process.empty();
  Sum rest;
  for (const Sum& sum : hidden) {
    rest.bytes += sum.bytes;
    rest.objects += sum.objects;
  }
  out << "Left out: dropped " << left.dropped << ", filtered " << left.filtered;
  if (!of_process) out << ", untracked " << left.untracked;
  out << ", unmatched " << left.unmatched << ", stacks_lost " << left.stacks_lost
      << ", contexts_lost " << left.contexts_lost << ", truncated " << left.truncated
      << ", younger " << left.younger;
  if (!of_process) {
    out << ", before_mark " << left.before_mark << ", other_sizes " << left.other_sizes << ", own "
        << left.own;
  }
  out << ", further_stacks " << hidden.size();
  if (!hidden.empty()) {
    // "B" instead of "bytes": programs that parse the output of bcc's memleak take each line that
    // contains "byte" for the heading of a stack.
    out << " (" << number(rest.bytes, false) << " B in " << number(rest.objects, false) << ")";
  }
  if (of_process) {
    out << "; " << left.process;
  } else {
    out << "; traces: " << left.ours << " of memleak, " << left.others << " of others";
  }
  out << (left.sampled ? ", estimated from samples" : "") << '\n';
}

void Reports::print(Snapshot snapshot) {
  if (arguments_.folded) {
    print_folded(std::cout, arguments_, symbols_, snapshot);
    print_left_out(std::cerr, snapshot, {});
  } else if (arguments_.diff) {
    print_report(std::cout, arguments_, symbols_, snapshot, difference(snapshot.stacks, before_));
    before_ = std::move(snapshot.stacks);
  } else {
    print_report(std::cout, arguments_, symbols_, snapshot, snapshot.stacks);
  }
  if (!std::cout.flush()) throw std::runtime_error("the output cannot be written");
}
