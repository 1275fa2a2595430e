// The first instructions. Both boot protocols enter here in 32-bit protected mode with paging off.
// The code jumps to the higher half and calls kernel_main(protocol, physical address of the
// loader's information).
//
// The boot page tables map the first 4 GiB twice: at 0 (for this code) and in the direct map. They
// also map the first GiB at the image's address. paging_init replaces them on the boot CPU. The
// other processors use them while they start (smp.cc). When all have started, smp_start clears
// boot_pml4.

#define KERNEL_BASE 0xffffffff80000000
#define PHYS(symbol) (symbol - KERNEL_BASE)

#define MULTIBOOT2_MAGIC 0xe85250d6

        .section .multiboot2, "a"
        .align 8
multiboot2_header:
        .long MULTIBOOT2_MAGIC
        .long 0                                     // 32-bit protected mode
        .long multiboot2_end - multiboot2_header
        .long -(MULTIBOOT2_MAGIC + (multiboot2_end - multiboot2_header))
        .short 3, 0                                 // entry address
        .long 12
        .long PHYS(multiboot2_entry)
        .align 8
        .short 6, 0                                 // modules aligned to pages
        .long 8
        .short 4, 0                                 // consoles: text in VGA memory is supported too
        .long 12
        .long 2
        .align 8
        .short 5, 1                                 // framebuffer: optional; the size that we prefer
        .long 20
        .long 1024, 768, 32
        .align 8
        .short 0, 0                                 // end of tags
        .long 8
multiboot2_end:

        .section .note.pvh, "a", @note
        .align 4
        .long 4, 4, 18                              // XEN_ELFNOTE_PHYS32_ENTRY
        .asciz "Xen"
        .long PHYS(pvh_entry)

        .section .boot.text, "ax"
        .code32
        .globl pvh_entry, multiboot2_entry
        .type pvh_entry, @function
        .type multiboot2_entry, @function
pvh_entry:
        movl $0, %esi
        jmp 1f
multiboot2_entry:
        movl $1, %esi
1:      cli
        cld
        movl %ebx, %edi
        movl $PHYS(boot_pml4), %eax
        movl %eax, %cr3
        movl $0x20, %eax                            // CR4.PAE
        movl %eax, %cr4
        movl $0xc0000080, %ecx                      // EFER: NXE, LME, SCE
        rdmsr
        orl $0x901, %eax
        wrmsr
        movl $0x80010013, %eax                      // CR0: PG, WP, ET, MP, PE
        movl %eax, %cr0
        lgdt PHYS(boot_gdt_pointer)
        ljmp $8, $PHYS(long_mode)
        .size pvh_entry, . - pvh_entry

        .code64
long_mode:
        movabsq $higher_half, %rax
        jmp *%rax
higher_half:
        movl $0x10, %eax
        movl %eax, %ds
        movl %eax, %es
        movl %eax, %ss
        xorl %eax, %eax
        movl %eax, %fs
        movl %eax, %gs
        movq $boot_stack_top, %rsp
        xorl %ebp, %ebp
        movl %edi, %eax
        movl %esi, %edi
        movl %eax, %esi
        call kernel_main
        ud2

        .section .data.boot, "aw"
        .align 4096
        .globl boot_pml4
boot_pml4:
        .quad PHYS(boot_pdpt_low) + 3
        .fill 255, 8, 0
        .quad PHYS(boot_pdpt_low) + 3
        .fill 254, 8, 0
        .quad PHYS(boot_pdpt_high) + 3
boot_pdpt_low:
        .quad PHYS(boot_pd) + 3, PHYS(boot_pd) + 0x1003
        .quad PHYS(boot_pd) + 0x2003, PHYS(boot_pd) + 0x3003
        .fill 508, 8, 0
boot_pdpt_high:
        .fill 510, 8, 0
        .quad PHYS(boot_pd) + 3
        .quad 0
boot_pd:
        .set address, 0
        .rept 2048
        .quad address + 0x83                        // 2 MiB, writable, present
        .set address, address + 0x200000
        .endr

        .align 8
boot_gdt:
        .quad 0
        .quad 0x00af9b000000ffff
        .quad 0x00cf93000000ffff
boot_gdt_pointer:
        .short 23
        .long PHYS(boot_gdt)

// Stacks of the first processor, each above a guard page that paging_init leaves unmapped.
        .section .stacks, "aw", @nobits
        .align 4096
        .globl boot_stacks, boot_stack_top, boot_ist_tops_end
boot_stacks:
        .skip 4096
#if defined(CONFIG_UBSAN) || defined(CONFIG_KASAN)
        .skip 32768                                 // kKernelStackSize
#else
        .skip 16384
#endif
boot_stack_top:
        .skip 4096 + 8192                           // double fault
        .skip 4096 + 8192                           // NMI
        .skip 4096 + 8192                           // machine check
boot_ist_tops_end:

        .section .note.GNU-stack, "", @progbits
