/* Preloaded into a test process: records, fails or dies at calls that write, below one folder.

   A call counts if it changes a file whose path begins with the armed prefix. Recorded calls go
   to a log as a header of five 64-bit numbers (what, file, offset, bytes, flags) and the bytes. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, MARK = 3, NAME = 4 };

static char prefix[PATH_MAX];
static int armed, log_fd = -1, kill_at, forever, short_write, skipping;
static long counted, fail_at = -1;
static int fail_with;

void torture_arm(const char *folder, long at, int error, int always, int cut) {
    strncpy(prefix, folder, sizeof prefix - 1);
    counted = 0;
    fail_at = at;
    kill_at = error == -9;
    fail_with = error;
    forever = always;
    short_write = cut;
    armed = 1;
}

void torture_disarm(void) { armed = 0; fail_at = -1; }
long torture_calls(void) { return counted; }
void torture_skip_syncs(int on) { skipping = on; }

int torture_record(const char *folder, const char *log) {
    strncpy(prefix, folder, sizeof prefix - 1);
    log_fd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    armed = log_fd >= 0;
    return armed;
}

static void put(int what, long file, long offset, long size, long flags, const void *data) {
    int64_t head[5] = {what, file, offset, size, flags};
    struct iovec parts[2] = {{head, sizeof head}, {(void *)data, data ? (size_t)size : 0}};
    if (log_fd >= 0) syscall(SYS_writev, log_fd, parts, 2);
}

void torture_mark(long number) { put(MARK, 0, 0, number, 0, NULL); }

static int ours(int fd, long *file) {
    char link[64], path[PATH_MAX];
    struct stat status;
    if (!armed || fd == log_fd) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    if (strncmp(path, prefix, strlen(prefix))) return 0;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
        *file = 0;
        return S_ISDIR(status.st_mode);
    }
    *file = (long)status.st_ino;
    return 1;
}

/* Returns 1 if the call is to fail; errno is set. Dies where it is told to. */
static int failing(void) {
    long number = counted++;
    if (fail_at < 0 || number < fail_at || (number > fail_at && !forever)) return 0;
    if (kill_at) raise(SIGKILL);
    errno = fail_with;
    return 1;
}

static long length(const struct iovec *parts, int count) {
    long size = 0;
    for (int i = 0; i < count; i++) size += (long)parts[i].iov_len;
    return size;
}

static void record(int fd, long file, long offset, const struct iovec *parts, int count) {
    int dsync = (fcntl(fd, F_GETFL) & O_DSYNC) != 0;
    for (int i = 0; i < count; i++) {
        put(WRITE, file, offset, (long)parts[i].iov_len, dsync, parts[i].iov_base);
        offset += (long)parts[i].iov_len;
    }
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)

static ssize_t cut(ssize_t size) { return size > 1 ? size / 2 : size; }

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    REAL(pwrite);
    long file;
    if (!ours(fd, &file)) return real(fd, data, size, offset);
    if (failing()) return short_write ? real(fd, data, cut(size), offset) : -1;
    ssize_t done = real(fd, data, size, offset);
    struct iovec part = {(void *)data, done > 0 ? (size_t)done : 0};
    record(fd, file, offset, &part, 1);
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset) {
    return pwrite(fd, data, size, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    long file;
    if (!ours(fd, &file)) return real(fd, parts, count);
    off_t offset = lseek(fd, 0, SEEK_CUR);
    if (failing()) return short_write ? real(fd, parts, count > 1 ? count / 2 : count) : -1;
    ssize_t done = real(fd, parts, count);
    if (done == length(parts, count)) record(fd, file, offset, parts, count);
    return done;
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    long file;
    if (!ours(fd, &file)) return real(fd, data, size);
    off_t offset = lseek(fd, 0, SEEK_CUR);
    if (failing()) return short_write ? real(fd, data, cut(size)) : -1;
    ssize_t done = real(fd, data, size);
    struct iovec part = {(void *)data, done > 0 ? (size_t)done : 0};
    record(fd, file, offset, &part, 1);
    return done;
}

static int synced(int fd, int (*real)(int)) {
    long file;
    if (!ours(fd, &file)) return real(fd);
    if (skipping) return 0;
    if (failing()) return -1;
    int result = real(fd);
    if (!result) put(SYNC, file, 0, 0, 0, NULL);
    return result;
}

int fdatasync(int fd) {
    REAL(fdatasync);
    return synced(fd, real);
}

int fsync(int fd) {
    REAL(fsync);
    return synced(fd, real);
}

int ftruncate(int fd, off_t size) {
    REAL(ftruncate);
    long file;
    if (ours(fd, &file) && failing()) return -1;
    return real(fd, size);
}

int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

int posix_fallocate(int fd, off_t offset, off_t size) {
    REAL(posix_fallocate);
    long file;
    if (ours(fd, &file) && failing()) return fail_with;
    return real(fd, offset, size);
}

int posix_fallocate64(int fd, off_t offset, off_t size) {
    return posix_fallocate(fd, offset, size);
}

int linkat(int from, const char *old, int to, const char *new, int flags) {
    REAL(linkat);
    if (armed && !strncmp(new, prefix, strlen(prefix)) && failing()) return -1;
    return real(from, old, to, new, flags);
}

int link(const char *old, const char *new) {
    REAL(link);
    if (armed && !strncmp(new, prefix, strlen(prefix)) && failing()) return -1;
    return real(old, new);
}

/* A file that exists is opened on a full disk too. */
static int opening(const char *path, int flags) {
    if (!armed || !(flags & (O_WRONLY | O_RDWR | O_CREAT))) return 0;
    if (strncmp(path, prefix, strlen(prefix))) return 0;
    if (fail_with == ENOSPC && !access(path, F_OK)) return 0;
    return failing();
}

int open(const char *path, int flags, ...) {
    REAL(open);
    mode_t mode = 0;
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    return opening(path, flags) ? -1 : real(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    return open(path, flags, mode);
}
