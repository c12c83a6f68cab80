"""Pages of transcripts as JSON text (G1, PROTOCOL II.6)."""

from core.model.sessions import HistoryPage
from core.server.answers import dumps
from core.server.rows import Rows


def page_json(page: HistoryPage, rows: Rows) -> str:
    """Return a page as the history route answers it; `messages` is `items` again, for older clients."""
    items = f"[{','.join(map(rows.message, page.messages))}]"
    more = f'"hasMore":true,"nextCursor":"{page.before}"' if page.before is not None else '"hasMore":false'
    names = f'"sessionKey":{dumps(page.key)},"sessionId":{dumps(page.session_id)}'
    return f'{{{names},"items":{items},"messages":{items},{more}}}'
