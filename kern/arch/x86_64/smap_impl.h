// Macros for assembly: STAC allows access to user memory, CLAC forbids it. Each macro makes a
// three-byte nop, which cpu_find_features replaces with stac or clac if the CPU has SMAP.
// clang-format off
#pragma once

        .macro SMAP_SITE last_byte
771:    .byte 0x0f, 0x1f, 0x00
        .pushsection smap_sites, "a"
        .quad 771b, \last_byte
        .popsection
        .endm
        .macro CLAC
        SMAP_SITE 0xca
        .endm
        .macro STAC
        SMAP_SITE 0xcb
        .endm
