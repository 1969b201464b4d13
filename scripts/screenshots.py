"""Make the pictures of `memdir ui` in docs/img from the demo's data: `.venv/bin/python scripts/screenshots.py`. Needs Chromium."""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from browser import WatchedPage, browsing  # noqa: E402
from ui_data import plant_demo  # noqa: E402
from ui_server import serving  # noqa: E402

PICTURES = {"ui-inbox": "/inbox", "ui-memory": "/m/private/deploy-on-tuesdays-only", "ui-dream": "/dream"}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="memdir-pictures-") as folder:
        project = plant_demo(Path(folder).resolve())
        with serving(project) as client, browsing() as browser:
            tab = WatchedPage(browser, client.sign_in())
            tab.page.set_viewport_size({"width": 1180, "height": 760})
            for name, path in PICTURES.items():
                tab.go(path).screenshot(path=ROOT / "docs" / "img" / f"{name}.png")
            tab.close()
        project.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
