// Access to user memory. Each instruction that may fault stands in the exception table with the place to go on at; trap.cc goes
// there when the fault cannot be resolved.

#include "arch/x86_64/smap.h"

        .macro MAY_FAULT instruction:vararg
772:    \instruction
        .pushsection exception_table, "a"
        .quad 772b, 773f
        .popsection
        .endm

        .text
// int user_copy(void* to, const void* from, size_t size): 0, or 1 after a bad address.
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

// long user_copy_string(char* to, const char* from, size_t size): bytes before the NUL, `size` if there is none, -1 after a bad address.
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

        .section .note.GNU-stack, "", @progbits
