// Non-maskable interrupts (NMIs), which make a system that hangs show its state.
#pragma once

struct TrapFrame;

// Called by the handler of NMIs (arch/x86_64/trap.cc), except for an NMI by which a panic stops
// this CPU. Interrupts and probes are off; `frame` is the interrupted state. Waits for no lock.
// Bound: some seconds, until every CPU has shown its state.
void nmi_report(const TrapFrame& frame);
