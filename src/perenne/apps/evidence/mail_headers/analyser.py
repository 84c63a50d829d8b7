"""The mail analyser of the reference contract: bytes of a mail in, observations out.

Here: its identity and its bound. Not here: any file, any clock, any engine. The body is never read.
"""

from __future__ import annotations

from itertools import islice

from perenne.apps.evidence.findings import Observation
from perenne.apps.evidence.mail_headers.header_block import fields_of, header_block
from perenne.apps.evidence.mail_headers.observations import observations_of
from perenne.errors import TooLarge

ANALYSER_ID = "labfy.eml_analyzer"
ANALYSER_VERSION = "1"
MAX_OBSERVATIONS = 256


def analyse(content: bytes) -> tuple[Observation, ...]:
    """What the header of a mail says, as proposals; the same bytes always give the same tuple.

    Args:
        content: the whole mail, 1 byte to 25 MiB.
    Raises:
        InvalidInput: no header can be told from the body.
        TooLarge: the mail, its header block, or the number of observations (256) is over its limit.
    """
    found = tuple(islice(observations_of(fields_of(header_block(content))), MAX_OBSERVATIONS + 1))
    refuse_too_many(len(found))
    return found


def refuse_too_many(count: int) -> None:
    """Raises: TooLarge: more observations than the contract holds."""
    if count > MAX_OBSERVATIONS:
        raise TooLarge(
            f"the header gives more than {MAX_OBSERVATIONS} observations, the limit of this analyser; "
            f"analyse this mail with another tool",
            limit=MAX_OBSERVATIONS,
        )
