"""Simulated logs for the tests of ingestion, and brute force to hold it against."""

import numpy as np
import pandas as pd

from stationary.ingest import RequestLog


def fifo(arrivals, services, capacity):
    """One server, in order of arrival: who found how many, and how long answers took.

    Event by event, with a list of departures; nothing of it is how the package counts.
    """
    found, response, departures = [], np.full(len(arrivals), np.nan), []
    for i, (now, need) in enumerate(zip(arrivals, services, strict=True)):
        departures = [d for d in departures if d > now]
        found.append(len(departures))
        if len(departures) < capacity:
            departures.append((departures[-1] if departures else now) + need)
            response[i] = departures[-1] - now
    return np.array(found), response


def queue(rate, seconds, capacity, service=1.0, seed=0, start=0.0):
    """One server, first come, first served: arrivals and responses, NaN for the lost."""
    rng = np.random.default_rng(seed)
    count = rng.poisson(rate * seconds)
    arrival = start + np.sort(rng.uniform(0, seconds, count))
    return arrival, fifo(arrival, rng.exponential(service, count), capacity)[1]


def frame(arrival, response, seed=0):
    """The log as a table, in no order, as files of several servers are."""
    table = pd.DataFrame({"arrival": arrival, "response": response})
    return table.sample(frac=1, random_state=seed)


def counted(arrival, response, window, capacity):
    """States that requests found in every whole window, by `RequestLog`, all in memory."""
    return [
        np.bincount(
            np.where(log.answered, np.minimum(log.in_system, capacity - 1), capacity),
            minlength=capacity + 1,
        )
        for log in RequestLog(arrival, response).cut(window)
    ]


def counts(table):
    """The counts of a table of windows."""
    return table.filter(like="Q=").to_numpy()


# Lines of access logs, as the servers write them or document them.

HEAD = '203.0.113.7 - - [10/Oct/2000:13:55:36 -0700] "GET /a?b=1,2 HTTP/1.1" 200 2326'
COMBINED = f'{HEAD} "http://example.org/" "Mozilla/5.0 (X11; Linux x86_64)"'
LOGGED = 971_211_336_000_000  # that moment, in microseconds since 1970
MSEC = "971211336.789"
ENVOY = (
    '[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 '
    '"10.0.35.28" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" '
    '"tcp://10.0.2.1:80"'
)
HAPROXY = (
    "Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in "
    'static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html '
    'HTTP/1.1"'
)
CADDY = (
    '{"level":"info","ts":1646861401.524102,"logger":"http.log.access","msg":"handled request",'
    '"request":{"remote_ip":"127.0.0.1","method":"GET","host":"localhost","uri":"/a?b=1",'
    '"headers":{"User-Agent":["curl/7.82.0"]}},"duration":0.000929675,"size":10900,"status":200}'
)
TRAEFIK_COMMON = (
    '10.0.0.1 - - [06/Feb/2009:12:14:14 +0000] "GET /x HTTP/1.1" 200 5 "-" "-" 7 "r@docker" '
    '"http://10.0.0.9:80" 12ms'
)
TRAEFIK = (
    '{"ClientHost":"10.0.0.1","DownstreamStatus":200,"Duration":1234567,"RequestMethod":"GET",'
    '"RequestPath":"/api?x=1","ServiceName":"app@docker","StartUTC":"2023-07-12T14:05:02.123456789Z",'
    '"time":"2023-07-12T14:05:02Z"}'
)
ALB = (
    "http 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 "
    '10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "GET http://www.example.com:80/a?b HTTP/1.1" '
    '"curl/7.46.0" - - arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/t/73e2 '
    '"Root=1-58337262-36d228ad5d99923122bbe354" "-" "-" 0 2018-07-02T22:22:48.364000Z "forward" '
    '"-" "-" "10.0.0.1:80" "200" "-" "-"'
)
LINES = {
    "alb": ALB,
    "apache": COMBINED.replace(":36 -", ":36.250000 -") + " 1500",
    "caddy": CADDY,
    "envoy": ENVOY,
    "haproxy": HAPROXY,
    "nginx": f"{COMBINED} 0.250 {MSEC}",
    "traefik": TRAEFIK,
    "traefik-common": TRAEFIK_COMMON,
}
