/* A library to be loaded before libc: one system call of a process fails, is cut short, or is its last.
 *
 * Calls count when they are on files in FAULT_FOLDER, where the process is started: by path or by descriptor. The one of
 * number FAULT_AT fails with the error number FAULT_ERRNO, or with FAULT_KIND
 *   short   reads or writes half of what was asked for
 *   kill    never happens: the process ends
 *   after   happens, and the process ends
 * FAULT_LOG gets the name of every call that counts, one a line.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static long counted;

static int is_ours(int fd)
{
    char link[64], path[4096];
    const char *folder = getenv("FAULT_FOLDER");
    if (!folder || fd < 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0)
        return 0;
    path[size] = 0;
    return strncmp(path, folder, strlen(folder)) == 0 && path[strlen(folder)] == '/';
}

static int is_inside(const char *path)
{
    const char *folder = getenv("FAULT_FOLDER");
    if (!folder || !path || !path[0])
        return 0;
    return path[0] != '/' || (strncmp(path, folder, strlen(folder)) == 0 && path[strlen(folder)] == '/');
}

static void end(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

enum fault { NONE, FAIL, SHORT, AFTER };

static enum fault next(const char *name)
{
    const char *at = getenv("FAULT_AT"), *kind = getenv("FAULT_KIND"), *log = getenv("FAULT_LOG");
    long number = __atomic_fetch_add(&counted, 1, __ATOMIC_SEQ_CST);
    if (log) {
        char line[64];
        int size = snprintf(line, sizeof line, "%s\n", name);
        int fd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        syscall(SYS_write, fd, line, size);
        syscall(SYS_close, fd);
    }
    if (!at || atol(at) != number)
        return NONE;
    if (!kind) {
        errno = atoi(getenv("FAULT_ERRNO"));
        return FAIL;
    }
    if (!strcmp(kind, "kill"))
        end();
    return !strcmp(kind, "after") ? AFTER : SHORT;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define CALL(type, ours, name, shorten, ...)                                                                           \
    do {                                                                                                               \
        enum fault fault = (ours) ? next(#name) : NONE;                                                                \
        if (fault == FAIL)                                                                                             \
            return -1;                                                                                                 \
        if (fault == SHORT) {                                                                                          \
            shorten;                                                                                                   \
        }                                                                                                              \
        type result = REAL(name)(__VA_ARGS__);                                                                         \
        if (fault == AFTER)                                                                                            \
            end();                                                                                                     \
        return result;                                                                                                 \
    } while (0)
#define HALF size = size > 1 ? size / 2 : size

ssize_t write(int fd, const void *data, size_t size) { CALL(ssize_t, is_ours(fd), write, HALF, fd, data, size); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { CALL(ssize_t, is_ours(fd), pwrite, HALF, fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { CALL(ssize_t, is_ours(fd), pwrite64, HALF, fd, data, size, at); }
ssize_t read(int fd, void *data, size_t size) { CALL(ssize_t, is_ours(fd), read, HALF, fd, data, size); }
ssize_t pread(int fd, void *data, size_t size, off_t at) { CALL(ssize_t, is_ours(fd), pread, HALF, fd, data, size, at); }
ssize_t pread64(int fd, void *data, size_t size, off64_t at) { CALL(ssize_t, is_ours(fd), pread64, HALF, fd, data, size, at); }
ssize_t preadv(int fd, const struct iovec *parts, int count, off_t at)
{
    struct iovec part = parts[0];
    CALL(ssize_t, is_ours(fd), preadv, part.iov_len = part.iov_len > 1 ? part.iov_len / 2 : part.iov_len, fd,
         count == 1 ? &part : parts, count, at);
}
ssize_t preadv64(int fd, const struct iovec *parts, int count, off64_t at)
{
    struct iovec part = parts[0];
    CALL(ssize_t, is_ours(fd), preadv64, part.iov_len = part.iov_len > 1 ? part.iov_len / 2 : part.iov_len, fd,
         count == 1 ? &part : parts, count, at);
}
ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *where, size_t size, unsigned flags)
{
    CALL(ssize_t, is_ours(to), copy_file_range, HALF, from, at, to, where, size, flags);
}
int fsync(int fd) { CALL(int, is_ours(fd), fsync, , fd); }
int ftruncate(int fd, off_t size) { CALL(int, is_ours(fd), ftruncate, , fd, size); }
int ftruncate64(int fd, off64_t size) { CALL(int, is_ours(fd), ftruncate64, , fd, size); }
int fchmod(int fd, mode_t mode) { CALL(int, is_ours(fd), fchmod, , fd, mode); }
int fchown(int fd, uid_t owner, gid_t group) { CALL(int, is_ours(fd), fchown, , fd, owner, group); }
int rename(const char *from, const char *to) { CALL(int, is_inside(to), rename, , from, to); }
int link(const char *from, const char *to) { CALL(int, is_inside(to), link, , from, to); }
int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    CALL(int, is_inside(to), linkat, , from_fd, from, to_fd, to, flags);
}
int unlink(const char *path) { CALL(int, is_inside(path), unlink, , path); }
int mkdir(const char *path, mode_t mode) { CALL(int, is_inside(path), mkdir, , path, mode); }
int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    CALL(int, is_inside(path), open, , path, flags, mode);
}
int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    CALL(int, is_inside(path), open64, , path, flags, mode);
}
