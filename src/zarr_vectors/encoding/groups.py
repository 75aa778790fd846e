"""Groups, format 7.4: the object ids of each group, as ids and byte offsets.

>>> data, offsets = encode_groups(np.array([7, 3, 5]), np.array([0, 2, 2, 3]))
>>> offsets.tolist()
[0, 16, 16]
>>> ids, starts = decode_groups(data.tobytes(), offsets.tobytes(), num_groups=3)
>>> ids.tolist(), starts.tolist()
([7, 3, 5], [0, 2, 2, 3])
"""

import numpy as np

from zarr_vectors.encoding.buffers import int64_stream
from zarr_vectors.encoding.links import check_byte_offsets
from zarr_vectors.exceptions import DecodeError, EncodeError
from zarr_vectors.typing import Buffer, IntArray


def encode_groups(object_ids: IntArray, offsets: IntArray) -> tuple[IntArray, IntArray]:
    """Return the two payloads: object ids, and one byte offset a group, the last group open-ended.

    Parameters
    ----------
    object_ids
        Members of all groups, group after group.
    offsets : (groups + 1,)
        Members of group ``g`` are ``object_ids[offsets[g]:offsets[g + 1]]``.
    """
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(object_ids) or (np.diff(offsets) < 0).any():
        raise EncodeError("group offsets begin at 0, never fall, and end at the number of ids", rule="group-offsets")
    if (object_ids < 0).any():
        raise EncodeError("a group names a negative object id", rule="object-id")
    return np.ascontiguousarray(object_ids, dtype="<i8"), np.ascontiguousarray(8 * offsets[:-1], dtype="<i8")


def decode_groups(data: Buffer, offsets: Buffer | None, *, num_groups: int) -> tuple[IntArray, IntArray]:
    """Return object ids and offsets (one more than there are groups).

    Parameters
    ----------
    data
        Object ids; or, without ``offsets``, one blob with the offsets in front of the ids:
        G + 1 item offsets that begin with 0, or the number of groups and then their byte offsets.
    offsets
        One byte offset a group.
    num_groups
        What the array's metadata declares.
    """
    values = int64_stream(data, what="groups/data")
    if offsets is not None:
        starts = int64_stream(offsets, what="groups/offsets")
    elif len(values) > num_groups and (num_groups == 0 or values[0] == 0):
        starts, values = _from_item_offsets(values[: num_groups + 1], values[num_groups + 1 :])
    elif len(values) > num_groups and values[0] == num_groups:
        starts, values = values[1 : num_groups + 1], values[num_groups + 1 :]
    else:
        raise DecodeError("groups/data has neither groups/offsets beside it nor offsets inside", rule="group-offsets")
    if len(starts) != num_groups:
        raise DecodeError(f"{len(starts)} group offsets, {num_groups} groups are declared", rule="group-count")
    check_byte_offsets(starts, values.nbytes)
    if num_groups == 0 and len(values):
        raise DecodeError(f"{len(values)} object ids belong to no group", rule="group-offsets")
    if (values < 0).any():
        raise DecodeError("a group names a negative object id", rule="object-id")
    return values, np.append(starts // 8, len(values))


def _from_item_offsets(offsets: IntArray, ids: IntArray) -> tuple[IntArray, IntArray]:
    # Checked before they become bytes: eight times an untrusted offset can overflow.
    if offsets[-1] != len(ids) or (offsets[1:] < offsets[:-1]).any():
        message = f"group offsets never fall and end at the number of ids: {offsets[-1]}, {len(ids)} ids are there"
        raise DecodeError(message, rule="group-offsets")
    return 8 * offsets[:-1], ids
