"""Makes the assembler source of the screen's font (kern/core/screen_font_impl.h) from a console font.

    python3 tools/stele/screen_font.py [FONT.psf.gz] > font.S

FONT is by default the font of Debian's package psf-unifont, which kern/kern.mk names too. It is a PSF font, version 1, with a Unicode table and glyphs of 8 by 16 pixels. The source has the
glyphs of ASCII, and in the place of DEL the glyph of U+FFFD, or of `?` if the font lacks U+FFFD.
"""
import gzip
import os
import struct
import sys

FONT = "/usr/share/consolefonts/Unifont-APL8x16.psf.gz"
MAGIC = b"\x36\x04"
HAS_512_GLYPHS, HAS_UNICODE_TABLE = 1, 2
HEIGHT = 16
END_OF_GLYPH, START_OF_SEQUENCE = 0xFFFF, 0xFFFE
CHARACTERS = [*range(0x20, 0x7F), 0xFFFD]


def glyphs(data):
    """Returns {code point: the bytes of its glyph}."""
    magic, mode, height = struct.unpack_from("<2sBB", data)
    if magic != MAGIC or height != HEIGHT or not mode & HAS_UNICODE_TABLE:
        raise ValueError("not a PSF font of version 1, 8 by 16 pixels, with a Unicode table")
    count = 512 if mode & HAS_512_GLYPHS else 256
    table = struct.iter_unpack("<H", data[4 + count * height:])
    found = {}
    for index in range(count):
        glyph = data[4 + index * height:4 + (index + 1) * height]
        in_sequence = False
        for (code,) in table:
            if code == END_OF_GLYPH:
                break
            in_sequence |= code == START_OF_SEQUENCE
            if not in_sequence:
                found.setdefault(code, glyph)
    return found


def read_font(path):
    """Returns the glyphs of the font in a compressed file."""
    with gzip.open(path) as file:
        return glyphs(file.read())


def main():
    found = read_font(sys.argv[1] if len(sys.argv) > 1 else FONT)
    found.setdefault(0xFFFD, found[ord("?")])
    print('        .section .rodata.screen_font, "a"\n        .globl screen_font\n        .type screen_font, @object\nscreen_font:')
    for character in CHARACTERS:
        print(f"        .byte {', '.join(f'0x{line:02x}' for line in found[character])}")
    print('        .size screen_font, . - screen_font\n        .section .note.GNU-stack, "", @progbits')


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from stele import entry
    entry.run(main, "screen_font", failed=1)
