/* Notes what a process writes to the files of one folder, and what of it is on the disk: loaded with LD_PRELOAD.

   A record: kind ('w' write, 't' truncate, 's' sync, 'u' unlink), length of the file's name, offset, length of the data
   (both 8 bytes), the name, the data. Records are in the order of what happened. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define MOST 4096
static char *names[MOST];
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static int out = -1;

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static ssize_t really_write(int fd, const void *data, size_t length) {
    REAL(write);
    return real(fd, data, length);
}

static const char *own(const char *path) {
    const char *folder = getenv("POWER_FOLDER");
    if (!folder || strncmp(path, folder, strlen(folder)) != 0) return NULL;
    const char *name = strrchr(path, '/') + 1;
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, "-shm") == 0 ? NULL : name;
}

static void note(char kind, const char *name, uint64_t offset, const void *data, uint64_t length) {
    if (out < 0) {
        REAL(open);
        out = real(getenv("POWER_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    size_t named = strlen(name), size = 18 + named + length;
    char *record = malloc(size);
    record[0] = kind;
    record[1] = (char)named;
    memcpy(record + 2, &offset, 8);
    memcpy(record + 10, &length, 8);
    memcpy(record + 18, name, named);
    if (length) memcpy(record + 18 + named, data, length);
    if (really_write(out, record, size) != (ssize_t)size) abort();
    free(record);
}

static int opened(int fd, const char *path) {
    const char *name = fd >= 0 && fd < MOST ? own(path) : NULL;
    if (fd >= 0 && fd < MOST) {
        free(names[fd]);
        names[fd] = name ? strdup(name) : NULL;
    }
    return fd;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        return opened(real(path, flags, mode), path); \
    }
OPEN(open)
OPEN(open64)

int close(int fd) {
    REAL(close);
    if (fd >= 0 && fd < MOST && names[fd]) {
        free(names[fd]);
        names[fd] = NULL;
    }
    return real(fd);
}

#define PWRITE(name) \
    ssize_t name(int fd, const void *data, size_t length, off64_t offset) { \
        REAL(name); \
        if (fd < 0 || fd >= MOST || !names[fd]) return real(fd, data, length, offset); \
        pthread_mutex_lock(&turn); \
        ssize_t done = real(fd, data, length, offset); \
        if (done > 0) note('w', names[fd], (uint64_t)offset, data, (uint64_t)done); \
        pthread_mutex_unlock(&turn); \
        return done; \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t write(int fd, const void *data, size_t length) {
    if (fd < 0 || fd >= MOST || !names[fd]) return really_write(fd, data, length);
    pthread_mutex_lock(&turn);
    off_t offset = lseek(fd, 0, SEEK_CUR);
    ssize_t done = really_write(fd, data, length);
    if (done > 0) note('w', names[fd], (uint64_t)offset, data, (uint64_t)done);
    pthread_mutex_unlock(&turn);
    return done;
}

#define TRUNCATE(name) \
    int name(int fd, off64_t length) { \
        REAL(name); \
        if (fd < 0 || fd >= MOST || !names[fd]) return real(fd, length); \
        pthread_mutex_lock(&turn); \
        int done = real(fd, length); \
        if (done == 0) note('t', names[fd], (uint64_t)length, NULL, 0); \
        pthread_mutex_unlock(&turn); \
        return done; \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

#define SYNC(name) \
    int name(int fd) { \
        REAL(name); \
        if (fd < 0 || fd >= MOST || !names[fd]) return real(fd); \
        pthread_mutex_lock(&turn); \
        int done = real(fd); \
        if (done == 0) note('s', names[fd], 0, NULL, 0); \
        pthread_mutex_unlock(&turn); \
        return done; \
    }
SYNC(fsync)
SYNC(fdatasync)

int unlink(const char *path) {
    REAL(unlink);
    const char *name = own(path);
    if (!name) return real(path);
    pthread_mutex_lock(&turn);
    int done = real(path);
    if (done == 0) note('u', name, 0, NULL, 0);
    pthread_mutex_unlock(&turn);
    return done;
}
