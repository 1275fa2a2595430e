#include "batch.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <stdexcept>

#include "format.h"
#include "sources.h"
#include "tool/end_signals.h"
#include "tool/kmemstat.h"

namespace {

using std::chrono::duration, std::chrono::milliseconds, std::chrono::steady_clock;

void print_table(const Arguments& arguments, const Sources& sources, double seconds) {
  const Which which = arguments.all ? Which::kAll : Which::kTraceable;
  char text[160];
  std::snprintf(text, sizeof(text), "kmemtop after %.1f s: %zu sources, %zu traced\n", seconds,
                sources.count(), sources.traced());
  std::cout << text;
  const std::string name = left("NAME", std::max<std::size_t>(sources.longest_name(), 18));
  std::cout << name << " T       LIVE         BYTES     RATE/S     CHANGE  TRACE\n";
  for (const Source* source :
       sources.sorted(arguments.key, arguments.order, which, arguments.filter)) {
    std::snprintf(text, sizeof(text), " %c %10lld %13llu %10.2f %+10lld  ", source->type(),
                  static_cast<long long>(source->live()),
                  static_cast<unsigned long long>(source->now.allocated_bytes), source->rate,
                  static_cast<long long>(source->change()));
    std::cout << left(source->now.name, name.size()) << text
              << (source->gone != 0 ? "gone" : source->now.trace) << '\n';
  }
  std::cout << std::endl;
  if (!std::cout) throw std::runtime_error("the output cannot be written");
}

}  // namespace

void run_batch(const Arguments& arguments) {
  const EndSignals signals;
  const auto start = steady_clock::now();
  Sources sources;
  sources.refresh(0, read_kmemstat());
  print_table(arguments, sources, 0);
  auto next = start + arguments.interval;
  for (uint64_t tables = 1; !arguments.count || tables < *arguments.count; tables++) {
    const auto left = std::chrono::ceil<milliseconds>(next - steady_clock::now());
    if (signals.wait(std::max(left, milliseconds(0)))) return;
    const double seconds = duration<double>(steady_clock::now() - start).count();
    std::string failure;
    try {
      sources.refresh(seconds, read_kmemstat());
    } catch (const std::exception& error) {
      failure = error.what();
    }
    if (failure.empty())
      print_table(arguments, sources, seconds);
    else
      std::cerr << "kmemtop: " << failure << std::endl;
    while (next <= steady_clock::now()) next += arguments.interval;
  }
}
