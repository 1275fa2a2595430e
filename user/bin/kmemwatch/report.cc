#include "report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <ostream>
#include <stdexcept>

namespace {

constexpr std::size_t kMostOthers = 10;
// With -v, a source that has never grown is shown only if its Growth::alone is at most this.
constexpr double kWorthALine = 0.5;

std::string clock_time() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof(text), "%H:%M:%S", std::localtime(&now));
  return text;
}

// Formats a number with three significant digits. All digits before the point are printed, and at
// most six after it.
std::string number(double value) {
  if (std::abs(value) < 5e-7) return "0";
  const double digits = std::floor(std::log10(std::abs(value)));
  char text[48];
  std::snprintf(text, sizeof(text), "%.*f", static_cast<int>(std::clamp(2 - digits, 0.0, 6.0)),
                value);
  return text;
}

std::string state_of(const Report& report, const Growth& growth) {
  std::string state = growth.grows ? "grows" : growth.since > 0 ? "grew" : "";
  const auto trace = report.traces.find(growth.name);
  if (trace == report.traces.end() || trace->second == "off") return state;
  if (!state.empty()) state += ", ";
  return state + (trace->second == "running" ? "traced" : "trace stopped");
}

void print_line(std::ostream& out, const Report& report, const Growth& growth) {
  const Slope& slope = growth.objects_a_second;
  char p[16], text[160];
  std::snprintf(p, sizeof(p), "%.1g", growth.p);
  std::snprintf(text, sizeof(text), "%-17s %9lld %10s  %-19s %9s %6s  %s", growth.name.c_str(),
                static_cast<long long>(growth.objects), number(slope.estimate).c_str(),
                (number(slope.low) + " to " + number(slope.high)).c_str(),
                number(growth.bytes_a_second.estimate).c_str(), p,
                state_of(report, growth).c_str());
  std::string line = text;
  line.erase(line.find_last_not_of(' ') + 1);
  out << line << '\n';
}

}  // namespace

void print_heading(std::ostream& out, const WatchArguments& arguments, std::size_t sources) {
  const double interval = std::chrono::duration<double>(arguments.interval).count();
  const double window = std::chrono::duration<double>(arguments.window()).count();
  out << "Watching " << sources << " caches and arenas every " << interval << " s, in windows of "
      << window << " s; first judgement after " << window * Judge::kFewest << " s." << std::endl;
}

void print_report(std::ostream& out, const WatchArguments& arguments, const Report& report) {
  out << '[' << clock_time() << "] after " << std::llround(report.seconds) << " s: ";
  const auto growing = std::count_if(report.growths.begin(), report.growths.end(),
                                     [](const Growth& growth) { return growth.grows; });
  if (!report.judged)
    out << "too early to judge";
  else if (growing == 0)
    out << "nothing grows";
  else
    out << growing << (growing == 1 ? " grows" : " grow");
  if (report.missed > 0) out << "; " << report.missed << " samples missed";
  out << '\n';

  std::vector<const Growth*> shown;
  std::size_t others = 0;
  for (const Growth& growth : report.growths) {
    const bool other = !growth.grows && growth.since == 0;
    const bool candidate = growth.alone <= kWorthALine && growth.objects_a_second.estimate > 0;
    if (other && (!arguments.verbose || !candidate || others++ >= kMostOthers)) continue;
    shown.push_back(&growth);
  }
  if (!shown.empty())
    out << "NAME                   LIVE  OBJECTS/S  95 %                  BYTES/S      P  STATE\n";
  for (const Growth* growth : shown) print_line(out, report, *growth);
  out.flush();
  if (!out) throw std::runtime_error("the output cannot be written");
}
