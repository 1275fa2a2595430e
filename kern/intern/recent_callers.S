// Searches the CPU's recent callers (recent_callers.h) for the user stack with which the current
// task entered the kernel.
//
// Calls no function and changes few registers, so that a hook saves no registers for the call.
// Cannot be probed.

#include "arch/x86_64/may_fault.h"
#include "arch/x86_64/smap.h"

// Offsets of fields, which recent_callers.cc checks. Those in a trap frame (FRAME_…) count from its
// end. An entry (ENTRY_…) is a RecentCaller. Its arrays of frames are filled from the end, so
// ENTRY_NEXT_END and ENTRY_RETURN_END are the ends of these arrays.
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
        .set ENTRY_RBP, 16
        .set ENTRY_CALLER, 24
        .set ENTRY_COMPARE, 32
        .set ENTRY_END, 40
        .set ENTRY_NEXT_END, 184
        .set ENTRY_RETURN_END, 248

// r10 is the end of a trap frame. Loads the address of the CPU's set for this frame into r11.
// Changes rax.
        .macro FIND_SET
        movl FRAME_RSP(%r10), %r11d
        shll $2, %r11d
        xorl FRAME_RIP(%r10), %r11d
        andl $0xfe0, %r11d
        movl %gs:CPU_ID, %eax
        addq recent_callers(,%rax,8), %r11
        .endm

// Compares the next frame pointer and the return address in a frame with those of the entry, and
// continues with the next frame. The frame's address needs no check: it was a user address when the
// entry was made, and earlier comparisons have shown that it is unchanged.
        .macro FRAME left, frame, next
.Lframes_\left:
        movq ENTRY_NEXT_END-8*\left(%r9), %\next
        MAY_FAULT cmpq %\next, (%\frame)
        jne 773f
        movl ENTRY_RETURN_END-4*\left(%r9), %eax
        MAY_FAULT cmpq %rax, 8(%\frame)
        jne 773f
        .endm

        .text
// Returns the caller (TraceCaller) in rax and the caller's entry in r9, and
// stores the caller in the task. Returns kNone in rax if there is no entry. Clobbers r9, r10 and r11.
// Interrupts are off, so a fault is not handled but ends the comparison (MAY_FAULT).
        .globl find_recent_caller
        .type find_recent_caller, @function
find_recent_caller:
        movq %gs:CPU_KERNEL_STACK, %r10
        FIND_SET
1:      movq (%r11), %r9
        movq FRAME_RIP(%r10), %rax
        cmpq %rax, ENTRY_RIP(%r9)
        jne 774f
        movl FRAME_VECTOR(%r10), %eax
        cmpl %eax, ENTRY_VECTOR(%r9)
        jne 774f
        movq FRAME_RBP(%r10), %rax
        cmpq %rax, ENTRY_RBP(%r9)
        jne 774f
        cmpq FRAME_RSP(%r10), %rax
        jb 774f
        STAC
        movq %rax, %r10
        movq %rax, %r11
        jmp *ENTRY_COMPARE(%r9)
        FRAME 16, r10, r11
        FRAME 15, r11, r10
        FRAME 14, r10, r11
        FRAME 13, r11, r10
        FRAME 12, r10, r11
        FRAME 11, r11, r10
        FRAME 10, r10, r11
        FRAME 9, r11, r10
        FRAME 8, r10, r11
        FRAME 7, r11, r10
        FRAME 6, r10, r11
        FRAME 5, r11, r10
        FRAME 4, r10, r11
        FRAME 3, r11, r10
        FRAME 2, r10, r11
.Lframes_1:
        MAY_FAULT movq (%r11), %rax
        testq %rax, ENTRY_END(%r9)
        jne 773f
        movl ENTRY_RETURN_END-4(%r9), %eax
        MAY_FAULT cmpq %rax, 8(%r11)
        jne 773f
        CLAC
        movq ENTRY_CALLER(%r9), %rax
        movq %gs:CPU_CURRENT, %r10
        movq %rax, TASK_TRACE_CALL(%r10)
        ret
// A frame differs: reloads the address of the set, and finds the entry's position in the set.
773:    CLAC
        movq %gs:CPU_KERNEL_STACK, %r10
        FIND_SET
2:      cmpq (%r11), %r9
        je 774f
        addq $8, %r11
        jmp 2b
// Continues with the next entry of the set.
774:    addq $8, %r11
        testb $24, %r11b
        jnz 1b
        xorl %eax, %eax
        ret
        .size find_recent_caller, . - find_recent_caller

// The addresses at which the comparison begins for entries with 1, 2, 3 … frames.
        .section .rodata
        .balign 8
        .globl recent_caller_compare
recent_caller_compare:
        .irp left, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
        .quad .Lframes_\left
        .endr

        .section .note.GNU-stack, "", @progbits
