/* LD_PRELOAD shim for SIPp, whose clock (CLOCK_MONOTONIC_COARSE) moves in steps of 4 ms, so that calls
 * leave in bursts. It reads the fine clock instead and runs it SIPP_SPEED times as fast: SIPp's tick
 * of 1 ms then lasts 1/SIPP_SPEED ms. Pauses and timeouts are in this faster time; the time stamps
 * of -trace_shortmsg come from another clock and stay true. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static int speed;
static struct timespec start;
static int (*real)(clockid_t, struct timespec *);

static void prepare(void) {
  const char *wanted = getenv("SIPP_SPEED");
  real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  real(CLOCK_MONOTONIC, &start);
  speed = wanted ? atoi(wanted) : 1;
  if (speed < 1) speed = 1;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  if (!speed) prepare();
  if (clock != CLOCK_MONOTONIC_COARSE) return real(clock, now);
  int status = real(CLOCK_MONOTONIC, now);
  long long past = (now->tv_sec - start.tv_sec) * SECOND + (now->tv_nsec - start.tv_nsec);
  long long scaled = start.tv_nsec + past * speed;
  now->tv_sec = start.tv_sec + scaled / SECOND;
  now->tv_nsec = scaled % SECOND;
  return status;
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout) {
  if (!speed) prepare();
  long long wait = timeout > 0 ? timeout * 1000000LL / speed : 0;
  struct timespec limit = {wait / SECOND, wait % SECOND};
  return syscall(SYS_epoll_pwait2, fd, events, most, timeout < 0 ? NULL : &limit, NULL, 0);
}
