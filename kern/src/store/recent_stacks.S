// Compares a stack with an entry of it, frame by frame: recent_stacks.h says when, and what its last
// frame means. No function is called and few registers are changed, so that a hook need save none
// for it. Assembly that a probe cannot be set on, and which nothing is told of.

// Compares one of the frames before the last and goes on to where it leads.
        .macro FRAME left, frame, next
.Lframes_\left:
        movq -16*\left+8(%r9), %\next
        cmpq %\next, (%\frame)
        jne .Ldiffers_\left
        movq -16*\left(%r9), %r11
        cmpq %r11, 8(%\frame)
        jne .Ldiffers_\left
        .endm

        .text
// Of the frames before the last one so many as where it is entered says (recent_stack_compare):
// where each leads, and its return address; then the return address of the last one. rcx and r10:
// the first frame; r9: what is kept of the last one. Returns with ZF if all is the same, and the
// last frame in r10; without it, how many frames before the last one the first that differs is, in
// r11. Changes rcx, r10 and r11.
        .type compare_recent_stack, @function
compare_recent_stack:
        .altmacro
        .set left, 63
        .rept 31
        FRAME %left, rcx, r10
        .set left, left - 1
        FRAME %left, r10, rcx
        .set left, left - 1
        .endr
        FRAME 1, rcx, r10
.Lframes_0:
        movq (%r9), %r11
        cmpq %r11, 8(%r10)
        jne .Ldiffers_0
        ret
        .macro DIFFERS left
.Ldiffers_\left:
        movl $\left, %r11d
        ret
        .endm
        .set left, 0
        .rept 64
        DIFFERS %left
        .set left, left + 1
        .endr
        .size compare_recent_stack, . - compare_recent_stack

// Where it is entered for 0, 1, 2 … frames before the last one.
        .section .rodata
        .balign 8
        .globl recent_stack_compare
recent_stack_compare:
        .macro PLACE left
        .quad .Lframes_\left
        .endm
        .set left, 0
        .rept 64
        PLACE %left
        .set left, left + 1
        .endr

        .section .note.GNU-stack, "", @progbits
