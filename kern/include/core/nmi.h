// NMIs: how a system that hangs says what it is doing.
#pragma once

struct TrapFrame;

// Of the handler of NMIs (arch/x86_64/trap.cc), for one that comes from outside. Interrupts and
// probes are off, and `frame` is what was interrupted. Takes no lock that it has to wait for.
// Bound: some seconds, until every CPU has shown what it does.
void nmi_report(const TrapFrame& frame);
