/* Records what a process does to the files below one folder, and lets operations fail on request.
 *
 * Loaded with LD_PRELOAD, so that SQLite, safetensors and Python run unmodified. Every call that changes
 * something is made for real and then written to a trace, both under one lock: the order of the trace is the
 * order of the calls. `disk_trace.py` compiles and drives it, `disk.py` reads what it recorded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MOST_FILES 65536
#define REAL(name) ((__typeof__(&name))real(#name))

enum { NOTHING = 0, FAIL_ONCE = 1, DISK_FULL = 2, SHORT_WRITE = 3, DIE = 4, DIE_BEFORE_SYNC = 5 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_length;
static int trace = -1;
static unsigned char watched[MOST_FILES];

static long operations; /* that may fail, so far */
static long failing;    /* the one that does, 0: none */
static int fault;
static int fired;
static char fired_on[PATH_MAX + 64];
static double fired_at;

static void *real(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* ---- the trace ------------------------------------------------------------------------------------------ */

struct record {
    uint32_t kind;
    int32_t fd;
    int64_t first, second;
    uint32_t path_length, data_length;
};

static void put(char kind, int fd, int64_t first, int64_t second, const char *path, const void *data, size_t length)
{
    if (trace < 0)
        return;
    int kept = errno;
    struct record head = {(uint32_t)kind, fd, first, second, (uint32_t)strlen(path), (uint32_t)length};
    struct iovec parts[3] = {
        {&head, sizeof head}, {(void *)path, head.path_length}, {(void *)data, length}};
    ssize_t whole = (ssize_t)(sizeof head + head.path_length + length);
    if (REAL(writev)(trace, parts, 3) != whole) {
        static const char says[] = "disk_trace: the trace cannot be written\n";
        (void)!REAL(write)(2, says, sizeof says - 1);
        kill(getpid(), SIGKILL);
    }
    errno = kept;
}

/* Write the path as seen from the root, or return 0 if it lies elsewhere. */
static int below(int folder, const char *path, char *out)
{
    char whole[2 * PATH_MAX];
    if (root_length == 0 || path == NULL)
        return 0;
    if (path[0] == '/') {
        snprintf(whole, sizeof whole, "%s", path);
    } else {
        char base[PATH_MAX];
        if (folder == AT_FDCWD) {
            if (getcwd(base, sizeof base) == NULL)
                return 0;
        } else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            ssize_t length = readlink(link, base, sizeof base - 1);
            if (length < 0)
                return 0;
            base[length] = 0;
        }
        snprintf(whole, sizeof whole, "%s/%s", base, path);
    }
    if (strncmp(whole, root, root_length) != 0 || (whole[root_length] != '/' && whole[root_length] != 0))
        return 0;
    snprintf(out, PATH_MAX, "%s", whole[root_length] == '/' ? whole + root_length + 1 : "");
    return 1;
}

/* The number of a file: a record knows it even where it has another name than was recorded. */
static int64_t inode_of(int folder, const char *path)
{
    struct stat about;
    return fstatat(folder, path, &about, AT_SYMLINK_NOFOLLOW) == 0 ? (int64_t)about.st_ino : 0;
}

static int is_watched(int fd)
{
    return fd >= 0 && fd < MOST_FILES && watched[fd];
}

/* ---- faults --------------------------------------------------------------------------------------------- */

static const char *path_of(int fd, char *out)
{
    char link[64], whole[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, whole, sizeof whole - 1);
    whole[length < 0 ? 0 : length] = 0;
    if (!below(AT_FDCWD, whole, out))
        snprintf(out, PATH_MAX, "?");
    return out;
}

/* Say whether an operation is the one that fails. */
static int is_due(int writes, int syncs)
{
    if (failing == 0)
        return 0;
    if (fault == DIE_BEFORE_SYNC)
        return operations >= failing && syncs;
    return operations == failing && (writes || fault != SHORT_WRITE);
}

enum { OTHER = 0, WRITES = 1, TAKES_ROOM = 2, SYNCS = 4 };

/* Count an operation; return what is wrong with it: 0, an errno, or -1 for a short write. */
static int wrong(const char *call, const char *path, int what)
{
    operations++;
    if (fired)
        return fault == DISK_FULL && (what & (WRITES | TAKES_ROOM)) ? ENOSPC : 0;
    if (!is_due(what & WRITES, what & SYNCS))
        return 0;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    fired_at = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    fired = 1;
    snprintf(fired_on, sizeof fired_on, "%s %s", call, path);
    if (fault == DIE || fault == DIE_BEFORE_SYNC)
        kill(getpid(), SIGKILL);
    put('f', -1, 0, 0, fired_on, NULL, 0);
    return fault == FAIL_ONCE ? EIO : fault == DISK_FULL ? ENOSPC : -1;
}

static int wrong_on(const char *call, int fd, int what)
{
    char path[PATH_MAX];
    return wrong(call, path_of(fd, path), what);
}

/* ---- what Python calls ---------------------------------------------------------------------------------- */

int disk_trace_watch(const char *folder, const char *file)
{
    pthread_mutex_lock(&lock);
    root_length = 0;
    memset(watched, 0, sizeof watched);
    operations = failing = fired = 0;
    if (trace >= 0)
        REAL(close)(trace);
    trace = file[0] ? REAL(open)(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (file[0] && trace < 0) {
        pthread_mutex_unlock(&lock);
        return -1;
    }
    snprintf(root, sizeof root, "%s", folder);
    root_length = strlen(root);
    put('p', -1, getpid(), 0, "", NULL, 0);
    pthread_mutex_unlock(&lock);
    return 0;
}

void disk_trace_note(const char *text)
{
    pthread_mutex_lock(&lock);
    put('n', -1, 0, 0, "", text, strlen(text));
    pthread_mutex_unlock(&lock);
}

void disk_trace_fail(long nth, int kind)
{
    pthread_mutex_lock(&lock);
    failing = nth ? operations + nth : 0;
    fault = kind;
    fired = 0;
    pthread_mutex_unlock(&lock);
}

long disk_trace_operations(void)
{
    return operations;
}

/* Return whether the fault has come, on what, and when. */
int disk_trace_fault(char *out, size_t size, double *when)
{
    pthread_mutex_lock(&lock);
    int found = fired;
    snprintf(out, size, "%s", fired ? fired_on : "");
    *when = fired_at;
    pthread_mutex_unlock(&lock);
    return found;
}

/* End the process between two calls, never inside one. */
void disk_trace_die(void)
{
    pthread_mutex_lock(&lock);
    kill(getpid(), SIGKILL);
}

/* ---- names ---------------------------------------------------------------------------------------------- */

static int opened(int folder, const char *path, int flags, mode_t mode)
{
    char name[PATH_MAX];
    if (!below(folder, path, name))
        return REAL(openat)(folder, path, flags, mode);
    int writing = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
    pthread_mutex_lock(&lock);
    struct stat about;
    int existed = fstatat(folder, path, &about, 0) == 0;
    int error = writing ? wrong("open", name, existed ? OTHER : TAKES_ROOM) : 0;
    int fd = -1;
    if (error > 0)
        errno = error;
    else
        fd = REAL(openat)(folder, path, flags, mode);
    if (fd >= 0 && fd < MOST_FILES && fstat(fd, &about) == 0) {
        char was = (char)existed;
        watched[fd] = 1;
        put('o', fd, flags & O_TRUNC && writing ? 1 : 0, (int64_t)about.st_ino, name, &was, 1);
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

#define MODE_OF(flags)                                                                                             \
    mode_t mode = 0;                                                                                               \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                                           \
        va_list rest;                                                                                              \
        va_start(rest, flags);                                                                                     \
        mode = (mode_t)va_arg(rest, int);                                                                          \
        va_end(rest);                                                                                              \
    }

int open(const char *path, int flags, ...)
{
    MODE_OF(flags)
    return opened(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    MODE_OF(flags)
    return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    MODE_OF(flags)
    return opened(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...)
{
    MODE_OF(flags)
    return opened(folder, path, flags | O_LARGEFILE, mode);
}

int creat(const char *path, mode_t mode)
{
    return opened(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

int creat64(const char *path, mode_t mode)
{
    return creat(path, mode);
}

int close(int fd)
{
    if (!is_watched(fd))
        return REAL(close)(fd);
    pthread_mutex_lock(&lock);
    watched[fd] = 0;
    put('c', fd, 0, 0, "", NULL, 0);
    int result = REAL(close)(fd);
    pthread_mutex_unlock(&lock);
    return result;
}

static int renamed(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    char old[PATH_MAX], new[PATH_MAX];
    int leaves = below(from_folder, from, old), arrives = below(to_folder, to, new);
    if (!leaves && !arrives)
        return flags ? REAL(renameat2)(from_folder, from, to_folder, to, flags)
                     : REAL(renameat)(from_folder, from, to_folder, to);
    pthread_mutex_lock(&lock);
    int64_t inode = inode_of(from_folder, from);
    int error = wrong("rename", arrives ? new : old, OTHER), result = -1;
    if (error > 0)
        errno = error;
    else if (flags)
        result = REAL(renameat2)(from_folder, from, to_folder, to, flags);
    else
        result = REAL(renameat)(from_folder, from, to_folder, to);
    if (result == 0)
        put('r', -1, leaves && arrives ? (int64_t)flags : -1, inode, leaves ? old : "", arrives ? new : "",
            arrives ? strlen(new) : 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int rename(const char *from, const char *to)
{
    return renamed(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    return renamed(from_folder, from, to_folder, to, 0);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    return renamed(from_folder, from, to_folder, to, flags);
}

int unlinkat(int folder, const char *path, int flags)
{
    char name[PATH_MAX];
    if (!below(folder, path, name))
        return REAL(unlinkat)(folder, path, flags);
    pthread_mutex_lock(&lock);
    int64_t inode = inode_of(folder, path);
    int result = REAL(unlinkat)(folder, path, flags);
    if (result == 0)
        put(flags & AT_REMOVEDIR ? 'd' : 'u', -1, 0, inode, name, NULL, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int mkdirat(int folder, const char *path, mode_t mode)
{
    char name[PATH_MAX];
    if (!below(folder, path, name))
        return REAL(mkdirat)(folder, path, mode);
    pthread_mutex_lock(&lock);
    int error = wrong("mkdir", name, TAKES_ROOM), result = -1;
    if (error > 0)
        errno = error;
    else
        result = REAL(mkdirat)(folder, path, mode);
    if (result == 0)
        put('m', -1, 0, 0, name, NULL, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

/* ---- contents ------------------------------------------------------------------------------------------- */

ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset)
{
    if (!is_watched(fd))
        return REAL(pwrite64)(fd, data, length, offset);
    pthread_mutex_lock(&lock);
    int error = wrong_on("pwrite", fd, length > 1 ? WRITES : TAKES_ROOM);
    ssize_t written = -1;
    if (error > 0)
        errno = error;
    else
        written = REAL(pwrite64)(fd, data, error ? length / 2 : length, offset);
    if (written > 0)
        put('w', fd, (int64_t)offset, 0, "", data, (size_t)written);
    pthread_mutex_unlock(&lock);
    return written;
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset)
{
    return pwrite64(fd, data, length, offset);
}

ssize_t write(int fd, const void *data, size_t length)
{
    if (!is_watched(fd))
        return REAL(write)(fd, data, length);
    pthread_mutex_lock(&lock);
    int error = wrong_on("write", fd, length > 1 ? WRITES : TAKES_ROOM);
    ssize_t written = -1;
    if (error > 0)
        errno = error;
    else
        written = REAL(write)(fd, data, error ? length / 2 : length);
    if (written > 0)
        put('w', fd, (int64_t)(lseek(fd, 0, SEEK_CUR) - written), 0, "", data, (size_t)written);
    pthread_mutex_unlock(&lock);
    return written;
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    if (!is_watched(fd))
        return REAL(writev)(fd, parts, count);
    /* May be short, as any writev may: the caller goes on with the rest. */
    for (int i = 0; i < count; i++)
        if (parts[i].iov_len > 0)
            return write(fd, parts[i].iov_base, parts[i].iov_len);
    return 0;
}

int ftruncate64(int fd, off64_t size)
{
    if (!is_watched(fd))
        return REAL(ftruncate64)(fd, size);
    pthread_mutex_lock(&lock);
    int error = wrong_on("ftruncate", fd, TAKES_ROOM), result = -1;
    if (error > 0)
        errno = error;
    else
        result = REAL(ftruncate64)(fd, size);
    if (result == 0)
        put('t', fd, (int64_t)size, 0, "", NULL, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int ftruncate(int fd, off_t size)
{
    return ftruncate64(fd, size);
}

static int synced(const char *call, int fd, int (*sync)(int))
{
    if (!is_watched(fd))
        return sync(fd);
    pthread_mutex_lock(&lock);
    int error = wrong_on(call, fd, SYNCS), result = -1;
    if (error > 0)
        errno = error;
    else
        result = sync(fd);
    put('s', fd, result == 0, 0, "", NULL, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int fsync(int fd)
{
    return synced("fsync", fd, REAL(fsync));
}

int fdatasync(int fd)
{
    return synced("fdatasync", fd, REAL(fdatasync));
}

/* A call that another thread is making happens and is in the trace, or neither. */
void _exit(int status)
{
    void (*end)(int) = real("_exit");
    pthread_mutex_lock(&lock);
    end(status);
    __builtin_unreachable();
}
