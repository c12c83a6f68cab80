"""`python -m tests.screenshots [NAME …]` draws the pictures of the console anew, all of them or those named."""

import asyncio
import sys

from tests.scenes.pictures import FOLDER, SCENES, draw


def main() -> int:
    """Draw into `screenshots/`, and remove what no scene draws any more when all are drawn."""
    named = sys.argv[1:]
    unknown = [name for name in named if name not in SCENES]
    if unknown:
        print(f"no scene is called {unknown[0]}: use some of {', '.join(SCENES)}", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    for name in named or SCENES:
        picture = asyncio.run(draw(SCENES[name]))
        (FOLDER / f"{name}.svg").write_text(picture.svg, encoding="utf-8")
        print(f"{name}.svg  {len(picture.svg) // 1000} KB")
    for path in FOLDER.glob("*.svg") if not named else ():
        if path.stem not in SCENES and not path.stem.startswith("openclaw"):  # those are drawn by `tests.peers`
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
