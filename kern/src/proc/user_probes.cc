// Probes on functions of programs.
#include "src/proc/user_probes.h"

#include "src/proc/user_probe_check.h"

bool user_probes_breakpoint(TrapFrame&) {
  return false;
}

Result<void> user_probes_arm(ProbeConsumer&, Chan& program, std::span<const UserProbe> probes) {
  return user_probes_check(program, probes);
}

void user_probes_disarm(ProbeConsumer&) {}

void user_probes_watch_memory(ProbeConsumer&) {}
