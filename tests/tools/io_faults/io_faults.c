/* Lets one call of the system on the files of one folder fail, or all from one on. Preloaded by io_faults.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { ONCE = 0, FROM_THEN_ON = 1, SHORT = 2 };

static char folder[PATH_MAX];
static long seen, nth;
static int code, way, armed;

void fault_arm(const char *path, long n, int error, int how) {
    snprintf(folder, sizeof folder, "%s", path);
    seen = 0, nth = n, code = error, way = how, armed = 1;
}

long fault_disarm(void) {
    armed = 0;
    return seen;
}

static int is_ours(const char *path) {
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int is_ours_fd(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int kept = errno;
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = kept;
    if (length < 0) return 0;
    path[length] = 0;
    return is_ours(path);
}

/* Whether this call is the one. */
static int fails(void) {
    long number = __sync_add_and_fetch(&seen, 1);
    return way == FROM_THEN_ON ? number >= nth : number == nth;
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define FAIL_FD(fd) if (armed && is_ours_fd(fd) && fails()) { errno = code; return -1; }
#define FAIL_PATH(path) if (armed && is_ours(path) && fails()) { errno = code; return -1; }
#define WRITE(...) \
    if (armed && is_ours_fd(fd) && fails()) { \
        if (way != SHORT || count < 2) { errno = code; return -1; } \
        count /= 2; \
    } \
    return real(__VA_ARGS__)

ssize_t write(int fd, const void *data, size_t count) { REAL(write); WRITE(fd, data, count); }
ssize_t pwrite(int fd, const void *data, size_t count, off_t at) { REAL(pwrite); WRITE(fd, data, count, at); }
ssize_t pwrite64(int fd, const void *data, size_t count, off64_t at) { REAL(pwrite64); WRITE(fd, data, count, at); }
ssize_t pread(int fd, void *data, size_t count, off_t at) { REAL(pread); FAIL_FD(fd); return real(fd, data, count, at); }
ssize_t pread64(int fd, void *data, size_t count, off64_t at) {
    REAL(pread64); FAIL_FD(fd); return real(fd, data, count, at);
}
int fsync(int fd) { REAL(fsync); FAIL_FD(fd); return real(fd); }
int fdatasync(int fd) { REAL(fdatasync); FAIL_FD(fd); return real(fd); }
int ftruncate(int fd, off_t size) { REAL(ftruncate); FAIL_FD(fd); return real(fd, size); }
int ftruncate64(int fd, off64_t size) { REAL(ftruncate64); FAIL_FD(fd); return real(fd, size); }
int rename(const char *from, const char *to) { REAL(rename); FAIL_PATH(to); return real(from, to); }
int unlink(const char *path) { REAL(unlink); FAIL_PATH(path); return real(path); }
int mkdir(const char *path, mode_t mode) { REAL(mkdir); FAIL_PATH(path); return real(path, mode); }

#define MODE mode_t mode = 0; if (flags & O_CREAT) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }
int open(const char *path, int flags, ...) { REAL(open); MODE; FAIL_PATH(path); return real(path, flags, mode); }
int open64(const char *path, int flags, ...) { REAL(open64); MODE; FAIL_PATH(path); return real(path, flags, mode); }
