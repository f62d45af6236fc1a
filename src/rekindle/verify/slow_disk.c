/* A disk that is slow to make things durable. Loaded into a process by LD_PRELOAD, it delays fsync and fdatasync by the
 * milliseconds that the file named by REKINDLE_SLOW_DISK holds, while there is one, and counts in FILE.count. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void be_slow(void)
{
    int before = errno;
    const char *file = getenv("REKINDLE_SLOW_DISK");
    char text[16] = {0};
    char count[4096];
    int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        ssize_t size = read(fd, text, sizeof text - 1);
        long ms = size > 0 ? atol(text) : 0;
        close(fd);
        if (ms > 0) {
            struct timespec delay = {ms / 1000, (ms % 1000) * 1000000};
            nanosleep(&delay, NULL);
            snprintf(count, sizeof count, "%s.count", file);
            fd = open(count, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
            if (fd >= 0) {
                if (write(fd, ".", 1) != 1)
                    errno = before;
                close(fd);
            }
        }
    }
    errno = before;
}

int fsync(int fd)
{
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    be_slow();
    return real(fd);
}

int fdatasync(int fd)
{
    static int (*real)(int);
    if (!real)
        real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    be_slow();
    return real(fd);
}
