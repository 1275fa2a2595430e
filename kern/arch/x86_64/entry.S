// Entries to the kernel and returns from it. Every entry builds the same TrapFrame (trap.h) and
// calls C++ with rbp = 0, so that a walk by frame pointers ends at the entry and never shows the
// interrupted code.
//
// GS: in the kernel, GS base is the address of this CPU's structure. swapgs exchanges it with user
// mode's GS base at each entry from user mode and at each return to user mode. An NMI, machine
// check or double fault may arrive inside an entry, before its swapgs. So the entry of these three
// (trap_entry_paranoid) tests the value of GS base.

#include "arch/x86_64/smap_impl.h"

#define IN_NMI %gs:54                   // Cpu::in_nmi

        .macro SAVE_REGISTERS
        pushq %rdi
        pushq %rsi
        pushq %rdx
        pushq %rcx
        pushq %rax
        pushq %r8
        pushq %r9
        pushq %r10
        pushq %r11
        pushq %rbx
        pushq %rbp
        pushq %r12
        pushq %r13
        pushq %r14
        pushq %r15
        .endm

        .macro POP_REGISTERS
        popq %r15
        popq %r14
        popq %r13
        popq %r12
        popq %rbp
        popq %rbx
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

        .macro RESTORE_REGISTERS
        POP_REGISTERS
        addq $16, %rsp
        .endm

        .macro FUNCTION name
        .globl \name
        .type \name, @function
\name:
        .endm
        .macro END name
        .size \name, . - \name
        .endm

        .text
        .globl trap_entries_start, trap_entries_end
trap_entries_start:
// 256 entries of 16 bytes. Each pushes the vector, and before the vector a zero if the CPU has
// pushed no error code.
        .align 16
FUNCTION trap_stubs
        .set vector, 0
        .rept 256
        .align 16
        .if !(vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || vector == 21 || \
              vector == 29 || vector == 30)
        pushq $0
        .endif
        pushq $vector
        .if vector == 2 || vector == 8 || vector == 18
        jmp trap_entry_paranoid
        .elseif vector == 3
        jmp trap_entry_breakpoint
        .else
        jmp trap_entry
        .endif
        .set vector, vector + 1
        .endr
END trap_stubs

FUNCTION trap_entry
        testb $3, 24(%rsp)
        jz 1f
        swapgs
1:      SAVE_REGISTERS
        CLAC
        cld
        xorl %ebp, %ebp
        movq %rsp, %rdi
        call trap_dispatch
trap_return:
        RESTORE_REGISTERS
        testb $3, 8(%rsp)
        jz 1f
        swapgs
1:      iretq
END trap_entry

// A breakpoint in the kernel belongs to a probe. It is handled without a call of a function that
// could be probed. A breakpoint in a program usually belongs to a probe too.
FUNCTION trap_entry_breakpoint
        testb $3, 24(%rsp)
        jnz 1f
        SAVE_REGISTERS
        CLAC
        cld
        xorl %ebp, %ebp
        movq %rsp, %rdi
        call probe_breakpoint
        testb %al, %al
        jnz 2f
        movq %rsp, %rdi
        call trap_dispatch
        jmp trap_return
2:      cmpb $0, IN_NMI
        je trap_return
        // The breakpoint was inside an NMI's handler. iretq would unblock NMIs, and the next NMI
        // would use the same stack. So popfq and ret do the return: the code copies flags and rip
        // into the two words below the interrupted stack pointer, and ret ends with this stack
        // pointer. The two words may be the frame's rsp and ss; the code has read rsp before, and
        // needs no ss.
        movq 160(%rsp), %rax
        movq 152(%rsp), %rcx
        movq 136(%rsp), %rdx
        subq $16, %rax
        movq %rcx, (%rax)
        movq %rdx, 8(%rax)
        movq %rax, 120(%rsp)
        POP_REGISTERS
        popq %rsp
        popfq
        ret
1:      swapgs
        SAVE_REGISTERS
        CLAC
        cld
        xorl %ebp, %ebp
        movq %rsp, %rdi
        call user_breakpoint_dispatch
        RESTORE_REGISTERS
        swapgs
        iretq
END trap_entry_breakpoint

FUNCTION trap_entry_paranoid
        SAVE_REGISTERS
        CLAC
        cld
        xorl %ebp, %ebp
        xorl %ebx, %ebx
        movl $0xc0000101, %ecx
        rdmsr
        testl %edx, %edx
        js 1f                           // a kernel address: GS base is this CPU's already
        swapgs
        incl %ebx
1:      movq %rsp, %rdi
        call trap_dispatch_paranoid
        testl %ebx, %ebx
        jz 2f
        swapgs
2:      RESTORE_REGISTERS
        iretq
END trap_entry_paranoid

FUNCTION system_call_entry
        swapgs
        movq %rsp, %gs:16
        movq %gs:8, %rsp
        pushq $0x1b                     // kUserData
        pushq %gs:16
        pushq %r11
        pushq $0x23                     // kUserCode
        pushq %rcx
        pushq $0
        pushq $0x100                    // kVectorSystemCall
        SAVE_REGISTERS
        xorl %ebp, %ebp
        movq %rsp, %rdi
        call system_call_dispatch
        jmp trap_return
END system_call_entry

// enter_user_from(const TrapFrame* frame): moves the frame to the top of the kernel stack. The
// callers' frames, and *frame itself, may lie at the top. So the frame is first copied to an
// address below all of them.
FUNCTION enter_user_from
        cli
        movq %gs:8, %rdx
        subq $176, %rdx                 // sizeof(TrapFrame)
        cmpq %rdx, %rsp
        jbe 1f
        movq %rdx, %rsp
1:      subq $176, %rsp
        movq %rdi, %rsi
        movq %rsp, %rdi
        movl $22, %ecx
        rep movsq
        movq %rsp, %rsi
        movq %rdx, %rdi
        movl $22, %ecx
        rep movsq
        movq %rdx, %rsp
        xorl %ebp, %ebp
        movq %rsp, %rdi
        call return_to_user
        jmp trap_return
END enter_user_from
trap_entries_end:

// context_switch(Context* from, const Context* to)
FUNCTION context_switch
        pushq %rbp
        pushq %rbx
        pushq %r12
        pushq %r13
        pushq %r14
        pushq %r15
        movq %rsp, (%rdi)
        movq (%rsi), %rsp
        popq %r15
        popq %r14
        popq %r13
        popq %r12
        popq %rbx
        popq %rbp
        ret
END context_switch

// Entry point of a context made by context_init: entry in r12, argument in r13, rbp zero.
FUNCTION context_start
        movq %r13, %rdi
        call *%r12
        ud2
END context_start

        .section .note.GNU-stack, "", @progbits
