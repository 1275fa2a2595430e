// The first instruction of a probed function is a call of probe_entry. probe_entry builds a struct
// ProbeEntryFrame (probe_entry.h), turns this CPU's guard on (Cpu::probes_off), and calls
// probe_called with interrupts off. If the guard was on already, probe_entry calls probe_kept_out
// instead. The function's registers and flags are preserved.

#define PROBES_OFF %gs:36               // Cpu::probes_off

        .macro SAVE_REGISTERS           // struct ProbeRegisters
        pushq %rdi
        pushq %rsi
        pushq %rdx
        pushq %rcx
        pushq %rax
        pushq %r8
        pushq %r9
        pushq %r10
        pushq %r11
        .endm

        .macro RESTORE_REGISTERS
        popq %r11
        popq %r10
        popq %r9
        popq %r8
        popq %rax
        popq %rcx
        popq %rdx
        popq %rsi
        popq %rdi
        .endm

        .text
        .globl probe_entry
        .type probe_entry, @function
        .align 16
probe_entry:
        pushfq
        cli
        cmpl $0, PROBES_OFF
        jne 1f
        movl $1, PROBES_OFF
        SAVE_REGISTERS
        pushq 88(%rsp)                  // the function's return address
        pushq %rbp
        movq %rsp, %rax
        pushq 96(%rsp)                  // return address of this call, an address in the function
        pushq %rax
        movq %rsp, %rbp
        movq %rsp, %rdi
        call probe_called
        movq 16(%rsp), %rbp
        addq $32, %rsp
        RESTORE_REGISTERS
        movl $0, PROBES_OFF
        popfq
        ret

1:      SAVE_REGISTERS
        movq 80(%rsp), %rdi
        call probe_kept_out
        RESTORE_REGISTERS
        popfq
        ret
        .size probe_entry, . - probe_entry

        .section .note.GNU-stack, "", @progbits
