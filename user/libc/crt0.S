/* The entry point of a program. The kernel has put argc, argv, NULL, envp, NULL and the auxiliary
 * vector on the stack (abi/start.h). */
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

/* Linux also loads these ELF files, but its system calls have other numbers. The code below makes
 * Linux's calls write(2, message, …) and exit_group(126). */
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

/* Functions that newlib's start-up code calls. */
	.globl	_init
	.globl	_fini
_init:
_fini:
	ret

	.section .rodata
message:
	.ascii	"this is a program of Stele: it does not run on another system\n"
message_end:

/* Identifies the program or shared library that registers a destructor with __cxa_atexit. There are
 * no shared libraries, so all destructors belong to the program. */
	.data
	.globl	__dso_handle
	.hidden	__dso_handle
__dso_handle:
	.quad	0

	.section .note.GNU-stack, "", @progbits
