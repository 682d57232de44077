"""Access log of an AWS Application Load Balancer.

A line has the time at which the answer was made, and that at which the request came. In between it
was in the system, whatever the three processing times say; these are -1 where no target answered.
"""

from stationary.ingest.formats._base import LogLines

FORMAT = LogLines(
    "AWS ALB",
    (
        "{} {done} {balancer} {} {target} {} {} {} {status} {} {:code} {:code} "
        '"{request}" "{}" {} {} {} "{}" "{}" "{}" {} {clock}{}',
    ),
)
