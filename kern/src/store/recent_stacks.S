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
        FRAME 63, rcx, r10
        FRAME 62, r10, rcx
        FRAME 61, rcx, r10
        FRAME 60, r10, rcx
        FRAME 59, rcx, r10
        FRAME 58, r10, rcx
        FRAME 57, rcx, r10
        FRAME 56, r10, rcx
        FRAME 55, rcx, r10
        FRAME 54, r10, rcx
        FRAME 53, rcx, r10
        FRAME 52, r10, rcx
        FRAME 51, rcx, r10
        FRAME 50, r10, rcx
        FRAME 49, rcx, r10
        FRAME 48, r10, rcx
        FRAME 47, rcx, r10
        FRAME 46, r10, rcx
        FRAME 45, rcx, r10
        FRAME 44, r10, rcx
        FRAME 43, rcx, r10
        FRAME 42, r10, rcx
        FRAME 41, rcx, r10
        FRAME 40, r10, rcx
        FRAME 39, rcx, r10
        FRAME 38, r10, rcx
        FRAME 37, rcx, r10
        FRAME 36, r10, rcx
        FRAME 35, rcx, r10
        FRAME 34, r10, rcx
        FRAME 33, rcx, r10
        FRAME 32, r10, rcx
        FRAME 31, rcx, r10
        FRAME 30, r10, rcx
        FRAME 29, rcx, r10
        FRAME 28, r10, rcx
        FRAME 27, rcx, r10
        FRAME 26, r10, rcx
        FRAME 25, rcx, r10
        FRAME 24, r10, rcx
        FRAME 23, rcx, r10
        FRAME 22, r10, rcx
        FRAME 21, rcx, r10
        FRAME 20, r10, rcx
        FRAME 19, rcx, r10
        FRAME 18, r10, rcx
        FRAME 17, rcx, r10
        FRAME 16, r10, rcx
        FRAME 15, rcx, r10
        FRAME 14, r10, rcx
        FRAME 13, rcx, r10
        FRAME 12, r10, rcx
        FRAME 11, rcx, r10
        FRAME 10, r10, rcx
        FRAME 9, rcx, r10
        FRAME 8, r10, rcx
        FRAME 7, rcx, r10
        FRAME 6, r10, rcx
        FRAME 5, rcx, r10
        FRAME 4, r10, rcx
        FRAME 3, rcx, r10
        FRAME 2, r10, rcx
        FRAME 1, rcx, r10
.Lframes_0:
        movq (%r9), %r11
        cmpq %r11, 8(%r10)
        jne .Ldiffers_0
        ret
        .irp left, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63
.Ldiffers_\left:
        movl $\left, %r11d
        ret
        .endr
        .size compare_recent_stack, . - compare_recent_stack

// Where it is entered for 0, 1, 2 … frames before the last one.
        .section .rodata
        .balign 8
        .globl recent_stack_compare
recent_stack_compare:
        .irp left, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63
        .quad .Lframes_\left
        .endr

        .section .note.GNU-stack, "", @progbits
