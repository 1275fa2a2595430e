"""The HTML page that make leaktest writes: the widest function is the leaking one, and the page fits on screens of two sizes."""
import pytest

from guest import BUILD, ROOT, leaktest
from stele.browser import Browser

SCREENS = BUILD / "report/screens"
WIDTHS = ("Object.fromEntries([...document.querySelectorAll('#flame g.frame')].map(g =>"
          " [g.getAttribute('name'), g.querySelector('rect').width.baseVal.value]))")


@pytest.mark.long  # needs a browser, which is a large package
@pytest.mark.cpus(1)
def test_the_leaking_function_is_widest(tmp_path):
    result = leaktest("leakdemo leak 3", "--quick", "--report", str(tmp_path / "report.txt"))
    assert result.status == 1, result
    page = tmp_path / "report.html"
    assert f"leaktest: {page}\n" in result.stderr
    with Browser() as browser:
        browser.open(page)
        widths = browser.js(WIDTHS)
        assert widths["leaky_open"] == max(widths.values()) == widths["[leaky]"], widths
        assert browser.js("document.title") == "make leaktest CMD='leakdemo leak 3'"
        browser.click("document.querySelector('#rows button')")
        source = browser.js("document.querySelector('.whole code').textContent")
        place = browser.js("document.querySelector('.whole .place').textContent")
        file, _, line = place.rpartition(":")
        assert "kmem_cache_alloc" in source and source == (ROOT / file).read_text().splitlines()[int(line) - 1].strip()
        assert browser.js("[...document.querySelectorAll('.selected .bar')].map(bar => bar.textContent.split(',')[0])") == [
            f"mark {mark}: 576 bytes" for mark in range(5)]
        browser.js("document.querySelector('#search').focus()")
        browser.type("leaky_open")
        browser.wait("document.querySelector('#flame g.frame[name=leaky_open] rect').getAttribute('fill').startsWith('hsl(312')")
        for width, height in ((1280, 800), (390, 844)):
            for scheme in ("light", "dark"):
                browser.resize(width, height)
                browser.prefer(scheme)
                browser.js("scrollTo(0, 0); new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                assert browser.js("document.documentElement.scrollWidth") <= width
                browser.screenshot(SCREENS / f"leak-{width}x{height}-{scheme}.png")
        assert browser.problems == [] and browser.requests == [page.as_uri()]
