"""Draws a picture of a terminal's screen, which pyte emulates.

draw(screen, path) writes a PNG with the font DejaVu Sans Mono on a dark background. Block elements are drawn as rectangles, so that the blocks of
neighbouring cells touch each other, as on terminals.
"""
import pathlib

from PIL import Image, ImageDraw, ImageFont

FONTS = pathlib.Path("/usr/share/fonts/truetype/dejavu")
SIZE, MARGIN = 16, 12
GROUND, INK = "#16181d", "#d5d8de"
COLOURS = {"black": "#16181d", "red": "#ef6b73", "green": "#8ecb6f", "brown": "#e5c07b", "blue": "#61afef", "magenta": "#c678dd", "cyan": "#67c1cc",
           "white": "#d5d8de"}
LOWEST_BLOCK, HIGHEST_BLOCK = 0x2581, 0x2588  # block elements that fill 1/8 to 8/8 of a cell from below


def colour(name, otherwise):
    """Returns the colour that pyte calls `name`: a word, or six hexadecimal digits. Returns `otherwise` if `name` is "default"."""
    if name == "default":
        return otherwise
    return COLOURS.get(name) or f"#{name}"


def draw(screen, path):
    """Writes the picture to `path`, and creates the folder if it does not exist."""
    fonts = {bold: ImageFont.truetype(str(FONTS / f"DejaVuSansMono{'-Bold' if bold else ''}.ttf"), SIZE) for bold in (False, True)}
    ascent, descent = fonts[False].getmetrics()
    width, height = round(fonts[False].getlength("M")), ascent + descent + 1
    image = Image.new("RGB", (screen.columns * width + 2 * MARGIN, screen.lines * height + 2 * MARGIN), GROUND)
    canvas = ImageDraw.Draw(image)
    for row in range(screen.lines):
        for column in range(screen.columns):
            cell = screen.buffer[row][column]
            ink, ground = colour(cell.fg, INK), colour(cell.bg, GROUND)
            if cell.reverse:
                ink, ground = ground, ink
            left, top = MARGIN + column * width, MARGIN + row * height
            canvas.rectangle((left, top, left + width - 1, top + height - 1), fill=ground)
            if LOWEST_BLOCK <= ord(cell.data[:1] or " ") <= HIGHEST_BLOCK:
                eighths = ord(cell.data) - LOWEST_BLOCK + 1
                canvas.rectangle((left, top + height - max(2, eighths * (height - 3) // 8), left + width - 2, top + height - 1), fill=ink)
            else:
                canvas.text((left, top), cell.data, font=fonts[cell.bold], fill=ink)
            if cell.underscore:
                canvas.line((left, top + height - 2, left + width - 1, top + height - 2), fill=ink)
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    image.save(path)
