"""Ids are random uuids (architecture#order)."""

import uuid

from core.model.ids import new_id


def test_ids_are_uuids_of_version_4_and_never_the_same() -> None:
    made = [new_id() for _ in range(2000)]
    assert len(set(made)) == 2000
    for text in made:
        parsed = uuid.UUID(text)
        assert (parsed.version, parsed.variant, str(parsed)) == (4, uuid.RFC_4122, text)
