"""nginx access log: combined, then ``$request_time`` and ``$msec``, in any order.

nginx writes a line when a request is *done*, so the arrival is the logged time less
``$request_time``. The usual ``$time_local`` has whole seconds only, ``$msec`` has milliseconds::

    log_format stationary '$remote_addr - $remote_user [$time_local] "$request" $status '
                          '$body_bytes_sent "$http_referer" "$http_user_agent" '
                          '$request_time $msec';

Either may be named, as in ``rt=$request_time``, and other fields may stand around them.
``$request_time`` is the first number with three decimals that is not of an upstream server: not in
a list, and without a name such as ``urt=`` or ``upstream_response_time=``.
"""

from stationary.ingest.formats._base import LogLines

FORMAT = LogLines(
    "nginx combined",
    (
        '{} {} {} [{clock}] "{request}" {status} {} "{}" "{}"{tail}',
        '{} {} {} [{clock}] "{request}" {status} {tail}',
    ),
    ends=True,
    add_fraction="$msec to nginx's log_format",
    add_response="$request_time to nginx's log_format",
)
