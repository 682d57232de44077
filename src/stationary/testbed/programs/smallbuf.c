/* LD_PRELOAD shim for Kamailio, which can only enlarge its receive buffer: sets SO_RCVBUF of every
 * UDP socket just before bind(), when Kamailio's own probing is done. RCVBUF is the size in bytes as
 * the kernel counts it, which is twice what is passed to setsockopt(). Needs no privilege. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>

int bind(int fd, const struct sockaddr *address, socklen_t length) {
  static int (*real)(int, const struct sockaddr *, socklen_t);
  if (!real)
    real = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "bind");
  const char *wanted = getenv("RCVBUF");
  int type = 0;
  socklen_t size = sizeof type;
  if (wanted && address->sa_family == AF_INET &&
      getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM) {
    int half = atoi(wanted) / 2;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &half, sizeof half);
  }
  return real(fd, address, length);
}
