"""The HTML page of a report, in a headless Chromium without a network. The tests look, click and
type like a person."""
import os
import pathlib
import re

import pytest

from stele.browser import Browser
from stele.report import page
from stele.report.profile import AGES, Amount, Frame, Key, Profile, ReportError, Source

pytestmark = [pytest.mark.shares, pytest.mark.long]  # a browser is a large dependency

MARKUP = "</script ><!--<script><img src=x onerror=alert(1)>"
SCREENS = pathlib.Path(os.environ.get("STELE_BUILD", "build")) / "report/screens"
LEAK = (Frame("leaky_open", "kern/drivers/leaky.cc", 3), Frame("Table::open", "kern/drivers/leaky.cc", 1, inlined=True), Frame("sys_open"))
PROGRAM = (Frame("open", module="/bin/demo"), Frame("main", "demo.c", 7, module="/bin/demo"))
PIPE = (Frame("pipe_create", "kern/pipe.cc", 9), Frame("sys_pipe"))

FRAMES = "[...document.querySelectorAll('#flame g.frame')]"
DRAWN = FRAMES + ".filter(g => g.getBoundingClientRect().width > 0)"
ROWS = "[...document.querySelectorAll('#rows tr[data-stack]')].map(tr => [...tr.cells].map(td => (td.querySelector('button') ?? td).textContent))"


@pytest.fixture(scope="module")
def browser():
    with Browser() as one:
        yield one


@pytest.fixture
def show(browser, tmp_path):
    """Returns a function that opens the page of a Profile in a window of a desktop's size. At the
    end, the page must have caused no errors, and only one request: for the page itself."""
    def open_page(profile, base=None, root=tmp_path):
        page.write(profile, tmp_path / "page.html", base, root)
        browser.requests.clear()
        browser.problems.clear()
        browser.resize(1280, 800)
        browser.prefer("light")
        browser.open(tmp_path / "page.html")
        return browser
    yield open_page
    assert browser.problems == []
    assert browser.requests == [(tmp_path / "page.html").as_uri()]


def a_profile():
    profile = Profile("make leaktest CMD='demo'", "ab" * 20, 12.5)
    for mark in range(1, 6):
        profile.add(Key("leaky", LEAK, PROGRAM, f"pid {mark} demo", mark, AGES[1]), Amount(3, 576))
    profile.add(Key("pipe", PIPE, (), "task init", 2, AGES[4]), Amount(40, 640))
    profile.add(Key("ref.chan", (Frame("dup"),), (), "pid 9 sh", 0, AGES[0]), Amount(1, 0))
    profile.holders[Key("leaky", LEAK, PROGRAM, "pid 1 demo", 1, AGES[1])] = ["reference to 0x1000 taken by sys_open"]
    profile.sources["leaky"] = Source("leaky", "cache", "stopped", 192, {"depth": 32}, {"seen": 15, "recorded": 15})
    return profile


def width(browser, name):
    """Returns the width in pixels of the widest frame with this name; 0 if none is drawn."""
    return browser.js(f"Math.max(0, ...{FRAMES}.filter(g => g.getAttribute('name') === '{name}').map(g => g.querySelector('rect').width.baseVal.value))")


def frame(name):
    return f"{FRAMES}.find(g => g.getAttribute('name') === '{name}')"


def text(browser, selector):
    return browser.js(f"document.querySelector('{selector}').textContent")


def search(browser, words):
    """Types words into the search field, and waits until the page has reacted."""
    browser.js("document.querySelector('#count').textContent = 'waiting'; document.querySelector('#search').select()")
    browser.type(words)
    browser.wait("document.querySelector('#count').textContent !== 'waiting'")


def settled(browser):
    browser.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_widths_are_bytes_or_objects(show):
    browser = show(a_profile())
    assert abs(width(browser, "leaky_open") / width(browser, "pipe_create") - 2880 / 640) < 0.01
    assert width(browser, "dup") == 0 and "1 stack with nothing of this measure" in text(browser, "#legend")
    browser.click("document.querySelector('[value=objects]').nextElementSibling")
    assert abs(width(browser, "pipe_create") / width(browser, "leaky_open") - 40 / 15) < 0.01
    assert width(browser, "dup") > 0


def test_from_the_allocating_functions(show):
    browser = show(a_profile())
    browser.js("order.value = 'allocators'; order.dispatchEvent(new Event('change', {bubbles: true}))")
    levels = browser.js(f"Object.fromEntries({DRAWN}.map(g => [g.getAttribute('name'), +g.getAttribute('aria-level')]))")
    assert (levels["all"], levels["[leaky]"], levels["leaky_open"], levels["sys_open"], levels["main"]) == (1, 2, 3, 5, 7)


def test_zoom_and_reset(show):
    browser = show(a_profile())
    whole = width(browser, "all")
    browser.click(frame("sys_pipe"))
    assert width(browser, "pipe_create") == whole and width(browser, "leaky_open") == 0
    assert [row[2] for row in browser.js(ROWS)] == ["pipe_create"]
    assert text(browser, "#count") == "1 of 3 stacks under sys_pipe"
    assert text(browser, ".selected figcaption") == "sys_pipe: 640 bytes in 40 objects"
    browser.click("document.querySelector('#reset')")
    assert 0 < width(browser, "pipe_create") < width(browser, "leaky_open") < whole and len(browser.js(ROWS)) == 3


def test_the_keyboard_goes_through_the_flame_graph(show):
    browser = show(a_profile())
    browser.js(frame("all") + ".focus()")
    for key in ("ArrowDown", "ArrowRight", "ArrowDown"):
        browser.key(key)
    assert browser.js("document.activeElement.getAttribute('aria-label')") == "pipe_create: 640 bytes in 40 objects (18.2% of all), kern/pipe.cc:9"
    assert text(browser, "#details") == browser.js("document.activeElement.getAttribute('aria-label')")
    browser.key("Enter")
    assert width(browser, "pipe_create") == width(browser, "all") and browser.js("document.activeElement.getAttribute('name')") == "pipe_create"
    browser.key("Escape")
    assert width(browser, "leaky_open") > 0


def test_search_shows_in_graph_and_table(show):
    browser = show(a_profile())
    colour = browser.js(frame("leaky_open") + ".querySelector('rect').getAttribute('fill')")
    search(browser, "LEAKY_open")
    assert browser.js(frame("leaky_open") + ".querySelector('rect').getAttribute('fill')") != colour
    assert [row[2] for row in browser.js(ROWS)] == ["leaky_open"] and text(browser, "#count") == "1 of 3 stacks"
    assert text(browser, "#details") == "Found: 2,880 bytes in 15 objects (81.8% of all)"
    search(browser, "task init")  # processes are only in the table, not in the graph
    assert [row[2] for row in browser.js(ROWS)] == ["pipe_create"]
    search(browser, "(.*")  # no valid pattern
    assert browser.js(ROWS) == [] and text(browser, "#count") == "0 of 3 stacks"


def test_the_table_is_sorted_at_each_column(show):
    browser = show(a_profile())

    def first_after(column):
        browser.click(f"[...document.querySelectorAll('th button')].find(b => b.textContent === '{column}')")
        return [row[2] for row in browser.js(ROWS)]

    assert [row[2] for row in browser.js(ROWS)] == ["leaky_open", "pipe_create", "dup"]
    assert first_after("Bytes") == ["dup", "pipe_create", "leaky_open"]
    assert first_after("Objects") == ["pipe_create", "leaky_open", "dup"]
    assert first_after("Function") == ["dup", "leaky_open", "pipe_create"]
    assert first_after("Process") == ["leaky_open", "dup", "pipe_create"]
    assert first_after("Mark") == ["dup", "leaky_open", "pipe_create"]
    assert first_after("Age") == ["pipe_create", "leaky_open", "dup"]
    assert browser.js("[...document.querySelectorAll('th')].map(th => th.ariaSort)") == ["none"] * 6 + ["descending"]


def test_a_row_opens_to_the_whole_stack(show, tmp_path):
    (tmp_path / "kern/drivers").mkdir(parents=True)
    (tmp_path / "kern/drivers/leaky.cc").write_text("one\ntwo\n  auto* leaky = kmem_cache_alloc(<cache>);\n")
    browser = show(a_profile())
    assert browser.js(ROWS)[0] == ["2,880", "15", "leaky_open", "leaky", "pid 1 demo +4", "1–5", "1 to 10 s"]
    browser.click("document.querySelector('#rows button')")
    whole = browser.js("document.querySelector('.whole').innerText")
    assert re.search(r"leaky_open kern/drivers/leaky\.cc:3\s+auto\* leaky = kmem_cache_alloc\(<cache>\);\s+Table::open inlined kern/drivers/leaky\.cc:1\s+one\s+sys_open", whole)
    assert re.search(r"Stack in /bin/demo\s+open\s+main demo\.c:7", whole)
    assert "reference to 0x1000 taken by sys_open" in whole and "pid 5 demo: 576 bytes in 3 objects" in whole
    assert browser.js("document.activeElement.ariaExpanded") == "true"
    browser.click("document.querySelector('#rows button')")
    assert not browser.js("document.querySelector('.whole')")


def test_growth_over_marks(show):
    browser = show(a_profile())
    browser.click("document.querySelector('#rows button')")
    label = browser.js("document.querySelector('.selected svg').getAttribute('aria-label')")
    assert label == "leaky_open: bars for each mark, 0: 0, 1: 576, 2: 576, 3: 576, 4: 576, 5: 576"
    heights = browser.js("[...document.querySelectorAll('.selected .bar')].map(bar => +bar.getAttribute('height'))")
    assert heights[0] == 0 and heights[1] > 0 and len(set(heights[1:])) == 1


def test_what_is_missing_comes_first(show):
    profile = a_profile()
    assert text(show(profile), "#incomplete") == "This report is complete."
    profile.incomplete = [f"loss {i}" for i in range(7)]
    browser = show(profile)
    assert browser.js("document.querySelector('main').firstElementChild.id") == "incomplete"
    assert browser.js("document.querySelector('#incomplete').innerText").split("\n")[-5:] == ["loss 0", "loss 1", "loss 2", "loss 3", "and 3 more"]


def test_names_are_never_markup(show):
    hostile = tuple(Frame(MARKUP, MARKUP, 1, module=MARKUP) for _ in range(2))
    profile = Profile(MARKUP, MARKUP, 1, incomplete=[MARKUP])
    key = Key(MARKUP, hostile, hostile, f"pid 1 {MARKUP}\udc80", 1, AGES[0])
    profile.add(key, Amount(1, 64))
    profile.holders[key] = [MARKUP]
    profile.sources[MARKUP] = Source(MARKUP, MARKUP, MARKUP, 1, {MARKUP: 1}, {MARKUP: 2})
    profile.add(Key("__proto__", (Frame("constructor"), Frame("{{data}}")), (), "", 2), Amount(1, 1))
    browser = show(profile)
    browser.click("document.querySelector('#rows button')")
    search(browser, MARKUP)
    settled(browser)
    assert browser.js("document.images.length + document.scripts.length") == 2
    assert browser.js("document.title") == MARKUP and browser.js(ROWS)[0][3] == MARKUP
    assert browser.js("document.querySelector('.whole').innerText").count("<img") >= 8


def test_no_other_script_runs(show):
    """A script that is inserted into the page does not run: the Content Security Policy allows only
    the page's own script, by its checksum."""
    browser = show(a_profile())
    browser.js("document.body.insertAdjacentHTML('beforeend', '<b onclick=\"window.ran = 1\"></b>'); document.querySelector('b').click()")
    browser.js("(() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s); })()")
    assert browser.js("window.ran") is None
    refused = [problem for problem in browser.problems if "Content Security Policy" in problem]
    assert len(refused) == 2 and refused == browser.problems
    browser.problems.clear()


def test_difference(show):
    now, before = Profile("now"), Profile("before")
    for profile, leaks, pipes in ((now, 30, 1), (before, 20, 5)):
        profile.add(Key("leaky", LEAK), Amount(leaks, leaks * 192))
        profile.add(Key("pipe", PIPE), Amount(pipes, pipes * 16))
        profile.add(Key("same", (Frame("stays"),)), Amount(7, 700))
    browser = show(now.minus(before), "before")
    assert "what has changed since before" in text(browser, "#about")
    assert browser.js(ROWS) == [["+1,920", "+10", "leaky_open", "leaky", "–", "0", "–"], ["−64", "−4", "pipe_create", "pipe", "–", "0", "–"]]
    hue = "+{}.querySelector('rect').getAttribute('fill').match(/hsl\\((\\d+)/)[1]"
    assert browser.js(hue.format(frame("leaky_open"))) < 20 and 200 < browser.js(hue.format(frame("pipe_create"))) < 240
    assert abs(width(browser, "leaky_open") / width(browser, "pipe_create") - 30) < 0.5
    assert browser.js(frame("all") + ".getAttribute('aria-label')") == "all: +1,856 bytes in +6 objects (100.0% of the change)"
    assert browser.js("document.querySelector('#growth').hidden")


def test_an_empty_profile(show):
    browser = show(Profile("nothing"))
    assert text(browser, "#count") == "0 stacks" and browser.js(ROWS) == []


def test_more_stacks_than_a_page_takes(show):
    profile = Profile("many")
    for i in range(page.MOST_STACKS + 10):
        frames = tuple(Frame(f"f{i // 8 ** level % 8}_{level}", "kern/a.cc", level + 1) for level in range(16))
        profile.add(Key("kmalloc_64", (Frame(f"leaf{i}"), *frames), (), "", i % 300), Amount(1, 64 if i >= 10 else 1))
    browser = show(profile)
    assert "Left out of this page: the 10 smallest stacks, 10 bytes in 10 objects." in text(browser, "#incomplete")
    assert text(browser, "#count") == "20,000 stacks, the first 200 shown" and len(browser.js(ROWS)) == 200
    assert browser.js(frame("all") + ".getAttribute('aria-label')").startswith("all: 1,280,000 bytes in 20,000 objects")
    assert 'The 15,000 smallest stacks together are one frame, "(smaller stacks)"' in text(browser, "#legend")
    browser.click("document.querySelector('#more')")
    assert len(browser.js(ROWS)) == 400
    search(browser, "leaf19999")
    assert [row[2] for row in browser.js(ROWS)] == ["leaf19999"]


def test_very_deep_stacks(show):
    profile = Profile("deep")
    profile.add(Key("page", tuple(Frame(f"f{i}") for i in range(5000))), Amount(1, 4096))
    browser = show(profile)
    assert width(browser, "f4999") > 0 and width(browser, "(deeper)") > 0


@pytest.mark.parametrize("wide, high", [(1280, 800), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_looks(show, wide, high, scheme):
    """In light and dark, on desktop and telephone: nothing is wider than the screen, no text is
    smaller than 12 pixels, and text contrasts with its background. The screenshots are for people to
    look at."""
    browser = show(a_profile())
    browser.resize(wide, high)
    browser.prefer(scheme)
    browser.click("document.querySelector('#rows button')")
    settled(browser)
    assert browser.js("document.documentElement.scrollWidth") <= wide
    assert browser.js("[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && parseFloat(getComputedStyle(e).fontSize) < 12).length") == 0
    ground, words = (browser.js(f"getComputedStyle(document.body).{what}.match(/\\d+/g).map(Number)") for what in ("backgroundColor", "color"))
    assert abs(sum(ground) - sum(words)) > 500 and (sum(ground) > sum(words)) == (scheme == "light")
    browser.js("scrollTo(0, 0)")
    browser.screenshot(SCREENS / f"{wide}x{high}-{scheme}.png")
    browser.screenshot(SCREENS / f"{wide}x{high}-{scheme}-whole.png", whole=True)
    browser.click("document.querySelector('#theme')")
    assert browser.js("document.documentElement.dataset.theme") == ("dark" if scheme == "light" else "light")
    other = browser.js("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert abs(sum(ground) - sum(other)) > 500


def test_a_page_that_is_not_built(tmp_path, monkeypatch):
    monkeypatch.setenv("STELE_BUILD", str(tmp_path))
    with pytest.raises(ReportError, match="make report-page"):
        page.write(Profile(), tmp_path / "page.html")
