/* Where a program starts: the kernel has put argc, argv, NULL, envp, NULL and the auxiliary vector
 * on the stack (abi/start.h). */
#include "abi/start.h"

	.text
	.globl	_start
	.type	_start, @function
_start:
	xorl	%ebp, %ebp
	movabsq	$ABI_START_RAX, %rcx
	cmpq	%rcx, %rax
	jne	not_stele
	movq	%rsp, %rdi
	movq	$main, %rsi
	andq	$-16, %rsp
	call	__stele_start
	hlt

/* Started by Linux, which runs the same files but has other system calls: write(2, …) and
 * exit_group(126) in its numbers. */
not_stele:
	movl	$1, %eax
	movl	$2, %edi
	movq	$message, %rsi
	movl	$message_end - message, %edx
	syscall
	movl	$231, %eax
	movl	$126, %edi
	syscall
	hlt
	.size	_start, . - _start

/* The end of every program's chain of frame pointers is the zero above. Sections that newlib's
 * start-up looks for: */
	.globl	_init
	.globl	_fini
_init:
_fini:
	ret

	.section .rodata
message:
	.ascii	"this is a program of Stele: it does not run on another system\n"
message_end:

/* Names this program to __cxa_atexit; the destructors of all objects are of the one that there
 * is. */
	.data
	.globl	__dso_handle
	.hidden	__dso_handle
__dso_handle:
	.quad	0

	.section .note.GNU-stack, "", @progbits
