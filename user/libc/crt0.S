/* Where a program starts: the kernel has put argc, argv, NULL, envp, NULL and the auxiliary vector
 * on the stack. */
	.text
	.globl	_start
	.type	_start, @function
_start:
	xorl	%ebp, %ebp
	movq	%rsp, %rdi
	movq	$main, %rsi
	andq	$-16, %rsp
	call	__stele_start
	hlt
	.size	_start, . - _start

/* The end of every program's chain of frame pointers is the zero above. Sections that newlib's
 * start-up looks for: */
	.globl	_init
	.globl	_fini
_init:
_fini:
	ret

/* Names this program to __cxa_atexit; the destructors of all objects are of the one that there
 * is. */
	.data
	.globl	__dso_handle
	.hidden	__dso_handle
__dso_handle:
	.quad	0

	.section .note.GNU-stack, "", @progbits
