// Compares a stack with an entry of the table, frame by frame (recent_stacks_impl.h). Calls no function
// and changes few registers, so that a hook saves no registers for the call. Cannot be probed.

// Compares a frame before the last one and continues with the next.
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
// Compares frame pointer and return address of the frames before the last frame, then the return
// address of the last frame. The entry point (recent_stack_compare) determines the number of
// frames. Arguments: rcx and r10 both hold the address of the first frame on the stack; r9 holds
// the address of the entry's last frame. If all frames are equal, ZF is set, and r10 is the address
// of the last frame on the stack. Otherwise ZF is clear, and r11 is the number of frames after the
// first frame that differs. Clobbers rcx, r10 and r11.
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

// The entry points for 0, 1, 2 … frames before the last frame.
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
