// Looks for the caller of the current task among those that the CPU has met lately: recent_callers.h
// says what that is. No function is called and few registers are changed, so that a hook need save
// none for it. Assembly that a probe cannot be set on, and which nothing is told of.

#include "arch/x86_64/may_fault.h"
#include "arch/x86_64/smap.h"

// Offsets that recent_callers.cc checks: in a trap frame, from its end; in a Cpu and a TaskHead; in
// an entry, of which the frames come last.
        .set FRAME_RSP, -16
        .set FRAME_RIP, -40
        .set FRAME_VECTOR, -56
        .set FRAME_RBP, -144
        .set CPU_KERNEL_STACK, 8
        .set CPU_CURRENT, 24
        .set CPU_ID, 32
        .set TASK_TRACE_CALL, 56
        .set ENTRY_RIP, 0
        .set ENTRY_VECTOR, 8
        .set ENTRY_FRAMES, 12
        .set ENTRY_RBP, 16
        .set ENTRY_CALLER, 24
        .set ENTRY_END, 32
        .set ENTRY_SIZE, 176

// Compares a frame and goes on to the next: how far it is to that, and the return address. It is
// where one was when the entry was made, so it lies in user space.
        .macro FRAME left, frame, next
.Lframes_\left:
        movl ENTRY_SIZE-8*\left(%r9), %\next\()d
        addq %\frame, %\next
        MAY_FAULT cmpq %\next, (%\frame)
        jne 773f
        movl ENTRY_SIZE-8*\left+4(%r9), %ebx
        MAY_FAULT cmpq %rbx, 8(%\frame)
        jne 773f
        .endm

        .text
// In rbx comes what is known of the caller, which the task then remembers, and in r9 the entry; or
// in rbx 0. Changes r9 to r13. With interrupts off, which makes a fault fail at once.
        .globl find_recent_caller
        .type find_recent_caller, @function
find_recent_caller:
        movq %gs:CPU_KERNEL_STACK, %r10
        movl FRAME_RSP(%r10), %ebx
        shll $3, %ebx
        xorl FRAME_RIP(%r10), %ebx
        imull $0x9e3779b1, %ebx, %ebx
        shrl $25, %ebx
        shll $5, %ebx
        movl %gs:CPU_ID, %r9d
        movq recent_callers(,%r9,8), %r11
        addq %rbx, %r11
        movq (%r11), %r9
1:      movq FRAME_RIP(%r10), %rbx
        cmpq %rbx, ENTRY_RIP(%r9)
        jne 774f
        movl FRAME_VECTOR(%r10), %ebx
        cmpl %ebx, ENTRY_VECTOR(%r9)
        jne 774f
        movq FRAME_RBP(%r10), %r12
        cmpq %r12, ENTRY_RBP(%r9)
        jne 774f
        cmpq FRAME_RSP(%r10), %r12
        jb 774f
        STAC
        movl ENTRY_FRAMES(%r9), %ebx
        movq %r12, %r13
        jmp *.Lframes(,%rbx,8)
        FRAME 16, r12, r13
        FRAME 15, r13, r12
        FRAME 14, r12, r13
        FRAME 13, r13, r12
        FRAME 12, r12, r13
        FRAME 11, r13, r12
        FRAME 10, r12, r13
        FRAME 9, r13, r12
        FRAME 8, r12, r13
        FRAME 7, r13, r12
        FRAME 6, r12, r13
        FRAME 5, r13, r12
        FRAME 4, r12, r13
        FRAME 3, r13, r12
        FRAME 2, r12, r13
.Lframes_1:
        MAY_FAULT movq (%r13), %rbx
        testq %rbx, ENTRY_END(%r9)
        jne 773f
        movl ENTRY_SIZE-8+4(%r9), %ebx
        MAY_FAULT cmpq %rbx, 8(%r13)
        jne 773f
        CLAC
        movq ENTRY_CALLER(%r9), %rbx
        movq %gs:CPU_CURRENT, %r12
        movq %rbx, TASK_TRACE_CALL(%r12)
        ret
.Lframes_0:
773:    CLAC
// The next of the set.
774:    addq $8, %r11
        testb $24, %r11b
        jz 775f
        movq (%r11), %r9
        jmp 1b
775:    xorl %ebx, %ebx
        ret
        .size find_recent_caller, . - find_recent_caller

        .section .rodata
        .balign 8
.Lframes:
        .irp left, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
        .quad .Lframes_\left
        .endr

        .section .note.GNU-stack, "", @progbits
