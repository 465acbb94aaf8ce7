"""An HTML page as its open tags, attributes and text; a page that is not well formed fails."""

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "input"}


class Outline(HTMLParser):
    """The open tags at each point, and everything between them."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], set(), set(), ""

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def outline(text):
    """The outline of a page; every tag that is opened must be closed."""
    found = Outline()
    found.feed(text)
    assert found.open == []
    return found
