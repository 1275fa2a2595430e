"""README and the documents quote what their commands print: see tools/stele/quotes.py."""
import pytest

from stele import quote_runs


def quotes():
    """Every quote that a command repeats; those that take many seconds are long tests."""
    found = [quote for path in quote_runs.documents() for quote in quote_runs.quotes_in(path) if quote.kind not in ("", "by hand")]
    return [pytest.param(quote, id=f"{quote.path}-{number}", marks=[pytest.mark.long] if quote.slow else [])
            for number, quote in enumerate(found)]


@pytest.mark.cpus(1)
@pytest.mark.parametrize("quote", quotes())
def test_a_quote_is_what_its_commands_print(quote):
    what = quote_runs.check(quote)
    assert what is None, f"{what}\n`make docs-outputs` rewrites it"
