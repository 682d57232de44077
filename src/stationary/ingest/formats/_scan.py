"""Lines of access logs taken apart: one compiled pass over their bytes.

A layout is a row of instructions. Each is a kind of field, where its result goes, and the text that
follows it: a field ends where that text begins. Times and lengths become whole microseconds, so
that a request which arrives in the millisecond in which another ends does not meet it; seconds
since 1970 as floats would tell the two apart by chance. Text stays where it is, as begin and end.
"""

from __future__ import annotations

import numba
import numpy as np

EXACT, LIST, SKIP, TEXT, CODE, PATH, REQUEST, TIME, NUMBER, WHOLE, MOMENT, TAIL = range(12)
"""Kinds of field: nothing, just a text; a list that is skipped, as ``0.003, 0.004 : -``; text that
is skipped or kept; a whole number or ``-``, as text; a path before its query; ``GET /path
HTTP/1.1``; a time; a number, with and without a point; a time or a number since 1970, whose unit is
known by its size; and what nginx writes last, of which times are known by their digits."""

NUMBERS = ("clock", "epoch", "done", "took", "received", "fine")
"""What a line may say in microseconds; ``fine`` is 1 where its time has parts of a second."""
CLOCK, EPOCH, DONE, TOOK, RECEIVED, FINE = range(len(NUMBERS))
NONE = np.iinfo(np.int64).min
"""A number that is not there."""

_MONTHS = np.array(
    [256 * name[1] + name[2] for name in b"Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()]
)
"""Their second and third letters, which tell them apart."""
_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_DEEPEST = 64
_NOWHERE = np.uint64(2**64 - 1)
"""What the keys of objects in a list lie under, so that none of them is one at the top."""
_MOST_POWER = 10**9
_LATEST = 4_102_444_800_000_000
"""The year 2100, in microseconds since 1970."""
_SPACE, _TAB, _QUOTE, _BACKSLASH = ord(" "), ord("\t"), ord('"'), ord("\\")


@numba.njit(cache=True, nogil=True)
def _digits(text, at, end):  # type: ignore[no-untyped-def]
    """A number of digits only, or -1."""
    value = 0
    if end > len(text):
        return -1
    for k in range(at, end):
        digit = text[k] - 48
        if digit < 0 or digit > 9:
            return -1
        value = 10 * value + digit
    return value


@numba.njit(cache=True, nogil=True)
def number(text, at, end, shift):  # type: ignore[no-untyped-def]
    """A decimal number times ten to the power of ``shift``, rounded, and where it ends."""
    negative = at < end and text[at] == ord("-")
    if at < end and (negative or text[at] == ord("+")):
        at += 1
    value, digits, point = 0, 0, False
    while at < end:
        digit = text[at] - 48
        if 0 <= digit <= 9:
            digits += 1
            if value < 10**16:
                value = 10 * value + digit
                shift -= point
            else:
                shift += not point
        elif text[at] == ord(".") and not point:
            point = True
        else:
            break
        at += 1
    if not digits:
        return NONE, at
    if at + 1 < end and (text[at] == ord("e") or text[at] == ord("E")):
        below = text[at + 1] == ord("-")
        at += 1 + (below or text[at + 1] == ord("+"))
        power = 0
        while at < end and 48 <= text[at] <= 57:
            power = min(10 * power + text[at] - 48, _MOST_POWER)
            at += 1
        shift += -power if below else power
    if value == 0 or shift < -18:
        return 0, at
    while shift > 0:
        if value > 10**17:
            return NONE, at
        value *= 10
        shift -= 1
    if shift < 0:
        part = 10**-shift
        value = (value + part // 2) // part
    return (-value if negative else value), at


@numba.njit(cache=True, nogil=True)
def _days(year, month, day):  # type: ignore[no-untyped-def]
    """Days since 1970, or NONE where there is no such day."""
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS[month] + (leap and month == 2):
        return NONE
    before = year - 1
    days = 365 * before + before // 4 - before // 100 + before // 400 - 719162
    for k in range(1, month):
        days += _DAYS[k]
    return days + (leap and month > 2) + day - 1


@numba.njit(cache=True, nogil=True)
def time(text, at, end):  # type: ignore[no-untyped-def]
    """Microseconds since 1970, whether there were parts of a second, and where the time ends."""
    # 10/Oct/2000:13:55:36.5 -0700 or 2000-10-10T13:55:36.5-07:00
    if end - at < 19:
        return NONE, False, at
    if text[at + 2] == ord("/"):
        year, day, month = _digits(text, at + 7, at + 11), _digits(text, at, at + 2), 0
        letters = 256 * text[at + 4] + text[at + 5]
        for k in range(12):
            if _MONTHS[k] == letters:
                month = k + 1
        at += 12
    else:
        year, month = _digits(text, at, at + 4), _digits(text, at + 5, at + 7)
        day = _digits(text, at + 8, at + 10)
        at += 11
    hour, minute = _digits(text, at, at + 2), _digits(text, at + 3, at + 5)
    second = _digits(text, at + 6, at + 8)
    days = _days(year, month, day)
    if days == NONE or not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second <= 60):
        return NONE, False, at
    at += 8
    micros, fine = (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000, False
    if at < end and text[at] == ord("."):
        stop = at + 1
        while stop < end and 48 <= text[stop] <= 57:
            stop += 1
        part, _ = number(text, at, stop, 6)  # no exponent follows
        if part != NONE:
            micros += part
            fine = True
        at = stop
    zone = at + (at < end and text[at] == _SPACE)
    if at < end and text[at] == ord("Z"):
        at += 1
    elif zone + 5 <= end and (text[zone] == ord("+") or text[zone] == ord("-")):
        colon = text[zone + 3] == ord(":")
        hours, minutes = (
            _digits(text, zone + 1, zone + 3),
            _digits(text, zone + 3 + colon, zone + 5 + colon),
        )
        if hours >= 0 and minutes >= 0:
            away = (hours * 60 + minutes) * 60_000_000
            micros += away if text[zone] == ord("-") else -away
            at = zone + 5 + colon
    if at > end:
        return NONE, False, end
    return micros, fine, at


@numba.njit(cache=True, nogil=True)
def _continues(text, at, end):  # type: ignore[no-untyped-def]
    """Whether a blank stands inside a list, which nginx writes ``0.003, 0.004 : 0.001``."""
    if text[at] != _SPACE or at < 2:
        return False
    before = text[at - 1]
    colon = before == ord(":") and text[at - 2] == _SPACE
    return before == ord(",") or colon or (at + 1 < end and text[at + 1] == ord(":"))


@numba.njit(cache=True, nogil=True)
def _tail(text, at, end, numbers):  # type: ignore[no-untyped-def]
    """Find the first numbers with three decimals: a response time, and seconds since 1970.

    Those whose name begins with ``u``, as in ``urt=0.003``, are of upstream servers, and so are
    those in lists.
    """
    begins, word = True, at
    while at < end:
        if not begins:
            if text[at] == _SPACE:
                begins, word = True, at + 1
            begins = begins or (text[at] == ord("=") and text[word] != ord("u"))
            at += 1
            continue
        begins = False
        at += text[at] == _QUOTE
        first = at
        if _continues(text, first - 1, end):
            continue
        while at < end and 48 <= text[at] <= 57:
            at += 1
        whole, stop = at - first, at + 4
        if not whole or stop > end or text[at] != ord(".") or _digits(text, at + 1, stop) < 0:
            continue
        after = stop + (stop < end and text[stop] == _QUOTE)
        if after < end and text[after] != _SPACE:
            continue
        slot = TOOK if whole <= 7 else EPOCH
        if numbers[slot] == NONE and (whole <= 7 or 9 <= whole <= 11):
            numbers[slot], _ = number(text, first, stop, 6)
            if slot == EPOCH:
                numbers[FINE] = 1
        at = stop


@numba.njit(cache=True, nogil=True)
def _path(text, at, end, slot, spans):  # type: ignore[no-untyped-def]
    """Keep what stands before the query, without the name of a host."""
    slashes = 0
    stop = at
    while stop < end and text[stop] != ord("?") and text[stop] != _SPACE:
        slashes += text[stop] == ord("/")
        if slashes == 3 and text[at] != ord("/"):  # http://host/path
            at, slashes = stop, 4
        stop += 1
    spans[slot, 0], spans[slot, 1] = at, stop


@numba.njit(cache=True, nogil=True)
def _is_clock(text, at, end):  # type: ignore[no-untyped-def]
    """Whether a time is written as a date, not as a number."""
    dash, slash = ord("-"), ord("/")
    return at + 4 < end and (text[at + 2] == slash or text[at + 4] in (dash, slash))


@numba.njit(cache=True, nogil=True)
def _take(text, at, end, kind, slot, shift, numbers, spans, adjacent):  # type: ignore[no-untyped-def]
    """Read a field; return where it ends, or -1 if it is not of this kind.

    An ``adjacent`` one ends where it has to; any other must fill its place.
    """
    if kind in (TEXT, CODE):
        stop = at
        if kind == CODE:
            stop += stop < end and text[stop] == ord("-")
            while stop < end and 48 <= text[stop] <= 57:
                stop += 1
            if stop == at or (not adjacent and stop < end):
                return -1
        spans[slot, 0], spans[slot, 1] = at, end if kind == TEXT else stop
        return end if kind == TEXT else stop
    if kind == REQUEST:
        stop = at
        while stop < end and text[stop] != _SPACE:
            stop += 1
        spans[slot, 0], spans[slot, 1] = at, stop
        _path(text, min(stop + 1, end), end, slot + 1, spans)
        return end
    if kind == PATH:
        _path(text, at, end, slot, spans)
        return end
    if kind == TAIL:
        _tail(text, at, end, numbers)
        return end
    if (
        kind != TIME
        and at < end
        and text[at] == ord("-")
        and (at + 1 == end or text[at + 1] == _SPACE)
    ):
        return at + 1  # not known
    if kind == TIME or (kind == MOMENT and _is_clock(text, at, end)):
        value, fine, stop = time(text, at, end)
    else:
        value, stop = number(text, at, end, shift)
        point = False
        for k in range(at, stop):
            point = point or text[k] == ord(".")
        if kind == WHOLE and point:
            return -1
        fine = kind == MOMENT and point
        if kind == MOMENT and not 0 <= value <= _LATEST:
            for smaller in (3, 0, -3):  # milli-, micro- and nanoseconds
                value, fine = number(text, at, end, smaller)[0], True
                if 0 <= value <= _LATEST:
                    break
    ends = stop == end or (adjacent and text[stop] == _SPACE)
    if value == NONE or not ends:
        return -1
    numbers[slot] = value
    if fine:
        numbers[FINE] = 1
    return stop


@numba.njit(cache=True, nogil=True)
def _follow(text, at, end, ops, first, last, pool, numbers, spans):  # type: ignore[no-untyped-def]
    """Read a line by a layout; return whether it has this form."""
    for k in range(first, last):
        kind, begin, size = ops[k, 0], ops[k, 3], ops[k, 4] - ops[k, 3]
        stop = at if size else end
        if size:
            mark, more = pool[begin], size > 1
            while kind != EXACT:
                if mark == _QUOTE:
                    while stop < end and text[stop] != mark:
                        stop += 2 if text[stop] == _BACKSLASH else 1
                else:
                    while stop < end and text[stop] != mark:
                        stop += 1
                if (not more or stop + 1 >= end or text[stop + 1] == pool[begin + 1]) and not (
                    kind == LIST and _continues(text, stop, end)
                ):
                    break
                stop += 1
            if stop + size > end:
                return False
            for j in range(size):
                if text[stop + j] != pool[begin + j]:
                    return False
        if kind > SKIP:
            adjacent = size == 0 and k < last - 1
            ends = _take(text, at, stop, kind, ops[k, 1], ops[k, 2], numbers, spans, adjacent)
            if ends < 0:
                return False
            stop = ends
        at = stop + size
    return True


@numba.njit(cache=True, nogil=True)
def path_hash(above, name):  # type: ignore[no-untyped-def]
    """A number for a key inside an object, which has one itself."""
    value = np.uint64(above) ^ np.uint64(14695981039346656037)
    for byte in name:
        value = (value ^ np.uint64(byte)) * np.uint64(1099511628211)
    return value


@numba.njit(cache=True, nogil=True)
def _members(text, at, end, ops, keys, numbers, spans):  # type: ignore[no-untyped-def]
    """Read a line that is a JSON object; return whether it is a whole one."""
    above = np.zeros(_DEEPEST, dtype=np.uint64)
    lists = np.zeros(_DEEPEST, dtype=np.bool_)
    depth, here = 0, np.uint64(0)
    while at < end:
        byte = text[at]
        if byte == ord("{") or byte == ord("["):
            depth += 1
            if depth == _DEEPEST:
                return False
            above[depth] = here if here or depth == 1 else _NOWHERE
            lists[depth], here = byte == ord("["), np.uint64(0)
            at += 1
            continue
        if byte in (_SPACE, _TAB):
            at += 1
            continue
        if depth == 0:
            return False
        if byte == ord("}") or byte == ord("]"):
            depth -= 1
            here = np.uint64(0)
            at += 1
            if depth == 0:
                return True
            continue
        if byte == ord(",") or byte == ord(":"):
            at += 1
            continue
        quoted = byte == _QUOTE
        first = at + quoted
        stop = first
        while stop < end:
            if quoted:
                if text[stop] == _QUOTE:
                    break
                stop += text[stop] == _BACKSLASH
            elif text[stop] in (ord(","), ord("}"), ord("]"), _SPACE, _TAB):
                break
            stop += 1
        at = stop + quoted
        while at < end and text[at] in (_SPACE, _TAB):
            at += 1
        if quoted and not lists[depth] and at < end and text[at] == ord(":"):
            here = path_hash(above[depth], text[first:stop])
            continue
        if here:
            for k in range(len(keys)):
                if keys[k] == here:
                    kind, slot, shift = ops[k, 0], ops[k, 1], ops[k, 2]
                    _take(text, first, min(stop, end), kind, slot, shift, numbers, spans, False)
            here = np.uint64(0)
    return False


@numba.njit(cache=True, nogil=True)
def _is_status(text, span):  # type: ignore[no-untyped-def]
    """Whether a whole number is there, of some digits: not the ``-`` of one that is not known."""
    size = span[1] - span[0]
    return 0 < size < 10 and text[span[1] - 1] != ord("-")


@numba.njit(cache=True, nogil=True)
def read_lines(text, ops, starts, pool, keys, status, numbers, spans, lines):  # type: ignore[no-untyped-def]
    """Read whole lines; return how many there are, empty ones apart.

    Of line ``i``, ``lines`` has begin and end, ``numbers`` what it says, ``spans`` its texts. One
    that cannot be read has neither ``clock`` nor ``epoch``.
    """
    row, at, size = 0, 0, len(text)
    while at < size:
        end = at
        while end < size and text[end] != ord("\n"):
            end += 1
        begin, after = at, end + 1
        at = after
        if end > begin and text[end - 1] == ord("\r"):
            end -= 1
        if end == begin:
            continue
        lines[row, 0], lines[row, 1] = begin, end
        for k in range(max(len(starts) - 1, 1)):
            for j in range(len(NUMBERS)):
                numbers[row, j] = NONE
            for j in range(spans.shape[1]):
                spans[row, j, 0] = spans[row, j, 1] = 0
            if len(keys):
                good = _members(text, begin, end, ops, keys, numbers[row], spans[row])
            else:
                good = _follow(
                    text, begin, end, ops, starts[k], starts[k + 1], pool, numbers[row], spans[row]
                )
            good = good and _is_status(text, spans[row, status])
            if good:
                break
            numbers[row, :] = NONE
        row += 1
    return row


@numba.njit(cache=True, nogil=True)
def gather(text, spans):  # type: ignore[no-untyped-def]
    """Pieces of a text one after the other: where each begins, and all of them."""
    offsets = np.zeros(len(spans) + 1, dtype=np.int32)
    for i in range(len(spans)):
        offsets[i + 1] = offsets[i] + spans[i, 1] - spans[i, 0]
    data = np.empty(offsets[-1], dtype=np.uint8)
    for i in range(len(spans)):
        data[offsets[i] : offsets[i + 1]] = text[spans[i, 0] : spans[i, 1]]
    return offsets, data
