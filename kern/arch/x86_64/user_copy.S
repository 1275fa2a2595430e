// Access to user memory.

#include "arch/x86_64/may_fault_impl.h"
#include "arch/x86_64/smap_impl.h"

        .text
// int user_copy(void* to, const void* from, size_t size): returns 0, or 1 if an address was bad.
        .globl user_copy
        .type user_copy, @function
user_copy:
        pushq %rbp
        movq %rsp, %rbp
        STAC
        movq %rdx, %rcx
        shrq $3, %rcx
        MAY_FAULT rep movsq
        movl %edx, %ecx
        andl $7, %ecx
        MAY_FAULT rep movsb
        CLAC
        xorl %eax, %eax
        popq %rbp
        ret
773:    CLAC
        movl $1, %eax
        popq %rbp
        ret
        .size user_copy, . - user_copy

// int user_load_word(uint64_t from, uint64_t* to): returns 0, or 1 if `from` was bad.
        .globl user_load_word
        .type user_load_word, @function
user_load_word:
        pushq %rbp
        movq %rsp, %rbp
        STAC
        MAY_FAULT movq (%rdi), %rax
        CLAC
        movq %rax, (%rsi)
        xorl %eax, %eax
        popq %rbp
        ret
773:    CLAC
        movl $1, %eax
        popq %rbp
        ret
        .size user_load_word, . - user_load_word

// long user_copy_string(char* to, const char* from, size_t size): copies up to and including the
// NUL, but at most `size` bytes. Returns the number of bytes before the NUL, `size` if no NUL was
// found, or -1 if an address was bad.
        .globl user_copy_string
        .type user_copy_string, @function
user_copy_string:
        pushq %rbp
        movq %rsp, %rbp
        STAC
        xorl %eax, %eax
1:      cmpq %rdx, %rax
        jae 2f
        MAY_FAULT movb (%rsi,%rax), %cl
        movb %cl, (%rdi,%rax)
        testb %cl, %cl
        jz 2f
        incq %rax
        jmp 1b
2:      CLAC
        popq %rbp
        ret
773:    CLAC
        movq $-1, %rax
        popq %rbp
        ret
        .size user_copy_string, . - user_copy_string

// size_t user_frames(uint64_t frame_pointer, uint64_t low, uint64_t high, uint64_t*
// return_addresses, size_t max): follows frame pointers, stores up to
// `max` return addresses, and returns their number. The walk ends at a bad frame pointer, at a
// return address of 0, or at a load that faults. A frame pointer is good if it is a multiple of 8,
// the frame's 16 bytes lie between `low` and `high`, and the frame lies above the previous frame.
//
// Interrupts must be off: trap.cc then does not resolve a fault, and the load fails at once.
        .globl user_frames
        .type user_frames, @function
user_frames:
        pushq %rbp
        movq %rsp, %rbp
        STAC
        xorl %eax, %eax
        subq $16, %rdx
        testq %r8, %r8
        jz 773f
1:      cmpq %rsi, %rdi
        jb 773f
        cmpq %rdx, %rdi
        ja 773f
        testb $7, %dil
        jnz 773f
        MAY_FAULT movq 8(%rdi), %r11
        testq %r11, %r11
        jz 773f
        leaq 16(%rdi), %rsi
        MAY_FAULT movq (%rdi), %rdi
        movq %r11, (%rcx,%rax,8)
        incq %rax
        cmpq %r8, %rax
        jb 1b
773:    CLAC
        popq %rbp
        ret
        .size user_frames, . - user_frames

// The code of compare_user_stack() (frames.h): compares the return addresses that user_frames()
// would find below kUserEnd with those of a stored stack, which has %rcx - 1 addresses at %rdx; the
// first was compared. %rdi: the frame pointer, %rsi: the lowest good one. Returns %eax: a
// UserStackIs. Changes %rdi, %rsi and %rdx, no other register.
//
// A frame is given as its distance from the highest one, which is negative. So one unsigned
// comparison says whether the next frame lies above this one and below the end. A frame that is not
// aligned ends a walk, but not this comparison. There is a copy of the comparison for each number
// of addresses that may be left, so that nothing else need tell where the stored stack ends.
        .set USER_END, 0x7ffffffff000  // frames.cc checks it
        .macro USER_FRAME left, this, next, ends=773f
.Lleft_\left:
        movq -8*\left(%rdx), %rax
        MAY_FAULT cmpq %rax, 8(%r8,%\this)
        jne 773f
        MAY_FAULT movq (%r8,%\this), %\next
        subq %r8, %\next
        cmpq %\this, %\next
        jbe \ends
        .endm
        .globl same_user_frames
        .type same_user_frames, @function
same_user_frames:
        pushq %r8
        movabsq $USER_END - 16, %r8
        STAC
        cmpq %rsi, %rdi
        jb .Lno_frame
        cmpq %r8, %rdi
        ja .Lno_frame
        subq %r8, %rdi
        movq %rdi, %rsi
        leaq -8(%rdx,%rcx,8), %rdx  // the end of the stored addresses
        jmp *.Lstart(,%rcx,8)
        USER_FRAME 15, rdi, rsi
        USER_FRAME 14, rsi, rdi
        USER_FRAME 13, rdi, rsi
        USER_FRAME 12, rsi, rdi
        USER_FRAME 11, rdi, rsi
        USER_FRAME 10, rsi, rdi
        USER_FRAME 9, rdi, rsi
        USER_FRAME 8, rsi, rdi
        USER_FRAME 7, rdi, rsi
        USER_FRAME 6, rsi, rdi
        USER_FRAME 5, rdi, rsi
        USER_FRAME 4, rsi, rdi
        USER_FRAME 3, rdi, rsi
        USER_FRAME 2, rsi, rdi
        USER_FRAME 1, rdi, rsi, .Lsame
.Lleft_0:
        MAY_FAULT cmpq $0, 8(%r8,%rsi)
        jne .Ldeeper
.Lsame: xorl %eax, %eax
1:      CLAC
        popq %r8
        ret
.Lno_frame:
        cmpl $2, %ecx
        je .Lsame
773:    movl $2, %eax
        jmp 1b
.Ldeeper:
        cmpl $16 + 1, %ecx  // kMaxStoredUserFrames
        jne 773b
        movl $1, %eax
        jmp 1b
        .size same_user_frames, . - same_user_frames

        .section .rodata
        .balign 8
.Lstart:
        .quad 773b, 773b
        .irp left, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        .quad .Lleft_\left
        .endr

        .section .note.GNU-stack, "", @progbits
