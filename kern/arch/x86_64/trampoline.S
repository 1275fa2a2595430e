// The first code of the other CPUs. smp_start() copies this code to the page at 0x8000, and a
// STARTUP message starts the copy in real mode. The code enters long mode with the boot page
// tables, which map the page at its physical address. Then the code continues in the higher half
// with the kernel's page tables.

#define TRAMPOLINE 0x8000
#define KERNEL_BASE 0xffffffff80000000
#define HERE(label) (TRAMPOLINE + (label - trampoline_start))

        .section .rodata.trampoline, "a"
        .globl trampoline_start, trampoline_end, trampoline_parameters
        .align 16
        .code16
trampoline_start:
        cli
        cld
        xorw %ax, %ax
        movw %ax, %ds
        lgdtl HERE(trampoline_gdt_pointer)
        movl $0x20, %eax                // CR4.PAE
        movl %eax, %cr4
        movl $(boot_pml4 - KERNEL_BASE), %eax
        movl %eax, %cr3
        movl $0xc0000080, %ecx          // EFER: NXE, LME, SCE
        rdmsr
        orl $0x901, %eax
        wrmsr
        movl $0x80010013, %eax          // CR0: PG, WP, ET, MP, PE
        movl %eax, %cr0
        ljmpl $8, $HERE(trampoline_long_mode)
        .code64
trampoline_long_mode:
        movl $0x10, %eax
        movl %eax, %ss
        xorl %eax, %eax
        movl %eax, %ds
        movl %eax, %es
        movl %eax, %fs
        movl %eax, %gs
        movl $HERE(trampoline_parameters), %esi
        movabsq $ap_start, %rax
        jmp *%rax
        .align 8
trampoline_gdt:
        .quad 0
        .quad 0x00af9b000000ffff
        .quad 0x00cf93000000ffff
trampoline_gdt_pointer:
        .short 23
        .long HERE(trampoline_gdt)
        .align 8
trampoline_parameters:
        .quad 0                         // the kernel's root table
        .quad 0                         // stack
        .quad 0                         // number of the CPU
trampoline_end:

        .text
        .type ap_start, @function
ap_start:
        movq (%rsi), %rax
        movq 8(%rsi), %rsp
        movq 16(%rsi), %rdi
        movq %rax, %cr3                 // unmaps the page at 0x8000
        xorl %ebp, %ebp
        call ap_main
        ud2
        .size ap_start, . - ap_start

        .section .note.GNU-stack, "", @progbits
