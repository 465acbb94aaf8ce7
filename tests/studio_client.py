"""The page in this process, for tests: a folder with tables, and a client that speaks as the page's own script does."""

from dataclasses import dataclass

from starlette.testclient import TestClient

from inid.studio import Folder, Studio, make_app

PORT = 8123
OWN = f"http://127.0.0.1:{PORT}"
HIDDEN = "Wilhelmina"


def write_people(folder, name="people.csv", rows=60):
    """A table, one cell of which no answer may ever show."""
    lines = ["user_id,age,income,sex"]
    lines += [f"u{at // 2},{20 + at % 60},{1000 * (at % 90)},{'FM'[at % 3 == 0]}" for at in range(rows)]
    lines += [f"u999,{HIDDEN},77777123,F"]
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


FORM = {
    "table": "people.csv",
    "mean": ["age", "income"],
    "bounds": {"age": ["0", "100"], "income": ["0", "500000"]},
    "by": {"sex": "F, M"},
    "tolerance": {"age": "1", "income": "500"},
    "rows": "60",
    "epsilon": "1",
    "delta": "1e-6",
}


@dataclass
class Page:
    """A studio and a client that has opened its link."""

    studio: Studio
    client: TestClient

    def ask(self, what, status=200, **body):
        answer = self.client.post(f"/api/{what}", json=body, headers=self.headers)
        assert answer.status_code == status, answer.text
        assert HIDDEN not in answer.text
        return answer.json()

    @property
    def headers(self):
        return {"origin": OWN, "x-inid-key": self.studio.secrets.key}


def open_page(root, **settings):
    """A page on a folder, opened by its link."""
    table, ledger = settings.pop("table", None), settings.pop("ledger", None)
    studio = Studio(Folder(root, table, ledger), **settings)
    client = TestClient(make_app(studio, PORT), base_url=f"{OWN}/{studio.secrets.path}", follow_redirects=False)
    opened = client.get(f"{OWN}/open", params={"token": studio.secrets.link})
    assert f'content="/{studio.secrets.path}/"' in opened.text
    return Page(studio, client)
