"""Access log of an AWS Application Load Balancer.

A line has the times at which a request came and was answered; of the three processing times, all
are -1 where no target answered.
"""

from stationary.ingest.formats._base import LogLines

FORMAT = LogLines(
    "AWS ALB",
    (
        "{} {done} {balancer} {} {target} {} {} {} {status} {} {:code} {:code} "
        '"{request}" "{}" {} {} {} "{}" "{}" "{}" {} {clock}{}',
    ),
)
