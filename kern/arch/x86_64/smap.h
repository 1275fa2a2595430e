// For assembly: allow and forbid access to user memory. The sites are three-byte nops, which
// cpu_find_features replaces with stac and clac if the CPU has SMAP.
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
